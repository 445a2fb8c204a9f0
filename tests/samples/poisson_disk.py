"""Points that keep their distance: Bridson's dart throwing through a grid of cells, one serial loop in a kernel."""

import numpy as np

RADIUS, MOST = 0.1, 200


def make(qd):
    cell = RADIUS / np.sqrt(2.0)
    n = int(np.ceil(1.0 / cell))
    grid = qd.field(qd.i32, shape=(n, n))
    points = qd.Vector.field(2, float, shape=MOST)
    state = qd.field(qd.u32, shape=())

    @qd.func
    def draw() -> float:
        state[None] = state[None] * qd.u32(1664525) + qd.u32(1013904223)
        bits = state[None] >> 8
        return bits / float(1 << 24)

    @qd.func
    def is_free(p, c):
        free = True
        low, high = qd.max(c - 2, 0), qd.min(c + 3, n)
        for I in qd.grouped(qd.ndrange((low[0], high[0]), (low[1], high[1]))):
            if grid[I] >= 0:
                if (points[grid[I]] - p).norm() < RADIUS:
                    free = False
        return free

    @qd.kernel
    def throw(tries: qd.i32) -> qd.i32:
        for I in qd.grouped(grid):
            grid[I] = -1
        count = 1
        points[0] = [0.5, 0.5]
        grid[n // 2, n // 2] = 0
        head = 0
        while head < count and count < MOST:
            for _ in range(tries):
                angle, far = 2.0 * qd.math.pi * draw(), RADIUS * (1.0 + draw())
                p = points[head] + far * qd.Vector([qd.cos(angle), qd.sin(angle)])
                if 0.0 <= p.x < 1.0 and 0.0 <= p.y < 1.0:
                    c = qd.cast(p / cell, qd.i32)
                    if is_free(p, c) and count < MOST:
                        points[count] = p
                        grid[c] = count
                        count += 1
            head += 1
        return count

    def run():
        state[None] = 12345
        count = throw(20)
        at = points.to_numpy()[:count]
        apart = np.linalg.norm(at[:, None] - at, axis=-1) + 9 * np.eye(count)
        return {"apart": apart.min() >= RADIUS * (1 - 1e-6), "many": np.array(60 < count < MOST)}

    return run


def expected():
    return {"apart": np.array(True), "many": np.array(True)}
