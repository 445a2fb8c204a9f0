"""Which start leads to this wave: the wave equation with a row a step, in a class, and the derivative by the start."""

import numpy as np

N, STEPS = 10, 16
PARAMS = {"initial": 0.3 * np.sin(np.add.outer(1.3 * np.arange(N), 0.7 * np.arange(N) ** 1.5))}


def make(qd):
    @qd.data_oriented
    class Pond:
        dt, speed, damping = 0.1, 3.0, 0.2

        def __init__(self):
            self.initial = qd.field(float, shape=(N, N), needs_grad=True)
            self.p = qd.field(float, shape=(STEPS + 1, N, N), needs_grad=True)
            self.loss = qd.field(float, shape=(), needs_grad=True)

        @qd.func
        def laplacian(self, t, i, j):
            return (-4 * self.p[t, i, j] + self.p[t, i, j - 1] + self.p[t, i, j + 1]
                    + self.p[t, i + 1, j] + self.p[t, i - 1, j])  # fmt: skip

        @qd.kernel
        def begin(self):
            for i, j in self.initial:
                self.p[0, i, j] = self.initial[i, j]
                self.p[1, i, j] = self.initial[i, j]

        @qd.kernel
        def step(self, t: qd.i32):
            for i, j in qd.ndrange((1, N - 1), (1, N - 1)):
                bend = self.laplacian(t - 1, i, j)
                fade = 1.0 - self.damping * self.dt
                old = self.p[t - 2, i, j]
                self.p[t, i, j] = (1 + fade) * self.p[t - 1, i, j] - fade * old + (self.speed * self.dt) ** 2 * bend

        @qd.kernel
        def compare(self):
            for i, j in self.initial:
                target = qd.exp(-0.3 * ((i - 4.0) ** 2 + (j - 5.5) ** 2))
                self.loss[None] += (self.p[STEPS, i, j] - target) ** 2 / (N * N)

    def run(initial):
        pond = Pond()
        pond.initial.from_numpy(initial)
        with qd.ad.Tape(pond.loss):
            pond.begin()
            for t in range(2, STEPS + 1):
                pond.step(t)
            pond.compare()
        return {"loss": pond.loss.to_numpy(), "p": pond.p.to_numpy(), "initial.grad": pond.initial.grad.to_numpy()}

    return run
