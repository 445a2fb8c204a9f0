"""Shortest paths two ways: all pairs by Floyd and Warshall, and out of a maze by waves from its exit."""

import numpy as np

FAR = 10**6
MAZE = (
    "#########", "#.......#", "#.#.###.#", "#.#...#.#", "#.#####.#", "#.#..X#.#", "#.#.###.#", "#.......#", "#########",
)  # fmt: skip


def make(qd):
    @qd.kernel
    def through(d: qd.types.NDArray[qd.i32, 2], via: qd.i32):
        for i, j in d:
            if i != via and j != via:
                d[i, j] = qd.min(d[i, j], d[i, via] + d[via, j])

    @qd.kernel
    def wave(steps: qd.types.NDArray[qd.i32, 2], now: qd.i32) -> bool:
        reached = 0
        for i, j in steps:
            if steps[i, j] == FAR:
                for way in qd.static(((0, 1), (1, 0), (0, -1), (-1, 0))):
                    if steps[i + way[0], j + way[1]] == now:
                        qd.atomic_or(reached, 1)
        for i, j in steps:
            if steps[i, j] == FAR:
                near = False
                for way in qd.static(((0, 1), (1, 0), (0, -1), (-1, 0))):
                    near = near or steps[i + way[0], j + way[1]] == now
                if near:
                    steps[i, j] = now + 1
        return bool(reached)

    def run():
        d = graph()
        for via in range(len(d)):
            through(d, via)
        steps, now = maze(), 0
        while wave(steps, now):
            now += 1
        return {"distances": d, "steps": steps}

    return run


def graph():
    i, j = np.mgrid[:12, :12]
    d = np.where((i * 5 + j * 3) % 7 < 2, (i * j * 13) % 17 + 1, FAR).astype(np.int32)
    np.fill_diagonal(d, 0)
    return d


def maze():
    kinds = {"#": -1, ".": FAR, "X": 0}
    return np.array([[kinds[c] for c in row] for row in MAZE], np.int32)


def expected():
    d, steps = graph(), maze()
    for via in range(12):
        d = np.minimum(d, d[:, via : via + 1] + d[via])
    for now in range(steps.size):
        near = np.any([np.roll(steps, s, a) == now for s in (1, -1) for a in (0, 1)], axis=0)
        steps[near & (steps == FAR)] = now + 1
    return {"distances": d, "steps": steps}
