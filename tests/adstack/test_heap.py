"""Bytes of the adstack heap on each backend: the documented formula, gates that few iterations pass, the budget."""

import numpy as np
import pytest
from adstack.test_edges import ARCHES, ended, start  # noqa: F401  # a fixture
from oracle.sines import sines
from programs.deep import define

import quadrants_lab as qd
from quadrants_lab.runtime import session

SLOT = {"u1": 4, "f32": 4, "u8": 1}


def made(text: str, n: int = 64):
    x, y = qd.field(qd.f32, n, needs_grad=True), qd.field(qd.f32, n, needs_grad=True)
    g = qd.field(qd.i32, n)
    x.from_numpy(np.linspace(0.1, 0.9, n, dtype=np.float32))
    y.grad.fill(1)
    return define(text, x=x, y=y, g=g)["k"], x, g


def frame_of(kernel):
    return kernel.grad.dispatcher.last.frame


TWO_TASKS = """
@qd.kernel
def k(n: qd.i32):
    for i in x:
        v = x[i]
        c = i % 7
        for j in range(n):
            if v > 0.5:
                v = v * v
            c = (c * 5 + j) % 60
            v = v * (1.0 + 0.1 * x[c])
        y[i] += v
    for i in x:
        v = x[i]
        for _ in range(2 * n):
            v = qd.sin(v)
        y[i] += v
"""


@pytest.mark.parametrize("arch", ARCHES)
def test_the_heap_is_what_the_formula_says(arch) -> None:
    for n in (0, 1, 33, 200):
        start(arch, cpu_max_num_threads=3)
        k, _, _ = made(TWO_TASKS)
        k.grad(n)
        rows = k.sizes()
        tasks = [[], []]
        for r in rows:
            tasks[r.line > 12].append(max(r.bytes_per_lane, SLOT[r.dtype]))
        assert len(tasks[0]) >= 3
        assert len(tasks[1]) == 1
        line = 64 if arch == "cpu" else 1
        lane = max(sum(-(-b // line) * line for b in t) for t in tasks)
        frame = frame_of(k)
        assert frame.stack_bytes() == lane
        assert frame.stack_threads % {"cpu": 3, "wasm": 1}.get(arch, 64) == 0
        assert session.current().device.heap_bytes == lane * frame.stack_threads
        assert rows.launch_bytes == lane * frame.stack_threads
        assert rows.lanes == frame.stack_threads


GATED = """
@qd.kernel
def k(n: qd.i32):
    for i in x:
        if g[i] > 0 and x[i] > 0.2:
            v = x[i]
            for _ in range({trips}):
                v = qd.sin(v)
            if x[i] > 0.3:
                y[i] += v * x[i]
"""


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("trips", ["n", "37"])
def test_a_gate_sizes_the_heap_for_those_that_pass(arch, trips) -> None:
    start(arch, ad_stack_sparse_threshold_bytes=0)
    size = 4096
    k, x, g = made(GATED.format(trips=trips), size)
    a = x.to_numpy().astype(np.float64)
    for count in (0, 1, 70, size, 65):
        g.from_numpy((np.arange(size) >= size - count).astype(np.int32))
        x.grad.fill(0)
        k.grad(37)
        v, d = sines(a, 37)
        want = np.where((np.arange(size) >= size - count) & (a > 0.3), d * a + v, 0)
        np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=2e-5, atol=1e-6)
        if arch in ("cpu", "wasm"):  # where hardly more iterations are in flight than there are threads
            continue
        passing = np.count_nonzero((np.arange(size) >= size - count) & (a > 0.2))
        frame = frame_of(k)
        full = frame.heap_bytes([37])
        most = max(64, -(-passing // 64) * 64)
        assert frame.stack_threads <= max(most, 64) or frame.device.loop_limit
        assert k.sizes().launch_bytes == min(full, frame.stack_threads * 37 * 4)
        if count <= 70 and not frame.device.loop_limit:
            assert k.sizes().launch_bytes == most * 37 * 4 < full


@pytest.mark.parametrize("arch", ARCHES)
def test_below_the_threshold_nothing_is_counted(arch) -> None:
    start(arch)
    k, _, g = made(GATED.format(trips="n"), 4096)
    g.fill(0)
    k.grad(37)
    assert k.grad.dispatcher.last.stacks.active == {}


@pytest.mark.parametrize("arch", ARCHES)
def test_a_budget_is_kept_to_the_byte(arch) -> None:
    start(arch, cpu_max_num_threads=2)
    k, x, g = made(GATED.format(trips="n"), 4096)
    g.fill(1)
    k.grad(1000)
    want, (lanes, least) = x.grad.to_numpy(), frame_of(k).least_heap([1000])
    assert least == lanes * (4032 if arch == "cpu" else 4000)
    start(arch, cpu_max_num_threads=2, ad_stack_budget_bytes=least)
    k, x, g = made(GATED.format(trips="n"), 4096)
    g.fill(1)
    for n in (700, 1000):  # the heap would double
        x.grad.fill(0)
        k.grad(n)
        assert session.current().device.heap_bytes <= least
    np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=1e-5)
    with pytest.raises(qd.QuadrantsRuntimeError, match=rf"needs \d+ bytes of adstacks .* allows {least}"):
        k.grad(1009)  # a cache line more
    x.grad.fill(0)
    k.grad(1000)
    np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", ["ndarray", "torch"])
def test_arguments_reach_whichever_kernel_runs(arch, kind) -> None:
    """Launches on both sides of the threshold, with arrays of ours and of others, and a Tape."""
    start(arch, fast_math=False)  # so many sines add up what approximate ones are off by
    size = 256

    @qd.kernel
    def k(x: qd.types.ndarray(dtype=qd.f32, ndim=1), g: qd.types.ndarray(dtype=qd.i32, ndim=1), n: qd.i32,
          y: qd.types.ndarray(dtype=qd.f32, ndim=1)):  # fmt: skip
        for i in x:
            if g[i] > 0:
                v = x[i]
                for _ in range(n):
                    v = qd.sin(v)
                y[i] += v * x[i]

    a = np.linspace(0.1, 0.9, size, dtype=np.float32)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        if arch == "cuda":
            pytest.skip("tensors on the CPU")
        x, y = torch.tensor(a, requires_grad=True), torch.zeros(size, requires_grad=True)
        x.grad, y.grad = torch.zeros(size), torch.ones(size)
        g = torch.zeros(size, dtype=torch.int32)
        seed, take = lambda: x.grad.zero_(), lambda: x.grad.numpy().copy()
    else:
        x, y = qd.ndarray(qd.f32, size, needs_grad=True), qd.ndarray(qd.f32, size, needs_grad=True)
        x.from_numpy(a)
        y.grad.fill(1)
        g = qd.ndarray(qd.i32, size)
        seed, take = lambda: x.grad.fill(0), lambda: x.grad.to_numpy()

    def put(values) -> None:
        if kind == "torch":
            g.copy_(torch.tensor(values))
        else:
            g.from_numpy(values)

    apart = set()
    for n, step in ((3, 5), (60, 5), (60, 90), (4, 1), (90, 1), (90, 300), (2, 300)):
        values = (np.arange(size) % step == 0).astype(np.int32)
        put(values)
        seed()
        k.grad(x, g, n, y)
        plan = k.grad.dispatcher.last
        apart.add(bool(plan.stacks.active))
        plan.stacks.compacted.threshold = plan.stacks.whole[0].heap_bytes([20])
        v, d = sines(a, n)
        np.testing.assert_allclose(take(), np.where(values > 0, d * a + v, 0), rtol=3e-5, atol=1e-6)
    assert apart == ({False} if arch == "cpu" else {False, True})


@pytest.mark.parametrize("arch", ARCHES)
def test_a_heap_that_could_not_grow_is_there_for_those_that_it_sufficed(arch, monkeypatch) -> None:
    start(arch)
    small, x, g = made(GATED.format(trips="n"))
    large, _, g2 = made(GATED.format(trips="n + 1"))
    g.fill(1)
    g2.fill(1)
    small.grad(5)
    expected = x.grad.to_numpy()
    large.grad(5)
    device = session.current().device
    allocate, left = device.allocate, [MemoryError("none left")]

    def fails_once(*args):
        if left:
            raise left.pop()
        return allocate(*args)

    before = device.heap_bytes
    with monkeypatch.context() as patch:
        patch.setattr(device, "allocate", fails_once)
        with pytest.raises(MemoryError):
            large.grad(10000)
    assert (device.heap_bytes, left) == (before, [])
    for n in (5, 10000):
        x.grad.fill(0)
        small.grad(5)
        assert (x.grad.to_numpy() == expected).all()
        large.grad(n)
    assert device.heap_bytes > before
