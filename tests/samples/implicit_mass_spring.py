"""A hanging net of springs, implicitly in time: conjugate gradients with a matrix that exists as kernels alone."""

import numpy as np

SINGLE = 2e-3
N, STIFFNESS, DT = 5, 2000.0, 0.02


def make(qd):
    @qd.data_oriented
    class Net:
        def __init__(self):
            self.pairs = pairs = links()
            self.ends = qd.Vector.field(2, qd.i32, shape=len(pairs))
            self.ends.from_numpy(pairs)
            self.rest = qd.field(float, shape=len(pairs))
            self.hessian = qd.Matrix.field(2, 2, float, shape=len(pairs))
            fields = [qd.Vector.field(2, float, shape=N * N) for _ in range(7)]
            self.x, self.v, self.f, self.b, self.r, self.p, self.Ap = fields

        @qd.kernel
        def start(self):
            for k in self.x:
                self.x[k] = qd.Vector([k // N, k % N]) / N
            for s in self.rest:
                i, j = self.ends[s]
                self.rest[s] = (self.x[i] - self.x[j]).norm()

        @qd.kernel
        def force(self):
            for k in self.f:
                self.f[k] = qd.Vector([0.3, -9.8])
            for s in self.rest:
                i, j = self.ends[s][0], self.ends[s][1]
                d = self.x[i] - self.x[j]
                length = d.norm()
                n = d / length
                pull = STIFFNESS * (length - self.rest[s]) * n
                self.f[i] -= pull
                self.f[j] += pull
                ratio = qd.max(1.0 - self.rest[s] / length, 0.0)
                nn = n.outer_product(n)
                self.hessian[s] = STIFFNESS * (nn + ratio * (qd.Matrix.identity(float, 2) - nn))

        @qd.kernel
        def multiply(self, v: qd.template(), out: qd.template()):
            for k in v:
                out[k] = v[k]
            for s in self.rest:
                i, j = self.ends[s][0], self.ends[s][1]
                part = DT**2 * self.hessian[s] @ (v[i] - v[j])
                out[i] += part
                out[j] -= part
            for k in qd.static(range(2)):  # two corners are held
                out[(N - 1) + k * N * (N - 1)] = v[(N - 1) + k * N * (N - 1)] * 1e8

        @qd.kernel
        def dot(self, a: qd.template(), b: qd.template()) -> float:
            total = 0.0
            for k in a:
                total += a[k].dot(b[k])
            return total

        @qd.kernel
        def add(self, out: qd.template(), a: qd.template(), scale: float, b: qd.template()):
            for k in out:
                out[k] = a[k] + scale * b[k]

        def step(self):
            self.force()
            self.add(self.b, self.v, DT, self.f)
            self.multiply(self.v, self.Ap)
            self.add(self.r, self.b, -1.0, self.Ap)
            self.p.copy_from(self.r)
            old = self.dot(self.r, self.r)
            for _ in range(40):
                self.multiply(self.p, self.Ap)
                alpha = old / self.dot(self.p, self.Ap)
                self.add(self.v, self.v, alpha, self.p)
                self.add(self.r, self.r, -alpha, self.Ap)
                new = self.dot(self.r, self.r)
                if new < 1e-12:
                    break
                self.add(self.p, self.r, new / old, self.p)
                old = new
            self.add(self.x, self.x, DT, self.v)

    def run():
        net = Net()
        net.start()
        for _ in range(6):
            net.step()
        return {"x": net.x.to_numpy(), "v": net.v.to_numpy()}

    return run


def links():
    at = {(i, j): i * N + j for i in range(N) for j in range(N)}
    steps = ((1, 0), (0, 1), (1, 1), (1, -1))
    found = [(k, at[i + a, j + b]) for (i, j), k in at.items() for a, b in steps if (i + a, j + b) in at]
    return np.array(found, np.int32)
