"""Kepler's equation by Newton's method: the derivative of a loop that stops when it is done.

    E - e sin E = M,        E <- E - (E - e sin E - M) / (1 - e cos E)   until the step is small

How often the ``while`` loop runs depends on the data of each element, so the depth of its stack is not known before
the launch: a counting slice runs first. The derivative of the iterates converges, as they do, to that of the
solution, which the implicit function theorem gives in closed form: ``dE/dM = 1 / (1 - e cos E)`` and
``dE/de = sin E / (1 - e cos E)``.

Shapes: ``mean`` (n,) the mean anomaly M, ``ecc`` (n,) the eccentricity e in 0..0.9, ``anomaly`` (n,) the solution E;
any float dtype.
"""

import numpy as np

import quadrants_lab as qd


@qd.kernel
def solve(
    mean: qd.types.ndarray(ndim=1), ecc: qd.types.ndarray(ndim=1), anomaly: qd.types.ndarray(ndim=1), tol: qd.f64
):
    """anomaly[i] solves Kepler's equation; one step more is taken after the first that is smaller than tol."""
    for i in range(mean.shape[0]):
        e = ecc[i]
        a = mean[i] + e * qd.sin(mean[i])
        small = 0
        while small < 2:
            d = (a - e * qd.sin(a) - mean[i]) / (1.0 - e * qd.cos(a))
            a -= d
            if qd.abs(d) < tol:
                small += 1
        anomaly[i] = a


def gradient(mean: np.ndarray, ecc: np.ndarray, tol: float = 1e-9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solves the equation and returns E, dE/dM and dE/de, each (n,), in float64."""
    n = len(mean)
    m, e, a = (qd.ndarray(qd.f64, shape=(n,), needs_grad=True) for _ in range(3))
    m.from_numpy(mean.astype(np.float64))
    e.from_numpy(ecc.astype(np.float64))
    solve(m, e, a, tol)
    a.grad.fill(1.0)
    solve.grad(m, e, a, tol)
    return a.to_numpy(), m.grad.to_numpy(), e.grad.to_numpy()


def main(n: int = 32) -> float:
    """The largest difference between the derivatives and their closed form, over ``n`` orbits."""
    qd.init(arch=qd.cpu)
    rng = np.random.default_rng(13)
    mean, ecc = rng.uniform(0.0, 2.0 * np.pi, n), rng.uniform(0.0, 0.9, n)
    a, by_mean, by_ecc = gradient(mean, ecc)
    slope = 1.0 / (1.0 - ecc * np.cos(a))
    return float(max(np.abs(by_mean - slope).max(), np.abs(by_ecc - np.sin(a) * slope).max()))


if __name__ == "__main__":
    print(main())
