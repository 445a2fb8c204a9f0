"""Poisson's equation by conjugate gradients that a multigrid V-cycle preconditions: lists of fields, one a level."""

import numpy as np

SINGLE = 5e-3
N, LEVELS = 16, 3


def make(qd):
    @qd.data_oriented
    class Solver:
        def __init__(self):
            self.x, self.p, self.Ap = (qd.field(float, shape=(N, N)) for _ in range(3))
            self.r = [qd.field(float, shape=(N >> k, N >> k)) for k in range(LEVELS)]
            self.z = [qd.field(float, shape=(N >> k, N >> k)) for k in range(LEVELS)]
            self.sum = qd.field(float, shape=())

        @qd.func
        def around(self, f: qd.template(), I):
            total = 0.0
            for axis in qd.static(range(2)):
                for way in qd.static((-1, 1)):
                    J = I + way * qd.Vector.unit(2, axis)
                    if 0 <= J[axis] < f.shape[axis]:
                        total += f[J]
            return total

        @qd.kernel
        def multiply(self):
            for I in qd.grouped(self.p):
                self.Ap[I] = 4.0 * self.p[I] - self.around(self.p, I)

        @qd.kernel
        def smooth(self, level: qd.template(), colour: qd.template()):
            for I in qd.grouped(self.r[level]):
                if I.sum() % 2 == colour:
                    self.z[level][I] = (self.r[level][I] + self.around(self.z[level], I)) / 4.0

        @qd.kernel
        def restrict(self, level: qd.template()):
            for I in qd.grouped(self.r[level + 1]):
                self.r[level + 1][I] = 0.0
                self.z[level + 1][I] = 0.0
            for I in qd.grouped(self.r[level]):
                rest = self.r[level][I] - (4.0 * self.z[level][I] - self.around(self.z[level], I))
                self.r[level + 1][I // 2] += rest * 0.5

        @qd.kernel
        def prolong(self, level: qd.template()):
            for I in qd.grouped(self.z[level]):
                self.z[level][I] += self.z[level + 1][I // 2]

        @qd.kernel
        def dot(self, a: qd.template(), b: qd.template()):
            self.sum[None] = 0.0
            for I in qd.grouped(a):
                self.sum[None] += a[I] * b[I]

        @qd.kernel
        def add(self, out: qd.template(), a: qd.template(), scale: float, b: qd.template()):
            for I in qd.grouped(out):
                out[I] = a[I] + scale * b[I]

        def product(self, a, b):
            self.dot(a, b)
            return self.sum[None]

        def cycle(self):
            self.z[0].fill(0.0)
            for level in range(LEVELS - 1):
                for colour in (0, 1):
                    self.smooth(level, colour)
                self.restrict(level)
            for k in range(20):
                self.smooth(LEVELS - 1, k % 2)
                self.smooth(LEVELS - 1, 1 - k % 2)
            for level in reversed(range(LEVELS - 1)):
                self.prolong(level)
                for colour in (1, 0):
                    self.smooth(level, colour)

        def solve(self):
            self.r[0].from_numpy(load())
            self.cycle()
            self.p.copy_from(self.z[0])
            old, rounds = self.product(self.r[0], self.z[0]), 0
            while self.product(self.r[0], self.r[0]) > 1e-9 and rounds < 12:
                self.multiply()
                alpha = old / self.product(self.p, self.Ap)
                self.add(self.x, self.x, alpha, self.p)
                self.add(self.r[0], self.r[0], -alpha, self.Ap)
                self.cycle()
                new = self.product(self.r[0], self.z[0])
                self.add(self.p, self.z[0], new / old, self.p)
                old, rounds = new, rounds + 1
            return rounds

    def run():
        solver = Solver()
        few = solver.solve() < 12
        return {"x": solver.x.to_numpy(), "few": np.array(few)}

    return run


def load():
    i, j = np.mgrid[:N, :N] / N
    return np.sin(2 * np.pi * i) * np.cos(3 * j)


def expected():
    line = 2 * np.eye(N) - np.eye(N, k=1) - np.eye(N, k=-1)
    matrix = np.kron(line, np.eye(N)) + np.kron(np.eye(N), line)
    return {"x": np.linalg.solve(matrix, load().ravel()).reshape(N, N), "few": np.array(True)}


EXPECTED = 1e-4
