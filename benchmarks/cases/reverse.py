"""Cases of gradients, each with its forward pass for comparison: of 65,536 iterations with an inner loop of 64 trips,
and of a stencil."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from benchmarks.cases import Case, Timed
from benchmarks.cases.loops import LOOPS, Loop, own_trips
from benchmarks.engine import qd, synced

SIZE, TRIPS = 65536, 64
SIDE = 1024  # the stencil runs over SIDE x SIDE elements


class Stencil:
    """A stencil on a square: each element of y is computed from an element of x and its neighbours. ``y.grad`` is 1."""

    def __init__(self, n: int, dtype: Any) -> None:
        x, y = (qd.field(dtype, shape=(n, n), needs_grad=True) for _ in range(2))

        @qd.kernel
        def k():
            for i, j in qd.ndrange((1, n - 1), (1, n - 1)):
                y[i, j] = 0.5 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]

        x.fill(0.5)
        y.grad.fill(1.0)
        self.kernel, self.x, self.y = k, x, y

    def value(self) -> float:
        return float(self.y[7, 7])

    def first_gradient(self) -> float:
        self.x.grad.fill(0.0)
        self.y.grad.fill(1.0)
        self.kernel.grad()
        return float(self.x.grad[7, 7])


def forward(make: Callable[[], Any]) -> Timed:
    of = make()
    return Timed(synced(of.kernel), of.value)


def gradient(make: Callable[[], Any]) -> Timed:
    of = make()
    of.kernel()
    return Timed(synced(of.kernel.grad), of.first_gradient)


def both(group: str, name: str, make: Callable[[], Any], arch: str = "cpu") -> list[Case]:
    """The two cases of a kernel and its gradient."""
    return [Case(group, f"{name}, {what.__name__}", partial(what, make), arch) for what in (forward, gradient)]


def loops(
    group: str, names: Iterable[tuple[str, str]], size: int = SIZE, label: str = "", arch: str = "cpu"
) -> list[Case]:
    """The cases of the loops ``names`` of `cases.loops`, each with its dtype."""
    return [
        case
        for name, dtype in names
        for case in both(group, f"{name}{label}, {dtype}", partial(LOOPS[name], size, TRIPS, getattr(qd, dtype)), arch)
    ]


ALL = [(name, dtype) for name in ("sin", "8 carried") for dtype in ("f32", "f64")]
CASES = loops("reverse", ALL)
CASES += both("reverse", f"0 to {TRIPS} trips, f32", partial(Loop, own_trips, SIZE, TRIPS))
for dtype in ("f32", "f64"):
    CASES += both("reverse", f"5-point stencil, {SIDE}^2, {dtype}", partial(Stencil, SIDE, getattr(qd, dtype)))
