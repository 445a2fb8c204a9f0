"""Conway's game of life on a torus: a glider and a blinker, two generations in one struct field."""

import numpy as np


def make(qd):
    n = 16
    cell = qd.types.struct(alive=qd.i32, around=qd.i32)
    cells = cell.field(shape=(n, n))

    @qd.func
    def neighbours(i, j):
        count = 0
        for di, dj in qd.static(qd.ndrange((-1, 2), (-1, 2))):
            if qd.static(di != 0 or dj != 0):
                count += cells.alive[(i + di + n) % n, (j + dj) % n]
        return count

    @qd.kernel
    def generation(births: qd.template(), survivors: qd.template()):
        for i, j in cells:
            cells[i, j].around = neighbours(i, j)
        for I in qd.grouped(cells):
            alive = 0
            for count in qd.static(births):
                alive |= cells[I].around == count
            for count in qd.static(survivors):
                alive |= cells[I].alive & (cells[I].around == count)
            cells[I].alive = alive

    def run():
        cells.alive.from_numpy(start(n))
        for _ in range(20):
            generation((3,), (2, 3))
        return {"alive": cells.alive.to_numpy(), "around": cells.around.to_numpy()}

    return run


def start(n):
    world = np.zeros((n, n), np.int32)
    for i, j in [(0, 1), (1, 2), (2, 0), (2, 1), (2, 2), (9, 9), (9, 10), (9, 11)]:
        world[i, j] = 1
    return world


def expected():
    world = start(16)
    for _ in range(20):
        turns = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        around = sum(np.roll(world, turn, (0, 1)) for turn in turns)
        world = ((around == 3) | (world & (around == 2))).astype(np.int32)
    return {"alive": world, "around": around}
