"""Measures how many times as long kernels over array arguments take as the same kernels over fields, on one thread."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.relaunch import Limit, fastest

NAMES = ("sums into two", "stencil", "stencil, gradient", "springs", "springs, gradient")
LIMITS = tuple(Limit(name, 1.5, "") for name in NAMES)
COUNT, SIDE, ROUNDS = 1 << 18, 512, 12


def _kernels(qd: Any, numbers: Any, grids: Any, vectors: Any) -> list[Callable[..., Any]]:
    """Four kernels: two sums, a stencil, and springs between neighbours. ``numbers``, ``grids`` and ``vectors`` are the
    annotations of their arguments."""

    @qd.kernel
    def two_sums(x: numbers, v: numbers, f: numbers):
        for i in range(COUNT):
            v[i] += 0.1 * f[i]
            x[i] += 0.1 * v[i]

    @qd.kernel
    def stencil(u: grids, v: grids, w: grids):
        for i, j in qd.ndrange((1, SIDE - 1), (1, SIDE - 1)):
            around = v[i - 1, j] + v[i + 1, j] + v[i, j - 1] + v[i, j + 1]
            w[i, j] = 2.0 * v[i, j] - u[i, j] + 0.1 * (around - 4.0 * v[i, j])

    @qd.kernel
    def springs(x: vectors, f: vectors, length: numbers):
        for i in range(COUNT - 1):
            d = x[i + 1] - x[i]
            force = (d.norm(1e-4) - length[i]) * d.normalized(1e-4)
            f[i] += force
            f[i + 1] -= force

    return [two_sums, stencil, springs]


def measure() -> dict[str, float]:
    """Runs in a worker process. Returns the ratio by the name of the row."""
    from benchmarks import engine

    qd = engine.qd
    engine.init(cpu_max_num_threads=1)
    vec3 = qd.types.vector(3, qd.f32)
    fields = _kernels(qd, *[qd.template()] * 3)
    arrays = _kernels(qd, qd.types.ndarray(qd.f32, 1), qd.types.ndarray(qd.f32, 2), qd.types.ndarray(vec3, 1))

    number, grid, vector = (qd.f32, COUNT), (qd.f32, (SIDE, SIDE)), (3, qd.f32, COUNT)
    shapes = [[number] * 3, [grid] * 3, [vector, vector, number]]

    def arguments(of: Any, of_vectors: Any) -> list[list[Any]]:
        return [[(of_vectors if len(s) == 3 else of)(*s, needs_grad=True) for s in row] for row in shapes]

    places = zip(arguments(qd.field, qd.Vector.field), arguments(qd.ndarray, qd.Vector.ndarray), strict=True)
    found: list[float] = []
    for of_fields, of_arrays, (x, y) in zip(fields, arrays, places, strict=True):
        pairs = [(of_fields, of_arrays), (of_fields.grad, of_arrays.grad)]
        for in_fields, in_arrays in pairs[: 1 if of_fields is fields[0] else 2]:
            runs = partial(in_fields, *x), partial(in_arrays, *y)
            for run in runs:
                run()
            a, b = fastest(*runs, times=8, rounds=ROUNDS)
            found.append(b / a)
    return dict(zip(NAMES, found, strict=True))
