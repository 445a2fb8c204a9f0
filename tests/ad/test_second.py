"""`qd.ad.hessian_vector`: products with Hessians of whole programs, against closed forms and numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle.complex_step import gradient
from sessions import EVERYWHERE, sessions

import quadrants_lab as qd

ON_CPU = pytest.mark.parametrize("real", sessions("cpu"), indirect=True)


@pytest.fixture(autouse=True, params=EVERYWHERE)
def real(request):
    """A session, and the floating-point dtype that its device has."""
    dtype = qd.f32 if request.param["arch"] == "metal" else qd.f64
    qd.init(**request.param, default_fp=dtype)
    yield dtype
    qd.reset()


def close(found: Any, want: Any, tol: float = 1e-11) -> None:
    """Equal up to ``tol`` times the greatest number; in f32 up to 1e-4."""
    assert found.shape == np.shape(want)
    tol = tol if found.dtype == np.float64 else 1e-4
    assert np.abs(found - want).max(initial=0) <= tol * max(1.0, np.abs(want).max(initial=0)), (found, want)


def changes(f: Callable[[Any], Any], x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """How the gradient of ``f``, numpy code of analytic operations, changes along v."""
    h = 1e-5
    return (gradient(f, x + h * v) - gradient(f, x - h * v)) / (2 * h)


def filled(values: Any, real: Any, make: Any = None) -> Any:
    values = np.asarray(values, real.numpy)
    x = (make or qd.field)(real, values.shape, needs_grad=True)
    x.from_numpy(values)
    return x


def scalar(real: Any) -> Any:
    return qd.field(real, (), needs_grad=True)


@qd.kernel
def cubes(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] ** 3 + x[i] * x[(i + 1) % 4]


def test_a_polynomial(real) -> None:
    x, loss = filled([1, -2, 0.5, 3], real), scalar(real)
    v = np.array([1.0, 2, -1, 0.5])
    a = x.to_numpy().astype(float)
    for way in (v, -v, np.zeros(4)):
        found = qd.ad.hessian_vector(lambda: cubes(x, loss), loss, x, way)
        close(found, 6 * a * way + np.roll(way, 1) + np.roll(way, -1))
        close(x.grad.to_numpy(), 3 * a * a + np.roll(a, 1) + np.roll(a, -1))  # as a Tape leaves it
        assert loss[None] == pytest.approx((a**3 + a * np.roll(a, -1)).sum(), rel=1e-5)
        assert loss.grad[None] == 1


@pytest.mark.filterwarnings("error:.*QL2102")
def test_a_recorded_program_again_and_again(real) -> None:
    """As in a Newton method, the same launches run from other values, between gradients of the same Tape."""
    x, y, loss = filled([0.4, -0.2, 0.9], real), qd.field(real, 3, needs_grad=True), scalar(real)

    @qd.kernel
    def begin():
        for i in x:
            y[i] = x[i] * x[(i + 1) % 3]

    @qd.kernel
    def step():
        for i in y:
            y[i] = y[i] + 0.2 * qd.sin(y[i])

    @qd.kernel
    def end():
        for i in y:
            loss[None] += y[i] ** 2

    @qd.ad.program
    def program():
        begin()
        for _ in range(4):
            step()
        end()

    def by_numpy(a):
        y = a * np.roll(a, -1)
        for _ in range(4):
            y = y + 0.2 * np.sin(y)
        return (y * y).sum()

    for n in range(6):
        v = np.cos(np.arange(3.0) + n)
        at = x.to_numpy().astype(float)
        close(qd.ad.hessian_vector(program, loss, x, v), changes(by_numpy, at, v), 1e-8)
        close(x.grad.to_numpy(), gradient(by_numpy, at))
        x.from_numpy((at + 0.1 * v).astype(real.numpy))
        with qd.ad.Tape(loss):
            program()
        close(x.grad.to_numpy(), gradient(by_numpy, x.to_numpy().astype(float)))


def test_an_overwritten_ndarray_whose_data_end_loops(real) -> None:
    x, y, loss = filled(np.zeros((2, 3)), real, qd.ndarray), filled(np.zeros((2, 3)), real), scalar(real)

    @qd.kernel
    def f(x: qd.types.ndarray()):
        for i in range(2):
            for j in range(3):
                trips = 0
                while trips < 5 and x[i, j] + y[i, j] < 2.0:
                    trips += 1
                    y[i, j] = qd.sin(y[i, j]) + x[i, j]
                x[i, j] += y[i, j] * x[i, 0]

    @qd.kernel
    def result(x: qd.types.ndarray()):
        for i, j in x:
            loss[None] += y[i, j] * x[i, j]

    start = np.array([[0.5, 0.7, 0.9], [0.3, 0.6, 0.1]])

    def program():
        x.from_numpy(start.astype(real.numpy))
        y.fill(0.25)
        loss[None] = 0
        f(x)
        result(x)

    def by_numpy(a):
        a, b = a.reshape(2, 3) * 1, a.reshape(2, 3) * 0 + 0.25
        for i, j in np.ndindex(2, 3):
            trips = 0
            while trips < 5 and (a[i, j] + b[i, j]).real < 2.0:
                trips += 1
                b[i, j] = np.sin(b[i, j]) + a[i, j]
            a[i, j] += b[i, j] * a[i, 0]
        return (a * b).sum()

    v = np.array([[1.0, -0.5, 2.0], [0.5, 1.0, -1.0]])
    close(qd.ad.hessian_vector(program, loss, x, v), changes(by_numpy, start, v), 1e-8)


def test_several_parameters(real) -> None:
    x, a, loss = filled([1, 2, 3], real), filled([0.5, -1, 2], real, qd.ndarray), scalar(real)

    @qd.kernel
    def f(a: qd.types.ndarray()):
        for i in a:
            loss[None] += x[i] * x[i] * a[i]

    def program():
        f(a)

    p, q = x.to_numpy(), a.to_numpy()
    one, both = np.ones(3, real.numpy), [2 * q + 2 * p, 2 * p]
    for found, want in zip(qd.ad.hessian_vector(program, loss, [x, a], [one, one]), both, strict=True):
        close(found, want)
    named = qd.ad.hessian_vector(program, loss, {"x": x, "a": a}, {"a": one, "x": one})
    assert list(named) == ["x", "a"]
    for found, want in zip(named.values(), both, strict=True):
        close(found, want)
    close(qd.ad.hessian_vector(program, loss, a, one), np.zeros(3))  # x stays where it is


def test_piecewise_functions(real) -> None:
    """abs, min, max and integers are linear or constant in pieces; an atomic maximum is what its winner is."""
    x, y, loss = filled([0.5, -0.7, 2, -1.1], real), filled([0, 0], real), scalar(real)

    @qd.kernel
    def f():
        for i in y:
            y[i] = -9.0
        for i in x:
            qd.atomic_max(y[i % 2], qd.sin(x[i]) * x[(i + 1) % 4])
        for i in x:
            loss[None] += abs(x[i]) + qd.max(x[i], 0.1) + 2.0 * qd.floor(x[i])
            loss[None] += qd.min(x[i] * x[i], 1.5) * x[0] + (x[i] if int(x[i]) == 2 else 0.0)
        for i in y:
            loss[None] += y[i] * y[i]

    def by_numpy(a):
        products = np.sin(a) * np.roll(a, -1)
        first = products[0] if products[0].real > products[2].real else products[2]
        second = products[1] if products[1].real > products[3].real else products[3]
        linear = sum(v if v.real > 0 else -v for v in a) + sum(v for v in a if v.real > 0.1)
        bounded = sum((v * v if (v * v).real < 1.5 else 1.5) * a[0] for v in a)
        return linear + bounded + first**2 + second**2

    v = np.array([1.0, 2, -0.4, 0.3])
    close(qd.ad.hessian_vector(f, loss, x, v), changes(by_numpy, x.to_numpy().astype(float), v), 1e-8)


def test_an_atomic_maximum_that_many_win(real) -> None:
    x, y, loss = filled([2.0, 2.0, 1.0], real), scalar(real), scalar(real)

    @qd.kernel
    def f():
        for i in x:
            qd.atomic_max(y[None], x[i] * x[i])

    @qd.kernel
    def square():
        loss[None] += y[None] * y[None]

    def program():
        f()
        square()

    y[None] = -1.0
    found = qd.ad.hessian_vector(program, loss, x, [1, 1, 0])
    close(x.grad.to_numpy(), [16, 16, 0])  # the mean of the winners' derivatives, 2 * 4 * 2 * 2 / 2
    close(found, [24, 24, 0])  # 12 x^2 / 2 along both
