"""Gravity: the force on each body is minus the gradient of the energy, so it need not be written down.

    E = - sum_i sum_{j<i} m_i m_j / sqrt(|p_i - p_j|**2 + eps**2)

The inner loop is bounded by the index of the outer one, ``for j in range(i)``. Its running sum is a linear update and
what the derivative needs of each pair is recomputed from ``p``, which nothing writes: no stack. The oracle of the test
is the closed form ``F_i = - sum_j m_i m_j (p_i - p_j) / (|p_i - p_j|**2 + eps**2)**(3/2)``.

Shapes: ``p`` (n, 3), ``m`` (n,), ``energy`` (); any float dtype.
"""

import numpy as np

import quadrants_lab as qd


@qd.kernel
def potential(
    p: qd.types.ndarray(ndim=2), m: qd.types.ndarray(ndim=1), energy: qd.types.ndarray(ndim=0), eps: qd.f32
):
    """energy[None] += E."""
    for i in range(p.shape[0]):
        e = m[i] * 0.0
        for j in range(i):
            dx = p[i, 0] - p[j, 0]
            dy = p[i, 1] - p[j, 1]
            dz = p[i, 2] - p[j, 2]
            e -= m[i] * m[j] / qd.sqrt(dx * dx + dy * dy + dz * dz + eps * eps)
        energy[None] += e


def forces(positions: np.ndarray, masses: np.ndarray, eps: float = 0.125) -> tuple[float, np.ndarray]:
    """E, and the forces (n, 3) on bodies at ``positions`` (n, 3), in float64."""
    p = qd.ndarray(qd.f64, shape=positions.shape, needs_grad=True)
    energy = qd.ndarray(qd.f64, shape=(), needs_grad=True)
    p.from_numpy(positions.astype(np.float64))
    m = masses.astype(np.float64)
    potential(p, m, energy, eps)
    energy.grad[None] = 1.0
    potential.grad(p, m, energy, eps)
    return float(energy[None]), -p.grad.to_numpy()


def main(n: int = 8, steps: int = 50, dt: float = 0.01) -> list[float]:
    """Computes a leapfrog orbit under these forces; returns the total energy after each step, which barely changes."""
    qd.init(arch=qd.cpu)
    rng = np.random.default_rng(3)
    p, v, m = rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(n, 3)), np.full(n, 1.0 / n)
    totals = []
    _, f = forces(p, m)
    for _ in range(steps):
        v += 0.5 * dt * f / m[:, None]
        p += dt * v
        e, f = forces(p, m)
        v += 0.5 * dt * f / m[:, None]
        totals.append(e + 0.5 * float(np.sum(m[:, None] * v * v)))
    return totals


if __name__ == "__main__":
    print(main())
