"""Vulkan: what a launch costs, and gradients through loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.cases import Case, Timed
from benchmarks.cases import launch as L
from benchmarks.cases.loops import Sine
from benchmarks.cases.reverse import forward, gradient
from benchmarks.engine import qd

ROUND = 100
CALLS = 16


def awaited(make: Callable[[], Timed]) -> Timed:
    """Each launch to its end."""
    timed = make()

    def run() -> None:
        timed.run()
        qd.sync()

    return Timed(run, timed.value)


def in_a_row(make: Callable[[], Timed]) -> Timed:
    """Many launches and one wait."""
    timed = make()

    def run() -> None:
        for _ in range(ROUND):
            timed.run()
        qd.sync()

    return Timed(run, timed.value)


def returned(make: Callable[[], Timed]) -> Timed:
    """A few launches, until the last call has returned, whether they are done or not."""
    timed = make()

    def run() -> None:
        for _ in range(CALLS):
            timed.run()

    return Timed(run, timed.value, qd.sync)


def small_gradient() -> Timed:
    loop = Sine(L.N, 4)
    loop.kernel()
    return Timed(loop.kernel.grad, loop.first_gradient)


KERNELS: dict[str, Callable[[], Any]] = {
    "serial kernel": L.serial,
    "kernel over a field": L.field_loop,
    "2 scalars": L.scalars,
    "gradient with adstack": small_gradient,
}
CASES = [
    *(Case("vulkan", f"{name}, awaited", partial(awaited, make), "vulkan") for name, make in KERNELS.items()),
    *(Case("vulkan", f"{name}, {CALLS} calls", partial(returned, make), "vulkan") for name, make in KERNELS.items()),
    *(Case("vulkan", f"{name}, {ROUND} in a row", partial(in_a_row, make), "vulkan") for name, make in KERNELS.items()),
    *(
        Case("vulkan", f"{name}, {dtype}, {what.__name__}", partial(what, name, dtype), "vulkan")
        for name in ("sin", "8 carried")
        for dtype in ("f32", "f64")
        for what in (forward, gradient)
    ),
]
