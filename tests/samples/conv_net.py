"""A convolution, a pooling and a dense layer learn to tell bars apart: kernels over a batch, steps downhill."""

import numpy as np

BATCH, SIZE, CHANNELS, KINDS = 6, 8, 3, 2


def start(*shape):
    k = np.arange(np.prod(shape))
    return (0.3 * np.sin(1.7 * k + 0.5) + 0.1 * np.cos(0.37 * k * k)).reshape(shape)


PARAMS = {"filters": start(CHANNELS, 3, 3), "dense": start(KINDS, CHANNELS * 9), "bias": start(KINDS)}


def make(qd):
    @qd.data_oriented
    class Net:
        def __init__(self):
            self.images = qd.field(float, shape=(BATCH, SIZE, SIZE))
            self.labels = qd.field(qd.i32, shape=BATCH)
            self.filters = qd.field(float, shape=(CHANNELS, 3, 3), needs_grad=True)
            self.dense = qd.field(float, shape=(KINDS, CHANNELS * 9), needs_grad=True)
            self.bias = qd.field(float, shape=KINDS, needs_grad=True)
            self.weights = {"filters": self.filters, "dense": self.dense, "bias": self.bias}
            self.seen = qd.field(float, shape=(BATCH, CHANNELS, 6, 6), needs_grad=True)
            self.pooled = qd.field(float, shape=(BATCH, CHANNELS * 9), needs_grad=True)
            self.scores = qd.field(float, shape=(BATCH, KINDS), needs_grad=True)
            self.loss = qd.field(float, shape=(), needs_grad=True)

        @qd.kernel
        def draw(self):
            for b, i, j in self.images:
                along = i if b % 2 else j
                self.images[b, i, j] = 1.0 if along == 1 + b else 0.1 * ((i * 3 + j * 5 + b) % 4)
                self.labels[b] = b % 2

        @qd.kernel
        def convolve(self):
            for b, c, i, j in self.seen:
                total = 0.0
                for di, dj in qd.static(qd.ndrange(3, 3)):
                    total += self.filters[c, di, dj] * self.images[b, i + di, j + dj]
                self.seen[b, c, i, j] = qd.max(total, 0.1 * total)

        @qd.kernel
        def pool(self):
            for b, k in self.pooled:
                c, i, j = k // 9, k // 3 % 3, k % 3
                most = self.seen[b, c, 2 * i, 2 * j]
                for di, dj in qd.static(((0, 1), (1, 0), (1, 1))):
                    most = qd.max(most, self.seen[b, c, 2 * i + di, 2 * j + dj])
                self.pooled[b, k] = most

        @qd.kernel
        def score(self):
            for b, kind in self.scores:
                total = self.bias[kind]
                for k in range(CHANNELS * 9):
                    total += self.dense[kind, k] * self.pooled[b, k]
                self.scores[b, kind] = total

        @qd.kernel
        def entropy(self):
            for b in self.labels:
                total = 0.0
                for kind in range(KINDS):
                    total += qd.exp(self.scores[b, kind])
                self.loss[None] += (qd.log(total) - self.scores[b, self.labels[b]]) / BATCH

        @qd.kernel
        def descend(self, weights: qd.template(), rate: float):
            for I in qd.grouped(weights):
                weights[I] -= rate * weights.grad[I]

        def gradient(self):
            with qd.ad.Tape(loss=self.loss):
                self.convolve()
                self.pool()
                self.score()
                self.entropy()

    def run(**given):
        net = Net()
        net.draw()
        for name, weights in net.weights.items():
            weights.from_numpy(given[name])
        net.gradient()
        out = {"loss": net.loss.to_numpy(), "scores": net.scores.to_numpy()}
        out |= {f"{name}.grad": weights.grad.to_numpy() for name, weights in net.weights.items()}
        for _ in range(6):
            for weights in net.weights.values():
                net.descend(weights, 1.0)
            net.gradient()
        return {**out, "learned": net.loss[None] < 0.8 * out["loss"]}

    return run


def expected():
    return {"learned": np.array(True)}
