"""Where a hit ball comes to lie: impacts with friction, and the derivative by the cue ball's place and speed."""

import numpy as np

PARAMS = {"place": np.array([0.1, 0.52]), "speed": np.array([0.9, 0.01])}


def make(qd):
    balls, steps, dt, radius = 4, 60, 0.012, 0.06
    x, v, impulse = (qd.Vector.field(2, float, shape=(steps + 1, balls), needs_grad=True) for _ in range(3))
    place, speed = (qd.Vector.field(2, float, shape=(), needs_grad=True) for _ in range(2))
    loss = qd.field(float, shape=(), needs_grad=True)

    @qd.kernel
    def begin():
        for b in range(balls):
            if b == 0:
                x[0, b] = place[None]
                v[0, b] = speed[None]
            else:
                x[0, b] = [0.4 + 0.11 * (b > 1), 0.5 + 0.065 * (b > 1) * (2 * b - 5)]

    @qd.kernel
    def collide(t: qd.i32):
        for a in range(balls):
            turn = qd.Vector([0.0, 0.0])
            for b in range(balls):
                if a != b:
                    d = x[t, a] - x[t, b] + dt * (v[t, a] - v[t, b])
                    distance = d.norm()
                    n = d / distance
                    closing = (v[t, b] - v[t, a]).dot(n)
                    if distance < 2.0 * radius and closing > 0.0:
                        turn += closing * n
            impulse[t + 1, a] = turn

    @qd.kernel
    def roll(t: qd.i32):
        for a in range(balls):
            v[t + 1, a] = (v[t, a] + impulse[t + 1, a]) * 0.99
            x[t + 1, a] = x[t, a] + dt * v[t + 1, a]

    @qd.kernel
    def miss(ball: qd.template(), goal: qd.types.vector(2, float)):
        loss[None] = (x[steps, ball] - goal).norm_sqr()

    def run(**given):
        place[None], speed[None] = given["place"], given["speed"]
        with qd.ad.Tape(loss=loss):
            begin()
            for t in range(steps):
                collide(t)
                roll(t)
            miss(3, qd.Vector([0.9, 0.75]))
        return {"loss": loss.to_numpy(), "x": x.to_numpy()[-1],
                "place.grad": place.grad.to_numpy(), "speed.grad": speed.grad.to_numpy()}  # fmt: skip

    return run
