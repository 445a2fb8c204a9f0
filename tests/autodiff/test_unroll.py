"""Several trips of a loop as one: the gradients of programs, trip counts around the group, bounds at the edges, and
which loops are left alone."""

from typing import Any

import numpy as np
import pytest
from all_programs.test_hypothesis import BENCHES, check as check_random
from hypothesis import HealthCheck, given, settings
from programs import PROGRAMS
from programs.seeded import SEEDED
from programs.strategies import kernels
from running import Bench, differences, each, f64, job_of
from sessions import skips

import quadrants_lab as qd
from quadrants_lab.autodiff import unroll
from quadrants_lab.runtime.compile.compile import forward_ir

N = 5


def check(program: Any, trips: int, arch: str = "cpu") -> None:
    bench = Bench(f64, arch, ad_unroll=trips)
    for case in program.cases:
        job = job_of(program, case)
        got, _ = bench.run(job, gradient=program.grad)
        assert not differences(job, job.oracle(), got, 1e-9, gradient=program.grad), case


@pytest.fixture
def wherever_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unroll, "LEAST_BYTES", 1)


@pytest.mark.filterwarnings("ignore")
@each(SEEDED.values(), every=3)
def test_random_programs(program: Any, wherever_possible: None) -> None:
    check(program, 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arch", [pytest.param(arch, marks=skips(arch)) for arch in ("cpu", "vulkan")])
@pytest.mark.parametrize("trips", [2, 4])
@each(p for p in PROGRAMS.values() if p.grad)
def test_programs(program: Any, trips: int, arch: str, wherever_possible: None) -> None:
    check(program, trips, arch)


def made(trips: int, arch: str = "cpu", index: Any = qd.i32, real: Any = qd.f64) -> tuple[Any, Any, Any]:
    """A kernel over a loop that carries four values, an integer and a flag, with ifs, loads and an assert."""
    how = {
        "ad_unroll": trips,
        "default_fp": real,
        "default_ip": index,
        "offline_cache": False,
        "simulate": True,
    }
    qd.init(arch=getattr(qd, arch), enable_fallback=False, **how)
    x = qd.field(real, shape=N, needs_grad=True)
    y = qd.field(real, shape=(), needs_grad=True)

    @qd.kernel
    def many(begin: int, end: int, checks: int):
        for i in x:
            p = x[i]
            q = x[(i + 1) % N]
            r = p * q
            s = p - q
            count = 3
            flip = False
            for j in range(begin, end):
                p = qd.sin(p * q) + x[(j % N + N) % N]
                q = qd.cos(q + r) * qd.cast(count, real) * 0.1
                if flip:
                    r = r * s + qd.exp(-p * p)
                else:
                    r -= s * s * 0.5
                s = qd.tanh(s * p)
                assert checks >= 0, "checks"
                count += 2
                flip = not flip
            y[None] += p * q * r + s

    return many, x, y


def gradient(parts: tuple[Any, Any, Any], *bounds: int) -> np.ndarray:
    kernel, x, y = parts
    x.from_numpy(np.linspace(-0.9, 1.1, N).astype(x.dtype.numpy))
    x.grad.fill(0)
    y[None] = 0
    y.grad[None] = 1
    kernel(*bounds, 1)
    kernel.grad(*bounds, 1)
    return np.asarray(x.grad.to_numpy())


FAR = 2**31 - 1
BOUNDS = [(0, n) for n in range(10)] + [
    (-7, 2),
    (3, 3),
    (5, 1),
    (FAR - 6, FAR),
    (-FAR - 1, -FAR + 4),
    (FAR, -FAR),
]


@pytest.mark.parametrize("index", [qd.i32, qd.i64], ids=str)
@pytest.mark.parametrize(
    ("arch", "real", "tol"),
    [pytest.param(arch, real, tol, marks=skips(arch))
     for arch, real, tol in (("cpu", qd.f64, 1e-11), ("vulkan", qd.f64, 1e-11), ("metal", qd.f32, 1e-5))],
)  # fmt: skip
def test_any_bounds(arch: str, real: Any, tol: float, index: Any) -> None:
    parts = made(1, "cpu", index)
    want = [gradient(parts, *b) for b in BOUNDS]
    for trips in (2, 4):
        parts = made(trips, arch, index, real)
        for b, w in zip(BOUNDS, want, strict=True):
            np.testing.assert_allclose(gradient(parts, *b), w, rtol=tol, atol=tol, err_msg=f"{trips} {b}")


def test_slots() -> None:
    parts = made(4)
    gradient(parts, 0, 30)
    assert {row.depth for row in parts[0].sizes()} == {8}


def carrying(values: int, real: Any = qd.f32, **options: Any) -> Any:
    """A loop that keeps so many values a trip."""
    qd.init(default_fp=real, offline_cache=False, **options)
    x = qd.field(real, shape=values, needs_grad=True)
    y = qd.field(real, shape=(), needs_grad=True)

    @qd.kernel
    def carry():
        for _ in range(1):
            v = qd.Vector([x[k] for k in range(values)])
            for _ in range(12):
                v = qd.sin(v)
            y[None] += v.sum()

    carry()
    carry.grad()
    return carry


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("values", "options", "slots"), [
    (8, {}, 12),  # on the CPU it does not pay
    (8, {"ad_unroll": 4}, 3),
    (8, {"ad_unroll": 5}, 3),
    (7, {"ad_unroll": 4}, 12),  # 28 bytes a trip
    (100, {"ad_unroll": 4}, 12),  # two copies of the body would be long
])
def test_where_it_pays(values: int, options: dict[str, int], slots: int) -> None:
    assert {row.depth for row in carrying(values, **options).sizes()} == {slots}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("real", "copies"), [(qd.f32, {2}), (qd.f64, {3})], ids=str)
def test_wide_floats_have_a_number_of_their_own(real: Any, copies: set[int]) -> None:
    compiled = carrying(8, real).grad.dispatcher.last.compiled
    forward = forward_ir(compiled.lowered.kernel, compiled.options)
    assert set(unroll.unrolled_loops(forward, (2, 3)).values()) == copies


@pytest.fixture
def one_session() -> Any:
    BENCHES[:] = [Bench(f64, "cpu", ad_unroll=3)]
    yield
    BENCHES.clear()


@pytest.mark.slow
@pytest.mark.usefixtures("one_session")
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=kernels())
def test_many_random_kernels(source: Any, wherever_possible: None) -> None:
    check_random(source)


@pytest.mark.parametrize("end", [-FAR - 1, -FAR, -1, 5, 6, 10])
def test_a_loop_that_begins_behind_zero(end: int) -> None:
    found = []
    for trips in (1, 4):
        qd.init(default_fp=qd.f64, offline_cache=False, ad_unroll=trips)
        x = qd.field(qd.f64, shape=4, needs_grad=True)
        y = qd.field(qd.f64, shape=(), needs_grad=True)
        x.fill(0.5)

        @qd.kernel
        def late(n: int):
            for i in range(1):
                v = qd.Vector([x[0], x[1], x[2], x[3]])
                for j in range(5, n):
                    v = qd.sin(v) * j
                y[None] += v.sum()

        late(end)
        y.grad[None] = 1
        late.grad(end)
        found.append(x.grad.to_numpy())
    np.testing.assert_allclose(*found, rtol=1e-13)
