"""The sample kernels against mathematics in float64: values, gradients, and what their `main` promises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.kernels import chain, heat, kepler, nbody, recurrent

RNG = np.random.default_rng(2024)


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(arch=qd.cpu)


def close(ours: np.ndarray, right: np.ndarray, tol: float = 1e-12) -> None:
    """At most tol * max(1, |right|) apart, and of one shape."""
    ours, right = np.asarray(ours, np.float64), np.asarray(right, np.float64)
    assert ours.shape == right.shape
    error = np.abs(ours - right) / np.maximum(1.0, np.abs(right))
    assert error.max(initial=0.0) <= tol, f"off by {error.max():.3g} of {tol:.3g}"


@pytest.mark.parametrize("steps", [0, 1, 7, 40])
def test_heat_gradient_is_that_of_the_matrix_power(steps: int) -> None:
    n, r = 9, 0.25
    a = np.eye(n)
    for i in range(1, n - 1):
        a[i, i - 1 : i + 2] += [r, -2.0 * r, r]
    power = np.linalg.matrix_power(a, steps)
    start, target = RNG.normal(size=n).astype(np.float32), RNG.normal(size=n).astype(np.float32)
    loss, slope = heat.gradient(start, target, steps, r)
    rest = power @ start.astype(np.float64) - target
    close(loss, rest @ rest, 1e-5)
    close(slope, 2.0 * power.T @ rest, 1e-5)


def test_heat_fit_converges() -> None:
    losses = heat.main()
    assert losses[-1] < 1e-6 * losses[0]
    assert all(b <= a for a, b in pairwise(losses))


@pytest.mark.parametrize("n", [1, 2, 17])
def test_nbody_forces_are_newtons(n: int) -> None:
    p, m, eps = RNG.normal(size=(n, 3)), RNG.uniform(0.5, 2.0, n), 0.125
    r = p[:, None, :] - p[None, :, :]
    d2 = (r * r).sum(-1) + eps * eps
    mm = m[:, None] * m[None, :] * (1.0 - np.eye(n))
    energy, force = nbody.forces(p, m, eps)
    close(energy, -0.5 * (mm / np.sqrt(d2)).sum())
    close(force, -((mm / d2**1.5)[:, :, None] * r).sum(1))
    close(force.sum(0), np.zeros(3))


def test_nbody_orbit_keeps_its_energy() -> None:
    totals = nbody.main()
    assert np.ptp(totals) < 1e-4 * abs(totals[0])


def through_time(
    x: np.ndarray, length: np.ndarray, goal: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """The recurrent unit's loss and gradient by forward mode: h and its derivative by (w, u, c) step together."""
    w, u, c = weights
    loss, slope = 0.0, np.zeros(3)
    for b in range(len(x)):
        h, dh = 0.0, np.zeros(3)
        for t in range(length[b]):
            new = np.tanh(w * h + u * x[b, t] + c)
            dh = (1.0 - new * new) * (w * dh + np.array([h, x[b, t], 1.0]))
            h = new
        loss += (h - goal[b]) ** 2
        slope += 2.0 * (h - goal[b]) * dh
    return loss, slope


def test_recurrent_gradient_is_that_of_forward_mode() -> None:
    x, goal = RNG.normal(size=(7, 30)), RNG.normal(size=7)
    length = np.array([0, 1, 2, 13, 30, 29, 3])
    weights = np.array([0.9, -0.6, 0.2])
    loss, slope = recurrent.gradient(x, length, goal, weights)
    right_loss, right_slope = through_time(x, length, goal, weights)
    close(loss, right_loss)
    close(slope, right_slope)


def test_recurrent_weights_are_recovered() -> None:
    losses = recurrent.main()
    assert losses[-1] < 1e-2 * losses[0]


def test_chain_gradient_is_the_jacobian_of_rotations() -> None:
    chains, joints, length = 6, 8, 0.5
    q, goal = RNG.normal(size=(chains, joints)), RNG.normal(size=(chains, 2))
    count = np.array([0, 1, 2, 5, 8, 7])
    loss, slope = chain.gradient(q, count, goal, length)
    right_loss, right = 0.0, np.zeros_like(q)
    for i in range(chains):
        a = np.cumsum(q[i, : count[i]])
        links = length * np.stack([np.cos(a), np.sin(a)], -1)
        tip = links.sum(0)
        right_loss += ((tip - goal[i]) ** 2).sum()
        for k in range(count[i]):
            arm = links[k:].sum(0)
            right[i, k] = 2.0 * (tip - goal[i]) @ np.array([-arm[1], arm[0]])
    close(loss, right_loss)
    close(slope, right)


def test_chain_reaches_its_goals() -> None:
    losses = chain.main()
    assert losses[-1] < 0.05 * losses[0]


def test_kepler_gradient_is_that_of_the_implicit_function() -> None:
    n = 40
    mean, ecc = RNG.uniform(0.0, 2.0 * np.pi, n), RNG.uniform(0.0, 0.9, n)
    a, by_mean, by_ecc = kepler.gradient(mean, ecc)
    close(a - ecc * np.sin(a), mean)
    close(by_mean, 1.0 / (1.0 - ecc * np.cos(a)), 1e-11)
    close(by_ecc, np.sin(a) / (1.0 - ecc * np.cos(a)), 1e-11)
    assert kepler.main() < 1e-10
