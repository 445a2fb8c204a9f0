"""Cases for an NVIDIA GPU: the time of a launch, bandwidth and arithmetic, and gradients through loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.cases import Case, Timed, launch as L, throughput as T
from benchmarks.cases.loops import Loop, one
from benchmarks.cases.reverse import both, loops
from benchmarks.cases.vulkan import ROUND, in_a_row

SIZE = 1 << 26
BODIES = 1 << 14
ITERATIONS = 1 << 20

KERNELS: dict[str, Callable[[], Timed]] = {
    "serial kernel": L.serial,
    "kernel over a field": L.field_loop,
    "2 scalars": L.scalars,
    "two qd.ndarray": L.ndarrays,
    "two loops": L.two_loops,
    "two loops, graph=True": partial(L.two_loops, graph=True),
    "gradient with adstack": partial(L.adstack_gradient, 4),
}
THROUGHPUT: dict[str, Callable[[], Timed]] = {
    "copy, 64M": partial(T.copy, SIZE),
    **{f"saxpy, {n}M": partial(T.saxpy, n << 20) for n in (1, 4, 16, 64)},
    "atomic sum, 64M": partial(T.atomic_sum, SIZE),
    "sin*exp, 64M": partial(T.sin_exp, SIZE),
    "3-point stencil, 64M": partial(T.stencil, SIZE),
    "n-body, 16384": partial(T.n_body, BODIES),
    "particles to grid, 1M": T.particles_to_grid,
}
REVERSE = (("sin", "f32"), ("8 carried", "f32"), ("sin", "f64"))
CASES = [
    Case("launch", "serial kernel, awaited", partial(L.awaited, L.serial), "cuda"),
    *(Case("launch", f"{name}, {ROUND} in a row", partial(in_a_row, make), "cuda") for name, make in KERNELS.items()),
    *(Case("throughput", name, partial(L.awaited, make), "cuda") for name, make in THROUGHPUT.items()),
    *loops("reverse", REVERSE, ITERATIONS, ", 1M x 64", "cuda"),
    *both("reverse", "sin, 1024 x 4096, f32", partial(Loop, one, 1024, 4096), "cuda"),
]
