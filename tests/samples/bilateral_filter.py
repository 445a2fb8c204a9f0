"""A noisy picture is smoothed but for its edges: a window of run-time size, weights by place and by brightness."""

import numpy as np

SHAPE, RADIUS, PLACE, BRIGHT = (18, 14), 2, 1.5, 0.2


def make(qd):
    image = qd.types.ndarray(dtype=float, ndim=2)

    @qd.func
    def bell(square, width):
        return qd.exp(-0.5 * square / width**2)

    @qd.kernel
    def smooth(noisy: image, out: image, radius: qd.i32, place: float, bright: float):
        for i, j in noisy:
            low, high = qd.max(i - radius, 0), qd.min(i + radius + 1, noisy.shape[0])
            left, right = qd.max(j - radius, 0), qd.min(j + radius + 1, noisy.shape[1])
            total = qd.Vector([0.0, 0.0])
            for k, l in qd.ndrange((low, high), (left, right)):
                weight = bell((i - k) ** 2 + (j - l) ** 2, place) * bell((noisy[i, j] - noisy[k, l]) ** 2, bright)
                total += weight * qd.Vector([noisy[k, l], 1.0])
            out[i, j] = total[0] / total[1]

    def run():
        noisy, out = qd.ndarray(float, SHAPE), qd.ndarray(float, SHAPE)
        noisy.from_numpy(picture())
        smooth(noisy, out, RADIUS, PLACE, BRIGHT)
        smooth(out, noisy, radius=RADIUS, place=PLACE, bright=BRIGHT)
        return {"once": out.to_numpy(), "twice": noisy.to_numpy()}

    return run


def picture():
    i, j = np.mgrid[: SHAPE[0], : SHAPE[1]]
    return ((i + j > 14) + 0.25 * (i * 7 + j * 5) % 0.75 / 3.0).astype(np.float32)
