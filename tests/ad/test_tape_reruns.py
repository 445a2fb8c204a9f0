"""A program that runs again under a tape, where what its launches touch is another thing than the last time."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.runtime.session import checking

session = session_of(sessions("cpu"), default_fp=qd.f64)


@qd.kernel
def put(a: qd.types.ndarray(dtype=qd.f64, ndim=1), begin: qd.i32):
    for i in range(begin, begin + 2):
        a[i] = 0.25


def test_other_elements() -> None:
    """The loss reads an array, two elements of which are overwritten, and reads it again."""
    x, loss = qd.ndarray(qd.f64, 6, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def read(a: qd.types.ndarray(dtype=qd.f64, ndim=1)):
        for i in a:
            loss[None] += qd.sin(a[i])

    start = np.linspace(0.1, 0.8, 6)
    for begin in (1, 1, 3, 0, 4):
        x.from_numpy(start)
        x.grad.fill(0.0)
        with qd.ad.Tape(loss):
            read(x)
            put(x, begin)
            read(x)
        twice = np.array([1 if begin <= i < begin + 2 else 2 for i in range(6)])
        np.testing.assert_allclose(x.grad.to_numpy(), twice * np.cos(start), rtol=1e-12)


def test_other_checks() -> None:
    x, loss = (qd.field(qd.f64, (), needs_grad=True) for _ in range(2))
    x[None] = 2.0
    @qd.kernel
    def below_one():
        assert x[None] < 1.0
        loss[None] += x[None]
    for _ in range(3):
        with qd.ad.Tape(loss):
            below_one()
    with pytest.raises(qd.QuadrantsAssertionError), checking("asserts"), qd.ad.Tape(loss):
        below_one()


def test_places_from_data_in_a_row() -> None:
    """The Tape keeps old values only where they changed: in the row that an argument names, at columns from data."""
    x, loss = qd.field(qd.f64, (4, 60), needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    columns = qd.field(qd.i32, 2)
    columns.from_numpy(np.array([40, 1], np.int32))

    @qd.kernel
    def read():
        for i, j in x:
            loss[None] += qd.sin(x[i, j])

    @qd.kernel
    def scatter(row: qd.i32):
        for k in columns:
            x[row, columns[k]] = 0.25

    start = np.linspace(0.1, 2.0, 240).reshape(4, 60)
    for row in (2, 2, 3):
        x.from_numpy(start)
        with qd.ad.Tape(loss):
            read()
            scatter(row)
            read()
        want = 2 * np.cos(start)
        want[row, [40, 1]] /= 2
        np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=1e-12)
        x.grad.fill(0.0)


def test_places_from_data_where_nothing_changed_at_first() -> None:
    x, value, loss = (qd.field(qd.f64, n, needs_grad=True) for n in (2, 1, ()))
    place = qd.field(qd.i32, ())

    @qd.kernel
    def read():
        for i in x:
            loss[None] += x[i] ** 2

    @qd.kernel
    def write():
        for i in value:
            x[place[None]] = value[i]

    for written in (2.0, 5.0, 2.0):
        x.from_numpy(np.array([2.0, 3.0]))
        value[0] = written
        with qd.ad.Tape(loss):
            read()
            write()
            read()
        assert (x.grad.to_numpy().tolist(), value.grad[0]) == ([4.0, 12.0], 2 * written)


@pytest.mark.filterwarnings("ignore:.*QL0420")
def test_gradients_by_hand_of_what_launches_keep() -> None:
    x, loss = qd.field(qd.f64, 2, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def curve():
        for i in x:
            x[i] = qd.sin(x[i])

    @qd.kernel
    def add():
        for i in x:
            loss[None] += x[i]

    for steps, want in ((1, np.cos(0.5)), (1, np.cos(0.5)), (2, np.cos(0.5) * np.cos(np.sin(0.5)))):
        x.fill(0.5)
        with qd.ad.Tape(loss):
            for _ in range(steps):
                curve()
                curve.grad()
            add()
        np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=1e-12)


def test_gradients_of_which_nothing_is_put_back_or_prepared() -> None:
    """Such gradients run by calls of their compiled code alone, with the numbers of this run."""
    x, y, loss = (qd.field(qd.f64, n, needs_grad=True) for n in (4, 4, ()))
    start = np.array([0.3, 0.7, 1.1, 0.2])

    @qd.kernel
    def add():
        for i in x:
            y[i] += qd.sin(x[i])

    @qd.kernel
    def weigh(a: qd.template(), by: qd.f64, i: qd.i32):
        for _ in range(1):
            loss[None] += by * a[i] * a[i]

    @qd.kernel
    def measure():
        for i in y:
            loss[None] += y[i] * y[i]

    for n in range(8):
        now, by = start + 0.1 * n, n if n in (3, 6) else n + 0.5
        x.from_numpy(now)
        y.fill(0)
        with qd.ad.Tape(loss):
            add()
            for i in range(4):
                weigh(x, by, i)
            measure()
        np.testing.assert_allclose(x.grad.to_numpy(), 2 * by * now + np.sin(2 * now), rtol=1e-12)
        np.testing.assert_allclose(y.grad.to_numpy(), 2 * np.sin(now), rtol=1e-12)
        assert loss.grad[None] == 1.0
        if n in (3, 6):  # gradients from elsewhere do not stay
            x.grad.fill(7.0)
            measure.grad()
    (launches,) = loss.recordings.values()
    assert launches.rerun.straight
