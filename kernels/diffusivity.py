"""A rod of unknown material: which diffusivity explains the temperatures that were measured?

Explicit steps of ``du/dt = d/dx (k du/dx)`` on ``n`` points with insulated ends, ``k`` given on the ``n - 1``
faces between them (in units of ``dx**2 / dt``; stable for ``k <= 1/2``):

    u[t+1, i] = u[t, i] + k[i] (u[t, i+1] - u[t, i]) - k[i-1] (u[t, i] - u[t, i-1]),

and the misfit ``L = sum_t sum_i (u[t, i] - measured[t, i])**2`` over all times. ``L`` is not quadratic in
``k``, and its derivative needs the temperatures of every time. `Rod.remembered` keeps them itself, a row of
``u`` for each; in `Rod.in_place` one row is overwritten again and again, and `qd.ad.Tape` keeps what the
gradient will ask for.

Shapes: ``u`` (T + 1, n), ``k`` (n - 1,), ``measured`` (T + 1, n), ``now`` (n,), ``flow`` (n - 1,), ``loss``
(); default_fp.
"""

import numpy as np

import quadrants_lab as qd


@qd.kernel
def step(u: qd.template(), k: qd.template(), t: qd.i32):
    """Row t + 1 from row t."""
    for i in range(u.shape[1]):
        change = 0.0
        if i + 1 < u.shape[1]:
            change += k[i] * (u[t, i + 1] - u[t, i])
        if i > 0:
            change -= k[i - 1] * (u[t, i] - u[t, i - 1])
        u[t + 1, i] = u[t, i] + change


@qd.kernel
def misfit(u: qd.template(), measured: qd.template(), loss: qd.template(), t: qd.i32):
    """loss[None] += |u[t] - measured[t]|**2."""
    for i in range(measured.shape[1]):
        loss[None] += (u[t, i] - measured[t, i]) ** 2


@qd.kernel
def conduct(now: qd.template(), k: qd.template(), flow: qd.template()):
    """flow[i] = the heat that flows through face i to the left."""
    for i in flow:
        flow[i] = k[i] * (now[i + 1] - now[i])


@qd.kernel
def exchange(now: qd.template(), flow: qd.template()):
    """Adds the flow to the temperatures, in place."""
    for i in flow:
        now[i] += flow[i]
        now[i + 1] -= flow[i]


@qd.kernel
def misfit_now(now: qd.template(), measured: qd.template(), loss: qd.template(), t: qd.i32):
    """loss[None] += |now - measured[t]|**2."""
    for i in now:
        loss[None] += (now[i] - measured[t, i]) ** 2


class Rod:
    """The rod, what was measured on it (T + 1, n), and the derivative of the misfit by its diffusivity."""

    def __init__(self, measured: np.ndarray) -> None:
        rows, n = measured.shape
        self.steps, self.initial = rows - 1, measured[0]
        self.u = qd.field(float, shape=(rows, n), needs_grad=True)
        self.now = qd.field(float, shape=n, needs_grad=True)
        self.k = qd.field(float, shape=n - 1, needs_grad=True)
        self.flow = qd.field(float, shape=n - 1, needs_grad=True)
        self.measured = qd.field(float, shape=(rows, n))
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.measured.from_numpy(measured)

    def simulate(self, k: np.ndarray) -> np.ndarray:
        """All temperatures (T + 1, n) for the diffusivity ``k`` (n - 1,)."""
        self._set(k)
        for t in range(self.steps):
            step(self.u, self.k, t)
        return self.u.to_numpy()

    def remembered(self, k: np.ndarray) -> tuple[float, np.ndarray]:
        """L and dL/dk (n - 1,); the temperatures of each time are in a row of their own."""
        self._set(k)
        with qd.ad.Tape(self.loss):
            for t in range(self.steps + 1):
                misfit(self.u, self.measured, self.loss, t)
                if t < self.steps:
                    step(self.u, self.k, t)
        return float(self.loss[None]), self.k.grad.to_numpy()

    def in_place(self, k: np.ndarray) -> tuple[float, np.ndarray]:
        """L and dL/dk (n - 1,); the temperatures of all times are in the same row."""
        self._set(k)
        with qd.ad.Tape(self.loss):
            for t in range(self.steps + 1):
                misfit_now(self.now, self.measured, self.loss, t)
                if t < self.steps:
                    conduct(self.now, self.k, self.flow)
                    exchange(self.now, self.flow)
        return float(self.loss[None]), self.k.grad.to_numpy()

    def _set(self, k: np.ndarray) -> None:
        self.k.from_numpy(k)
        start = np.zeros(self.u.shape, self.u.to_numpy().dtype)
        start[0] = self.initial
        self.u.from_numpy(start)
        self.now.from_numpy(start[0])


def main(n: int = 10, steps: int = 40, rounds: int = 100, rate: float = 0.008) -> tuple[list[float], float]:
    """Descends with momentum from an even guess; returns the misfit before each round, and the last error of k."""
    qd.init(arch=qd.cpu)
    x = np.linspace(0.0, 1.0, n)
    truth = 0.25 + 0.15 * np.sin(3.0 * np.pi * x[:-1])
    rows = np.zeros((steps + 1, n))
    rows[0] = np.exp(-8.0 * x) + np.cos(2.0 * np.pi * x)
    rod = Rod(np.tile(rows[0], (steps + 1, 1)))
    rod.measured.from_numpy(rod.simulate(truth))
    k, speed, losses = np.full(n - 1, 0.25), np.zeros(n - 1), []
    for _ in range(rounds):
        loss, slope = rod.in_place(k)
        losses.append(loss)
        speed = 0.9 * speed - rate * slope
        k = k + speed
    return losses, float(np.abs(k - truth).max())


if __name__ == "__main__":
    losses, error = main()
    print(f"misfit {losses[0]:.3g} -> {losses[-1]:.3g}, diffusivity known to {error:.2g}")
