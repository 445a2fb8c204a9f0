"""Tasks in lanes: what holds of tasks and primitives on every backend, with lanes wherever they can be; then where
lanes part, what is the same in all of them, and which tasks run in lanes by themselves."""

from typing import Any

import numpy as np
import pytest
from all_programs.test_hypothesis import BENCHES, check as check_random
from conformance import prims as conformance_prims, tasks as conformance_tasks
from conformance.prims import *  # noqa: F403
from conformance.tasks import *  # noqa: F403
from hypothesis import HealthCheck, given, settings
from oracle.sines import slopes
from programs import PROGRAMS
from programs.seeded import SEEDED
from programs.strategies import kernels
from rigs import cpu_rig
from rigs.cpu_rig import parsed
from running import Bench, differences, each, f32, f64, job_of

import quadrants_lab as qd
from quadrants_lab.analysis.divergence import divergence
from quadrants_lab.backends.cpu import jit, lanes as choose
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime import session

WIDEST = jit.vector_bytes()
MASKS = WIDEST >= 64  # AVX-512; with less, LLVM writes gathers and scatters as single loads and stores

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not WIDEST, reason="this processor has no vectors that gather and mask"),
]


def wherever_possible(size: int) -> Any:
    """In place of `lanes_of`, which also asks whether it pays."""

    def lanes(kernel: N.Kernel, task: N.Offload, *_: Any) -> tuple[int, str]:
        return 0 if choose.hindrance(task) else choose.width(task, size), ""

    return lanes


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(choose, "lanes_of", wherever_possible(4 * WIDEST))  # as many vectors as are ever in flight
    return cpu_rig


def in_lanes(monkeypatch: pytest.MonkeyPatch, size: int = WIDEST) -> None:
    monkeypatch.setattr(choose, "lanes_of", wherever_possible(size))


# --- programs ---------------------------------------------------------------------------------------------------

def check(program: Any, fp: Any) -> None:
    bench = Bench(fp, "cpu")
    for case in program.cases:
        job = job_of(program, case)
        got, _ = bench.run(job, gradient=program.grad)
        tol = 1e-9 if fp is f64 else program.tol32
        assert not differences(job, job.oracle(), got, tol, gradient=program.grad), case


@each(SEEDED.values(), every=6)
def test_random_programs(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    in_lanes(monkeypatch)
    check(program, f64)


@pytest.mark.slow
@pytest.mark.parametrize("size", [16, 32, 64, 256])
@pytest.mark.parametrize("fp", [f32, f64], ids=str)
@each(PROGRAMS.values())
def test_programs(program: Any, fp: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_lanes(monkeypatch, min(size, WIDEST))
    check(program, fp)


@pytest.fixture
def one_session() -> Any:
    BENCHES.clear()
    yield
    BENCHES.clear()


@pytest.mark.slow
@pytest.mark.usefixtures("one_session")
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=kernels())
def test_many_random_kernels(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    in_lanes(monkeypatch)
    check_random(source)


# --- where lanes part -------------------------------------------------------------------------------------------

def start(**how: Any) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, **how)


def test_a_load_stays_before_a_store_to_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A select by the mask of a load must not draw the load to itself, past the store."""
    in_lanes(monkeypatch)
    start()
    a, b = qd.field(qd.f32, (4, 9)), qd.field(qd.f32, 4)
    @qd.kernel
    def sums() -> None:
        for i, j in a:
            v = a[i, j]
            a[i, j] = 0.0
            b[i] += v
    a.fill(2.0)
    sums()
    assert (b.to_numpy() == 18).all()
    assert not a.to_numpy().any()


BOUNDS = [(0, 7), (-3, 3), (5, 5), (9, 2), (2**31 - 3, 2**31 - 1), (-(2**31), -(2**31) + 2)]


@pytest.mark.parametrize("shared", ["begin", "end", "neither"])
@pytest.mark.parametrize("down", [False, True])
def test_loops_of_different_lengths(shared: str, down: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    in_lanes(monkeypatch)
    start(default_ip=qd.i64)
    n = 40
    lo, hi, y = qd.field(qd.i32, n), qd.field(qd.i32, n), qd.field(qd.i64, n)
    first = qd.field(qd.i32, ())

    @qd.kernel
    def f() -> None:
        for i in y:
            s = qd.i64(1)
            a, b = lo[i], hi[i]
            if qd.static(shared == "begin"):
                a = first[None]
            if qd.static(shared == "end"):
                b = first[None]
            if qd.static(down):
                for j in range(b - 1, a - 1, -1):
                    s = s * 31 + j
            else:
                for j in range(a, b):
                    s = s * 31 + j
            y[i] = s

    for at in (-2, 3):
        rng = np.random.default_rng(at + 5)
        pairs = [BOUNDS[k] if shared == "neither" and not down else BOUNDS[k % 4] for k in rng.integers(0, 6, n)]
        lo.from_numpy(np.int32([p[0] for p in pairs]))
        hi.from_numpy(np.int32([p[1] for p in pairs]))
        first[None] = at
        f()
        for got, (a, b) in zip(y.to_numpy(), pairs, strict=True):
            a, b = at if shared == "begin" else a, at if shared == "end" else b
            s = 1
            for j in reversed(range(a, b)) if down else range(a, b):
                s = (s * 31 + j + 2**63) % 2**64 - 2**63
            assert got == s


def test_a_lane_that_takes_no_part_may_hold_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zero divisor, an index far outside, an endless loop's condition."""
    in_lanes(monkeypatch)
    start()
    n = 50
    d, at, y = qd.field(qd.i32, n), qd.field(qd.i32, n), qd.field(qd.i32, n)

    @qd.kernel
    def f() -> None:
        for i in y:
            s = -1
            if d[i] > 0:
                s = 1000 // d[i] + 1000 % d[i]
                if at[i] < n:
                    s += d[at[i]]
            k = d[i]
            while k > 1:
                k = k // 2
                s += 1
            y[i] = s

    rng = np.random.default_rng(0)
    ds, ats = rng.integers(-1, 9, n), np.where(rng.random(n) < 0.5, rng.integers(0, n, n), 2_000_000_000)
    d.from_numpy(ds.astype(np.int32))
    at.from_numpy(ats.astype(np.int32))
    f()
    for i in range(n):
        s = -1
        if ds[i] > 0:
            s = 1000 // ds[i] + 1000 % ds[i] + (ds[ats[i]] if ats[i] < n else 0)
        s += max(0, int(ds[i]).bit_length() - 1) if ds[i] > 0 else 0
        assert y[i] == s, i


@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max"])
@pytest.mark.parametrize("t", [qd.f32, qd.f64, qd.i32, qd.u32, qd.i64], ids=str)
def test_reductions(op: str, t: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into one element, into one for all lanes, into any."""
    in_lanes(monkeypatch)
    start()
    n = 100
    x, one, shared, any_ = qd.field(t, n), qd.field(t, ()), qd.field(t, 3), qd.field(t, 7)
    atomic = getattr(qd, f"atomic_{op}")

    @qd.kernel
    def f() -> None:
        for i in x:
            if i % 3 != 1:
                atomic(one[None], x[i])
                for j in range(3):
                    atomic(shared[j], x[i])
                atomic(any_[i % 7], x[i])

    xs = (np.arange(n) % 5 + 1).astype(x.to_numpy().dtype)
    if op == "mul":
        xs = np.where(np.arange(n) % 17 == 0, xs, 1).astype(xs.dtype)
    x.from_numpy(xs)
    for y in (one, shared, any_):
        y.fill(2 if op == "mul" else 100)
    f()
    step = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    want_one, want_any = (
        np.array(one.to_numpy()) * 0 + (2 if op == "mul" else 100), np.full(7, 2 if op == "mul" else 100)
    )
    want_one, want_any = want_one.astype(xs.dtype), want_any.astype(xs.dtype)
    with np.errstate(over="ignore"):
        for i in range(n):
            if i % 3 != 1:
                want_one = step(want_one, xs[i])
                want_any[i % 7] = step(want_any[i % 7], xs[i])
    np.testing.assert_allclose(one.to_numpy(), want_one, rtol=1e-6)
    np.testing.assert_allclose(shared.to_numpy(), want_one, rtol=1e-6)
    np.testing.assert_allclose(any_.to_numpy(), want_any, rtol=1e-6)


# --- adstacks ---------------------------------------------------------------------------------------------------

def test_depth_does_not_depend_on_other_lanes() -> None:
    """Inner loops of the lanes have different lengths and times: a lane needs only the depth of its own loops."""
    start(default_fp=qd.f64)
    n = 40
    x = qd.field(qd.f64, n, needs_grad=True)
    m, y = qd.field(qd.i32, (n, 3)), qd.field(qd.f64, n, needs_grad=True)

    @qd.kernel
    def f() -> None:
        for i in x:
            v = x[i]
            for k in range(3):
                for _ in range(m[i, k]):
                    v = qd.sin(v) + 0.1
            y[i] = v

    ms = np.zeros((n, 3), np.int32)
    ms[np.arange(n), np.arange(n) % 3] = 9
    m.from_numpy(ms)
    x.fill(0.5)
    f()
    y.grad.fill(1)
    f.grad()
    assert [r.depth for r in f.sizes()] == [9]
    np.testing.assert_allclose(x.grad.to_numpy(), slopes(0.5, 9, plus=0.1), rtol=1e-12)


@pytest.mark.parametrize(
    ("shared", "n", "apart"), [("begin", 40, False), ("begin", 5, False), ("end", 40, True), ("neither", 40, True)]
)
def test_slots_of_loops_of_different_lengths(
    shared: str, n: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes that begin together fill the same slots, although they end apart: those lie in a row. Five iterations in 32
    lanes, whose slots fill lines of the cache, leave no room behind a stack."""
    in_lanes(monkeypatch, 4 * WIDEST)
    start(default_fp=qd.f64)
    lo, hi = qd.field(qd.i32, n), qd.field(qd.i32, n)
    x, y = qd.field(qd.f64, n, needs_grad=True), qd.field(qd.f64, n, needs_grad=True)

    @qd.kernel
    def f(a: qd.i32, b: qd.i32) -> None:
        for i in x:
            v = x[i]
            for j in range(
                0 if qd.static(n == 5) else a if qd.static(shared == "begin") else lo[i],
                b if qd.static(shared == "end") else hi[i],
            ):
                v = qd.sin(v) + 0.01 * j
                for _ in range(2):
                    v = qd.cos(v) * 1.5
            y[i] = v

    pairs = [BOUNDS[k % 4] if n > 5 else (0, 8) for k in range(n)]
    lo.from_numpy(np.int32([p[0] for p in pairs]))
    hi.from_numpy(np.int32([p[1] for p in pairs]))
    x.fill(0.5)
    y.grad.fill(1)
    f.grad(-2, 8)
    trips = [range(0 if n == 5 else -2 if shared == "begin" else a, 8 if shared == "end" else b) for a, b in pairs]
    longest = max(map(len, trips))
    assert {r.depth for r in f.sizes()} == {longest, 2 * longest}
    for got, js in zip(x.grad.to_numpy(), trips, strict=True):
        v, d = 0.5, 1.0
        for j in js:
            v, d = np.sin(v) + 0.01 * j, d * np.cos(v)
            for _ in range(2):
                v, d = np.cos(v) * 1.5, d * np.sin(v) * -1.5
        assert got == pytest.approx(d, rel=1e-11, abs=0)
    if MASKS:
        assert ("scatter" in f.grad.code("asm")) == apart


def test_a_budget_takes_lanes_away_and_changes_nothing_else() -> None:
    n = 1000

    def gradient(**how: Any) -> tuple[np.ndarray, int]:
        start(cpu_max_num_threads=2, **how)
        x, y = qd.field(qd.f32, n, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

        @qd.kernel
        def f(trips: qd.i32) -> None:
            for i in x:
                v = x[i]
                for _ in range(trips):
                    v = qd.sin(v) + 0.1
                y[None] += v

        x.from_numpy(np.linspace(-1, 1, n, dtype=np.float32))
        y.grad[None] = 1
        f.grad(100)
        return x.grad.to_numpy(), session.current().device.heap_bytes

    free, all_lanes = gradient()
    tight, few = gradient(ad_stack_budget_bytes=2000)
    assert few <= 2000 < all_lanes
    np.testing.assert_allclose(tight, free, rtol=1e-6)


def test_tasks_of_different_widths_share_a_heap() -> None:
    start(default_fp=qd.f64)
    n, trips = 50, np.arange(50, dtype=np.int32) % 4
    x, y = qd.field(qd.f32, n, needs_grad=True), qd.field(qd.f64, n, needs_grad=True)
    m = qd.field(qd.i32, n)

    @qd.kernel
    def f() -> None:
        for i in x:
            for _ in range(m[i]):
                x[i] = qd.sin(x[i])
        for i in y:
            for _ in range(m[i]):
                y[i] = qd.sin(y[i])

    m.from_numpy(trips)
    for z in (x, y):
        z.fill(0.5)
        z.grad.fill(1)
    f.value_and_grad()
    for z in (x, y):
        np.testing.assert_allclose(z.grad.to_numpy(), slopes(np.full(n, 0.5), trips), rtol=1e-5)


# --- which values differ, which tasks gain ----------------------------------------------------------------------


def test_divergence() -> None:
    _, task = parsed("""
        %4: i32 = const 0
        %5: i32 = load @n[%4]
        %6: f32 = arg a
        for %7: i32 in %4..%5 carry (%8: f32 = %6, %9: f32 = %6) {
          %10: f32 = load @x[%3]
          %11: f32 = add %8, %10
          %12: f32 = mul %9, %6
          yield %11, %12
        } -> (%13: f32, %14: f32)
        %15: i32 = load @n[%3]
        for %16: i32 in %4..%15 carry (%17: f32 = %6) {
          %18: f32 = load @x[%16]
          %19: f32 = add %17, %18
          yield %19
        } -> (%20: f32)
        for %21: i32 in %15..%3 carry () {
          store @x[%21], %6
          yield
        } -> ()""")
    found = divergence(task.body, [3])
    defined = {i for s in walk(task.body) for i, _ in s.defs()} | {p.id for s in walk(task.body) for p in s.params()}
    shared = {4, 5, 6, 7, 9, 12, 14, 16, 18}
    assert found.divergent - {3} == defined - shared


def test_stacks_share_a_counter_where_lanes_stay_together() -> None:
    def split(bound: str) -> int:
        _, task = parsed(f"""
        adstack_alloca $4: f32 'v' primal %9 reason "test"
        %5: i32 = const 0
        %6: i32 = load @n[{bound}]
        %7: f32 = load @x[%3]
        for %8: i32 in %5..%6 carry (%9: f32 = %7) {{
          adstack_push $4, %9
          %10: f32 = mul %9, %9
          yield %10
        }} -> (%11: f32)""")
        return len(divergence(task.body, [3]).per_lane)
    assert split("%5") == 0
    assert split("%3") == 1


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_fast_math_keeps_one_over_a_root(rig: Any, name: str) -> None:
    conformance_prims.check_one_over_a_root(rig, name)


def test_vectorised_stencils_do_not_gather() -> None:
    """Where lanes do not pay, neither do gathers: LLVM's vectoriser makes them of indices that are clamped."""
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, (64, 64)), qd.field(qd.f32, (64, 64))

    @qd.kernel
    def blur():
        for i, j in x:
            y[i, j] = 0.5 * (x[i, max(j - 1, 0)] + x[i, min(j + 1, 63)])

    @qd.kernel
    def wave():
        for i, j in x:
            y[i, j] = qd.sin(x[i, qd.cast(x[i, j], qd.i32)])

    blur()
    wave()
    assert "gather" not in blur.code("asm")
    if MASKS:
        assert "gather" in wave.code("asm")  # in lanes, which pay for their functions


__all__ = ["conformance_prims", "conformance_tasks"]
