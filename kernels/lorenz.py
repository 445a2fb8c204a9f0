"""The Lorenz system: how fast do two neighbouring initial states diverge, and what is the effect of its parameters?

    x' = s (y - x),   y' = x (r - z) - y,   z' = x y - b z,        classically s = 10, r = 28, b = 8/3

integrated by the midpoint rule for a number of steps that is read from memory, so only known at launch. The
state is a loop-carried vector that is multiplied with itself: stacks, each exactly as deep as the number of
steps. The derivatives of the last ``x`` by the first state and by (s, r, b) come from one gradient; those of
the whole last state by one direction from one run under `qd.ad.FwdMode`, which needs no stack. The first is a
row of the Jacobian, the second a column, and the test computes both as products of step Jacobians. They grow
like exp(0.9 t), with the system's largest Lyapunov exponent.

Shapes: ``start`` and ``last`` (n,) of 3-vectors, ``rates`` (n,) of (s, r, b), ``steps`` () i32; any float
dtype.
"""

import numpy as np

import quadrants_lab as qd

RATES = (10.0, 28.0, 8.0 / 3.0)


@qd.func
def slope(p, rate):
    """p' of the state ``p``."""
    return qd.Vector([rate[0] * (p.y - p.x), p.x * (rate[1] - p.z) - p.y, p.x * p.y - rate[2] * p.z])


@qd.kernel
def trajectory(
    start: qd.template(), rates: qd.template(), steps: qd.template(), last: qd.template(), dt: qd.f64
):
    """last[i] = the state of trajectory i after steps[None] steps."""
    for i in start:
        p = start[i]
        for _ in range(steps[None]):
            middle = p + 0.5 * dt * slope(p, rates[i])
            p += dt * slope(middle, rates[i])
        last[i] = p


class Trajectories:
    """The fields of ``n`` trajectories, in float64, with room for derivatives of both modes."""

    def __init__(self, states: np.ndarray, steps: int) -> None:
        n = len(states)
        self.start, self.rates, self.last = (
            qd.Vector.field(3, qd.f64, shape=n, needs_grad=True, needs_dual=True) for _ in range(3)
        )
        self.steps = qd.field(qd.i32, shape=())
        self.start.from_numpy(states.astype(np.float64))
        self.rates.from_numpy(np.tile(np.array(RATES), (n, 1)))
        self.steps[None] = steps


def gradient(states: np.ndarray, steps: int, dt: float = 0.005) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Final x (n,) and its derivatives by the initial states (n, 3) and by (s, r, b) (n, 3), by reverse mode."""
    t = Trajectories(states, steps)
    trajectory(t.start, t.rates, t.steps, t.last, dt)
    t.last.grad.fill(0.0)
    for i in range(len(states)):
        t.last.grad[i] = [1.0, 0.0, 0.0]
    trajectory.grad(t.start, t.rates, t.steps, t.last, dt)
    return t.last.to_numpy()[:, 0], t.start.grad.to_numpy(), t.rates.grad.to_numpy()


def tangents(states: np.ndarray, steps: int, dt: float = 0.005) -> tuple[np.ndarray, np.ndarray]:
    """By forward mode: derivatives of the final states by the initial states and by (s, r, b), both (n, 3, 3).

    Element [i, j, k] belongs to trajectory i: the derivative of component j by component k. One run of all
    trajectories gives one k.
    """
    t = Trajectories(states, steps)
    found = []
    for param in (t.start, t.rates):
        columns = []
        for k in range(3):
            seed = np.zeros((len(states), 3))
            seed[:, k] = 1.0
            with qd.ad.FwdMode(loss=t.last, param=param, seed=seed.ravel().tolist()):
                trajectory(t.start, t.rates, t.steps, t.last, dt)
                columns.append(t.last.dual.to_numpy())
        found.append(np.stack(columns, -1))
    return found[0], found[1]


def main(n: int = 4, horizons: tuple[int, ...] = (0, 200, 1000, 3000)) -> list[float]:
    """The largest norm of d x(T) / d start over ``n`` trajectories, for each number of steps."""
    qd.init(arch=qd.cpu)
    states = np.array([1.0, 1.0, 20.0]) + np.random.default_rng(11).normal(size=(n, 3))
    return [float(np.linalg.norm(gradient(states, steps)[1], axis=1).max()) for steps in horizons]


if __name__ == "__main__":
    print("d x(T) / d start:", ", ".join(f"{norm:.3g}" for norm in main()))
