"""`qd.stop_grad`, of values and of fields."""

from __future__ import annotations

from textwrap import indent

import numpy as np
import pytest
from programs.deep import define
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


BODIES = {
    "a value": ("""
for i in x:
    w = x[i] * x[i]
    loss[None] += qd.stop_grad(w) * x[i] + qd.stop_grad(2.0) + qd.stop_grad(i)""", [1, 4, 9], 1 + 8 + 27 + 6 + 3),
    "a carried value": ("""
for i in x:
    w = x[i]
    for j in range(4):
        w = w * 2
        if j == 1:
            w = qd.stop_grad(w)
    loss[None] += w + x[i]""", [1, 1, 1], (16 + 1) * 6),
    "a field, for the whole loop around it": ("""
for i in range(3):
    loss[None] += x[i] ** 2
    qd.stop_grad(x)
    loss[None] += x[i] ** 3
for i in range(3):
    loss[None] += x[i] ** 2""", [2, 4, 6], 2 * 14 + 36),
    "a field outside of loops": ("""
qd.stop_grad(x)
loss[None] += x[0] ** 2
for i in range(3):
    loss[None] += x[i] * other[i]""", [0, 0, 0], 1 + 6),
    "a value in a func": ("""
for i in x:
    loss[None] += half(x[i])""", [1, 1, 1], 1.5 * 6),
}


@qd.func
def half(a):
    return qd.stop_grad(a) * 0.5 + a


@pytest.mark.parametrize("name", BODIES)
def test_of(name, x, loss) -> None:
    body, want, value = BODIES[name]
    other = qd.field(qd.f64, 3, needs_grad=True)
    other.fill(1)
    text = f"@qd.kernel\ndef k():\n{indent(body, '    ')}\n"
    assert gradient(define(text, x=x, loss=loss, other=other, half=half)["k"], x, loss) == want
    assert loss[None] == value
    assert other.grad.to_numpy().tolist() == ([1, 2, 3] if "outside" in name else [0, 0, 0])


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
