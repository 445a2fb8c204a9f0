"""An NVIDIA GPU: what a launch costs, bandwidth and arithmetic, and gradients through loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.cases import Case, Timed
from benchmarks.cases import launch as L
from benchmarks.cases import throughput as T
from benchmarks.cases.reverse import forward, gradient
from benchmarks.cases.vulkan import ROUND, awaited, in_a_row, small_gradient
from benchmarks.engine import qd

SIZE = 1 << 26
BODIES = 1 << 14
ITERATIONS = 1 << 20


def copy() -> Timed:
    x, y = qd.field(qd.f32, shape=SIZE), qd.field(qd.f32, shape=SIZE)
    x.fill(0.5)

    @qd.kernel
    def k():
        for i in x:
            y[i] = x[i]

    def run() -> None:
        k()
        qd.sync()

    return Timed(run, lambda: y[SIZE - 1])


KERNELS: dict[str, Callable[[], Timed]] = {
    "serial kernel": L.serial,
    "kernel over a field": L.field_loop,
    "2 scalars": L.scalars,
    "two qd.ndarray": L.ndarrays,
    "two loops": L.two_loops,
    "two loops, graph=True": partial(L.two_loops, graph=True),
    "gradient with adstack": small_gradient,
}
THROUGHPUT: dict[str, Callable[[], Timed]] = {
    "copy, 64M": copy,
    "saxpy, 64M": partial(T.saxpy, SIZE),
    "atomic sum, 64M": partial(T.atomic_sum, SIZE),
    "sin*exp, 64M": partial(T.sin_exp, SIZE),
    "3-point stencil, 64M": partial(T.stencil, SIZE),
    "n-body, 16384": partial(T.n_body, BODIES),
    "particles to grid, 1M": T.particles_to_grid,
}
REVERSE = (("sin", "f32"), ("8 carried", "f32"), ("sin", "f64"))
CASES = [
    Case("launch", "serial kernel, awaited", partial(awaited, L.serial), "cuda"),
    *(Case("launch", f"{name}, {ROUND} in a row", partial(in_a_row, make), "cuda") for name, make in KERNELS.items()),
    *(Case("throughput", name, make, "cuda") for name, make in THROUGHPUT.items()),
    *(
        Case("reverse", f"{name}, 1M x 64, {dtype}, {what.__name__}", partial(what, name, dtype, ITERATIONS), "cuda")
        for name, dtype in REVERSE
        for what in (forward, gradient)
    ),
]
