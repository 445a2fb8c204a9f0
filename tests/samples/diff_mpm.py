"""How fast must a soft block be thrown: the material point method with every step's particles and grid in memory."""

import numpy as np

SINGLE = 5e-3
PARAMS = {"throw": np.array([1.5, -2.0]), "stiffness": np.array(12.0)}


def make(qd):
    n, grid, steps, dt = 16, 10, 24, 4e-3
    dx, mass = 1.0 / grid, 0.05**2
    x, v = qd.Vector.field(2, float), qd.Vector.field(2, float)
    C, F = qd.Matrix.field(2, 2, float), qd.Matrix.field(2, 2, float)
    momentum, weight, out = qd.Vector.field(2, float), qd.field(float), qd.Vector.field(2, float)
    throw, stiffness, loss = qd.Vector.field(2, float), qd.field(float), qd.field(float)
    qd.root.dense(qd.ij, (steps + 1, n)).place(x, v, C, F)
    qd.root.dense(qd.ijk, (steps, grid, grid)).place(momentum, weight, out)
    qd.root.place(throw, stiffness, loss)
    qd.root.lazy_grad()

    @qd.kernel
    def begin():
        for p in range(n):
            x[0, p] = qd.Vector([0.32 + 0.05 * (p % 4), 0.3 + 0.05 * (p // 4)])
            v[0, p] = throw[None]
            F[0, p] = qd.Matrix.identity(float, 2)

    @qd.kernel
    def scatter(t: qd.i32):
        for p in range(n):
            base = qd.cast(x[t, p] / dx - 0.5, qd.i32)
            fx = x[t, p] / dx - qd.cast(base, float)
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
            one = qd.Matrix.identity(float, 2)
            G = (one + dt * C[t, p]) @ F[t, p]
            F[t + 1, p] = G
            stress = -dt * mass * 4.0 / dx**2 * stiffness[None] * (G @ G.transpose() - one)
            affine = stress + mass * C[t, p]
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                share = w[i][0] * w[j][1]
                momentum[t, base + offset] += share * (mass * v[t, p] + affine @ ((offset - fx) * dx))
                weight[t, base + offset] += share * mass

    @qd.kernel
    def push(t: qd.i32):
        for i, j in qd.ndrange(grid, grid):
            u = momentum[t, i, j] / (weight[t, i, j] + 1e-10)
            u[1] -= dt * 5.0
            if j < 3 and u[1] < 0.0:
                u[0] *= 0.9
                u[1] = 0.0
            out[t, i, j] = u

    @qd.kernel
    def gather(t: qd.i32):
        for p in range(n):
            base = qd.cast(x[t, p] / dx - 0.5, qd.i32)
            fx = x[t, p] / dx - qd.cast(base, float)
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
            new_v, new_C = qd.Vector.zero(float, 2), qd.Matrix.zero(float, 2, 2)
            for i, j in qd.static(qd.ndrange(3, 3)):
                g = w[i][0] * w[j][1] * out[t, base + qd.Vector([i, j])]
                new_v += g
                new_C += 4.0 / dx * g.outer_product(qd.Vector([i, j]) - fx)
            v[t + 1, p] = new_v
            C[t + 1, p] = new_C
            x[t + 1, p] = x[t, p] + dt * new_v

    @qd.kernel
    def miss():
        for p in range(n):
            loss[None] += (x[steps, p] - qd.Vector([0.6, 0.4])).norm_sqr() / n

    def run(**given):
        throw[None] = given["throw"]
        stiffness[None] = given["stiffness"]
        for f in (momentum, weight, C):
            f.fill(0.0)
        with qd.ad.Tape(loss):
            begin()
            for t in range(steps):
                scatter(t)
                push(t)
                gather(t)
            miss()
        return {"loss": loss.to_numpy(), "x": x.to_numpy()[-1],
                "throw.grad": throw.grad.to_numpy(), "stiffness.grad": stiffness.grad.to_numpy()}  # fmt: skip

    return run
