"""`qd.stop_grad`, of values and of fields."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import WITH_F64, session_of

import quadrants_lab as qd

session = session_of(WITH_F64, default_fp=qd.f64)
pytestmark = pytest.mark.filterwarnings("error")  # what is not expected


def gradient(kernel, x, loss):
    with qd.ad.Tape(loss):
        kernel()
    return x.grad.to_numpy().tolist()


@pytest.fixture
def x():
    x = qd.field(qd.f64, 3, needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    return x


@pytest.fixture
def loss():
    return qd.field(qd.f64, (), needs_grad=True)


def test_of_a_value(x, loss) -> None:
    @qd.kernel
    def k():
        for i in x:
            v = x[i] * x[i]
            loss[None] += qd.stop_grad(v) * x[i] + qd.stop_grad(2.0) + qd.stop_grad(i)
    assert gradient(k, x, loss) == [1, 4, 9]
    assert loss[None] == 1 + 8 + 27 + 6 + 3


def test_of_a_carried_value(x, loss) -> None:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(4):
                v = v * 2
                if j == 1:
                    v = qd.stop_grad(v)
            loss[None] += v + x[i]
    assert gradient(k, x, loss) == [1, 1, 1]


def test_of_a_field_counts_for_the_whole_loop_around_it(x, loss) -> None:
    @qd.kernel
    def k():
        for i in range(3):
            loss[None] += x[i] ** 2
            qd.stop_grad(x)
            loss[None] += x[i] ** 3
        for i in range(3):
            loss[None] += x[i] ** 2
    assert gradient(k, x, loss) == [2, 4, 6]


def test_of_a_field_outside_of_loops(x, loss) -> None:
    other = qd.field(qd.f64, 3, needs_grad=True)
    other.fill(1)
    @qd.kernel
    def k():
        qd.stop_grad(x)
        loss[None] += x[0] ** 2
        for i in range(3):
            loss[None] += x[i] * other[i]
    assert gradient(k, x, loss) == [0, 0, 0]
    assert other.grad.to_numpy().tolist() == [1, 2, 3]


def test_in_a_func(x, loss) -> None:
    @qd.func
    def half(a):
        return qd.stop_grad(a) * 0.5 + a
    @qd.kernel
    def k():
        for i in x:
            loss[None] += half(x[i])
    assert gradient(k, x, loss) == [1, 1, 1]


def test_of_vectors(loss) -> None:
    v = qd.Vector.field(2, qd.f64, 3, needs_grad=True)
    v.fill(2)

    @qd.kernel
    def k():
        for i in v:
            loss[None] += qd.stop_grad(v[i]).dot(v[i])

    with qd.ad.Tape(loss):
        k()
    assert (v.grad.to_numpy() == 2).all()

    @qd.kernel
    def whole():
        for i in v:
            qd.stop_grad(v)
            loss[None] += v[i].dot(v[i])

    with qd.ad.Tape(loss):
        whole()
    assert (v.grad.to_numpy() == 0).all()


def test_in_forward_mode() -> None:
    x, y = qd.field(qd.f64, (), needs_dual=True), qd.field(qd.f64, (), needs_dual=True)
    x[None] = 3.0
    @qd.kernel
    def k():
        y[None] = qd.stop_grad(x[None]) * x[None]
    with qd.ad.FwdMode(y, x):
        k()
    assert y[None] == 9
    assert y.dual[None] == 3


def test_outside_of_kernels() -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="only inside a kernel"):
        qd.stop_grad(1.0)
