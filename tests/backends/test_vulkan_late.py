"""Asynchronous launches on Vulkan: their order, their words, and failures that are raised later."""

import gc
from typing import Any

import numpy as np
import pytest
from child import Worker
from conformance.tasks import stacked
from rigs.vulkan_rig import device, fresh, load

import quadrants_lab as qd
from quadrants_lab.backends.vulkan import queue
from quadrants_lab.backends.vulkan.executable import Slot
from quadrants_lab.backends.vulkan.memory import MAPPED, Pool
from quadrants_lab.runtime.session import current

COUNT = 3 * queue.MOST + 5  # more than fit a submission and the slots that there are at a time


@pytest.fixture
def session() -> Any:
    qd.init(arch=qd.vulkan)
    yield
    qd.reset()


@pytest.fixture
def adder(session: None) -> Any:
    """A field, and a kernel that adds to it."""
    x = qd.field(qd.i32, ())

    @qd.kernel
    def add(n: qd.i32):
        x[None] += n

    return x, add


def test_arguments_of_launches_on_their_way(session: None) -> None:
    x = qd.field(qd.i32, COUNT)
    @qd.kernel
    def put(at: qd.i32, value: qd.i32):
        x[at] = value
    for n in range(COUNT):
        put(n, n * n)
    assert x.to_numpy().tolist() == [n * n for n in range(COUNT)]


def test_launches_run_in_order_and_are_seen_by_every_way_to_look(session: None) -> None:
    x, y = qd.field(qd.f32, 64), qd.field(qd.f32, ())

    @qd.kernel
    def double():
        for i in x:
            x[i] = 2 * x[i]

    @qd.kernel
    def add():
        for i in x:
            y[None] += x[i]

    @qd.kernel
    def answer() -> qd.f32:
        return y[None]

    for look in (lambda: y[None], lambda: float(y.to_numpy()), answer, lambda: np.asarray(y).item()):
        x.fill(1)
        y[None] = 0.0
        for _ in range(20):
            double()
        add()
        assert look() == 64.0 * 2**20


def test_temporaries_of_launches_on_their_way(session: None) -> None:
    """Temporaries of each launch start from zero."""
    x, sums = qd.field(qd.f32, 8), qd.field(qd.f32, COUNT)
    @qd.kernel
    def total(at: qd.i32):
        s = 0.0
        for i in range(8):
            s += x[i]
        sums[at] = s
    x.fill(1)
    for n in range(COUNT):
        total(n)
    assert sums.to_numpy().tolist() == [8.0] * COUNT


def test_memory_is_not_handed_on_while_a_launch_writes_to_it(session: None) -> None:
    def launched() -> None:
        x = qd.field(qd.f32, 4096)
        @qd.kernel
        def fill():
            for i in x:
                x[i] = 1.0
        fill()
    for _ in range(20):
        launched()
        gc.collect()
        assert not qd.field(qd.f32, 4096).to_numpy().any()


def test_memory_that_lies_where_other_memory_was() -> None:
    pool = Pool(device().logical, MAPPED)
    hosts = [pool.take(1 << 20).block.host for _ in range(4)]
    assert [pool.locate(host, 4) for host in hosts] == [0] * 4


def test_memory_is_not_made_while_another_thread_launches(session: None) -> None:
    """An allocation waits for launches, so it takes the session's lock."""
    with current().lock:
        make = Worker(lambda: qd.ndarray(qd.i32, 64))
        make.join(0.3)
        assert make.is_alive()
    make.end()


def test_words_of_a_launch_do_not_lie_where_another_one_still_writes(session: None) -> None:
    @qd.kernel
    def fill(a: qd.types.ndarray(qd.i32, ndim=1)):
        for i in a:
            a[i] = 1
    kept, given_up = qd.ndarray(qd.i32, 64), qd.ndarray(qd.i32, 64)
    fill(kept)
    fill(given_up)
    there, pool = given_up._memory.address, current().device.arrays
    del given_up
    gc.collect()
    pieces = [pool.take(256)]
    qd.sync()
    pieces.append(pool.take(256))
    assert [piece.address == there for piece in pieces] == [False, True]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_was_not_submitted(adder: Any, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    """After Ctrl-C, waiting launches are submitted later; after an error they are dropped and their slots reused."""
    x, add = adder

    def fails(slot: Slot) -> None:
        raise error

    add(1)
    assert x[None] == 1
    with monkeypatch.context() as patch:
        patch.setattr(current().device.logical.queue, "_has_room", lambda: False)
        patch.setattr(queue, "PART", float("inf"))  # on a busy machine a launch seems to be long
        add(1)
        add(2)
        patch.setattr(Slot, "commands", fails)
        with pytest.raises(error):
            qd.sync()
    assert x[None] == (4 if error is KeyboardInterrupt else 1)
    x[None] = 0
    for n in range(COUNT):
        add(n)
    assert x[None] == sum(range(COUNT))


@pytest.mark.parametrize("at", ["its start", "its end"])
def test_ctrl_c_in_the_middle(adder: Any, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """A launch that was started is waited for, and one that has ended is no longer in flight."""
    x, add = adder

    def add_and_wait(n: int) -> None:
        add(n)
        qd.sync()

    add_and_wait(1)
    on_its_way = current().device.logical.queue
    start = on_its_way._start

    def interrupted(*args: Any) -> None:
        if at == "its start":
            start(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((on_its_way, "_start") if at == "its start" else (Slot, "done")), interrupted)
        with pytest.raises(KeyboardInterrupt):
            add_and_wait(2)
    assert on_its_way.running
    assert x[None] == 3
    assert not on_its_way.running
    for n in range(COUNT):
        add(n)
    assert x[None] == 3 + sum(range(COUNT))


def test_an_overflow_is_raised_at_the_next_synchronisation() -> None:
    own = fresh()
    n = 100
    exe = load(stacked("f32", n).replace("{OP}", "add %9, %9").replace("buffer @deep: ret", "buffer @deep: field"))
    frame = exe.frame(own)
    arrays = {"x": np.ones(n, np.float32), "count": np.full(n, 5, np.int32), "y": np.zeros((n, 8), np.float32)}
    arrays["deep"] = np.zeros((), np.int64)
    memories = {name: own.allocate(a.shape, a.dtype) for name, a in arrays.items()}
    for name, a in arrays.items():
        memories[name].write(a)
        frame.set_buffer(name, memories[name].address)
    frame.set_stacks([3])
    told: list[Any] = []

    def report() -> BaseException:
        told.append(frame.failure())
        return RuntimeError("too deep")

    frame.defer_overflow_check(report)
    assert frame.launch() == 0
    with pytest.raises(RuntimeError, match="too deep"):
        own.finish()
    assert [(t.capacity, t.depth) for t in told] == [(3, 5)]
    frame.set_stacks([5])
    assert frame.launch() == 0
    own.finish()
    assert (memories["y"].read()[:, :5] == 2.0 ** np.arange(5)).all()
    assert len(told) == 1


@pytest.mark.skipif(not device().loop_limit, reason="the driver ends no loops")
def test_a_late_failure_keeps_values_set_since_the_launch(session: None) -> None:
    x, y = (qd.field(qd.f64, shape, needs_grad=True) for shape in (8, ()))

    @qd.kernel
    def both(deep: qd.i32, long: qd.i32):
        for i in x:
            v, w = x[i], x[i]
            for _ in range(deep):
                v = qd.sin(v)
            for _ in range(long):
                w = 0.5 * w
            y[None] += v + w

    x.fill(1)
    y.grad[None] = 1.0
    both(100, 1)
    both.grad(100, 1)
    expected = x.grad.to_numpy()
    both.grad(3, 70000)
    both.grad(100, 1)
    with pytest.raises(RuntimeError, match="went round its loops"):
        qd.sync()
    x.grad.fill(0)
    both.grad(100, 1)
    assert (x.grad.to_numpy() == expected).all()
