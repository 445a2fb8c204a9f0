"""Indices, bounds and extents that 32 bits do not hold: loops of every kind, subscripts, shapes, checks, gradients."""

from contextlib import nullcontext

import numpy as np
import pytest
from frontend.rig import FakeField
from running import define
from sessions import EVERYWHERE, session_of, skip_where_both_arms_run

import quadrants_lab as qd
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import function_source
from quadrants_lab.frontend.specs import NdarraySpec, ScalarSpec, TemplateSpec
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DTYPES, i32, i64, u8
from quadrants_lab.ir.verify import verify
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.compile.specialisation import FORWARD
from quadrants_lab.runtime.interpret.interpreter import interpret

HUGE = 2**31 + 5
BEGINS = (-5, 2**31 - 3, 2**32 - 1, 2**40, -(2**31) - 4, -(2**33))

session = session_of(EVERYWHERE, autouse=False)
ASSERTING = [pytest.param({**p.values[0], "debug": True}, id=p.id, marks=p.marks) for p in EVERYWHERE]


# --- loops

@qd.kernel
def parallel(n: qd.i64, out: qd.template()):
    for i in range(n, n + 5):
        out[i - n] = i

@qd.kernel
def serial(n: qd.i64, out: qd.template()):
    for _ in range(1):
        for i in range(n, n + 5):
            out[i - n] = i

@qd.kernel
def stepped(n: qd.i64, out: qd.template()):
    for i in range(n, n + 15, 3):
        out[(i - n) // 3] = i

@qd.kernel
def stepped_down(n: qd.i64, out: qd.template()):
    for _ in range(1):
        k = 4
        for i in range(n + 12, n - 1, -3):
            out[k] = i
            k -= 1

@qd.kernel
def down(n: qd.i64, out: qd.template()):
    k = 4
    qd.loop_config(serialize=True)
    for i in range(n + 4, n - 1, -1):
        out[k] = i
        k -= 1

@qd.kernel
def step_of_64_bits(n: qd.i64, out: qd.template()):
    for i in range(n, n + qd.i64(5 * 2**33), qd.i64(2**33)):
        out[(i - n) // qd.i64(2**33)] = i

@qd.kernel
def box(n: qd.i64, out: qd.template()):
    for i, j in qd.ndrange((n, n + 2), 2):
        out[(i - n) * 2 + j] = i + j

@qd.kernel
def box_as_a_vector(n: qd.i64, out: qd.template()):
    for at in qd.grouped(qd.ndrange((n, n + 2), 2)):
        out[(at[0] - n) * 2 + at[1]] = at.sum()

@qd.kernel
def box_that_is_left(n: qd.i64, out: qd.template()):
    for _ in range(1):
        for i, j in qd.ndrange((n, n + 9), 3):
            if i == n + 1 and j == 2:
                break
            out[(i - n) * 3 + j] = i + j

@qd.kernel
def while_loop(n: qd.i64, out: qd.template()):
    i = n
    while i < n + 5:
        out[i - n] = i
        i += 1


EXPECTED = {
    parallel: lambda n: [n + k for k in range(5)],
    serial: lambda n: [n + k for k in range(5)],
    stepped: lambda n: [n + 3 * k for k in range(5)],
    stepped_down: lambda n: [n + 3 * k for k in range(5)],
    down: lambda n: [n + k for k in range(5)],
    step_of_64_bits: lambda n: [n + k * 2**33 for k in range(5)],
    box: lambda n: [n, n + 1, n + 1, n + 2, 0],
    box_as_a_vector: lambda n: [n, n + 1, n + 1, n + 2, 0],
    box_that_is_left: lambda n: [n, n + 1, n + 2, n + 1, n + 2],
    while_loop: lambda n: [n + k for k in range(5)],
}


@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda k: k.name)
def test_loops(session, kernel) -> None:
    out = qd.field(qd.i64, shape=5)
    for n in BEGINS:
        out.fill(0)
        kernel(n, out)
        assert out.to_numpy().tolist() == EXPECTED[kernel](n), n


@qd.kernel
def first_of_a_range(a: qd.i32, b: qd.i32, by: qd.i32, out: qd.template()):
    k = 0
    qd.loop_config(serialize=True)
    for i in range(a, b, by):
        if k == 5:
            break
        out[k] = i
        k += 1

@qd.kernel
def downwards(a: qd.i32, b: qd.i32, by: qd.i32, out: qd.template()):
    k = 0
    qd.loop_config(serialize=True)
    for i in range(a, b, -1):
        if k == 5:
            break
        out[k] = i
        k += 1

@qd.kernel
def marks(a: qd.i32, b: qd.i32, by: qd.i32, out: qd.template()):
    for i in range(a, b, by):
        out[qd.i32((qd.i64(i) - a) // by)] = i


LOW, HIGH = -(2**31), 2**31 - 1
MANY = ((LOW, HIGH, 1), (LOW, HIGH, 2), (HIGH, LOW, -1), (LOW, 5, -1))
DOWN = ((HIGH, LOW, -1), (HIGH, HIGH - 3, -1), (LOW + 2, LOW, -1), (HIGH, HIGH, -1))
FEW = ((LOW, HIGH, 2**30), (HIGH, LOW, LOW), (5, LOW, 2))


def test_ranges_of_32_bits_whose_trips_need_more(session) -> None:
    out = qd.field(qd.i64, shape=5)
    cases = [*((first_of_a_range, r) for r in MANY + FEW), *((marks, r) for r in FEW), *((downwards, r) for r in DOWN)]
    for kernel, limits in cases:
        out.fill(0)
        kernel(*limits, out)
        expected = list(range(*limits)[:5])
        assert out.to_numpy().tolist() == [*expected, *[0] * (5 - len(expected))], limits


@qd.kernel
def apart(a: qd.i64, b: qd.i64, by: qd.i64, out: qd.template()):
    for i in range(a, b, by):
        qd.atomic_add(out[0], 1)
        qd.atomic_min(out[1], i)
        qd.atomic_max(out[2], i)
    for _ in range(1):
        for i in range(a, b, by):
            out[3] += 1
            out[4] = i
            if out[3] == 9:
                break


def test_ranges_whose_ends_are_farther_apart_than_64_bits_hold(session) -> None:
    out, most = qd.field(qd.i64, shape=5), 2**63 - 1
    ranges = [
        (-(2**63), most, 2**62), (most, -(2**63), -(2**62)), (-(2**63), most, most), (most, -5, -(2**63)),
        (-5, most, 2**61), (most, -(2**63), 1), (-7, most, -1), (3, most, 0), (5, 17, 4), (5, -8, -4), (0, 6, 2),
    ]  # fmt: skip
    for a, b, by in ranges:
        out.from_numpy(np.array([0, most, -(2**63), 0, 0]))
        apart(a, b, by, out)
        want = range(a, b, by) if by else ()
        ends = (min(want), max(want), len(want), want[-1]) if want else (most, -(2**63), 0, 0)
        assert out.to_numpy().tolist() == [len(want), *ends], (a, b, by)


@qd.kernel
def large_boxes_that_are_left(n: qd.i64, out: qd.template()):
    for _ in range(1):
        for i, j, k in qd.ndrange((n, 2**22), 2**21, (2**21 - 1, 2**22)):
            out[0] += 1
            out[1] = i + j + k
            if out[0] == 3:
                break
        for i, j, k in qd.ndrange(2**22, (7, 2**22 + 7), 2**22):
            out[2] += 1
            out[3] = i + j + k
            if out[2] == 4:
                break


def test_boxes_of_more_iterations_than_64_bits_count_that_are_left_early(session) -> None:
    out = qd.field(qd.i64, shape=5)
    large_boxes_that_are_left(0, out)
    assert out.to_numpy().tolist() == [3, 2**21 + 1, 4, 10, 0]


@qd.kernel
def unsigned(a: qd.u32, b: qd.u64, out: qd.template()):
    for i in range(a, a + 2):
        out[i - a] = i
    for i in range(b, b + 2):
        out[2 + i - b] = i
    for _ in range(1):
        count = 0
        for i in range(b - b, b + qd.u64(2**63)):  # nobody counts that far
            count += 1
            if count == 7:
                break
        out[4] = count


def test_unsigned_bounds(session) -> None:
    out = qd.field(qd.i64, shape=5)
    unsigned(2**32 - 3, 2**40, out)
    assert out.to_numpy().tolist() == [2**32 - 3, 2**32 - 2, 2**40, 2**40 + 1, 7]


@qd.kernel
def search(rows: qd.i32, columns: qd.i32) -> qd.i32:
    trips = 0
    for _ in range(1):
        for i, j in qd.ndrange(rows, columns):
            trips += 1
            if j == 8:
                break
    return trips


def test_a_box_of_more_than_two_billion_that_is_left_early(session) -> None:
    assert search(50_000, 50_000) == 9
    assert search(65_536, 65_536) == 9
    assert search(3, 0) == search(-1, 4) == 0


@qd.kernel
def endless(n: qd.i64, out: qd.template()):
    for i, j, k in qd.ndrange(n, n // 2, n // 2):
        assert i + j + k < 0, "it runs"


@qd.kernel
def endless_by_data(n: qd.i64, out: qd.template()):
    for i, j, k in qd.ndrange(out[0], out[1], out[1]):
        assert i + j + k < 0, "it runs"


@qd.kernel
def endless_row(n: qd.i64, out: qd.template()):
    for i in range(-(n << 40), n << 40):
        assert i & 1 == 2, "it runs"


@qd.kernel
def endless_in_lanes(n: qd.i64, out: qd.template()):
    for i, j, k in qd.ndrange(n, n // 2, n // 2):
        assert qd.sin(qd.cos(qd.cast(i + j + k, qd.f32))) > 2.0, "it runs"


@pytest.mark.parametrize("session", ASSERTING, indirect=True)
@pytest.mark.parametrize("kernel", [endless, endless_by_data, endless_row, endless_in_lanes])
def test_a_number_of_iterations_beyond_64_bits_does_not_wrap_to_none(session, kernel) -> None:
    out = qd.field(qd.i64, shape=5)
    out.from_numpy(np.array([2**22, 2**21, 0, 0, 0]))
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"it runs|QL2077.* a loop of .* never ends"):
        kernel(2**22, out)


def test_a_number_of_iterations_beyond_64_bits_that_is_known(session) -> None:
    @qd.kernel
    def known(out: qd.template()):
        for _i, _j, _k in qd.ndrange(2**22, 2**21, 2**21):
            out[0] += 1

    out = qd.field(qd.i64, shape=5)
    if session == "c":
        return  # its loops stand in each other, so nothing is multiplied
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2077.*\n.*line \d+\n.*qd.ndrange\(2\*\*22"):
        known(out)


# --- the dtype of an index

def lowered(fn, *specs):
    kernel = lower(function_source(fn), specs, CompileOptions()).kernel
    verify(kernel)
    return kernel


def space(text: str, **names):
    """A function made of the loop's head."""
    (fn,) = define(f"def k(n: qd.i32, m: qd.i64, u: qd.u32, s: qd.i16, a: qd.types.ndarray()):\n    for i in {text}:\n"
                   "        pass\n").values()  # fmt: skip
    fn.__globals__.update(names)
    return fn


@pytest.mark.parametrize(("text", "dtype"), [
    ("range(n)", i32), ("range(s)", i32), ("range(m)", i64), ("range(u)", i64), ("range(n, m)", i64),
    ("range(10)", i32), ("range(2**31 - 1)", i32), ("range(2**31)", i64), ("range(-2**31, 0)", i32),
    ("range(-2**31 - 1, 0)", i64), ("range(0, n, 2)", i32), ("range(0, m, 2)", i64), ("range(0, 9, 2**31)", i64),
    ("range(-2**31, 2**31 - 1, 2)", i64), ("range(-2**31, 2**31 - 1, 3)", i32), ("small", i32), ("large", i64),
    ("shifted", i64), ("qd.grouped(deep)", i64), ("qd.grouped(flat)", i32), ("qd.grouped(qd.ndrange(n, m))", i64),
    ("qd.grouped(qd.ndrange(n, s))", i32), ("a", i32), ("range(small.shape[0])", i32), ("range(large.shape[0])", i64),
    ("range(large.shape[0] - 6, n)", i32), ("range(a.shape[0])", i32),
])  # fmt: skip
def test_an_index_is_i32_where_the_bounds_fit(text: str, dtype) -> None:
    fields = {
        "small": FakeField(u8, 2**31 - 1), "large": FakeField(u8, HUGE), "deep": FakeField(u8, 3, HUGE),
        "flat": FakeField(u8, 2**20, 2**20), "shifted": FakeField(u8, 4, offset=(2**31 - 4,)),
    }  # fmt: skip
    scalars = [ScalarSpec(DTYPES[t]) for t in ("i32", "i64", "u32", "i16")]
    for wide in (False, True):
        kernel = lowered(space(text, **fields), *scalars, NdarraySpec(u8, 1, wide=wide))
        (loop,) = (s for s in kernel.body if isinstance(s, N.Offload))
        want = i64 if wide and (text == "a" or "a.shape" in text) else dtype
        assert {p.type for p in loop.indices} == {want}


# --- extents, by the interpreter: such fields are declared and hardly touched

def shapes(x: qd.template(), out: qd.template()):
    n = x.shape[0]
    out[0] = n
    out[1] = x.shape[0] - 1
    out[2] = -x.shape[0]
    v = qd.Vector([x.shape[0], x.shape[1]])
    out[3] = v[0] + v[1]
    for k in qd.static(range(2)):
        out[4 + k] = x.shape[k]
    last = qd.static(x.shape[0] - 1)
    out[6] = last
    out[7] = len(x.shape) + x.shape[0] // 2


def test_the_shape_of_a_field() -> None:
    x, out = FakeField(u8, HUGE, 3), FakeField(i64, 8)
    kernel = lowered(shapes, TemplateSpec(x), TemplateSpec(out))
    array = np.zeros(8, np.int64)
    interpret(make_ir(kernel, FORWARD, CompileOptions(verify=True)), {}, {"out": array})
    assert array.tolist() == [HUGE, HUGE - 1, -HUGE, HUGE + 3, HUGE, 3, HUGE - 1, 2 + HUGE // 2]


# --- subscripts

@qd.kernel
def at_i64(x: qd.template(), k: qd.i64):
    x[k] += 1

@qd.kernel
def at_u32(x: qd.template(), k: qd.u32):
    x[k] = x[k] + 1

@qd.kernel
def at_u64(x: qd.template(), k: qd.u64):
    qd.atomic_max(x[k], 1)

@qd.kernel
def in_an_array(x: qd.types.ndarray(), k: qd.i64):
    x[k] = 1

@qd.kernel
def in_a_vector(x: qd.template(), k: qd.i64):
    v = qd.Vector([0, 0, 0])
    v[k] += 1
    x[2] = v[0] + 10 * v[1] + 100 * v[2]

@qd.kernel
def in_an_element(x: qd.template(), k: qd.i64):
    x[0][k] = 1


@pytest.mark.parametrize("options", EVERYWHERE)
def test_an_index_outside_is_named_as_it_is(options) -> None:
    skip_where_both_arms_run(options["arch"])
    qd.init(**options, check_out_of_bound=True)
    x, a = qd.field(qd.i32, shape=10), qd.ndarray(qd.i32, shape=10)
    v = qd.Vector.field(3, qd.i32, shape=1)
    cases = [
        (at_i64, x, 2**32 + 1), (at_i64, x, -(2**32) + 1), (at_i64, x, -1), (at_u32, x, 2**32 - 9),
        (at_u64, x, 2**64 - 1), (at_u64, x, 2**32 + 1), (in_an_array, a, 2**32 + 1), (in_a_vector, x, 2**32 + 1),
        (in_an_element, v, 2**32 + 1),
    ]  # fmt: skip
    for kernel, target, k in cases:
        with pytest.raises(qd.QuadrantsAssertionError, match=rf"index {k} is out of bounds for .*(10|3)\b"):
            kernel(target, k)
    assert not x.to_numpy().any()
    assert not a.to_numpy().any()
    assert not v.to_numpy().any()
    for kernel in (at_i64, at_u32, at_u64):
        kernel(x, 7)
    in_an_array(a, 7)
    assert (x[7], a[7]) == (2, 1)


def test_a_place_in_a_vector_is_compared_as_it_is(session) -> None:
    x = qd.field(qd.i32, shape=3)
    in_a_vector(x, 2)
    assert x[2] == 100
    told = backend(session).CAPABILITIES.checks_bounds  # in release builds, too
    with pytest.raises(qd.QuadrantsAssertionError, match="index 4294967298 is") if told else nullcontext():
        in_a_vector(x, 2**32 + 2)
    assert x[2] == (100 if told else 0)


# --- offsets

@qd.kernel
def over_offsets(x: qd.template(), k: qd.i64):
    for i, j in x:
        x[i, j] = i + j
    for at in qd.grouped(x):
        x[at] += 1
    x[k, 3] = 0


@pytest.mark.parametrize("dtype", [t for t in DTYPES.values() if t.is_int and t.bits > 1], ids=str)
def test_places_in_vectors_have_any_dtype(session, dtype) -> None:
    """NVIDIA's compiler for Vulkan (driver 580) once chose wrong elements by an i64 that is the rest of a division."""
    f, y = (qd.field(qd.f32, 6, needs_grad=True) for _ in range(2))
    f.from_numpy(np.array([0.625, -0.25, 1.0, 0.5, -0.875, 0.75], np.float32))

    @qd.kernel
    def k():
        for i in f:
            v, w, u = f[i], f[i] * 0.25, (i * 3 + 1) % 7
            a = qd.Vector([-0.5, -0.25, w, v + 1.0, 1.0, v * w, 0.0, v + 1.0, v + 1.0, 1.0, -0.5, 0.25])
            b = qd.Vector([v + 1.0, -0.25, 0.75, v, -0.25, -1.0, -0.5, -0.75, v * w, w, v * w, 0.5])
            b[qd.cast(i, dtype) % 12] += b[u] * a[11] * 0.5
            y[i] = v + a[u] + a[qd.cast(u, dtype) % 12] + b[4] + b[u]

    def plain(i, v):
        w, u = v * 0.25, (i * 3 + 1) % 7
        a = [-0.5, -0.25, w, v + 1.0, 1.0, v * w, 0.0, v + 1.0, v + 1.0, 1.0, -0.5, 0.25]
        b = [v + 1.0, -0.25, 0.75, v, -0.25, -1.0, -0.5, -0.75, v * w, w, v * w, 0.5]
        b[i] += b[u] * a[11] * 0.5
        return v + 2.0 * a[u] + b[4] + b[u]

    k()
    y.grad.fill(1.0)
    k.grad()
    given = enumerate(f.to_numpy().astype(float).tolist())
    expected = [(plain(i, v), (plain(i, v + 1e-4) - plain(i, v - 1e-4)) / 2e-4) for i, v in given]
    np.testing.assert_allclose(np.transpose([y.to_numpy(), f.grad.to_numpy()]), expected, rtol=1e-5, atol=1e-6)


def test_offsets(session) -> None:
    for first in (2**31 - 1, 2**40, -(2**33)):
        x = qd.field(qd.i64, shape=(4, 2), offset=(first, 3))
        over_offsets(x, first + 1)
        want = first + 4 + np.add.outer(np.arange(4), np.arange(2))
        want[1, 0] = 0
        assert x.to_numpy().tolist() == want.tolist()
        assert x[first + 3, 4] == first + 8


# --- widened integers compared with constants, which some drivers fold wrongly

@qd.kernel
def beside_constants(n: qd.i32, out: qd.template()):
    a = qd.cast(n, qd.i64)
    for c in qd.static(range(-1, 300, 43)):
        for _ in range(1):
            out[c + 1, 0], out[c + 1, 1] = min(a, c), max(c, a)
            out[c + 1, 2] = qd.select(a < c, a, c + 1)
            out[c + 1, 3] = qd.cast(a >= c, qd.i64) + 2 * qd.cast(c <= a, qd.i64)
            out[c + 1, 4], out[c + 1, 5] = abs(a), a // 4
            out[c + 1, 6], out[c + 1, 7] = a % (c + 2), max(min(a, c), 0)


def test_widened_integers_beside_constants(session) -> None:
    out = qd.field(qd.i64, shape=(301, 8))
    for n in (3, -1, -5, 0, 6, 42, 300, 2**31 - 1, -(2**31)):
        beside_constants(n, out)
        for c in range(-1, 300, 43):
            less = n if n < c else c + 1
            want = [min(n, c), max(n, c), less, 3 * (n >= c), abs(n), n // 4, n % (c + 2), max(min(n, c), 0)]
            assert out.to_numpy()[c + 1].tolist() == want, (n, c)
