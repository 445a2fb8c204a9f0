"""Ties of atomic minima and maxima: the winners share the derivative, so that one value offered often counts once."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import EVERYWHERE, WITH_F64, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)


def field(*shape):
    return qd.field(qd.f32, shape, needs_grad=True, needs_dual=True)


@qd.kernel
def one_value_fifteen_times(x: qd.template(), y: qd.template()):
    for _ in range(15):
        qd.atomic_max(y[None], x[2] * 3.0)

@qd.kernel
def one_value_by_data(x: qd.template(), y: qd.template(), at: qd.template()):
    for i in at:
        qd.atomic_max(y[None], 3.0 * x[at[i]])


def gradient(kernel, x, y, *more):
    with qd.ad.Tape(y):
        y.fill(-9.0)
        kernel(x, y, *more)
    return x.grad.to_numpy()


def tangents(kernel, x, y, *more):
    found = []
    for n in range(4):
        y.fill(-9.0)
        with qd.ad.FwdMode(loss=y, param=x, seed=[float(k == n) for k in range(4)]):
            kernel(x, y, *more)
        found.append(y.dual[None])
    return np.array(found)


def test_one_source_counts_once() -> None:
    x, y = field(4), field()
    at = qd.field(qd.i32, 8)
    x.from_numpy(np.array([0.5, 0.25, 1.0, -1.0], np.float32))
    at.from_numpy(np.array([2, 0, 2, 2, 1, 2, 0, 3], np.int32))
    for kernel, more in ((one_value_fifteen_times, ()), (one_value_by_data, (at,))):
        for how in (gradient, tangents):
            np.testing.assert_allclose(how(kernel, x, y, *more), [0, 0, 3, 0], rtol=1e-6)


def test_one_source_counts_once_within_an_iteration() -> None:
    x, y = field(4), field()
    x.from_numpy(np.array([0.5, 0.25, 1.0, -1.0], np.float32))

    @qd.kernel
    def k(x: qd.template(), y: qd.template()):
        one_value_often(x, y)

    @qd.func
    def one_value_often(x, y):
        for i in range(4):
            for _ in range(5):
                qd.atomic_max(y[None], qd.max(x[2], x[i]) * 3.0)

    for how in (gradient, tangents):
        np.testing.assert_allclose(how(k, x, y), [0, 0, 3, 0], rtol=1e-6)


def test_different_sources_share() -> None:
    x, y = field(4), field()
    at = qd.field(qd.i32, 8)
    x.from_numpy(np.array([1.0, 0.25, 1.0, -1.0], np.float32))
    at.from_numpy(np.array([2, 0, 2, 2, 1, 3, 1, 3], np.int32))
    for how in (gradient, tangents):
        np.testing.assert_allclose(how(one_value_by_data, x, y, at), [0.75, 0, 2.25, 0], rtol=1e-6)


@qd.kernel
def rows(u: qd.template(), best: qd.template(), loss: qd.template()):
    for i, j in u:
        qd.atomic_max(best[i], u[i, j])
    for i in best:
        loss[None] += (i + 1) * best[i]


def test_an_element_each() -> None:
    u, best, loss = field(3, 4), field(3), field()
    u.from_numpy(np.array([[1, 2, 2, 0], [5, 5, 5, 5], [0, 1, 2, 3]], np.float32))
    for start, last in ((-1.0, 1.0), (3.0, 0.0)):  # the old value keeps its derivative only where none comes up to it
        best.fill(start)
        with qd.ad.Tape(loss):
            rows(u, best, loss)
        top = [0, 0.5, 0.5, 0] if start < 0 else [0, 0, 0, 0]
        want = [top, [0.5] * 4, [0, 0, 0, 3.0]]
        np.testing.assert_allclose(u.grad.to_numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(best.grad.to_numpy(), [1 - last, 0, 0])


@qd.kernel
def one_value_stored_often(x: qd.template(), y: qd.template()):
    for _ in range(4096):
        y[None] = 3.0 * x[2]

@qd.kernel
def one_value_stored_by_data(x: qd.template(), y: qd.template(), at: qd.template(), to: qd.template()):
    for i in at:
        y[to[i]] = 3.0 * x[at[i]]


def test_stores_of_one_value_count_once() -> None:
    """Iterations that store the same value do not race; the adjoint goes to exactly one of them."""
    x, y, at, z, to = field(4), field(), qd.field(qd.i32, 4096), field(2), qd.field(qd.i32, 4096)
    x.from_numpy(np.array([1, 2, 3, 3], np.float32))
    at.from_numpy(2 + np.arange(4096, dtype=np.int32) % 2)
    for _ in range(5):
        assert list(gradient(one_value_stored_often, x, y)) == [0, 0, 3, 0]
        x.grad.fill(0)
        z.grad.fill(1)
        one_value_stored_by_data(x, z, at, to)
        one_value_stored_by_data.grad(x, z, at, to)
        found = x.grad.to_numpy()
        assert sorted(found) == [0, 0, 0, 3]
        assert not found[:2].any()


def test_extremes_and_sums_in_elements_of_one_field() -> None:
    """Elements that differ by a constant index are not one element. Weights tell what each result is made of."""
    x, low_high, y = field(4), field(3, 2), field()

    @qd.kernel
    def spread(x: qd.template(), y: qd.template()):
        low_high[0, 0] = 9.0
        low_high[1, 0] = -9.0
        low_high[2, 0] = 0.0
        for i in x:
            qd.atomic_min(low_high[0, 0], x[i])
            qd.atomic_max(low_high[1, 0], 2.0 * x[i])
            low_high[2, 0] += x[i]
        y[None] = 10.0 * low_high[0, 0] + low_high[1, 0] * low_high[2, 0]

    x.from_numpy(np.array([0.5, -0.25, 1.5, -1.0], np.float32))  # their sum is 0.75
    want = [3.0, 3.0, 3.0 + 2 * 0.75, 3.0 + 10.0]
    assert gradient(spread, x, y).tolist() == want
    assert tangents(spread, x, y).tolist() == want


@qd.kernel
def counted_stack_and_extreme(x: qd.template(), y: qd.template(), n: qd.template()):
    qd.loop_config(serialize=True)
    for i in x:
        j = 0
        while j < n[None]:
            j += 1
            x[i] = qd.sin(x[i])
    for i in x:
        for _ in range(2):
            qd.atomic_max(y[None], 3.0 * x[i])


def test_an_extreme_beside_a_stack_that_is_counted() -> None:
    """The slice that counts the stack of the first loop adds nothing to gradients."""
    x, y, n = field(4), field(), qd.field(qd.i32, ())
    n[None] = 2
    x.from_numpy(np.array([0.1, 0.2, 0.3, 0.7], np.float32))
    found = gradient(counted_stack_and_extreme, x, y, n)
    np.testing.assert_allclose(found, [0.0, 0.0, 0.0, 3.0 * np.cos(np.sin(0.7)) * np.cos(0.7)], rtol=1e-5)


@qd.kernel
def least_sine(x: qd.template(), y: qd.template(), at: qd.template()):
    for i in x:
        qd.atomic_min(y[at[i]], 0.9 * qd.sin(x[i] + x[i] + x[i % 2000]))


@pytest.mark.parametrize("session", WITH_F64, indirect=True)
def test_winners_are_found_though_lanes_pay_for_one_of_launch_and_gradient_only(session) -> None:
    n = 2000
    x, y = (qd.field(qd.f64, n, needs_grad=True) for _ in range(2))
    at = qd.field(qd.i32, n)
    at.from_numpy(np.arange(n, dtype=np.int32))
    a = np.random.default_rng(1).uniform(-1, 1, n)
    x.from_numpy(a)
    y.fill(9.0)
    least_sine(x, y, at)
    y.grad.fill(1.0)
    least_sine.grad(x, y, at)
    assert not y.grad.to_numpy().any()  # each element has a winner
    np.testing.assert_allclose(x.grad.to_numpy(), 2.7 * np.cos(3 * a), atol=1e-6)


@qd.kernel
def most_of_a_share(x: qd.template(), y: qd.template()):
    total = 0.0
    for i in x:
        total += x[i]
    for i in x:
        qd.atomic_max(y[None], x[i] / total)


def test_a_sum_by_which_a_winner_is_found_is_kept() -> None:
    """The launch keeps the sum: the gradient would add in another order, round differently and not find the winner."""
    x, y = qd.field(qd.f32, 5000, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    for seed in range(5):
        a = np.random.default_rng(seed).uniform(0, 1, 5000).astype(np.float32)
        x.from_numpy(a)
        y[None] = 0.0
        found = gradient(most_of_a_share, x, y)
        total, most = a.sum(dtype=float), float(a.max())
        want = np.where(a == a.max(), 1 / total, 0) - most / total**2
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-9)
    assert len(most_of_a_share.sizes().kept) == 1
