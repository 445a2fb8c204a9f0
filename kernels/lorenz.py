"""The Lorenz system: how fast do two neighbouring initial states part?

    x' = s (y - x),   y' = x (r - z) - y,   z' = x y - b z,        s = 10, r = 28, b = 8/3

integrated by the midpoint rule for a number of steps that is read from memory, so only known at launch. Three values
are carried and multiplied with each other: three stacks, each exactly as deep as the number of steps. The gradient of
the last ``x`` by the first state is one row of the product of all step Jacobians, which is how the test computes it;
its norm grows like exp(0.9 t), with the system's largest Lyapunov exponent.

Shapes: ``start`` (n, 3), ``last`` (n,) the final x of each trajectory; any float dtype.
"""

import numpy as np

import quadrants_lab as qd

S, R, B = 10.0, 28.0, 8.0 / 3.0


@qd.kernel
def trajectory(
    start: qd.types.ndarray(ndim=2), steps: qd.types.ndarray(ndim=0), last: qd.types.ndarray(ndim=1), dt: qd.f64
):
    """last[i] = x of trajectory i after steps[None] steps."""
    for i in range(start.shape[0]):
        x = start[i, 0]
        y = start[i, 1]
        z = start[i, 2]
        for _ in range(steps[None]):
            mx = x + 0.5 * dt * S * (y - x)
            my = y + 0.5 * dt * (x * (R - z) - y)
            mz = z + 0.5 * dt * (x * y - B * z)
            x += dt * S * (my - mx)
            y += dt * (mx * (R - mz) - my)
            z += dt * (mx * my - B * mz)
        last[i] = x


def gradient(states: np.ndarray, steps: int, dt: float = 0.005) -> tuple[np.ndarray, np.ndarray]:
    """Final x (n,) and its derivative by the initial states (n, 3), in float64."""
    start = qd.ndarray(qd.f64, shape=states.shape, needs_grad=True)
    count = qd.ndarray(qd.i32, shape=())
    last = qd.ndarray(qd.f64, shape=(len(states),), needs_grad=True)
    start.from_numpy(states.astype(np.float64))
    count[None] = steps
    trajectory(start, count, last, dt)
    last.grad.fill(1.0)
    trajectory.grad(start, count, last, dt)
    return last.to_numpy(), start.grad.to_numpy()


def main(n: int = 4, horizons: tuple[int, ...] = (0, 200, 1000, 3000)) -> list[float]:
    """The largest norm of d x(T) / d start over ``n`` trajectories, for each number of steps."""
    qd.init(arch=qd.cpu)
    states = np.array([1.0, 1.0, 20.0]) + np.random.default_rng(11).normal(size=(n, 3))
    return [float(np.linalg.norm(gradient(states, steps)[1], axis=1).max()) for steps in horizons]


if __name__ == "__main__":
    print(main())
