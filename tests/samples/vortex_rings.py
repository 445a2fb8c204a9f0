"""Two pairs of vortices leapfrog and carry tracers along: Runge and Kutta's method over a func that sums them all."""

import numpy as np

DT, EPS = 0.1, 0.05


def make(qd):
    @qd.data_oriented
    class Rings:
        def __init__(self, places, strengths, tracers):
            self.count = len(strengths)
            self.place = qd.Vector.field(2, float, shape=self.count)
            self.moved = qd.Vector.field(2, float, shape=self.count)
            self.strength = qd.field(float, shape=self.count)
            self.tracer = qd.Vector.field(2, float, shape=len(tracers))
            self.place.from_numpy(places)
            self.strength.from_numpy(strengths)
            self.tracer.from_numpy(tracers)

        @qd.func
        def wind(self, p, but):
            u = qd.Vector([0.0, 0.0])
            for k in range(self.count):
                if k != but:
                    d = p - self.place[k]
                    u += self.strength[k] / (2.0 * qd.math.pi * (d.norm_sqr() + EPS**2)) * qd.Vector([-d.y, d.x])
            return u

        @qd.func
        def kutta(self, p, but):
            first = self.wind(p, but)
            second = self.wind(p + 0.5 * DT * first, but)
            third = self.wind(p + 0.75 * DT * second, but)
            return p + DT / 9.0 * (2.0 * first + 3.0 * second + 4.0 * third)

        @qd.kernel
        def step(self):
            for t in self.tracer:
                self.tracer[t] = self.kutta(self.tracer[t], -1)
            for k in self.moved:
                self.moved[k] = self.kutta(self.place[k], k)
            for k in self.place:
                self.place[k] = self.moved[k]

    def run():
        x, y = np.meshgrid(np.linspace(-0.5, 1.5, 8), np.linspace(-1.2, 1.2, 8))
        tracers = np.stack([x, y], -1).reshape(-1, 2)
        rings = Rings(*vortices(), tracers)
        for _ in range(30):
            rings.step()
        return {"place": rings.place.to_numpy(), "tracer": rings.tracer.to_numpy()}

    return run


def vortices():
    return np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.6], [1.0, -0.6]]), np.array([-1.0, 1.0, -1.0, 1.0])
