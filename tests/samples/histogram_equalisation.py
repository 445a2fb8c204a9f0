"""A dark picture is given all shades: a histogram by atomics, its running sum by doubling steps, a table of shades."""

import numpy as np

WIDTH, HEIGHT, SHADES = 24, 16, 64


def make(qd):
    counts, ranks = qd.field(qd.i32, SHADES), qd.field(qd.i32, shape=(2, SHADES))
    least = qd.field(qd.i32, shape=())
    picture = qd.types.ndarray(dtype=qd.i32, ndim=2)

    @qd.kernel
    def count(image: picture):
        for k in counts:
            counts[k] = 0
        for i, j in image:
            counts[image[i, j]] += 1
        for k in counts:
            ranks[0, k] = counts[k]

    @qd.kernel
    def double(reach: qd.i32, old: qd.template()):
        for k in range(SHADES):
            ranks[1 - old, k] = ranks[old, k] + (ranks[old, k - reach] if k >= reach else 0)

    @qd.kernel
    def spread(image: picture, out: picture, last: qd.template()):
        least[None] = WIDTH * HEIGHT
        for k in range(SHADES):
            if counts[k] > 0:
                qd.atomic_min(least[None], ranks[last, k])
        for I in qd.grouped(image):
            part = (ranks[last, image[I]] - least[None]) / (WIDTH * HEIGHT - least[None])
            out[I] = qd.round(part * (SHADES - 1), qd.i32)

    def run():
        image, out = dark(), np.zeros((WIDTH, HEIGHT), np.int32)
        count(image)
        rounds = SHADES.bit_length() - 1
        for k in range(rounds):
            double(2**k, k % 2)
        spread(image, out, rounds % 2)
        return {"counts": counts.to_numpy(), "ranks": ranks.to_numpy()[rounds % 2], "out": out}

    return run


def dark():
    i, j = np.mgrid[:WIDTH, :HEIGHT]
    return (8 + 7.5 * np.sin(0.5 * i) * np.cos(0.3 * j) + 3 * (i > 12)).astype(np.int32)


def expected():
    counts = np.bincount(dark().ravel(), minlength=SHADES)
    ranks = np.cumsum(counts)
    least = ranks[counts > 0].min()
    shades = np.round((ranks - least) / (WIDTH * HEIGHT - least) * (SHADES - 1)).astype(int)
    return {"counts": counts, "ranks": ranks, "out": shades[dark()]}
