"""Which wind blows this smoke into that shape: advection and projection, a row of every field for each step."""

import numpy as np

N = 10
PARAMS = {"wind": np.stack([np.sin(0.9 * np.add.outer(np.arange(N), 0.5 * np.arange(N)) + 0.3),
                            np.cos(0.7 * np.subtract.outer(np.arange(N), 0.6 * np.arange(N)))], -1)}  # fmt: skip


def make(qd):
    steps, rounds, dt = 4, 4, 0.4
    wind, v, bent = (qd.Vector.field(2, dtype=float) for _ in range(3))
    smoke, divergence, pressure, loss = (qd.field(dtype=float) for _ in range(4))
    qd.root.dense(qd.ij, N).place(wind)
    qd.root.dense(qd.i, steps + 1).dense(qd.jk, N).place(v, bent, smoke, divergence)
    qd.root.dense(qd.i, (steps + 1) * (rounds + 1)).dense(qd.jk, N).place(pressure)
    qd.root.place(loss)
    qd.root.lazy_grad()

    @qd.func
    def at(f: qd.template(), t, p):
        """Between four cells of a torus."""
        base = qd.cast(qd.floor(p), qd.i32)
        part = p - base
        out = f[t, 0, 0] * 0.0
        for i, j in qd.static(qd.ndrange(2, 2)):
            share = (part.x if i else 1.0 - part.x) * (part.y if j else 1.0 - part.y)
            out += share * f[t, (base.x + i) % N, (base.y + j) % N]
        return out

    @qd.kernel
    def begin():
        for i, j in wind:
            v[0, i, j] = wind[i, j]
            smoke[0, i, j] = qd.exp(-0.4 * ((i - 3.0) ** 2 + (j - 4.0) ** 2))

    @qd.kernel
    def advect(t: qd.i32, f: qd.template(), out: qd.template()):
        for i, j in wind:
            out[t + 1, i, j] = at(f, t, qd.Vector([i, j]) - dt * v[t, i, j])

    @qd.kernel
    def diverge(t: qd.i32):
        for i, j in wind:
            across = bent[t, (i + 1) % N, j].x - bent[t, (i - 1) % N, j].x
            divergence[t, i, j] = 0.5 * (across + bent[t, i, (j + 1) % N].y - bent[t, i, (j - 1) % N].y)

    @qd.kernel
    def relax(t: qd.i32, k: qd.i32):
        for i, j in wind:
            row = t * (rounds + 1) + k
            around = pressure[row, (i + 1) % N, j] + pressure[row, (i - 1) % N, j]
            around += pressure[row, i, (j + 1) % N] + pressure[row, i, (j - 1) % N]
            pressure[row + 1, i, j] = 0.25 * (around - divergence[t, i, j])

    @qd.kernel
    def project(t: qd.i32):
        for i, j in wind:
            row = t * (rounds + 1) + rounds
            slope = qd.Vector([pressure[row, (i + 1) % N, j] - pressure[row, (i - 1) % N, j],
                               pressure[row, i, (j + 1) % N] - pressure[row, i, (j - 1) % N]])  # fmt: skip
            v[t, i, j] = bent[t, i, j] - 0.5 * slope

    @qd.kernel
    def compare():
        for i, j in wind:
            loss[None] += (smoke[steps, i, j] - float((i - j) % 5 == 0)) ** 2

    def run(**given):
        wind.from_numpy(given["wind"])
        with qd.ad.Tape(loss):
            begin()
            for t in range(steps):
                advect(t, v, bent)
                diverge(t + 1)
                for k in range(rounds):
                    relax(t + 1, k)
                project(t + 1)
                advect(t, smoke, smoke)
            compare()
        return {"loss": loss.to_numpy(), "smoke": smoke.to_numpy()[-1], "wind.grad": wind.grad.to_numpy()}

    return run
