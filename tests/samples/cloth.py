"""A cloth falls on a ball: springs along twelve directions that kernels unroll, substeps in a Python loop."""

import numpy as np

SINGLE = 2e-3


def make(qd):
    n, dt, stiffness, drag = 8, 2e-3, 800.0, 0.8
    x, v, force = (qd.Vector.field(3, dtype=float, shape=(n, n)) for _ in range(3))
    ball = qd.Vector.field(3, dtype=float, shape=(1,))
    index = qd.field(qd.i32, shape=(n - 1) * (n - 1) * 6)
    ways = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if (i, j) != (0, 0) and abs(i) + abs(j) <= 2]

    @qd.kernel
    def begin(tilt: float):
        for i, j in x:
            x[i, j] = [i / n - 0.45, 0.35 + tilt * i, j / n - 0.4]
            v[i, j] = [0, 0, 0]
        for i, j in qd.ndrange(n - 1, n - 1):
            k = 6 * (i * (n - 1) + j)
            for c, corner in qd.static(enumerate((0, n, 1, n + 1, 1, n))):
                index[k + c] = i * n + j + corner

    @qd.kernel
    def substep():
        for I in qd.grouped(x):
            force[I] = [0.0, -9.8, 0.0]
            for way in qd.static(ways):
                J = I + qd.Vector(way)
                if 0 <= J[0] < n and 0 <= J[1] < n:
                    d = x[I] - x[J]
                    length, rest = d.norm(), float(qd.Vector(way).norm()) / n
                    force[I] += -stiffness * d.normalized() * (length / rest - 1.0)
                    force[I] += -(v[I] - v[J]).dot(d / length) * (d / length) * 2.0
        for I in qd.grouped(x):
            v[I] += dt * force[I]
            v[I] *= qd.exp(-drag * dt)
            from_ball = x[I] - ball[0]
            if from_ball.norm() <= 0.3:
                normal = from_ball.normalized()
                v[I] -= qd.min(v[I].dot(normal), 0.0) * normal
            x[I] += dt * v[I]

    def run():
        ball[0] = [0.02, 0.0, 0.01]
        begin(0.01)
        for _ in range(60):
            substep()
        return {"x": x.to_numpy(), "v": v.to_numpy(), "index": index.to_numpy()}

    return run


def expected():
    """Two triangles a square, which share its diagonal."""
    i, j = (a.ravel() for a in np.mgrid[:7, :7])
    corner = 8 * i + j
    return {"index": np.stack([corner + c for c in (0, 8, 1, 9, 1, 8)], 1).ravel()}
