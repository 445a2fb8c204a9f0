"""Gradients of loops with indices of 64 bits, and arrays of 2**31 elements and more."""


import numpy as np
import pytest
from lang.test_wide_indices import HUGE, in_an_array, lowered, session  # noqa: F401  # fixtures
from oracle.sines import sines
from sessions import CPU_ALONE, sessions

import quadrants_lab as qd
from quadrants_lab.frontend.specs import NdarraySpec
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f32, i32, i64
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.compile.specialisation import FORWARD, REVERSE

# --- gradients

@qd.kernel
def waves(n: qd.i64, x: qd.template(), y: qd.template()):
    for i in range(n, n + 40):
        v = x[i - n]
        for j in range(n, n + 6, 2):
            v = qd.sin(v) * 1.5 + 0.1 * (j - n)
        y[None] += v * v

@qd.kernel
def segments(n: qd.i64, x: qd.template(), y: qd.template()):
    for i in range(n, n + 40):
        v = x[i - n]
        qd.loop_config(checkpoint=True)
        for j in range(n, n + 9):
            v = qd.sin(v) * 1.5
        y[None] += v * v

@qd.kernel
def in_place(n: qd.i64, x: qd.template(), y: qd.template()):
    for i in range(n + 3, n + 40):
        x[i - n] = qd.sin(x[i - n]) * 1.5
    for i in range(n, n + 40):
        y[None] += x[i - n] * x[i - n]
    for i in range(n, n + 3):
        x[i - n] = 0.0


def formula(kernel):
    if kernel is in_place:
        return lambda x: np.concatenate([x[:3] * x[:3], _waves(x[3:], [0.0])])
    if kernel is waves:
        return lambda x: _waves(x, [0.0, 0.2, 0.4])
    return lambda x: _waves(x, [0.0] * 9)


def _waves(x, steps):
    for s in steps:
        x = np.sin(x) * 1.5 + s
    return x * x


@pytest.mark.parametrize("kernel", [waves, segments, in_place], ids=lambda k: k.name)
def test_gradients(session, kernel) -> None:
    x = qd.field(qd.f32, shape=40, needs_grad=True)
    y = qd.field(qd.f32, shape=(), needs_grad=True)
    given = np.linspace(-2, 2, 40)
    for n in (0, 2**31 - 3, 2**40):
        x.from_numpy(given)
        y[None] = 0.0
        x.grad.fill(0.0)
        kernel(n, x, y)
        y.grad[None] = 1.0
        kernel.grad(n, x, y)
        value = formula(kernel)
        assert y[None] == pytest.approx(value(given).sum(), rel=1e-4)
        want = value(given + 1e-30j).imag * 1e30
        assert x.grad.to_numpy() == pytest.approx(want, rel=1e-3, abs=1e-4)


# --- arrays of 2**31 elements and more: pages that are never written take no memory

@qd.kernel
def touch(x: qd.types.ndarray(dtype=qd.u8, ndim=1), k: qd.i64, out: qd.template()):
    n = x.shape[0]
    x[n - 1] = 7
    x[k] += 5
    out[0], out[1] = n, x[n - 1]
    for i in range(n - 3, x.shape[0]):
        out[2] += i
    for _ in range(1):
        for i in range(n - 1, n - 4, -1):
            out[3] += i * x[i]

@qd.kernel
def first_of(x: qd.types.ndarray(ndim=1), k: qd.i64, out: qd.template()):
    for i in range(k, x.shape[0]):
        out[0] += x[i]
    for i in range(x.shape[0] - 1, x.shape[0]):
        out[1] = i * 65536 * 16384

@qd.kernel
def all_of(x: qd.types.ndarray(dtype=qd.u8, ndim=1), last: qd.template(), total: qd.template()):
    for i in x:
        qd.atomic_max(last[None], i * (x[i] >> 3))
        total[None] += x[i]

@qd.kernel
def ends_of(x: qd.template(), out: qd.template()):
    n = x.shape[0]
    for i in range(x.shape[0] - 3, n):
        x[i] += 1
    out[0], out[1], out[2] = n, x.shape[0] - 1, x[x.shape[0] - 1]


@CPU_ALONE
def test_an_array_of_more_than_two_billion(session) -> None:
    out = qd.field(qd.i64, shape=4)
    a = np.zeros(HUGE, np.uint8)
    touch(a, HUGE - 2, out)
    assert (a[-3:].tolist(), a[0]) == ([0, 5, 7], 0)
    rest = [3 * HUGE - 6, 7 * (HUGE - 1) + 5 * (HUGE - 2)]
    assert out.to_numpy().tolist() == [HUGE, 7, *rest]
    for _ in range(2):  # what the index of a short array is does not depend on what was there before
        out.fill(0)
        first_of(np.ones(3, np.uint8), 2, out)
        assert out.to_numpy().tolist() == [1, -(2**31), 0, 0]
        first_of(a, HUGE - 1, out)
        assert out.to_numpy().tolist() == [8, (HUGE - 1) << 30, 0, 0]


@CPU_ALONE
def test_a_loop_over_more_than_two_billion(session) -> None:
    last, total = qd.field(qd.i64, shape=()), qd.field(qd.i64, shape=())
    a = qd.ndarray(qd.u8, shape=HUGE)
    a[1] = a[HUGE - 2] = 9
    all_of(a, last, total)
    assert (last[None], total[None]) == (HUGE - 2, 18)


@CPU_ALONE
def test_a_field_of_more_than_two_billion(session) -> None:
    out, x = qd.field(qd.i64, shape=3), qd.field(qd.u8, shape=HUGE)
    x[HUGE - 1] = 3
    ends_of(x, out)
    assert [x[HUGE - k] for k in range(1, 5)] == [4, 1, 1, 0]
    assert out.to_numpy().tolist() == [HUGE, HUGE - 1, 4]
    assert x.to_numpy(copy=False)[-2:].tolist() == [1, 4]
    with pytest.raises(qd.QuadrantsAssertionError, match=rf"index \[{HUGE}\] is outside"):
        x[HUGE]


@CPU_ALONE
def test_an_array_of_two_axes(session) -> None:
    out = qd.field(qd.i64, shape=3)
    a = np.zeros((2, HUGE), np.uint8)
    a[1, HUGE - 2] = 3
    in_rows(a, out)
    assert out.to_numpy().tolist() == [2, HUGE, 3 * (HUGE - 1)]


@qd.kernel
def in_rows(x: qd.types.ndarray(dtype=qd.u8, ndim=2), out: qd.template()):
    out[0], out[1] = x.shape[0], x.shape[1]
    for at in qd.grouped(qd.ndrange(x.shape[0], (x.shape[1] - 4, x.shape[1]))):
        out[2] += x[at] * (at[0] + at[1])


@pytest.mark.parametrize("checked", [False, True])
def test_an_index_outside_of_more_than_two_billion(checked) -> None:
    qd.init(arch=qd.cpu, check_out_of_bound=checked)
    a = np.zeros(HUGE, np.uint8)
    if checked:
        for k in (HUGE, 2**32 + 1, -1):
            with pytest.raises(qd.QuadrantsAssertionError, match=f"index {k} .* of x with extent {HUGE} "):
                in_an_array(a, k)
        assert not a[[0, 1, -1]].any()
    in_an_array(a, HUGE - 1)
    assert a[-1] == 1


def test_sizes_of_stacks_go_over_such_arrays() -> None:
    """The greatest of the bounds, which lies beyond i32, is found."""
    qd.init(arch=qd.cpu)
    x, y = (qd.field(qd.f32, shape=(), needs_grad=True) for _ in range(2))
    x[None] = 0.5
    a = qd.ndarray(qd.u8, shape=HUGE)
    a[HUGE - 1] = 4
    deep(a, HUGE - 2, x, y)
    y.grad[None] = 1.0
    deep.grad(a, HUGE - 2, x, y)
    v, d = sines(0.5, 4)
    assert (y[None], x.grad[None]) == pytest.approx((v + 0.5, d + 1.0), rel=1e-5)


@qd.kernel
def deep(a: qd.types.ndarray(dtype=qd.u8, ndim=1), first: qd.i64, x: qd.template(), y: qd.template()):
    for i in range(first, a.shape[0]):
        v = x[None]
        for _ in range(a[i]):
            v = qd.sin(v)
        y[None] += v


# --- whole fields of 2 GB, on every backend

def by_night(*archs):
    """The backends whose devices have as much memory: CUDA's stand-in has not."""
    found = [p for arch in archs for p in sessions(arch) if arch != "cuda" or not backend(arch).probe()]
    return [pytest.param(*p.values, id=p.id, marks=[*p.marks, pytest.mark.slow]) for p in found]


@qd.kernel
def counted(x: qd.template(), last: qd.template(), total: qd.template()):
    for i in x:
        qd.atomic_max(last[None], i * (x[i] >> 2))
        total[None] += x[i]


@pytest.mark.parametrize("options", by_night("cpu", "cuda", "vulkan", "metal"))
def test_the_whole_of_a_field_of_more_than_two_billion(options) -> None:
    qd.init(**options)
    last, total, out = (qd.field(qd.i64, shape=s) for s in ((), (), 3))
    x = qd.field(qd.u8, shape=HUGE)
    x[HUGE - 3] = x[1] = 5
    counted(x, last, total)
    assert (last[None], total[None]) == (HUGE - 3, 10)
    ends_of(x, out)
    assert [x[HUGE - k] for k in range(1, 4)] == [1, 1, 6]
    assert out.to_numpy().tolist() == [HUGE, HUGE - 1, 1]
    x.fill(9)
    assert (x[0], x[2**31], x[HUGE - 1]) == (9, 9, 9)
    x.from_numpy(np.broadcast_to(np.int32(7), HUGE))
    assert (x[0], x[2**31], x[HUGE - 1]) == (7, 7, 7)
    assert x.to_numpy()[[0, 2**31, HUGE - 1]].tolist() == [7, 7, 7]
    with pytest.raises(qd.QuadrantsAssertionError, match=rf"index \[{HUGE}\] is outside"):
        x[HUGE]


@pytest.mark.parametrize("options", [*sessions("metal"), *by_night("cuda", "vulkan")])
def test_an_array_of_more_than_two_billion_elsewhere(options) -> None:
    """The kernel was launched on a short array before, and is launched on it again afterwards."""
    qd.init(**options)
    out = qd.field(qd.i64, shape=4)
    a, short = qd.ndarray(qd.u8, shape=HUGE), qd.ndarray(qd.u8, shape=5)
    for _ in range(2):
        out.fill(0)
        short.fill(0)
        touch(short, 0, out)
        assert short.to_numpy().tolist() == [5, 0, 0, 0, 7]
        assert out.to_numpy().tolist() == [5, 7, 9, 28]
        out.fill(0)
        a[HUGE - 2] = 0
        touch(a, HUGE - 2, out)
        assert [a[HUGE - k] for k in range(1, 4)] == [7, 5, 0]
        assert out.to_numpy().tolist() == [HUGE, 7, 3 * HUGE - 6, 7 * (HUGE - 1) + 5 * (HUGE - 2)]


# --- saved and watched elements of such arrays: the code alone, since an array of floats would have 8 GB

def halved(a: qd.types.ndarray(dtype=qd.f32, ndim=1), at: qd.types.ndarray(dtype=qd.i32, ndim=1)):
    for i in a:
        a[i] = a[i] * a[i]
    for i in range(1, at.shape[0]):
        a[at[i]] = 0.5


@pytest.mark.parametrize("wide", [False, True])
def test_boxes_of_indices_have_the_width_of_the_array(wide: bool) -> None:
    kernel = lowered(halved, NdarraySpec(f32, 1, grad=True, wide=wide), NdarraySpec(i32, 1, wide=wide))
    for mode in (FORWARD, REVERSE):
        for debug in (False, True):
            made = make_ir(kernel, mode, CompileOptions(debug=debug, verify=True))
            tasks = [s for s in made.body if isinstance(s, N.Offload) and s.indices]
            assert {p.type for t in tasks for p in t.indices} == {i64 if wide else i32}
            assert len(tasks) >= 4
