"""A jelly is thrown at a target: the moving least squares material point method in two dimensions, and its
derivatives.

Particles carry position ``x``, velocity ``v``, its local gradient ``C`` and the deformation ``F`` (Hu et al.,
2018). Each step

    G = (1 + dt C) F                                                                       deform
    p_i = sum_p w_ip m (v + A (x_i - x)),  m_i = sum_p w_ip m                              scatter
          with A = C - (4 dt / (m h**2)) V (mu (G G^T - 1) + lambda log(det G) 1)
    u_i = p_i / m_i + dt g, without the part that points into a wall                       push
    v = sum_i w_ip u_i,   C = (4 / h**2) sum_i w_ip u_i (x_i - x)^T                        gather
    x <- x + dt v,  F <- G                                                                 advect

where ``i`` are the 3 x 3 nodes around a particle and ``w_ip`` the quadratic B-spline; the stress is
neo-Hookean. No launch overwrites values that its own derivative reads, which is why ``G`` is a separate field;
``qd.ad.Tape`` saves what the next step overwrites. The loss is ``L = |mean x - target|**2`` at the end; its
derivatives are taken with respect to the velocity of the throw, the material and the initial
positions.

Shapes: ``x``, ``v`` (particles,) of 2-vectors, ``C``, ``F``, ``G`` (particles,) of 2 x 2, ``momentum``, ``u``
(cells, cells) of 2-vectors, ``mass`` (cells, cells), ``throw`` () a 2-vector, ``material`` () of (mu,
lambda), ``loss`` (); default_fp. The box is 1 by 1.
"""

import numpy as np

import quadrants_lab as qd


@qd.data_oriented
class Jelly:
    """Particles at ``places`` (n, 2), of density 1 and filling ``volume`` each, on ``cells`` by ``cells`` nodes."""

    gravity, wall = 2.0, 3

    def __init__(self, places: np.ndarray, volume: float, cells: int, dt: float) -> None:
        n = len(places)
        self.cells, self.dt, self.volume, self.h = cells, dt, volume, 1.0 / cells
        self.start, self.x, self.v = (qd.Vector.field(2, float, shape=n, needs_grad=True) for _ in range(3))
        self.C, self.F, self.G = (qd.Matrix.field(2, 2, float, shape=n, needs_grad=True) for _ in range(3))
        self.momentum, self.u = (
            qd.Vector.field(2, float, shape=(cells, cells), needs_grad=True) for _ in range(2)
        )
        self.mass = qd.field(float, shape=(cells, cells), needs_grad=True)
        self.throw, self.material = (qd.Vector.field(2, float, shape=(), needs_grad=True) for _ in range(2))
        self.target = qd.Vector.field(2, float, shape=())
        self.center = qd.Vector.field(2, float, shape=(), needs_grad=True)
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.start.from_numpy(places)

    @qd.func
    def weights(self, x):
        """The first of the three nodes along each axis, how far ``x`` is from it in cells, and the nodes' weights."""
        base = (x / self.h - 0.5).cast(int)
        at = x / self.h - base
        return base, at, [0.5 * (1.5 - at) ** 2, 0.75 - (at - 1.0) ** 2, 0.5 * (at - 0.5) ** 2]

    @qd.kernel
    def begin(self):
        for p in self.x:
            self.x[p] = self.start[p]
            self.v[p] = self.throw[None]
            self.C[p] = qd.Matrix.zero(float, 2, 2)
            self.F[p] = qd.Matrix.identity(float, 2)

    @qd.kernel
    def deform(self):
        for p in self.x:
            self.G[p] = (qd.Matrix.identity(float, 2) + self.dt * self.C[p]) @ self.F[p]
        for i, j in self.mass:
            self.mass[i, j] = 0.0
            self.momentum[i, j] = [0.0, 0.0]

    @qd.kernel
    def scatter(self):
        for p in self.x:
            base, at, w = self.weights(self.x[p])
            G, one, material = self.G[p], qd.Matrix.identity(float, 2), self.material[None]
            stress = material[0] * (G @ G.transpose() - one) + material[1] * qd.log(G.determinant()) * one
            m = self.volume
            A = m * self.C[p] - (4.0 * self.dt * self.volume / self.h**2) * stress
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                weight = w[i].x * w[j].y
                self.momentum[base + offset] += weight * (m * self.v[p] + A @ ((offset - at) * self.h))
                self.mass[base + offset] += weight * m

    @qd.kernel
    def push(self):
        for i, j in self.mass:
            u = qd.Vector([0.0, 0.0])
            if self.mass[i, j] > 0.0:
                u = self.momentum[i, j] / self.mass[i, j] - self.dt * qd.Vector([0.0, self.gravity])
                if i < self.wall:
                    u.x = qd.max(u.x, 0.0)
                if i > self.cells - self.wall:
                    u.x = qd.min(u.x, 0.0)
                if j < self.wall:
                    u.y = qd.max(u.y, 0.0)
                if j > self.cells - self.wall:
                    u.y = qd.min(u.y, 0.0)
            self.u[i, j] = u

    @qd.kernel
    def gather(self):
        for p in self.x:
            base, at, w = self.weights(self.x[p])
            v = qd.Vector.zero(float, 2)
            C = qd.Matrix.zero(float, 2, 2)
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                u = w[i].x * w[j].y * self.u[base + offset]
                v += u
                C += 4.0 / self.h * u.outer_product(offset - at)
            self.v[p] = v
            self.C[p] = C

    @qd.kernel
    def advect(self):
        for p in self.x:
            self.x[p] += self.dt * self.v[p]
            self.F[p] = self.G[p]

    @qd.kernel
    def average(self):
        for p in self.x:
            self.center[None] += self.x[p] / self.x.shape[0]

    @qd.kernel
    def measure(self):
        self.loss[None] = (self.center[None] - self.target[None]).norm_sqr()

    def run(self, steps: int) -> None:
        self.center[None] = [0.0, 0.0]
        self.begin()
        for _ in range(steps):
            self.deform()
            self.scatter()
            self.push()
            self.gather()
            self.advect()
        self.average()
        self.measure()

    def gradient(self, throw: np.ndarray, steps: int) -> tuple[float, np.ndarray]:
        """L after ``steps`` steps, and dL/dthrow; ``material.grad`` and ``start.grad`` have the other derivatives."""
        self.throw.from_numpy(throw)
        with qd.ad.Tape(self.loss):
            self.run(steps)
        return float(self.loss[None]), self.throw.grad.to_numpy()


def block(n: int, low: float, high: float) -> tuple[np.ndarray, float]:
    """n by n particles that fill the square from ``low`` to ``high`` along both axes, and the volume of each."""
    line = low + (high - low) * (np.arange(n, dtype=np.float32) + 0.5) / n
    return np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2), ((high - low) / n) ** 2


def jelly(n: int = 8, cells: int = 24, dt: float = 0.004) -> Jelly:
    """A soft `Jelly` of n by n particles, near a corner of the box."""
    made = Jelly(*block(n, 0.2, 0.4), cells, dt)
    made.material[None] = [10.0, 20.0]
    return made


def main(n: int = 8, cells: int = 24, steps: int = 100, rounds: int = 12, rate: float = 4.0) -> list[float]:
    """Throws a jelly at a place behind a bounce on the floor; returns by how far it misses before each round."""
    qd.init(arch=qd.cpu)
    thrown = jelly(n, cells)
    thrown.target[None] = [0.7, 0.4]
    throw, missed = np.array([0.5, 0.5], np.float32), []
    for _ in range(rounds):
        loss, slope = thrown.gradient(throw, steps)
        missed.append(loss**0.5)
        throw -= np.float32(rate) * slope
    return missed


if __name__ == "__main__":
    missed = main()
    print(f"misses by {missed[0]:.3g} -> {missed[-1]:.3g}")
