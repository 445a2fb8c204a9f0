"""Gradients under a tape, and of random draws."""

from __future__ import annotations

import pytest
from runtime.test_gradient import make, session, start  # noqa: F401  # fixtures

import quadrants_lab as qd

# --- tapes

@qd.kernel
def total(a: qd.template(), loss: qd.template()):
    for i in a:
        loss[None] += a[i]


def test_no_gradient_runs_after_an_exception() -> None:
    x, loss = make()
    def fail() -> None:
        with qd.ad.Tape(loss):
            total(x, loss)
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        fail()
    assert x.grad.to_numpy().tolist() == [0] * 4
    with qd.ad.Tape(loss):
        total(x, loss)
    assert x.grad.to_numpy().tolist() == [1] * 4


def test_launches_outside_of_a_tape_are_not_seen() -> None:
    x, loss = make()
    tape = qd.ad.Tape(loss)
    total(x, loss)
    with tape:
        total(x, loss)
    total(x, loss)
    assert x.grad.to_numpy().tolist() == [1] * 4


# --- random draws

@qd.kernel
def noisy(x: qd.template(), y: qd.template()):
    for i in x:
        w = qd.random()
        for _ in range(3):
            w = w * x[i]
        y[None] += w


def test_a_gradient_replays_the_draws_of_its_launch() -> None:
    start(random_seed=7)
    x, y = make(3)
    x.fill(1.0)
    y[None] = 0
    noisy(x, y)
    first = y[None]
    noisy.grad(x, y)  # d/dx of r x^3 at 1 is 3 r
    assert x.grad.to_numpy().sum() == pytest.approx(3 * first, rel=1e-12)
    noisy(x, y)
    second = y[None] - first
    assert second != first
    x.grad.fill(0)
    noisy.grad(x, y)
    assert x.grad.to_numpy().sum() == pytest.approx(3 * second, rel=1e-12)


def test_a_tape_replays_the_draws_of_each_launch() -> None:
    x, y = make(3)
    x.fill(1.0)
    with qd.ad.Tape(y):
        for _ in range(3):
            noisy(x, y)
    assert x.grad.to_numpy().sum() == pytest.approx(3 * y[None], rel=1e-12)


def test_the_seed_settles_the_draws() -> None:
    seen = []
    for seed in (3, 3, 4):
        start(random_seed=seed)
        x, y = make(3)
        noisy(x, y)
        seen.append(y[None])
    assert seen[0] == seen[1] != seen[2]
