"""Forward mode where a task overwrites what its atomic minima and maxima are taken of: by complex step."""

from __future__ import annotations

import numpy as np
import pytest
from oracle.complex_step import gradient
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)
X = np.array([0.5, -0.3, 0.7, 0.8])


def field(*shape):
    return qd.field(qd.f32, shape, needs_grad=True, needs_dual=True)


@qd.kernel
def step(x: qd.template(), low: qd.template(), high: qd.template(), records: qd.template()):
    for i in x:
        qd.atomic_min(low[None], x[i] * x[i])
        x[i] -= 0.4 * qd.sin(x[i])
    for i in x:
        v = x[i]
        for _ in range(i + 1):
            v = 1.1 * qd.sin(v)
            if v > -0.5:
                qd.atomic_max(high[i % 2], v)
        x[i] = v
        records[None] += 1

@qd.kernel
def total(x: qd.template(), low: qd.template(), high: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] ** 3 * low[None] * low[None] + x[i] * high[i % 2] * high[1]


def by_numpy(x):
    def greater(a, b):
        return a if a.real > b.real else b

    low = -9.0
    for a in x:
        low = greater(low, -a * a)
    x = x - 0.4 * np.sin(x)
    ends, high = [], [-9.0, -9.0]
    for i, v in enumerate(x):
        for _ in range(i + 1):
            v = 1.1 * np.sin(v)
            high[i % 2] = greater(high[i % 2], v) if v.real > -0.5 else high[i % 2]
        ends.append(v)
    return sum(v**3 * low * low + v * high[i % 2] * high[1] for i, v in enumerate(ends))


def fields():
    x, low, high, loss, records = field(4), field(), field(2), field(), qd.field(qd.i32, ())
    x.from_numpy(X.astype(np.float32))
    low.fill(9.0)
    high.fill(-9.0)
    return x, low, high, loss, records


def test_tangents() -> None:
    want = gradient(by_numpy, X)
    for n in range(4):
        x, low, high, loss, records = fields()
        with qd.ad.FwdMode(loss=loss, param=x, seed=np.eye(4)[n]):
            step(x, low, high, records)
            total(x, low, high, loss)
        np.testing.assert_allclose(loss.dual[None], want[n], rtol=1e-4)
        np.testing.assert_allclose(loss[None], by_numpy(X), rtol=1e-5)
        assert records[None] == 4  # the task's other effects happen once


def test_second_derivatives() -> None:
    x, low, high, loss, records = fields()
    def program():
        step(x, low, high, records)
        total(x, low, high, loss)
    v, h = np.array([1.0, 2.0, -1.0, 0.5]), 1e-5
    found = qd.ad.hessian_vector(program, loss, x, v)
    want = (gradient(by_numpy, X + h * v) - gradient(by_numpy, X - h * v)) / (2 * h)
    np.testing.assert_allclose(found, want, rtol=1e-3)
    np.testing.assert_allclose(x.grad.to_numpy(), gradient(by_numpy, X), rtol=1e-4)


def minimum_and_tangent(kernel, *more):
    """The least value, its tangent along (1, 2, 3, 4), and the same number from the gradient."""
    seed = np.array([1.0, 2.0, 3.0, 4.0])
    x, low, *_ = fields()
    with qd.ad.FwdMode(loss=low, param=x, seed=seed):
        kernel(x, low, *more)
    tangent = low.dual[None]
    x, low, *_ = fields()
    with qd.ad.Tape(low):
        low.fill(9.0)
        kernel(x, low, *more)
    return low[None], tangent, (x.grad.to_numpy() * seed).sum()


@qd.kernel
def least_place(x: qd.template(), low: qd.template(), place: qd.template()):
    qd.loop_config(serialize=True)
    for i in x:
        if qd.atomic_min(low[None], x[i] * x[i]) > x[i] * x[i]:
            place[None] = i


def test_an_old_value_that_decides_what_has_no_derivative() -> None:
    place = qd.field(qd.i32, ())
    found = minimum_and_tangent(least_place, place)
    np.testing.assert_allclose(found, [0.09, -1.2, -1.2], rtol=1e-5)
    assert place[None] == 1


@qd.kernel
def old_extreme(x: qd.template(), low: qd.template(), other: qd.template()):
    for i in x:
        if qd.atomic_max(other[None], x[i]) < 20.0:
            qd.atomic_min(low[None], x[i])

@qd.kernel
def old_sum(x: qd.template(), low: qd.template(), other: qd.template()):
    for i in x:
        if qd.atomic_add(other[None], 1.0) < 20.0:
            qd.atomic_min(low[None], x[i])


@CPU_ALONE
def test_an_old_value_that_decides_about_an_extreme() -> None:
    for kernel, other in ((old_extreme, field()), (old_sum, qd.field(qd.f32, ()))):
        x, low, *_ = fields()
        with pytest.raises(qd.QuadrantsCompilationError, match="QL0403"), qd.ad.FwdMode(low, x, seed=[1, 0, 0, 0]):
            kernel(x, low, other)
        with pytest.raises(qd.QuadrantsCompilationError, match="QL0403"):
            kernel.grad(x, low, other)


@CPU_ALONE
def test_a_value_that_is_added_to_before_the_extreme_and_overwritten_after_it() -> None:
    x, low, *_ = fields()
    n = qd.field(qd.i32, ())
    @qd.kernel
    def k():
        for i in x:
            x[i] += 0.3
            for _ in range(n[None]):
                qd.atomic_min(low[None], x[i] * x[i])
            x[i] = 0.1
    with pytest.raises(qd.QuadrantsCompilationError, match="QL0404"), qd.ad.FwdMode(low, x, seed=[1, 0, 0, 0]):
        k()
