"""Attributes and lists that change between launches under a Tape, and memory that no launch reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ad.test_tape_between_launches import field, runtime  # noqa: F401  # fixtures

import quadrants_lab as qd


def test_attributes_that_change_between_launches() -> None:
    """Each gradient uses the fields and numbers that were attributes at its launch."""

    @qd.data_oriented
    class Swapped:
        def __init__(self) -> None:
            self.x, self.y, self.loss = field(), field(), field()
            self.weights = [1.0, 0.5]

        @qd.kernel
        def step(self):
            for k in qd.static(range(2)):
                self.y[None] += self.weights[k] * qd.sin(self.x[None])

        @qd.kernel
        def measure(self):
            self.loss[None] += self.x[None]

    s = Swapped()
    for trial in range(3):
        first, value, slope = s.x, 0.3, 1.0
        s.x[None], s.y[None] = value, 0.0
        with qd.ad.Tape(s.loss):
            for weight in (0.5, 0.25 + trial):
                s.weights[1] = weight
                s.step()
                slope *= (1 + weight) * np.cos(value)
                value = (1 + weight) * np.sin(value) + (0.3 if weight != 0.5 else 0.0)
                slope += 1.0 if weight != 0.5 else 0.0
                s.x, s.y = s.y, s.x
            s.measure()
        assert s.loss[None] == pytest.approx(value)
        assert first.grad[None] == pytest.approx(slope)


@qd.kernel
def square(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] = x[i] * x[i]


@qd.kernel
def copy(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] = x[i]


@qd.kernel
def total(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] * x[i]


@pytest.mark.parametrize("how", ["by hand", "by budget"])
def test_memory_that_no_launch_reads_is_as_the_last_one_left_it(how: str) -> None:
    """Recomputed launches write it again, with the value of the first time."""
    x, y, loss, seen, told = field(16), field(16), field(), qd.field(qd.f64, 16), field()

    @qd.kernel
    def step(t: qd.i32):
        for i in x:
            y[i] = qd.sin(x[i])
            seen[i] = x[i] + t

    def one(t: int) -> None:
        step(t)
        told[None] = t
        copy(y, x)

    found = []
    for given, memory in ((one, None), (qd.ad.checkpoint(one), None) if how == "by hand" else (one, 900)):
        x.fill(0.5)
        with qd.ad.Tape(loss, memory=memory) as tape:
            for t in range(20):
                given(t)
            total(x, loss)
            seen[3] = 7.0
        found.append((x.grad.to_numpy().tolist(), x.to_numpy().tolist(), seen.to_numpy().tolist(), told[None]))
    assert tape.made_again >= 40
    assert found[0] == found[1]


def test_gradients_in_between_are_no_launches_of_the_program() -> None:
    x, loss = field(4), field()

    @qd.kernel
    def step():
        for i in x:
            x[i] = x[i] * x[i]

    for memory in (None, 400):
        x.fill(1.5)
        with qd.ad.Tape(loss, memory=memory) as tape:
            step()
            step()
            total(x, loss)
            tape.grad()
            assert x.grad[0] == pytest.approx(8 * 1.5**7)
            x.grad.fill(0)
            step()
            total(x, loss)
        assert x.grad[0] == pytest.approx(8 * 1.5**7 + 16 * 1.5**15)


def test_views_that_were_handed_out_after_the_first_run() -> None:
    """Values written through such a view under a Tape are constants, also if the program was recorded before."""
    x, y, loss = field(3), field(3), field()

    def run(view: Any = None) -> None:
        x.fill(1.5)
        with qd.ad.Tape(loss):
            for _ in range(2):
                square(x, y)
                copy(y, x)
                if view is not None:
                    view[1] = 3.0
            total(x, loss)

    run()
    run()
    for _ in range(2):
        run(x.to_numpy(copy=False))
        assert x.grad.to_numpy() == pytest.approx([8 * 1.5**7, 0.0, 8 * 1.5**7])
