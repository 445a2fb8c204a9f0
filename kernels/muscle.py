"""A soft body with muscles learns to move: the material point method, every step in elements of its own.

Particles carry position ``x``, velocity ``v``, its local gradient ``C`` and the deformation ``F``. A step is that of
`mpm` with another stress,

    G = F[t+1] = (1 + dt C) F,        S = mu (G G^T - 1) + lambda J (J - 1) 1 + a (G e) (G e)^T,        J = det G,

where ``e`` points up and ``a`` is the activation of the particle's muscle, which contracts or extends its fibres,

    a_m(t) = strength tanh(sum_j W_mj sin(pace t + 2 pi j / 4)),

and particles without a muscle have ``a = 0``. Velocities into walls are set to 0, on the floor in all directions. The
loss is ``L = -mean (x[T] - x[0])_x``: a lower loss is a longer way.

Shapes: ``x``, ``v`` (T + 1, particles) of 2-vectors, ``C``, ``F`` (T + 1, particles) of 2 x 2, ``momentum``, ``u`` (T,
cells, cells) of 2-vectors, ``mass`` (T, cells, cells), ``a`` (T, muscles), ``W`` (muscles, 4), ``muscle`` (particles,)
of i32, -1 for none, ``loss`` (); default_fp. The box is 1 by 1.
"""

import math

import numpy as np

import quadrants_lab as qd

BODY = """
######
######
00..11
00..11
"""


@qd.data_oriented
class Body:
    """Particles at ``places`` (n, 2), of density 1 and filling ``volume`` each, with the ``muscle`` (n,) of each."""

    mu, lam, gravity, strength, pace, wall = 10.0, 10.0, 2.0, 15.0, 20.0, 3

    def __init__(
        self, places: np.ndarray, muscle: np.ndarray, volume: float, cells: int, steps: int, dt: float = 0.005
    ) -> None:
        n, muscles = len(places), int(muscle.max()) + 1
        self.n, self.cells, self.steps, self.dt, self.volume, self.h = n, cells, steps, dt, volume, 1.0 / cells
        self.x, self.v = (qd.Vector.field(2, float, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
        self.C, self.F = (qd.Matrix.field(2, 2, float, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
        grid = steps, cells, cells
        self.momentum, self.u = (qd.Vector.field(2, float, shape=grid, needs_grad=True) for _ in range(2))
        self.mass = qd.field(float, shape=grid, needs_grad=True)
        self.a = qd.field(float, shape=(steps, muscles), needs_grad=True)
        self.W = qd.field(float, shape=(muscles, 4), needs_grad=True)
        self.muscle = qd.field(qd.i32, shape=n)
        self.places = qd.Vector.field(2, float, shape=n, needs_grad=True)
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.places.from_numpy(places)
        self.muscle.from_numpy(muscle.astype(np.int32))

    @qd.func
    def weights(self, x):
        """The first of the three nodes along each axis, how far ``x`` is from it in cells, and the nodes' weights."""
        base = (x / self.h - 0.5).cast(int)
        at = x / self.h - base
        return base, at, [0.5 * (1.5 - at) ** 2, 0.75 - (at - 1.0) ** 2, 0.5 * (at - 0.5) ** 2]

    @qd.kernel
    def begin(self):
        for p in self.places:
            self.x[0, p] = self.places[p]
            self.v[0, p] = [0.0, 0.0]
            self.C[0, p] = qd.Matrix.zero(float, 2, 2)
            self.F[0, p] = qd.Matrix.identity(float, 2)
        for t, i, j in self.mass:
            self.mass[t, i, j] = 0.0
            self.momentum[t, i, j] = [0.0, 0.0]
        for t, m in self.a:
            wave = 0.0
            for j in qd.static(range(4)):
                wave += self.W[m, j] * qd.sin(self.pace * self.dt * t + 0.5 * math.pi * j)
            self.a[t, m] = self.strength * qd.tanh(wave)

    @qd.kernel
    def scatter(self, t: qd.i32):
        """Adds the mass and momentum of the particles to the nodes around them."""
        for p in self.places:
            base, at, w = self.weights(self.x[t, p])
            one = qd.Matrix.identity(float, 2)
            G = (one + self.dt * self.C[t, p]) @ self.F[t, p]
            J = G.determinant()
            stress = self.mu * (G @ G.transpose() - one) + self.lam * J * (J - 1.0) * one
            if self.muscle[p] >= 0:
                fibre = qd.Vector([G[0, 1], G[1, 1]])
                stress += self.a[t, self.muscle[p]] * fibre.outer_product(fibre)
            A = self.volume * self.C[t, p] - (4.0 * self.dt * self.volume / self.h**2) * stress
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                weight = w[i][0] * w[j][1]
                push = weight * (self.volume * self.v[t, p] + A @ ((offset - at) * self.h))
                self.momentum[t, base[0] + i, base[1] + j] += push
                self.mass[t, base[0] + i, base[1] + j] += weight * self.volume
            self.F[t + 1, p] = G

    @qd.kernel
    def push(self, t: qd.i32):
        """Computes the velocities of the nodes, with gravity, walls and floor."""
        for i, j in qd.ndrange(self.cells, self.cells):
            u = qd.Vector([0.0, 0.0])
            if self.mass[t, i, j] > 0.0:
                u = self.momentum[t, i, j] / self.mass[t, i, j] - self.dt * qd.Vector([0.0, self.gravity])
                if i < self.wall:
                    u[0] = qd.max(u[0], 0.0)
                if i > self.cells - self.wall:
                    u[0] = qd.min(u[0], 0.0)
                if j > self.cells - self.wall:
                    u[1] = qd.min(u[1], 0.0)
                if j < self.wall and u[1] < 0.0:
                    u = qd.Vector([0.0, 0.0])
            self.u[t, i, j] = u

    @qd.kernel
    def gather(self, t: qd.i32):
        """Gives the particles the velocities of the nodes around them, and moves them."""
        for p in self.places:
            base, at, w = self.weights(self.x[t, p])
            v = qd.Vector.zero(float, 2)
            C = qd.Matrix.zero(float, 2, 2)
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                u = w[i][0] * w[j][1] * self.u[t, base[0] + i, base[1] + j]
                v += u
                C += 4.0 / self.h * u.outer_product(offset - at)
            self.v[t + 1, p] = v
            self.C[t + 1, p] = C
            self.x[t + 1, p] = self.x[t, p] + self.dt * v

    @qd.kernel
    def measure(self):
        """loss[None] += L."""
        for p in self.places:
            self.loss[None] += (self.x[0, p][0] - self.x[self.steps, p][0]) / self.n

    def run(self) -> None:
        self.begin()
        for t in range(self.steps):
            self.scatter(t)
            self.push(t)
            self.gather(t)
        self.measure()

    def gradient(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """L with the muscles' weights ``W`` (muscles, 4), and dL/dW; ``places.grad`` has that by the places."""
        self.W.from_numpy(W)
        with qd.ad.Tape(self.loss):
            self.run()
        return float(self.loss[None]), self.W.grad.to_numpy()


def built(picture: str, cells: int, a_side: int = 2) -> tuple[np.ndarray, np.ndarray, float]:
    """Particles that fill the cells of a picture, which stands on the floor, ``a_side`` by ``a_side`` in each; the
    muscle of each (digits name one, # is none), and the volume of each."""
    places, muscle = [], []
    for i, row in enumerate(reversed(picture.split())):
        for j, c in enumerate(row):
            if c != ".":
                inner = [((a + 0.5) / a_side, (b + 0.5) / a_side) for a in range(a_side) for b in range(a_side)]
                places += [((Body.wall + j + a) / cells, (Body.wall + i + b) / cells) for a, b in inner]
                muscle += [-1 if c == "#" else int(c)] * len(inner)
    return np.array(places, np.float32), np.array(muscle), 1.0 / (cells * a_side) ** 2


def main(cells: int = 24, steps: int = 200, rounds: int = 12, rate: float = 0.1) -> list[float]:
    """Ascends by steps of one length; returns how far the body moves before each round."""
    qd.init(arch=qd.cpu)
    places, muscle, volume = built(BODY, cells)
    body, ways = Body(places, muscle, volume, cells, steps), []
    W = 0.02 * np.random.default_rng(0).normal(size=(muscle.max() + 1, 4)).astype(np.float32)
    for _ in range(rounds):
        loss, slope = body.gradient(W)
        ways.append(-loss)
        W = W - np.float32(rate / np.linalg.norm(slope)) * slope
    return ways


if __name__ == "__main__":
    ways = main()
    print(f"moves {ways[0]:.3g} -> {ways[-1]:.3g} (box length 1)")
