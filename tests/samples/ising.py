"""Metropolis' algorithm on an Ising lattice: red and black sites by turns, a generator of random numbers a site."""

import numpy as np

N = 16


def make(qd):
    spin, state = qd.field(qd.i32), qd.field(qd.u32)
    qd.root.dense(qd.ij, 4).dense(qd.ij, N // 4).place(spin, state)
    chance = qd.field(float, shape=9)
    magnet = qd.field(qd.i32, shape=())

    @qd.func
    def draw(i, j) -> float:
        state[i, j] = state[i, j] * qd.u32(1664525) + qd.u32(1013904223)
        bits = state[i, j] >> 8
        return bits / float(1 << 24)

    @qd.kernel
    def seed(number: qd.u32):
        for i, j in spin:
            state[i, j] = number + qd.cast(i * N + j, qd.u32) * qd.u32(747796405)
            spin[i, j] = 1 if draw(i, j) < 0.5 else -1

    @qd.kernel
    def sweep(colour: qd.template()):
        for i, j in spin:
            if (i + j) % 2 == qd.static(colour):
                around = 0
                for step in qd.static(((1, 0), (N - 1, 0), (0, 1), (0, N - 1))):
                    around += spin[(i + step[0]) % N, (j + step[1]) % N]
                cost = spin[i, j] * around
                flips = cost <= 0
                if not flips:
                    flips = draw(i, j) < chance[2 * cost]
                if flips:
                    spin[i, j] = -spin[i, j]

    @qd.kernel
    def magnetise():
        magnet[None] = 0
        for I in qd.grouped(spin):
            magnet[None] += spin[I]

    def run():
        chance.from_numpy(np.exp(-np.arange(9) / 2.0))
        seed(2026)
        course = []
        for _ in range(30):
            sweep(0)
            sweep(1)
            magnetise()
            course.append(magnet[None])
        return {"spin": spin.to_numpy(), "course": np.array(course)}

    return run
