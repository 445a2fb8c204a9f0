"""Launch records: their contents; outside of a recording nothing is recorded."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.runtime.record import rebuild, recorder as module
from quadrants_lab.runtime.record.recorder import recording

session = session_of(EVERYWHERE)


@qd.kernel
def square(x: qd.template(), y: qd.template(), by: qd.f32):
    for i in x:
        y[None] += by * x[i] * x[i]

@qd.kernel
def shift(a: qd.types.ndarray(dtype=qd.f32, ndim=1)):
    for i in a:
        a[i] += 1.0


def make():
    x = qd.field(qd.f32, 3, needs_grad=True, name="x")
    y = qd.field(qd.f32, (), needs_grad=True, name="y")
    x.from_numpy(np.array([1, 2, 3]))
    return x, y


def test_the_last_launches_are_kept_with_their_data() -> None:
    x, y = make()
    square(x, y, 1.0)
    with recording() as records:
        square(x, y, 5.0)
        x.fill(1)
        square(x, y, 2.0)
        y.grad[None] = 1
        square.grad(x, y, 2.0)
        x.fill(9)
    square(x, y, 2.0)
    forward, gradient = records.records()
    assert (forward.mode, forward.kernel, forward.args[2]) == ("forward", "square", 2.0)
    assert forward.inputs["x"].tolist() == [1, 1, 1]
    assert forward.inputs["y"] == 84
    assert forward.outputs["y"] == 90
    assert (gradient.mode, gradient.outputs["x.grad"].tolist()) == ("reverse", [4, 4, 4])
    assert gradient.inputs["x.grad"].tolist() == [0, 0, 0]
    assert [(n.kernel, n.mode, n.number) for n in records.past] == [("square", "forward", 0)]
    assert records.launches == 3
    assert forward.seconds > 0


def test_foreign_arrays_are_copied_into_the_record() -> None:
    a = np.zeros(2, np.float32)
    with recording() as records:
        shift(a)
    (record,) = records.records()
    a[:] = 7
    assert record.inputs["a"].tolist() == [0, 0]
    assert record.outputs["a"].tolist() == [1, 1]
    assert record.args == ("<numpy float32 (2,)>",)


def test_copies_stay_within_the_limit() -> None:
    a = np.zeros(1000, np.float32)
    with recording(limit=5000) as records:
        shift(a)
    (record,) = records.records()
    assert record.inputs is not None
    assert record.outputs is None
    assert a[0] == 1


def test_earlier_launches_are_kept_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that did not change between two launches is copied once; the oldest records are dropped first."""
    x, y = make()
    big = qd.field(qd.f32, 1000, needs_grad=True)

    @qd.kernel
    def scaled(by: qd.f32):
        for i in x:
            x[i] = x[i] * by + 0.0 * big[i]

    with recording() as records, qd.ad.Tape(y):
        for by in (2.0, 3.0, 4.0):
            scaled(by)
        square(x, y, 1.0)
    forward = [r for r in (*records.past, *records.records()) if r.mode == "forward" and r.kernel == "scaled"]
    assert [r.inputs["x"].tolist() for r in forward] == [[1, 2, 3], [2, 4, 6], [6, 12, 18]]
    assert forward[0].inputs["big"] is forward[1].inputs["big"] is forward[2].inputs["big"]
    back = [r for r in (*records.past, *records.records()) if r.mode == "reverse" and r.kernel == "scaled"]
    assert [r.launch for r in forward] == [1, 2, 3]
    assert [r.launch for r in back] == [3, 2, 1]
    monkeypatch.setattr(rebuild, "PAST_BYTES", 30)
    monkeypatch.setattr(module, "LEAST_SECONDS", 10.0)
    with recording() as records:
        for by in (2.0, 3.0, 4.0, 5.0, 6.0):
            scaled(by)
    assert [r.number for r in records.past] == [2, 3]  # each wrote 12 bytes


def test_a_fast_path_outlives_observers_but_not_what_it_was_made_for() -> None:
    """Otherwise, with a Tape in each step, each path would be made anew in each step."""
    x, y = make()
    square(x, y, 1.0)
    fast = square.dispatcher.call
    with recording():
        with recording():
            square(x, y, 1.0)
        assert square.dispatcher.call == square.dispatcher.resolve
    square(x, y, 1.0)  # takes it again
    assert square.dispatcher.call is fast
    qd.field(qd.f32, 3)
    with recording():
        qd.root.lazy_grad()
    assert square.dispatcher.call == square.dispatcher.resolve
