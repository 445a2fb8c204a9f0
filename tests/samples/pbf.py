"""Position-based fluid: particles are moved until the density is right everywhere, neighbours from lists."""

import numpy as np

SINGLE = 5e-3


def make(qd):
    side, h, dt, most = 8, 1.1, 0.03, 40
    n, box = side * side, 10.0
    x, old, v, shift = (qd.Vector.field(2, float) for _ in range(4))
    push, degree = qd.field(float), qd.field(qd.i32)
    qd.root.dense(qd.i, n).place(x, old, v, shift, push, degree)
    near = qd.field(qd.i32, shape=(n, most))

    @qd.func
    def poly6(s):
        return 315.0 / 64.0 / qd.math.pi * ((h * h - s * s) / h**3) ** 3 if s < h else 0.0

    @qd.func
    def spiky(r):
        out = qd.Vector([0.0, 0.0])
        s = r.norm()
        if 0.0 < s and s < h:
            out = r / s * (-45.0 / qd.math.pi * ((h - s) / h**3) ** 2)
        return out

    @qd.func
    def confined(p):
        return qd.max(qd.min(p, box - 0.3), 0.3)

    @qd.kernel
    def predict():
        for p in x:
            old[p] = x[p]
            v[p] += dt * qd.Vector([0.0, -9.8])
            x[p] = confined(x[p] + dt * v[p])
        for p in x:
            degree[p] = 0
            for q in range(n):
                if q != p and (x[p] - x[q]).norm() < h * 1.05 and degree[p] < most:
                    near[p, degree[p]] = q
                    degree[p] += 1

    @qd.kernel
    def correct():
        for p in x:
            own, squares, density = qd.Vector([0.0, 0.0]), 0.0, 0.0
            for k in range(degree[p]):
                r = x[p] - x[near[p, k]]
                slope = spiky(r)
                own += slope
                squares += slope.dot(slope)
                density += poly6(r.norm())
            push[p] = -(density - 1.0) / (squares + own.dot(own) + 100.0)
        for p in x:
            total = qd.Vector([0.0, 0.0])
            for k in range(degree[p]):
                q = near[p, k]
                crowd = -0.001 * (poly6((x[p] - x[q]).norm()) / poly6(0.3 * h)) ** 4
                total += (push[p] + push[q] + crowd) * spiky(x[p] - x[q])
            shift[p] = total
        for p in x:
            x[p] = confined(x[p] + shift[p])

    @qd.kernel
    def finish():
        for p in x:
            v[p] = (x[p] - old[p]) / dt

    def run():
        k = np.arange(n)
        x.from_numpy(np.stack([0.5 + 0.8 * (k % side), 0.5 + 0.8 * (k // side) + 0.01 * (k % 3)], 1))
        for _ in range(10):
            predict()
            for _ in range(4):
                correct()
            finish()
        return {"x": x.to_numpy(), "v": v.to_numpy(), "degree": degree.to_numpy()}

    return run
