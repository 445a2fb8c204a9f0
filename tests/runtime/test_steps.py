"""Iterations that the stepper walks through: together they do what the launch did; bad requests are errors."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.interpret import interpreter_trace as steps, partial
from quadrants_lab.runtime.interpret.interpreter_trace import PastState, TraceWindow, trace_iteration
from quadrants_lab.runtime.record import records
from quadrants_lab.runtime.record.launch_data import launch_data
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.runtime.record.records import LaunchRecord


def recorded(launch: Any, *kernels: Any) -> list[LaunchRecord]:
    with recording() as recorder:
        launch()
    return [r for r in recorder.records() if r.plan.owner in [k.dispatcher for k in kernels]]


def walked(record: LaunchRecord, task: int, lane: tuple[int, ...] | None = None, **how: Any) -> TraceWindow:
    assert record.inputs is not None
    return trace_iteration(replace(launch_data(record), before=record.inputs, after={}), task, lane, **how)


def wave() -> tuple[Any, LaunchRecord]:
    """A kernel with a loop and an if, over a grid; its gradient was launched."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x = qd.field(qd.f64, shape=(3, 4), needs_grad=True)
    y = qd.field(qd.f64, shape=(), needs_grad=True)
    x.from_numpy(np.linspace(0.1, 1.2, 12).reshape(3, 4))

    @qd.kernel
    def total(n: int):
        for i, j in x:
            v = x[i, j]
            for _ in range(n + i):
                if v > 0.4:
                    v = qd.sin(v) + 0.1
                else:
                    v = v * v + x[i, 0]
            y[None] += v * (i + 1)

    def launch() -> None:
        total(3)
        y.grad[None] = 1
        total.grad(3)

    (record,) = recorded(launch, total.grad)
    return x, record


def test_all_iterations_together_do_what_the_launch_did() -> None:
    x, record = wave()
    total = np.zeros((3, 4))
    for lane in np.ndindex(3, 4):
        walk = walked(record, 0, lane)
        assert walk.lane == lane
        assert walk.box == (range(3), range(4))
        assert not walk.cut
        for e in walk.events:
            if isinstance(e.stmt, N.Atomic) and e.stmt.buffer == "x.grad":
                total[e.at] += e.operands[0]
    np.testing.assert_allclose(total, x.grad.to_numpy(), rtol=1e-12)


def test_stacks_rise_to_the_depth_that_the_iteration_needs_and_fall_to_nothing() -> None:
    _, record = wave()
    for i in range(3):
        height = top = 0
        for e in walked(record, 0, (i, 2)).events:
            height += isinstance(e.stmt, N.AdStackPush) - isinstance(e.stmt, N.AdStackPop)
            top = max(top, height)
        stacks = len({row.stack for row in record.report})
        assert (top, height) == (stacks * (3 + i), 0)


def test_the_first_iteration_and_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    _, record = wave()
    assert walked(record, 0).lane == (0, 0)
    monkeypatch.setattr(steps, "WINDOW", 10)
    cut = walked(record, 0)
    assert cut.cut
    assert len(cut.events) == 10


@pytest.mark.parametrize("lane", [(3, 0), (-1, 0), (1,), (0, 0, 0)])
def test_an_iteration_that_there_is_not(lane: tuple[int, ...]) -> None:
    _, record = wave()
    with pytest.raises(QuadrantsRuntimeError, match=r"has no iteration .* there are 0 .. 2, 0 .. 3"):
        walked(record, 0, lane)


def test_a_task_reads_what_those_before_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    a, b, y = (qd.field(qd.f64, shape=s, needs_grad=True) for s in (5, 5, ()))
    a.fill(0.5)

    @qd.kernel
    def chain():
        for i in a:
            b[i] = qd.exp(a[i])
        for i in b:
            y[None] += qd.sin(b[i]) * i

    def launch() -> None:
        chain()
        y.grad[None] = 1
        chain.grad()

    (record,) = recorded(launch, chain.grad)
    kept = {name: array.copy() for name, array in record.inputs.items()}
    last = len(record.plan.kernel.body) - 1
    (write,) = (e for e in walked(record, last, (3,)).events if isinstance(e.stmt, N.Atomic))
    np.testing.assert_allclose(write.operands[0], a.grad[3], rtol=1e-12)
    assert a.grad[3] != 0
    assert all((kept[name] == array).all() for name, array in record.inputs.items())


def test_all_iterations_are_repeated_where_indices_do_not_tell_which(monkeypatch: pytest.MonkeyPatch) -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    place, a, b, y = (qd.field(t, shape=s) for t, s in ((qd.i32, 5), (qd.f64, 5), (qd.f64, 5), (qd.f64, ())))
    place.from_numpy(np.array([4, 2, 0, 1, 3]))
    a.from_numpy(np.arange(5.0))

    @qd.kernel
    def scatter():
        for i in a:
            b[place[i]] = qd.exp(a[i])
        for i in b:
            y[None] += b[i] * i
            b[i] = 0.0

    (record,) = recorded(scatter, scatter)
    (write,) = (e for e in walked(record, 1, (3,)).events if isinstance(e.stmt, N.Atomic))
    np.testing.assert_allclose(write.operands[0], 3 * np.exp(4.0), rtol=1e-12)
    monkeypatch.setattr(partial, "MOST_BEFORE", 20)
    with pytest.raises(QuadrantsRuntimeError, match="more than 20 statements"):
        walked(record, 1, (3,))


def test_only_the_needed_iterations_of_a_large_launch_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of a large launch is not copied but read in place, as long as it has not been overwritten."""
    monkeypatch.setattr(records, "HEAD_BYTES", 80)
    monkeypatch.setattr(partial, "MOST_BEFORE", 100)
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    n = 1000
    x, b, c, y = (qd.field(qd.f64, shape=s, needs_grad=True) for s in (n, n + 1, n, ()))
    data = np.linspace(0.1, 1.0, n)
    x.from_numpy(data)
    c.from_numpy(data)

    @qd.kernel
    def chain():
        for i in x:
            b[i + 1] = qd.exp(x[i])
        for i in x:
            y[None] += b[i + 1] * x[i]

    @qd.kernel
    def in_place():
        for i in c:
            c[i] = qd.sin(c[i])

    def launch() -> None:
        in_place()
        chain()
        y.grad[None] = 1
        chain.grad()

    with recording(1000) as recorder:
        launch()
    changed, forward, back = recorder.records()
    assert changed.inputs is forward.inputs is back.inputs is None
    for record, name, want in (
        (forward, "y", data[700] * np.exp(data[700])), (back, "x.grad", np.exp(data[700]) * data[700])
    ):
        walk = trace_iteration(launch_data(record), 1, (700,))
        (write,) = (e for e in walk.events if isinstance(e.stmt, N.Atomic) and e.stmt.buffer == name)
        np.testing.assert_allclose(write.operands[0], want, rtol=1e-12)
    last = len(changed.plan.kernel.body) - 1
    walk = trace_iteration(replace(launch_data(changed), after={}), last, (9,))
    assert [e.value for e in walk.events if isinstance(e.stmt, N.Store) and e.stmt.buffer == "c"] == [np.sin(data[9])]
    with pytest.raises(QuadrantsRuntimeError, match=r"wrote over c\[10\]: .* first 10 elements are kept"):
        trace_iteration(replace(launch_data(changed), after={}), last, (10,))
    x[3] = 0.0
    with pytest.raises(QuadrantsRuntimeError, match="x was written to since the launch"):
        trace_iteration(replace(launch_data(forward), after={}), 0, (9,))


def test_a_window_has_what_events_before_it_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    _, record = wave()
    whole = walked(record, 0, (2, 1))
    monkeypatch.setattr(steps, "WINDOW", 8)
    for n in range(len(whole.events)):
        walk = walked(record, 0, (2, 1), wanted=lambda e, n=n: e.number == n)
        first = walk.events[0].number
        assert [e.number for e in walk.events] == list(range(first, min(max(8, first + 8), len(whole.events))))
        assert walk.found == n
        expected = PastState()
        for e in itertools.islice(whole.events, first):
            expected.take(e)
        kept = expected.events(walk.unseen(0))
        assert [(e.number, e.value) for e in walk.past.events(walk.unseen(0))] == [(e.number, e.value) for e in kept]
    assert walked(record, 0, (2, 1), wanted=lambda e: False).events[-1].number == len(whole.events) - 1


def test_a_walk_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    _, record = wave()
    monkeypatch.setattr(steps, "ASKED_EVERY", 4)
    with pytest.raises(QuadrantsRuntimeError, match="stopped before the step was found"):
        walked(record, 0, wanted=lambda e: False, stop=lambda: True)


def test_random_numbers_are_those_of_the_launch() -> None:
    qd.init(arch=qd.cpu, random_seed=7)
    x = qd.field(qd.f32, shape=6)
    @qd.kernel
    def draw():
        for i in x:
            x[i] = qd.random() + qd.random()
    (record,) = recorded(draw, draw)
    for i in range(6):
        (store,) = (e for e in walked(record, 0, (i,)).events if isinstance(e.stmt, N.Store))
        assert store.value == x[i]
