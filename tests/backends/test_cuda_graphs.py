"""Launches by CUDA graphs: repeated launches, and kernels with graph=True."""

from typing import Any

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.backends._simt.executable import AFTER, GraphCache
from quadrants_lab.backends.cuda import driver

session = session_of(sessions("cuda"))


def graphs_of(kernel: Any) -> Any:
    return kernel.dispatcher.last.frame._graphs


def test_launches_that_repeat_become_a_graph():
    x = qd.field(qd.i32, shape=10)

    @qd.kernel
    def add(by: qd.i32):
        for i in x:
            x[i] += by
        for i in x:
            x[i] += 1

    for _ in range(AFTER + 5):
        add(1)
    assert graphs_of(add).made == 1
    assert x[9] == 2 * (AFTER + 5)
    x.fill(0)
    for by in range(5):
        add(by)
    assert x[9] == 15
    for _ in range(AFTER + 5):
        add(3)
    add(1)
    assert x[9] == 15 + 4 * (AFTER + 5) + 2
    assert graphs_of(add).made == 1


def test_draws_differ_from_launch_to_launch():
    x = qd.field(qd.f32, shape=())
    @qd.kernel(graph=True)
    def draw():
        x[None] = qd.random()
    seen = set()
    for _ in range(AFTER + 5):
        draw()
        seen.add(x[None])
    assert len(seen) == AFTER + 5


def test_returned_values_of_a_graph():
    x = qd.field(qd.f32, shape=4)
    x.fill(1.5)
    @qd.kernel
    def total() -> qd.f32:
        s = 0.0
        for i in x:
            s += x[i]
        return s
    assert {total() for _ in range(AFTER + 5)} == {6.0}
    x[0] = 0.0
    assert total() == 4.5
    assert graphs_of(total).made == 1


def test_a_failure_in_a_graph():
    qd.init(arch=qd.cuda, simulate=True, enable_fallback=False, offline_cache=False, debug=True)
    x = qd.field(qd.i32, shape=4)
    @qd.kernel(graph=True)
    def divide():
        for i in x:
            assert x[i] >= 0, "negative"
    divide()
    x[2] = -1
    with pytest.raises(AssertionError, match="negative"):
        divide()
    x[2] = 0
    for _ in range(3):
        divide()


def test_a_kernel_that_asks_for_it_is_a_graph_from_the_first_launch_on():
    @qd.kernel(graph=True)
    def step(x: qd.types.ndarray(), y: qd.types.ndarray(), by: qd.f32):
        for i in range(x.shape[0]):
            x[i] = x[i] + by
        for i in range(y.shape[0]):
            y[i] = y[i] + 2.0
    x, y, z = (qd.ndarray(qd.f32, shape=(n,)) for n in (10, 10, 10))
    step(x, y, 1.0)
    step(x, y, 3.0)
    step(z, y, 0.5)
    assert (x[9], y[9], z[9]) == (4.0, 6.0, 0.5)
    assert graphs_of(step).made == 1
    step(qd.ndarray(qd.f32, shape=(100_000,)), y, 1.0)  # more groups: another graph
    assert graphs_of(step).made == 2


def powers(x: qd.template(), y: qd.template(), n: qd.template()):
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = v * x[i]
        y[i] = v


def test_with_stacks_their_capacity_is_the_graphs():
    """A change of the depth makes a new graph."""
    x, y = (qd.field(qd.f32, shape=20, needs_grad=True) for _ in range(2))
    n = qd.field(qd.i32, shape=())

    power = qd.kernel(graph=True)(powers)
    x.fill(1.0)
    for trips in (3, 3, 1, 200, 5):
        n[None] = trips
        y.grad.fill(1.0)
        x.grad.fill(0)
        power(x, y, n)
        power.grad(x, y, n)
        assert x.grad.to_numpy().tolist() == [trips + 1.0] * 20, trips
    assert graphs_of(power.grad).always
    made = graphs_of(power.grad).made
    power.grad(x, y, n)
    power.grad(x, y, n)
    assert graphs_of(power.grad).made == made


def test_what_is_refused():
    @qd.kernel(graph=True)
    def returns() -> qd.f32:
        return 1.0
    with pytest.raises(RuntimeError, match=r"(?s)QL3020.*graph=True.*return"):
        returns()
    @qd.kernel(graph=True)
    def add(x: qd.types.ndarray()):
        for i in range(x.shape[0]):
            x[i] += 1
    with pytest.raises(RuntimeError, match=r"(?s)QL3021.*'x'.*qd.ndarray"):
        add(np.zeros(3, np.float32))


def test_out_of_memory_of_a_graph_leaves_nothing_behind():
    device = driver.current()
    if not hasattr(device, "graphs"):
        pytest.skip("there is a device")
    before = device.used
    for _ in range(3):
        qd.init(arch=qd.cuda, simulate=True, enable_fallback=False, offline_cache=False)
        x = qd.field(qd.i32, shape=10)
        @qd.kernel(graph=True)
        def add(x: qd.template()):
            for i in x:
                x[i] += 1
        add(x)
        assert x[3] == 1
    qd.reset()
    assert device.used <= before + (1 << 20)


def test_a_graph_whose_update_was_interrupted_is_updated_before_its_next_launch():
    class Graph:
        updates = 0

        def update(self) -> None:
            self.updates += 1
            if self.updates == 1:
                raise KeyboardInterrupt

    graph = Graph()
    graphs = GraphCache(lambda: graph)
    graphs.always = True
    assert graphs.graph(b"1") is graph
    with pytest.raises(KeyboardInterrupt):
        graphs.graph(b"2")
    assert graphs.graph(b"1") is graph
    assert graph.updates == 2


def test_memory_that_is_freed_during_a_capture_is_no_part_of_the_graph():
    """The garbage collector may free memory at any time."""
    device = driver.current()
    device.enter()
    words, other = np.zeros(4, np.uint8), device.allocate(4)
    address = device.allocate(4)
    device.fill(address, b"\1", 4)

    def run() -> None:
        device.fill(address, b"\2", 2)
        device.free(other)
        device.fill(address + 2, b"\3", 1)

    def content() -> list[int]:
        device.download(words.ctypes.data, address, 4)
        return words.tolist()

    graph = device.graph(run)
    assert content() == [1, 1, 1, 1]
    for _ in range(2):
        graph.launch()
        assert content() == [2, 2, 3, 1]
        device.fill(address, b"\1", 4)
    device.free(address)


@pytest.mark.parametrize("many", [False, True])
def test_depths_that_do_not_suffice_are_noticed_when_somebody_waits(many):
    """Gradients are asynchronous because their depths are computed. After the error, the next gradient is right."""
    x, y = (qd.field(qd.f32, shape=20, needs_grad=True) for _ in range(2))
    n = qd.field(qd.i32, shape=())

    power = qd.kernel(powers)
    def gradient() -> list[float]:
        y.grad.fill(1.0)
        x.grad.fill(0)
        power(x, y, n)
        power.grad(x, y, n)
        return x.grad.to_numpy().tolist()

    x.fill(1.0)
    n[None] = 5
    for _ in range(2 * AFTER if many else 2):
        assert gradient() == [6.0] * 20
    plan = power.grad.dispatcher.last
    plan.frame.set_stacks([2] * len(plan.stacks.depths))
    power.grad(x, y, n)
    power.grad(x, y, n)
    with pytest.raises(AssertionError, match=r"(?s)QL2073.*'v' holds 2, 5 were needed"):
        qd.sync()
    qd.sync()
    plan.stacks.last_dependencies = None
    for _ in range(3):
        assert gradient() == [6.0] * 20


def test_a_program_and_its_gradients_are_one_graph_each():
    x, y, z = (qd.field(qd.f32, 8, needs_grad=True) for _ in range(3))
    loss = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def square(x: qd.template(), y: qd.template()):
        for i in x:
            y[i] = x[i] * x[i]

    @qd.kernel
    def total():
        for i in z:
            loss[None] += z[i]

    @qd.ad.program
    def run() -> None:
        square(x, y)
        square(y, z)
        total()

    def asked() -> tuple[int, int]:
        device = driver.stand_in()
        return (0, 0) if device is None else (device.graph_launches, device.launches)

    graphs, started = asked()
    for seed in range(6):
        x.from_numpy(np.random.default_rng(seed).uniform(0.5, 1, 8).astype(np.float32))
        run()
        assert np.allclose(z.to_numpy(), x.to_numpy() ** 4, rtol=1e-5)
    if driver.stand_in() is not None:
        assert asked() == (graphs + 3, started + 3 * 3 + 3)  # it counts what is captured, too
    for seed in range(6):
        x.from_numpy(np.random.default_rng(seed).uniform(0.5, 1, 8).astype(np.float32))
        graphs, started = asked()
        with qd.ad.Tape(loss):
            run()
        assert np.allclose(x.grad.to_numpy(), 4 * x.to_numpy() ** 3, rtol=1e-5)
    if driver.stand_in() is not None:
        assert asked()[0] == graphs + 1


def test_a_launch_and_the_copy_of_what_it_overwrites_are_one_graph():
    x, y, c = (qd.field(qd.f32, 8, needs_grad=True) for _ in range(3))
    loss = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def step(x: qd.template(), y: qd.template(), s: qd.f32):
        for i in x:
            x[i] += s * c[i] * y[i] * y[i]

    @qd.kernel
    def total():
        for i in x:
            loss[None] += x[i]

    for run, s in enumerate([1.0] * 7 + [2.0] * 7 + [1.0, 2.0] * 2):
        x0, y0, k = np.random.default_rng(run).uniform(0.5, 1, (3, 8)).astype(np.float32)
        for field, values in ((x, x0), (y, y0), (c, k)):
            field.from_numpy(values)
        device = driver.stand_in()
        before = None if device is None else (device.graph_launches, device.launches)
        with qd.ad.Tape(loss):
            for one, other in ((x, y), (y, x), (x, y)):
                step(one, other, s)
            total()
        if before is not None and run in (6, 13):
            assert (device.graph_launches - before[0], device.launches - before[1]) == (2 + 1, 2)
        x1 = x0 + s * k * y0**2
        y1 = y0 + s * k * x1**2
        by_y1 = 2 * s * k * y1
        by_x1 = 1 + by_y1 * 2 * s * k * x1
        np.testing.assert_allclose(x.to_numpy(), x1 + s * k * y1**2, rtol=1e-5)
        np.testing.assert_allclose(x.grad.to_numpy(), by_x1, rtol=1e-5)
        np.testing.assert_allclose(y.grad.to_numpy(), by_y1 + by_x1 * 2 * s * k * y0, rtol=1e-5)
        np.testing.assert_allclose(c.grad.to_numpy(), s * (y1**2 + by_y1 * x1**2 + by_x1 * y0**2), rtol=1e-5)
