"""Gradients at the edges of what sizes can be: huge, empty, aliased, forced, failed."""

import numpy as np
import pytest
from oracle.sines import slopes
from sessions import ended, skips  # noqa: F401  # a fixture

import quadrants_lab as qd

ARCHES = [pytest.param(a, marks=skips(a)) for a in ("cpu", "cuda", "vulkan", "metal", "wasm")]
pytestmark = pytest.mark.parametrize("arch", ARCHES)
TRIPS = qd.types.ndarray(dtype=qd.i32, ndim=1)


def start(arch: str, **options) -> None:
    qd.init(arch=getattr(qd, arch), enable_fallback=False, simulate=True, offline_cache=False, **options)


def fields(n: int = 4):
    x, y = qd.field(qd.f32, n, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(np.linspace(0.2, 0.9, n, dtype=np.float32))
    y.grad[None] = 1
    return x, y


def gradient(kernel, x, *args) -> np.ndarray:
    x.grad.fill(0)
    kernel.grad(*args)
    return x.grad.to_numpy()


def test_depths_beyond_64_bits_are_an_error_and_the_next_launch_is_right(arch) -> None:
    start(arch)
    x, y = fields()
    n = qd.field(qd.i32, ())

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                for _ in range(n[None]):
                    for _ in range(n[None]):
                        v = qd.sin(v)
            y[None] += v

    for _ in range(2):
        n[None] = 2**31 - 1
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"bytes of adstacks .* nothing was launched"):
            k.grad()
        n[None] = 2
        np.testing.assert_allclose(gradient(k, x), slopes(x.to_numpy(), 8), rtol=1e-5)
        n[None] = 2**21 + 5  # its cube fits into 64 bits only as an unsigned number, with the bytes not at all
        with pytest.raises(qd.QuadrantsRuntimeError, match="nothing was launched"):
            k.grad()
    assert k.sizes()[0].depth in (2**63 - 1, (2**21 + 5) ** 3)


def test_empty_arrays_and_boxes(arch) -> None:
    start(arch)
    x, y = fields()
    m = qd.field(qd.i32, ())

    @qd.kernel
    def k(a: TRIPS, lo: qd.i32, hi: qd.i32):
        for i in range(lo, hi):
            v = x[i]
            for j in range(a.shape[0]):
                for _ in range(a[j]):
                    v = qd.sin(v)
            y[None] += v
        for i, j in qd.ndrange((lo, hi), m[None]):
            w = x[i]
            for _ in range(a.shape[0] + i * j):
                w = qd.sin(w)
            y[None] += w

    def want(a: np.ndarray, lo: int, hi: int) -> np.ndarray:
        d = np.zeros(4)
        for i in range(lo, hi):
            here = x.to_numpy()[i : i + 1]
            d[i] += slopes(here, sum(max(0, t) for t in a))[0]
            for j in range(m[None]):
                d[i] += slopes(here, len(a) + i * j)[0]
        return d

    some, none = np.array([2, -1, 3], np.int32), np.zeros(0, np.int32)
    for boxes in (0, 3, -2):
        m[None] = boxes
        for a, lo, hi in ((some, 0, 4), (none, 0, 4), (some, 2, 2), (none, 3, 1), (some, 1, 3)):
            np.testing.assert_allclose(gradient(k, x, a, lo, hi), want(a, lo, hi), rtol=1e-5)


def test_the_same_array_for_two_bounds(arch) -> None:
    start(arch)
    x, y = fields()

    @qd.kernel
    def k(a: TRIPS, b: TRIPS):
        for i in x:
            v = x[i]
            for _ in range(a[i]):
                for _ in range(b[a[i] % 4]):
                    v = qd.sin(v)
            y[None] += v

    a = np.array([3, 0, 2, 1], np.int32)
    for b in (a, a.copy(), a[::-1].copy(), a):
        np.testing.assert_allclose(gradient(k, x, a, b), slopes(x.to_numpy(), a * b[a % 4]), rtol=1e-5)
    ours = qd.ndarray(qd.i32, 4)
    ours.from_numpy(a)
    np.testing.assert_allclose(gradient(k, x, ours, ours), slopes(x.to_numpy(), a * a[a % 4]), rtol=1e-5)


def test_a_bound_that_the_kernel_writes(arch) -> None:
    """The gradient runs as many trips as the launch ran."""
    start(arch)
    x, y = fields()
    m, n = qd.field(qd.i32, 4), qd.field(qd.i32, 4)

    @qd.kernel
    def behind():
        for i in x:
            v = x[i]
            for _ in range(m[i]):
                v = qd.sin(v)
            m[i] = m[i] + 1
            y[None] += v

    @qd.kernel
    def later():
        for i in x:
            v = x[i]
            for _ in range(m[n[i]]):
                v = qd.sin(v)
            y[None] += v
        for i in n:
            n[i] = 0

    @qd.kernel
    def in_the_loop():
        for i in x:
            v = x[i]
            while v > -2.0 and m[i] > 0:
                v = qd.sin(v)
                m[i] -= 1
            y[None] += v

    counts = np.array([3, 0, 2, 5], np.int32)
    for kernel in (behind, later, in_the_loop):
        for trips in (counts, counts[::-1].copy(), counts):
            m.from_numpy(trips)
            n.from_numpy(np.arange(4, dtype=np.int32))
            kernel()
            left = m.to_numpy(), n.to_numpy()
            np.testing.assert_allclose(gradient(kernel, x), slopes(x.to_numpy(), trips), rtol=1e-5)
            assert np.array_equal(m.to_numpy(), left[0])
            assert np.array_equal(n.to_numpy(), left[1])

    @qd.kernel
    def before():
        for i in m:
            m[i] = i + 1
        for i in x:
            v = x[i]
            for _ in range(m[i]):
                v = qd.sin(v)
            y[None] += v

    before()  # what it reads is what is there afterwards
    np.testing.assert_allclose(gradient(before, x), slopes(x.to_numpy(), np.arange(4) + 1), rtol=1e-5)


def wandering(x, y):
    @qd.kernel
    def wander(a: TRIPS):
        for i in x:
            v = x[i]
            c = i
            for j in range(a[i]):
                if v > 0.5:
                    v = v * v
                c = (c * 5 + j) % 4
                v = qd.sin(v) * x[c]
            y[None] += v

    return wander


def test_a_forced_size_overflows_and_the_next_launch_is_right(arch) -> None:
    start(arch, ad_stack_size=5)
    x, y = fields()
    kernel = wandering(x, y)
    def ours(a):
        return gradient(kernel, x, np.array(a, np.int32))
    want = ours([5, 0, 3, 1])
    for a in ([6, 0, 3, 1], [0, 0, 0, 7], [10_000, 5, 5, 5]):
        with pytest.raises(qd.QuadrantsAssertionError, match=f"holds 5, {max(a)} were needed; .grad is partial") as e:
            ours(a)
        assert "ad_stack_size=5 forces" in str(e.value)
        np.testing.assert_allclose(ours([5, 0, 3, 1]), want, rtol=1e-6)
    start(arch)
    x, y = fields()
    np.testing.assert_allclose(gradient(wandering(x, y), x, np.array([5, 0, 3, 1], np.int32)), want, rtol=1e-5)


def test_tasks_with_stacks_of_other_sizes_and_nested_gates(arch) -> None:
    start(arch, ad_stack_sparse_threshold_bytes=0)
    size = 300
    x, y = fields(size)
    g, m = qd.field(qd.i32, size), qd.field(qd.i32, ())

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(m[None]):
                v = qd.sin(v)
            y[None] += v
        for i in x:
            v = x[i]
            if g[i] > 0:
                if g[i] > 1:
                    for _ in range(20 * m[None]):
                        v = qd.sin(v)
                else:
                    if i < 200:
                        for _ in range(3):
                            v = qd.sin(v)
                y[None] += v
        for i in range(2):
            v = x[i]
            if g[0] == 7:
                for _ in range(g[i]):
                    v = qd.sin(v)
            y[None] += v

    a, at = x.to_numpy(), np.arange(size)
    for step in (7, 1, 150):
        values = np.where(at % step == 0, 2, at % 2).astype(np.int32)
        values[0] = 7 if step == 1 else 2
        g.from_numpy(values)
        m[None] = 1 + step % 5
        deep = np.where(values > 1, 20 * m[None], np.where(at < 200, 3, 0))
        want = slopes(a, m[None]) + np.where(values > 0, slopes(a, np.where(values > 0, deep, 0)), 0)
        last = values[:2] if values[0] == 7 else np.zeros(2, int)
        want[:2] += slopes(a[:2], last)
        np.testing.assert_allclose(gradient(k, x), want, rtol=2e-5)
