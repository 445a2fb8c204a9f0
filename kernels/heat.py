"""The heat equation on a rod: which initial temperature leads to the one that was measured?

Explicit steps of ``du/dt = k d2u/dx2`` on ``n`` points, ends held: with ``r = k dt / dx**2`` (stable for ``r <= 1/2``)

    u[t+1, i] = u[t, i] + r (u[t, i-1] - 2 u[t, i] + u[t, i+1]),        0 < i < n - 1,

and the misfit ``L = sum_i (u[T, i] - target[i])**2``. Every time step is a launch that reads row ``t`` and writes row
``t + 1`` of one array, so its gradient needs no stack at all: the launches run again in opposite order. The step is
linear, ``u[t+1] = A u[t]``, so ``dL/du[0] = 2 (A^T)^T (u[T] - target)``, which is what the test checks.

Shapes: ``u`` (T + 1, n), ``target`` (n,), ``loss`` (); any float dtype.
"""

import numpy as np

import quadrants_lab as qd


@qd.kernel
def step(u: qd.types.ndarray(ndim=2), t: qd.i32, r: qd.f32):
    """Row t + 1 from row t."""
    for i in range(u.shape[1]):
        flow = 0.0
        if i > 0 and i < u.shape[1] - 1:
            flow = r * (u[t, i - 1] - 2.0 * u[t, i] + u[t, i + 1])
        u[t + 1, i] = u[t, i] + flow


@qd.kernel
def misfit(u: qd.types.ndarray(ndim=2), target: qd.types.ndarray(ndim=1), loss: qd.types.ndarray(ndim=0), t: qd.i32):
    """loss[None] += |u[t] - target|**2."""
    for i in range(target.shape[0]):
        d = u[t, i] - target[i]
        loss[None] += d * d


def gradient(initial: np.ndarray, target: np.ndarray, steps: int, r: float = 0.25) -> tuple[float, np.ndarray]:
    """The misfit after ``steps`` steps from ``initial`` (n,), and its derivative by ``initial``."""
    n = len(initial)
    u = qd.ndarray(qd.f32, shape=(steps + 1, n), needs_grad=True)
    loss = qd.ndarray(qd.f32, shape=(), needs_grad=True)
    start = np.zeros((steps + 1, n), np.float32)
    start[0] = initial
    u.from_numpy(start)
    goal = target.astype(np.float32)
    for t in range(steps):
        step(u, t, r)
    misfit(u, goal, loss, steps)
    loss.grad[None] = 1.0
    misfit.grad(u, goal, loss, steps)
    for t in reversed(range(steps)):
        step.grad(u, t, r)
    return float(loss[None]), u.grad.to_numpy()[0]


def main(n: int = 32, steps: int = 40, rounds: int = 25, rate: float = 0.4) -> list[float]:
    """Gradient descent on the initial temperature between the ends; the misfit before each round."""
    qd.init(arch=qd.cpu)
    x = np.linspace(0.0, np.pi, n)
    target = 0.5 * np.sin(x).astype(np.float32)
    guess = np.zeros(n, np.float32)
    losses = []
    for _ in range(rounds):
        loss, slope = gradient(guess, target, steps)
        losses.append(loss)
        guess[1:-1] -= rate * slope[1:-1]
    return losses


if __name__ == "__main__":
    print(main())
