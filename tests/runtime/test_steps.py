"""The stepper's iterations: they add up to what the launch did, on what it was given, and bad wishes are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.interpret import interpreter_trace as steps
from quadrants_lab.runtime.interpret.interpreter_trace import Walk, walk_iteration
from quadrants_lab.runtime.record.records import LaunchRecord, recording


def recorded(launch: Any, *kernels: Any) -> list[LaunchRecord]:
    with recording() as recorder:
        launch()
    return [r for r in recorder.records() if r.plan.owner in [k.dispatcher for k in kernels]]


def walked(record: LaunchRecord, task: int, lane: tuple[int, ...] | None = None, **how: Any) -> Walk:
    caps = {row.stack: row.depth for row in record.report}
    return walk_iteration(
        record.plan.kernel, record.plan.scalars(record.args), record.inputs, task, lane, caps, **how
    )


def wave() -> tuple[Any, LaunchRecord]:
    """A loop with an if, over a grid; its gradient was launched."""
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
    monkeypatch.setattr(steps, "MOST_EVENTS", 10)
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
    monkeypatch.setattr(steps, "MOST_BEFORE", 20)
    with pytest.raises(QuadrantsRuntimeError, match="run more than 20 statements"):
        walked(record, last, (3,))


def test_random_numbers_are_those_of_the_launch() -> None:
    qd.init(arch=qd.cpu, random_seed=7)
    x = qd.field(qd.f32, shape=6)

    @qd.kernel
    def draw():
        for i in x:
            x[i] = qd.random() + qd.random()

    (record,) = recorded(draw, draw)
    for i in range(6):
        (store,) = (e for e in walked(record, 0, (i,), random=(7, record.draws)).events if isinstance(e.stmt, N.Store))
        assert store.value == x[i]
