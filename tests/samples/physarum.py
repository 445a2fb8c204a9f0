"""Slime mould: agents sense three places ahead, turn, walk and leave a trail, which spreads and fades."""

import numpy as np


def make(qd):
    n, agents = 24, 60
    trail = qd.field(qd.i32, shape=(2, n, n))  # in integers no rounding decides who is sensed
    at, heading = qd.Vector.field(2, float), qd.field(float)
    qd.root.dense(qd.i, agents).place(at, heading)

    @qd.func
    def wrapped(p):
        return qd.cast(qd.floor(p), qd.i32) % n

    @qd.func
    def ahead(angle):
        return qd.Vector([qd.cos(angle), qd.sin(angle)])

    @qd.func
    def smell(phase, p, angle):
        c = wrapped(p + 3.0 * ahead(angle))
        return trail[phase, c.x, c.y]

    @qd.kernel
    def begin():
        for I in qd.grouped(trail):
            trail[I] = 0
        for a in at:
            angle = 2.4 * a
            at[a] = n / 2.0 + 0.15 * qd.sqrt(float(a)) * n / 3.0 * ahead(angle) + 0.013
            heading[a] = angle + 2.0

    @qd.kernel
    def move(phase: qd.i32):
        for a in at:
            left = smell(phase, at[a], heading[a] + 0.6)
            middle = smell(phase, at[a], heading[a])
            right = smell(phase, at[a], heading[a] - 0.6)
            if middle < left and middle < right:
                heading[a] += 0.5 if a % 2 else -0.5
            elif left > right:
                heading[a] += 0.35
            elif right > left:
                heading[a] -= 0.35
        for a in at:
            at[a] += ahead(heading[a])
            c = wrapped(at[a])
            trail[phase, c.x, c.y] += 10000

    @qd.kernel
    def spread(phase: qd.i32):
        for i, j in qd.ndrange(n, n):
            total = 0
            for di, dj in qd.static(qd.ndrange((-1, 2), (-1, 2))):
                total += trail[phase, (i + di) % n, (j + dj) % n]
            trail[1 - phase, i, j] = total // 10

    def run():
        begin()
        for k in range(16):
            move(k % 2)
            spread(k % 2)
        return {"trail": trail.to_numpy()[0], "at": at.to_numpy(), "mass": trail.to_numpy()[0].sum() / 10000.0}

    return run


def expected():
    """Every step brings an agent's drop, and keeps nine tenths of what there is, but for what is cut."""
    mass = 0.0
    for _ in range(16):
        mass = 0.9 * (mass + 60)
    return {"mass": np.array(mass)}


EXPECTED = 1e-3
