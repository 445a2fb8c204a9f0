"""The sample kernels against mathematics in float64: values, gradients, and what their `main` promises."""

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.kernels import chain, kepler, nbody

RNG = np.random.default_rng(2024)


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(arch=qd.cpu)


def close(ours: np.ndarray, right: np.ndarray, tol: float = 1e-12) -> None:
    """Whether two arrays have one shape and differ by at most tol * max(1, |right|)."""
    ours, right = np.asarray(ours, np.float64), np.asarray(right, np.float64)
    assert ours.shape == right.shape
    error = np.abs(ours - right) / np.maximum(1.0, np.abs(right))
    assert error.max(initial=0.0) <= tol, f"off by {error.max():.3g} of {tol:.3g}"


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
