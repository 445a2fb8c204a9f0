"""Cases for Vulkan: the time of a launch, and gradients through loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.cases import Case, Timed, launch as L
from benchmarks.cases.reverse import ALL, loops
from benchmarks.engine import qd, synced

ROUND = 100
CALLS = 16


def in_a_row(make: Callable[[], Timed]) -> Timed:
    """A case whose run makes many launches and waits once."""
    timed = make()

    def run() -> None:
        for _ in range(ROUND):
            timed.run()

    return Timed(synced(run), timed.value)


def returned(make: Callable[[], Timed]) -> Timed:
    """A case whose run makes a few launches and ends when the last call has returned; the launches need not be
    complete."""
    timed = make()

    def run() -> None:
        for _ in range(CALLS):
            timed.run()

    return Timed(run, timed.value, qd.sync)


KERNELS: dict[str, Callable[[], Timed]] = {
    "serial kernel": L.serial,
    "kernel over a field": L.field_loop,
    "2 scalars": L.scalars,
    "gradient with adstack": partial(L.adstack_gradient, 4),
}
CASES = [
    *(Case("vulkan", f"{name}, awaited", partial(L.awaited, make), "vulkan") for name, make in KERNELS.items()),
    *(Case("vulkan", f"{name}, {CALLS} calls", partial(returned, make), "vulkan") for name, make in KERNELS.items()),
    *(Case("vulkan", f"{name}, {ROUND} in a row", partial(in_a_row, make), "vulkan") for name, make in KERNELS.items()),
    *loops("vulkan", ALL, arch="vulkan"),
]
