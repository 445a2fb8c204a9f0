"""Smoke that is blown into a shape: the initial wind, found by descending through an incompressible flow.

On n by n cells of a torus, a step advects velocity and smoke (semi-Lagrangian, bilinear), and then removes the part of
the velocity that is not divergence-free (Chorin's projection):

    w[t] = v[t](x - v[t]),    q[t+1] = q[t](x - v[t]),        lap p = div w[t],        v[t+1] = w[t] - grad p,

with lengths in cells and times in steps. A few Jacobi iterations, ``p <- (the four neighbours of p - div w) / 4`` from
p = 0, solve the Poisson equation. Each step, and each iteration, writes elements of its own. The misfit is
``L = sum (q[T] - target)**2``.

Shapes: ``v``, ``w`` (T + 1, n, n) of 2-vectors, ``q`` (T + 1, n, n), ``p`` (T, iterations + 1, n, n), ``source``
(T, n, n), ``wind`` (n, n) of 2-vectors, ``target`` (n, n), ``loss`` (); default_fp.
"""

import numpy as np

import quadrants_lab as qd


@qd.data_oriented
class Flow:
    """``n`` by ``n`` cells, ``steps`` steps with so many Jacobi ``iterations`` each."""

    def __init__(self, n: int, steps: int, iterations: int) -> None:
        self.n, self.steps, self.iterations = n, steps, iterations
        self.v, self.w = (qd.Vector.field(2, float, shape=(steps + 1, n, n), needs_grad=True) for _ in range(2))
        self.q = qd.field(float, shape=(steps + 1, n, n), needs_grad=True)
        self.p = qd.field(float, shape=(steps, iterations + 1, n, n), needs_grad=True)
        self.source = qd.field(float, shape=(steps, n, n), needs_grad=True)
        self.wind = qd.Vector.field(2, float, shape=(n, n), needs_grad=True)
        self.target = qd.field(float, shape=(n, n))
        self.loss = qd.field(float, shape=(), needs_grad=True)

    @qd.kernel
    def begin(self):
        for i, j in self.wind:
            self.v[0, i, j] = self.wind[i, j]

    @qd.kernel
    def carry(self, t: qd.i32):
        """Advects velocity and smoke: a cell takes the values upstream, interpolated between four cells."""
        for i, j in self.wind:
            x, y = i - self.v[t, i, j][0] + self.n, j - self.v[t, i, j][1] + self.n
            a, b = qd.cast(x, qd.i32), qd.cast(y, qd.i32)
            fx, fy = x - a, y - b
            i0, i1, j0, j1 = a % self.n, (a + 1) % self.n, b % self.n, (b + 1) % self.n
            self.w[t, i, j] = (1.0 - fx) * ((1.0 - fy) * self.v[t, i0, j0] + fy * self.v[t, i0, j1]) + fx * (
                (1.0 - fy) * self.v[t, i1, j0] + fy * self.v[t, i1, j1]
            )
            self.q[t + 1, i, j] = (1.0 - fx) * ((1.0 - fy) * self.q[t, i0, j0] + fy * self.q[t, i0, j1]) + fx * (
                (1.0 - fy) * self.q[t, i1, j0] + fy * self.q[t, i1, j1]
            )

    @qd.kernel
    def diverge(self, t: qd.i32):
        for i, j in self.wind:
            right, left = self.w[t, (i + 1) % self.n, j], self.w[t, (i + self.n - 1) % self.n, j]
            up, down = self.w[t, i, (j + 1) % self.n], self.w[t, i, (j + self.n - 1) % self.n]
            self.source[t, i, j] = 0.5 * (right[0] - left[0] + up[1] - down[1])

    @qd.kernel
    def relax(self, t: qd.i32, k: qd.i32):
        """One Jacobi iteration."""
        for i, j in self.wind:
            right, left = self.p[t, k, (i + 1) % self.n, j], self.p[t, k, (i + self.n - 1) % self.n, j]
            up, down = self.p[t, k, i, (j + 1) % self.n], self.p[t, k, i, (j + self.n - 1) % self.n]
            self.p[t, k + 1, i, j] = 0.25 * (right + left + up + down - self.source[t, i, j])

    @qd.kernel
    def project(self, t: qd.i32, k: qd.i32):
        for i, j in self.wind:
            right, left = self.p[t, k, (i + 1) % self.n, j], self.p[t, k, (i + self.n - 1) % self.n, j]
            up, down = self.p[t, k, i, (j + 1) % self.n], self.p[t, k, i, (j + self.n - 1) % self.n]
            self.v[t + 1, i, j] = self.w[t, i, j] - 0.5 * qd.Vector([right - left, up - down])

    @qd.kernel
    def measure(self):
        """loss[None] += L."""
        for i, j in self.target:
            self.loss[None] += (self.q[self.steps, i, j] - self.target[i, j]) ** 2

    def run(self) -> None:
        self.begin()
        for t in range(self.steps):
            self.carry(t)
            self.diverge(t)
            for k in range(self.iterations):
                self.relax(t, k)
            self.project(t, self.iterations)
        self.measure()

    def gradient(self, wind: np.ndarray) -> tuple[float, np.ndarray]:
        """L for smoke that starts with the velocity ``wind`` (n, n, 2), and dL/dwind."""
        self.wind.from_numpy(wind)
        with qd.ad.Tape(self.loss):
            self.run()
        return float(self.loss[None]), self.wind.grad.to_numpy()


def disc(n: int, at: float, r: float) -> np.ndarray:
    """A disc on n by n cells, with a soft edge: middle (at n, at n), radius r n."""
    i, j = np.mgrid[:n, :n]
    return np.clip(r * n + 0.5 - np.hypot(i - at * n, j - at * n), 0.0, 1.0).astype(np.float32)


def main(n: int = 32, steps: int = 20, iterations: int = 6, rounds: int = 25, rate: float = 0.02) -> list[float]:
    """Blows a disc into a ring: descends with momentum from no wind; returns the misfit before each round."""
    qd.init(arch=qd.cpu)
    flow = Flow(n, steps, iterations)
    start = np.zeros((steps + 1, n, n), np.float32)
    start[0] = disc(n, 0.4, 0.25)
    flow.q.from_numpy(start)
    flow.target.from_numpy(disc(n, 0.55, 0.25) - disc(n, 0.55, 0.1))
    wind, speed, losses = np.zeros((n, n, 2), np.float32), np.zeros((n, n, 2), np.float32), []
    for _ in range(rounds):
        loss, slope = flow.gradient(wind)
        losses.append(loss)
        speed = 0.8 * speed - np.float32(rate / np.abs(slope).max()) * slope
        wind = wind + speed
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"misfit {losses[0]:.3g} -> {losses[-1]:.3g}")
