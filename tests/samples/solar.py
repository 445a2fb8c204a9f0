"""Planets around a sun: a data-oriented class with class members, a class method's constants and its own kernels."""

import numpy as np


def make(qd):
    @qd.data_oriented
    class Solar:
        gravity = 1.0

        def __init__(self, n, dt):
            self.n, self.dt = n, dt
            self.x, self.v = qd.Vector.field(2, dtype=float), qd.Vector.field(2, dtype=float)
            qd.root.dense(qd.i, n).place(self.x, self.v)
            self.center = qd.Vector.field(2, dtype=float, shape=())

        @staticmethod
        @qd.func
        def turned(v, angle):
            return qd.Matrix([[qd.cos(angle), -qd.sin(angle)], [qd.sin(angle), qd.cos(angle)]]) @ v

        @qd.kernel
        def initialise(self, radius: float):
            for i in self.x:
                angle = 2.0 * qd.math.pi * i / self.n
                r = radius * (1.0 + 0.1 * i)
                self.x[i] = self.center[None] + self.turned(qd.Vector([r, 0.0]), angle)
                self.v[i] = self.turned(qd.Vector([0.0, qd.sqrt(self.gravity / r)]), angle)

        @qd.func
        def pull(self, p):
            d = p - self.center[None]
            return -self.gravity * d / d.norm() ** 3

        @qd.kernel
        def advance(self, steps: qd.i32):
            for i in self.x:
                for _ in range(steps):
                    self.v[i] += 0.5 * self.dt * self.pull(self.x[i])
                    self.x[i] += self.dt * self.v[i]
                    self.v[i] += 0.5 * self.dt * self.pull(self.x[i])

        @qd.kernel
        def energy(self) -> float:
            total = 0.0
            for i in self.x:
                total += 0.5 * self.v[i].norm_sqr() - self.gravity / (self.x[i] - self.center[None]).norm()
            return total

    def run():
        system = Solar(9, 0.005)
        system.center[None] = [0.5, 0.5]
        system.initialise(0.4)
        system.advance(200)
        return {"x": system.x.to_numpy(), "energy": np.array(system.energy())}

    return run


def expected():
    """Circles, but for the steps' error, which is of second order; the energy is that of the circles."""
    return {"energy": -0.5 / 0.4 * sum(1 / (1 + 0.1 * i) for i in range(9))}


EXPECTED = 1e-4
