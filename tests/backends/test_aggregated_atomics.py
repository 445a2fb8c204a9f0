"""Aggregated atomics: threads of a warp that change the same element combine their values first."""

from typing import Any

import numpy as np
import pytest
from rigs import apart
from sessions import sessions, skips

import quadrants_lab as qd

N, CELLS = 5_000, 1 << 13
PLACES = {
    "one": np.full(N, 517),
    "rows": np.arange(N) // 96,
    "few": np.random.default_rng(1).integers(0, 3, N),
    "neighbours": np.arange(N),
    "any": np.random.default_rng(2).integers(0, CELLS, N),
}


@pytest.fixture(params=[*sessions("cpu", "cuda", "vulkan"), pytest.param("apart", marks=skips("vulkan"), id="apart")])
def session(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    apart.start(request.param, monkeypatch)
    yield
    qd.reset()


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_sums(session: None, places: str, dtype: str) -> None:
    """Sums at indices from data, in rows of these, under a condition, and into one element for all threads."""
    check_sums(places, getattr(qd, dtype), qd.field)


def test_sums_in_an_ndarray(session: None) -> None:
    """Elements of an ndarray have row-major numbers of 64 bits."""
    check_sums("few", qd.f32, qd.ndarray)


def check_sums(places: str, t: Any, make: Any) -> None:
    at, x, y = qd.field(qd.i32, N), qd.field(t, N), make(t, (CELLS, 2))
    at.from_numpy(PLACES[places].astype(np.int32))
    x.from_numpy(np.arange(N).astype(t.numpy) % 7)

    @qd.kernel
    def add(y: qd.Tensor):
        for i in range(N):
            y[at[i], 0] += x[i]
            if i % 3 == 0:
                y[at[i], 1] += x[i]
            for j in range(i % 4):
                y[j, 1] -= 1

    add(y)
    want = np.zeros((CELLS, 2))
    values = np.arange(N) % 7
    np.add.at(want[:, 0], PLACES[places], values)
    np.add.at(want[:, 1], PLACES[places][::3], values[::3])
    want[:3, 1] -= [np.count_nonzero(np.arange(N) % 4 > j) for j in range(3)]
    assert np.array_equal(y.to_numpy(), want)


def test_gradient_of_a_gather(session: None) -> None:
    """All threads read the same element in the same trip, so they add to its adjoint together."""
    n = 300
    x, y = (qd.field(qd.f32, n, needs_grad=True) for _ in range(2))

    @qd.kernel
    def distances():
        for i in y:
            s = 0.0
            for j in range(n):
                s += (x[i] - x[j]) ** 2
            y[i] = s

    values = np.random.default_rng(3).random(n)
    x.from_numpy(values.astype(np.float32))
    distances()
    y.grad.fill(1.0)
    distances.grad()
    assert np.allclose(x.grad.to_numpy(), 4 * (n * values - values.sum()), rtol=1e-4, atol=1e-3)


def test_which_atomics_are_aggregated() -> None:
    """Not aggregated are atomics on the thread's own element, and those of a block that need many comparisons."""
    from quadrants_lab.backends.cuda import toolkit

    if toolkit.missing_libdevice():
        pytest.skip("no math library of CUDA")
    qd.init(arch=qd.cpu, offline_cache=False)
    at, x, y = qd.field(qd.i32, N), qd.field(qd.f32, N), qd.field(qd.f32, N)

    @qd.kernel
    def scatter():
        for i in range(N):
            y[at[i]] += x[i]

    @qd.kernel
    def rows():
        for i, j in qd.ndrange(50, 100):
            y[i] += x[100 * i + j]

    @qd.kernel
    def stencil():
        for i in range(1, N):
            y[i] += x[i]
            y[i - 1] += x[i]

    @qd.kernel
    def pairs():
        for i, j in qd.ndrange(N // 2, 2):
            y[i] += x[2 * i + j]

    @qd.kernel
    def particles():
        for i in range(N):
            for a in qd.static(range(9)):
                y[at[i] + a] += x[i]

    @qd.kernel
    def unrelated():
        for i in range(N):
            for a in qd.static(range(9)):
                y[at[(i + a) % N]] += x[i]

    expected = (
        (scatter, True), (rows, True), (stencil, False), (pairs, False), (particles, True), (unrelated, False),
    )  # fmt: skip
    for kernel, aggregated in expected:
        kernel()
        comparisons = str(kernel.code("ptx")).count("match.all.sync")
        assert bool(comparisons) is aggregated
        assert comparisons < 9


def test_particles_in_one_cell(session: None) -> None:
    """The cells around a particle share the comparison, and neighbours that are in other cells add alone."""
    at, x, y = qd.field(qd.i32, (N, 2)), qd.field(qd.f32, N), qd.field(qd.f32, (40, 40))

    @qd.kernel
    def particles():
        for i in x:
            bx, by = at[i, 0], at[i, 1]
            for a, b in qd.static(qd.ndrange(3, 3)):
                y[bx + a, by - b] += x[i] * (a + 1)

    rng = np.random.default_rng(0)
    for cells in (np.full((N, 2), 7), rng.integers(2, 37, (N, 2)), np.arange(N)[:, None] // 200 + [0, 2]):
        at.from_numpy(cells.astype(np.int32))
        x.from_numpy(rng.integers(0, 9, N).astype(np.float32))
        y.fill(0)
        particles()
        want = np.zeros((40, 40))
        for a, b in np.ndindex(3, 3):
            np.add.at(want, (cells[:, 0] + a, cells[:, 1] - b), x.to_numpy() * (a + 1))
        assert np.array_equal(y.to_numpy(), want)
