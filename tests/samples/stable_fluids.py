"""A puff of smoke in a box: semi-Lagrangian advection with pairs of fields that swap, Jacobi's pressure, projection."""


class Pair:
    def __init__(self, make):
        self.cur, self.nxt = make(), make()

    def swap(self):
        self.cur, self.nxt = self.nxt, self.cur


def make(qd):
    n, dt = 20, 0.8

    @qd.data_oriented
    class Smoke:
        def __init__(self):
            self.velocity = Pair(lambda: qd.Vector.field(2, float, shape=(n, n)))
            self.dye, self.pressure = (Pair(lambda: qd.field(float, shape=(n, n))) for _ in range(2))
            self.divergence = qd.field(float, shape=(n, n))

        @qd.func
        def sample(self, f: qd.template(), i, j):
            return f[qd.math.clamp(qd.Vector([i, j]), 0, n - 1)]

        @qd.func
        def bilinear(self, f: qd.template(), p):
            base = qd.floor(p - 0.5, int)
            t = p - 0.5 - base
            low = qd.math.mix(self.sample(f, base.x, base.y), self.sample(f, base.x + 1, base.y), t.x)
            high = qd.math.mix(self.sample(f, base.x, base.y + 1), self.sample(f, base.x + 1, base.y + 1), t.x)
            return qd.math.mix(low, high, t.y)

        @qd.kernel
        def advect(self, v: qd.template(), f: qd.template(), out: qd.template()):
            for i, j in v:
                p = qd.Vector([i, j]) + 0.5
                middle = p - 0.5 * dt * self.bilinear(v, p)
                out[i, j] = self.bilinear(f, p - dt * self.bilinear(v, middle)) * 0.995

        @qd.kernel
        def push(self, v: qd.template(), dye: qd.template(), time: float):
            center = qd.Vector([10.0, 4.0 + 0.1 * time])
            for I in qd.grouped(dye):
                blob = qd.exp(-(I + 0.5 - center).norm_sqr() / 4.0)
                v[I] += dt * qd.Vector([0.3 * qd.sin(time), 1.0]) * blob
                dye[I] += blob

        @qd.kernel
        def measure(self, v: qd.template()):
            for i, j in v:
                walls = qd.Vector([i == 0, i == n - 1, j == 0, j == n - 1])
                across = qd.Vector([-self.sample(v, i - 1, j).x, self.sample(v, i + 1, j).x])
                along = qd.Vector([-self.sample(v, i, j - 1).y, self.sample(v, i, j + 1).y])
                flow = qd.Vector([across.x, across.y, along.x, along.y])
                self.divergence[i, j] = 0.5 * (flow * (1 - walls)).sum()

        @qd.kernel
        def relax(self, p: qd.template(), out: qd.template()):
            for i, j in p:
                around = self.sample(p, i - 1, j) + self.sample(p, i + 1, j)
                around += self.sample(p, i, j - 1) + self.sample(p, i, j + 1)
                out[i, j] = 0.25 * (around - self.divergence[i, j])

        @qd.kernel
        def project(self, v: qd.template(), p: qd.template()):
            for i, j in v:
                slope_x = self.sample(p, i + 1, j) - self.sample(p, i - 1, j)
                v[i, j] -= 0.5 * qd.Vector([slope_x, self.sample(p, i, j + 1) - self.sample(p, i, j - 1)])

        def step(self, time):
            self.advect(self.velocity.cur, self.dye.cur, self.dye.nxt)
            self.advect(self.velocity.cur, self.velocity.cur, self.velocity.nxt)
            self.velocity.swap()
            self.dye.swap()
            self.push(self.velocity.cur, self.dye.cur, time)
            self.measure(self.velocity.cur)
            for _ in range(12):
                self.relax(self.pressure.cur, self.pressure.nxt)
                self.pressure.swap()
            self.project(self.velocity.cur, self.pressure.cur)

    def run():
        smoke = Smoke()
        for k in range(12):
            smoke.step(0.3 * k)
        return {"dye": smoke.dye.cur.to_numpy(), "velocity": smoke.velocity.cur.to_numpy(),
                "pressure": smoke.pressure.cur.to_numpy()}  # fmt: skip

    return run
