"""The programs for Numba on all threads. Each thread has its own copy of the array to which it adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import others
from benchmarks.others import GRID, LARGE, PARTICLES, Run


def _compiled(function: Callable[..., Any]) -> Any:
    import numba

    return numba.njit(parallel=True, fastmath=True)(function)


def sin_exp() -> Run:
    from numba import prange

    @_compiled
    def program(x: Any, y: Any) -> None:
        for i in prange(len(x)):
            y[i] = np.sin(x[i]) * np.exp(x[i])

    x, y = np.linspace(0, 1, LARGE).astype(np.float32), np.zeros(LARGE, np.float32)

    def run() -> Callable[[], float]:
        program(x, y)
        return lambda: float(y[LARGE // 3])

    return run


def to_grid() -> Run:
    from numba import get_num_threads, prange

    half, three_halves, three_quarters, one = (np.float32(x) for x in (0.5, 1.5, 0.75, 1.0))

    @_compiled
    def program(px: Any, py: Any) -> Any:
        n, threads = len(px), get_num_threads()
        copies = np.zeros((threads, GRID, GRID), np.float32)
        for t in prange(threads):
            mass = copies[t]
            for p in range(t * n // threads, (t + 1) * n // threads):
                sx, sy = px[p] * np.float32(GRID), py[p] * np.float32(GRID)
                bx, by = np.int32(sx - half), np.int32(sy - half)
                fx, fy = sx - np.float32(bx), sy - np.float32(by)
                for a in range(3):
                    if a == 0:
                        wx = half * (three_halves - fx) * (three_halves - fx)
                    elif a == 1:
                        wx = three_quarters - (fx - one) * (fx - one)
                    else:
                        wx = half * (fx - half) * (fx - half)
                    mass[bx + a, by] += wx * half * (three_halves - fy) * (three_halves - fy)
                    mass[bx + a, by + 1] += wx * (three_quarters - (fy - one) * (fy - one))
                    mass[bx + a, by + 2] += wx * half * (fy - half) * (fy - half)
        for t in range(1, threads):
            copies[0] += copies[t]
        return copies[0]

    px, py = others.particles()

    def run() -> Callable[[], float]:
        mass = program(px, py)
        return lambda: float(mass[GRID // 2, GRID // 3])

    return run


def hot_cell() -> Run:
    from numba import get_num_threads, prange

    @_compiled
    def program(at: Any, x: Any) -> Any:
        n, threads = len(x), get_num_threads()
        copies = np.zeros((threads, 1024), np.float32)
        for t in prange(threads):
            cells = copies[t]
            for i in range(t * n // threads, (t + 1) * n // threads):
                cells[at[i]] += x[i]
        for t in range(1, threads):
            copies[0] += copies[t]
        return copies[0]

    at, x = np.full(PARTICLES, 517, np.int32), np.full(PARTICLES, 2.0**-10, np.float32)

    def run() -> Callable[[], float]:
        cells = program(at, x)
        return lambda: float(cells[517])

    return run


PROGRAMS = others.large(sin_exp, to_grid, hot_cell)

if __name__ == "__main__":
    others.serve(PROGRAMS)
