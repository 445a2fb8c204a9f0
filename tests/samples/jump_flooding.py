"""Voronoi cells by jump flooding: every pixel asks eight others, ever nearer, for the nearest seed they know."""

import numpy as np

N = 32
SEEDS = ((3, 4), (20, 7), (11, 25), (28, 28), (16, 15), (29, 13))


def make(qd):
    @qd.data_oriented
    class Voronoi:
        def __init__(self, size):
            self.size = size
            self.known = qd.field(qd.i32, shape=(2, size, size))
            self.seeds = qd.Vector.field(2, qd.i32, shape=len(SEEDS))
            self.areas = qd.field(qd.i32, shape=len(SEEDS))

        @qd.func
        def distance(self, i, j, seed):
            return 10**6 if seed < 0 else (qd.Vector([i, j]) - self.seeds[seed]).norm_sqr()

        @qd.kernel
        def plant(self):
            for I in qd.grouped(self.known):
                self.known[I] = -1
            for s in self.seeds:
                self.known[0, self.seeds[s].x, self.seeds[s].y] = s

        @qd.kernel
        def jump(self, phase: qd.template(), step: qd.i32):
            for i, j in qd.ndrange(self.size, self.size):
                best, nearest = -1, 10**6
                for di, dj in qd.ndrange((-1, 2), (-1, 2)):
                    x, y = i + di * step, j + dj * step
                    if 0 <= x < self.size and 0 <= y < self.size:
                        seed = self.known[phase, x, y]
                        far = self.distance(i, j, seed)
                        if far < nearest or (far == nearest and seed < best):
                            best, nearest = seed, far
                self.known[1 - phase, i, j] = best

        @qd.kernel
        def measure(self, phase: qd.template()):
            for i, j in qd.ndrange(self.size, self.size):
                self.areas[self.known[phase, i, j]] += 1

        def run(self):
            self.seeds.from_numpy(np.array(SEEDS, np.int32))
            self.plant()
            phase, step = 0, self.size // 2
            while step:
                self.jump(phase, step)
                phase, step = 1 - phase, step // 2
            self.measure(phase)
            return {"nearest": self.known.to_numpy()[phase], "areas": self.areas.to_numpy()}

    return lambda: Voronoi(N).run()


def expected():
    i, j = np.mgrid[:N, :N]
    nearest = np.argmin([(i - x) ** 2 + (j - y) ** 2 for x, y in SEEDS], axis=0)
    return {"nearest": nearest, "areas": np.bincount(nearest.ravel())}
