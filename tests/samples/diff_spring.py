"""Which rest lengths bring a bouncing triangle to its place: springs, a floor, each step in its own row."""

import numpy as np

STEPS = 40
CORNERS = np.array([[0.2, 0.15], [0.4, 0.15], [0.3, 0.3]])
PARAMS = {"rest": np.array([0.22, 0.15, 0.2]), "throw": np.array([0.6, 0.3])}


def make(qd):
    dt, stiffness = 0.01, 60.0
    x, v, force = (qd.Vector.field(2, dtype=float) for _ in range(3))
    rest, loss = qd.field(dtype=float), qd.field(dtype=float)
    throw = qd.Vector.field(2, dtype=float)
    qd.root.dense(qd.i, STEPS + 1).dense(qd.j, 3).place(x, v, force)
    qd.root.dense(qd.i, 3).place(rest)
    qd.root.place(loss, throw)
    qd.root.lazy_grad()
    start = qd.Vector.field(2, dtype=float, shape=3)

    @qd.kernel
    def begin():
        for i in range(3):
            x[0, i] = start[i]
            v[0, i] = throw[None]

    @qd.kernel
    def pull(t: qd.i32):
        for s in range(3):
            a, b = s, (s + 1) % 3
            d = x[t, a] - x[t, b]
            length = d.norm(1e-6)
            f = stiffness * (length / rest[s] - 1.0) * d / length
            force[t, a] += -f
            force[t, b] += f

    @qd.kernel
    def advance(t: qd.i32):
        for i in range(3):
            depth = qd.max(0.1 - x[t, i].y, 0.0)
            up = qd.Vector([0.0, 300.0 * depth - 4.0])
            v[t + 1, i] = qd.exp(-0.5 * dt) * v[t, i] + dt * (force[t, i] + up)
            x[t + 1, i] = x[t, i] + dt * v[t + 1, i]

    @qd.kernel
    def miss():
        for i in range(3):
            loss[None] += (x[STEPS, i] - qd.Vector([0.8, 0.2])).norm_sqr()

    def run(**given):
        start.from_numpy(CORNERS)
        rest.from_numpy(given["rest"])
        throw[None] = given["throw"]
        force.fill(0.0)
        with qd.ad.Tape(loss=loss):
            begin()
            for t in range(STEPS):
                pull(t)
                advance(t)
            miss()
        return {"loss": loss.to_numpy(), "x": x.to_numpy()[-1],
                "rest.grad": rest.grad.to_numpy(), "throw.grad": throw.grad.to_numpy()}  # fmt: skip

    return run
