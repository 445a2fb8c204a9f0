"""A column of water that collapses: smoothed particle hydrodynamics with neighbours found through a grid of cells."""

import numpy as np

SINGLE = 2e-3


def make(qd):
    n, h, dt, most = 100, 0.1, 2e-3, 32
    cells = int(1 / h)
    x, v, force = (qd.Vector.field(2, float, shape=n) for _ in range(3))
    density, pressure = qd.field(float, shape=n), qd.field(float, shape=n)
    filled = qd.field(qd.i32)
    inside = qd.field(qd.i32)
    block = qd.root.dense(qd.ij, (cells, cells))
    block.place(filled)
    block.dense(qd.k, most).place(inside)
    mass = 0.05**2  # of a particle in water of density 1

    @qd.func
    def cell_of(p):
        return qd.math.clamp(qd.floor(p / h, qd.i32), 0, cells - 1)

    @qd.func
    def sum_around(p: qd.template(), task: qd.template(), total: qd.template()):
        home = cell_of(x[p])
        for di, dj in qd.static(qd.ndrange((-1, 2), (-1, 2))):
            c = home + qd.Vector([di, dj])
            if 0 <= c.x < cells and 0 <= c.y < cells:
                for k in range(filled[c]):
                    q = inside[c, k]
                    task(p, q, total)

    @qd.func
    def add_density(p, q, total: qd.template()):
        total += mass * qd.max(h * h - (x[p] - x[q]).norm_sqr(), 0.0) ** 3

    @qd.func
    def add_force(p, q, total: qd.template()):
        r = x[p] - x[q]
        d = r.norm()
        if p != q and 1e-6 < d < h:
            push = (pressure[p] + pressure[q]) / (2.0 * density[q]) * (h - d) ** 2
            total += mass * (push * r / d + 0.1 * (h - d) / density[q] * (v[q] - v[p]))

    @qd.kernel
    def find():
        for c in qd.grouped(filled):
            filled[c] = 0
        for p in x:
            c = cell_of(x[p])
            inside[c, qd.atomic_add(filled[c], 1)] = p

    @qd.kernel
    def press():
        for p in x:
            total = 0.0
            sum_around(p, add_density, total)
            density[p] = total * 4.0 / (qd.math.pi * h**8)
            pressure[p] = qd.max(50.0 * (density[p] - 1.0), 0.0)

    @qd.kernel
    def move():
        for p in x:
            total = qd.Vector([0.0, 0.0])
            sum_around(p, add_force, total)
            force[p] = total * 30.0 / (qd.math.pi * h**5)
        for p in x:
            v[p] += dt * (force[p] / density[p] - qd.Vector([0.0, 9.8]))
            x[p] += dt * v[p]
            for k in qd.static(range(2)):
                if x[p][k] < 0.02 or x[p][k] > 0.98:
                    x[p][k] = qd.math.clamp(x[p][k], 0.02, 0.98)
                    v[p][k] *= -0.3

    def run():
        line = 0.046 * (np.arange(10) + 1.0)
        x.from_numpy(np.stack(np.meshgrid(line, line + 0.002 * np.arange(10)), -1).reshape(-1, 2))
        v.fill(0.0)
        for _ in range(20):
            find()
            press()
            move()
        return {"x": x.to_numpy(), "density": density.to_numpy(), "found": filled.to_numpy()}

    return run
