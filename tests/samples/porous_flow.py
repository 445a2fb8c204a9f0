"""A force drives a fluid through a channel with porous cells: lattice Boltzmann with nine speeds, two fields that swap,
and the derivatives by the force and by how dense each cell is."""

import numpy as np

NX, NY, OMEGA = 14, 8, 1.1
E = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
W = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)
BACK = (0, 3, 4, 1, 2, 7, 8, 5, 6)
PARAMS = {
    "force": np.array([2e-3, 3e-4]),
    "dense": 0.4 * np.exp(-((np.arange(NX)[:, None] - 5) ** 2 + (np.arange(NY) - 3) ** 2) / 3.0),
}


def make(qd, nx=NX, ny=NY, steps=40):
    vec9 = qd.types.vector(9, float)

    @qd.data_oriented
    class Channel:
        def __init__(self):
            self.f, self.new = (qd.Vector.field(9, float, (nx, ny), needs_grad=True) for _ in range(2))
            self.e, self.w = qd.Vector.field(2, qd.i32, 9), qd.field(float, 9)
            self.dense = qd.field(float, (nx, ny), needs_grad=True)
            self.force, self.flow = (qd.Vector.field(2, float, (), needs_grad=True) for _ in range(2))
            self.loss = qd.field(float, (), needs_grad=True)
            self.e.from_numpy(np.array(E, np.int32))
            self.w.from_numpy(np.array(W, np.float32))

        @qd.func
        def moments(self, f):
            """Density, and the velocity in the middle of a step."""
            u = 0.5 * self.force[None]
            for k in qd.static(range(9)):
                u += f[k] * self.e[k]
            return f.sum(), u / f.sum()

        @qd.kernel
        def begin(self):
            for i, j in self.f:
                for k in qd.static(range(9)):
                    self.f[i, j][k] = self.w[k]

        @qd.kernel
        def step(self, f: qd.template(), new: qd.template()):
            for i, j in f:
                own = vec9(0.0)
                for k in qd.static(range(9)):
                    own[k] = f[(i - self.e[k].x + nx) % nx, (j - self.e[k].y + ny) % ny][k]
                rho, u = self.moments(own)
                solid = self.dense[i, j] if 0 < j < ny - 1 else 1.0
                for k in qd.static(range(9)):
                    e = self.e[k].cast(float)
                    along = e.dot(u)
                    rest = self.w[k] * rho * (1.0 + 3.0 * along + 4.5 * along**2 - 1.5 * u.norm_sqr())
                    push = (1.0 - 0.5 * OMEGA) * self.w[k] * (3.0 * (e - u) + 9.0 * along * e).dot(self.force[None])
                    free = own[k] + OMEGA * (rest - own[k]) + push
                    new[i, j][k] = (1.0 - solid) * free + solid * own[qd.static(BACK[k])]

        @qd.kernel
        def measure(self, f: qd.template()):
            """The flow through the last column is to be 0.2, without a jet."""
            for i, j in f:
                _, u = self.moments(f[i, j])
                if i == nx - 1 and 0 < j < ny - 1:
                    self.flow[None] += u
                    self.loss[None] += 100.0 * u.norm_sqr()

        @qd.kernel
        def miss(self):
            self.loss[None] += (self.flow[None].x - 0.2) ** 2 + self.flow[None].y ** 2

    channel = Channel()

    def run(**given):
        channel.force[None] = given["force"]
        channel.dense.from_numpy(given["dense"])
        channel.flow[None] = [0.0, 0.0]
        f, new = channel.f, channel.new
        with qd.ad.Tape(channel.loss):
            channel.begin()
            for _ in range(steps):
                channel.step(f, new)
                f, new = new, f
            channel.measure(f)
            channel.miss()
        return {"loss": channel.loss.to_numpy(), "f": f.to_numpy(), "force.grad": channel.force.grad.to_numpy(),
                "dense.grad": channel.dense.grad.to_numpy()}  # fmt: skip

    return run
