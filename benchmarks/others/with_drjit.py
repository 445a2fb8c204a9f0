"""The programs for Dr.Jit on LLVM. Loops are symbolic; for a gradient they get an upper bound of the number of
trips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import others
from benchmarks.others import GRID, LARGE, PARTICLES, TRIPS, Run


def _types(dtype: str = "float32") -> tuple[Any, Any]:
    """The array types of floats and of indices."""
    from drjit.llvm import ad

    return (ad.Float if dtype == "float32" else ad.Float64), ad.UInt


def _run(program: Callable[[], Any], value: Callable[[Any], Any]) -> Run:
    import drjit as dr

    def run() -> Callable[[], float]:
        found = program()
        dr.eval(found)
        dr.sync_thread()
        return lambda: float(value(found.numpy()))

    return run


def sin_exp() -> Run:
    import drjit as dr

    real, _ = _types()
    x = real(np.linspace(0, 1, LARGE).astype(np.float32))
    return _run(lambda: dr.sin(x) * dr.exp(x), lambda y: y[LARGE // 3])


def to_grid() -> Run:
    import drjit as dr

    real, index = _types()
    px, py = map(real, others.particles())

    def program() -> Any:
        sx, sy = px * GRID, py * GRID
        bx, by = index(sx - 0.5), index(sy - 0.5)
        fx, fy = sx - real(bx), sy - real(by)
        wx, wy = ([0.5 * dr.square(1.5 - f), 0.75 - dr.square(f - 1), 0.5 * dr.square(f - 0.5)] for f in (fx, fy))
        mass = dr.zeros(real, GRID * GRID)
        for a in range(3):
            for b in range(3):
                dr.scatter_add(mass, wx[a] * wy[b], (bx + a) * GRID + by + b)
        return mass

    return _run(program, lambda mass: mass[GRID // 2 * GRID + GRID // 3])


def hot_cell() -> Run:
    import drjit as dr

    real, index = _types()
    at, x = index(np.full(PARTICLES, 517, np.uint32)), real(np.full(PARTICLES, 2.0**-10, np.float32))

    def program() -> Any:
        cells = dr.zeros(real, 1024)
        dr.scatter_add(cells, x, at)
        return cells

    return _run(program, lambda cells: cells[517])


def _one(v: Any, trips: Any) -> Any:
    """The sum of the results of loops that carry one variable."""
    import drjit as dr

    def step(v: Any, k: Any) -> tuple[Any, Any]:
        return dr.sin(v) + 0.1, k + 1

    v, _ = dr.while_loop((v, dr.zeros(type(trips), dr.width(v))), lambda v, k: k < trips, step, max_iterations=TRIPS)
    return dr.sum(v)


def _eight(x: Any, trips: Any) -> Any:
    import drjit as dr

    def step(*state: Any) -> tuple[Any, ...]:
        *v, k = state
        for j in range(8):
            v[j] = dr.sin(v[j]) + 0.1 * v[(j + 1) % 8]
        return (*v, k + 1)

    start = [x * (1.0 - 0.1 * j) for j in range(8)]
    zero = dr.zeros(type(trips), dr.width(x))
    *v, _ = dr.while_loop((*start, zero), lambda *state: state[-1] < trips, step, max_iterations=TRIPS)
    return dr.sum(sum(v))


def forward(loop: Callable[..., Any], dtype: str, trips: Any = TRIPS) -> Run:
    real, index = _types(dtype)
    x, most = real(others.starts(dtype)), index(trips)
    return _run(lambda: loop(x, most), lambda y: y[0])


def gradient(loop: Callable[..., Any], dtype: str, trips: Any = TRIPS) -> Run:
    import drjit as dr

    real, index = _types(dtype)
    start, most = real(others.starts(dtype)), index(trips)

    def program() -> Any:
        x = real(start)
        dr.enable_grad(x)
        dr.backward(loop(x, most))
        return dr.grad(x)

    return _run(program, lambda dx: dx[0])


PROGRAMS = others.large(sin_exp, to_grid, hot_cell) | others.loops(forward, gradient, _one, _eight)

if __name__ == "__main__":
    others.serve(PROGRAMS)
