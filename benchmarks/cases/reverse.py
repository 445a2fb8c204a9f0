"""Gradients through 65,536 loops of 64 trips, and of a stencil, beside their forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.cases import Case, Timed
from benchmarks.cases.loops import LOOPS
from benchmarks.engine import qd

SIZE, TRIPS = 65536, 64
SIDE = 1024  # of the stencil's square


def forward(name: str, dtype: str, size: int = SIZE) -> Timed:
    loop = LOOPS[name](size, TRIPS, getattr(qd, dtype))

    def run() -> None:
        loop.kernel()
        qd.sync()

    def value() -> float:
        loop.y[None] = 0.0
        loop.kernel()
        return float(loop.y[None])

    return Timed(run, value)


def gradient(name: str, dtype: str, size: int = SIZE) -> Timed:
    loop = LOOPS[name](size, TRIPS, getattr(qd, dtype))
    loop.kernel()

    def run() -> None:
        loop.kernel.grad()
        qd.sync()

    return Timed(run, loop.first_gradient)


@dataclass(frozen=True)
class Stencil:
    kernel: Any
    x: Any
    y: Any


def five_points(n: int, dtype: Any) -> Stencil:
    """Each element from itself and its neighbours, on a square; ``y.grad`` is 1."""
    x, y = (qd.field(dtype, shape=(n, n), needs_grad=True) for _ in range(2))

    @qd.kernel
    def k():
        for i, j in qd.ndrange((1, n - 1), (1, n - 1)):
            y[i, j] = 0.5 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]

    x.fill(0.5)
    y.grad.fill(1.0)
    return Stencil(k, x, y)


def stencil_forward(dtype: str) -> Timed:
    s = five_points(SIDE, getattr(qd, dtype))

    def run() -> None:
        s.kernel()
        qd.sync()

    return Timed(run, lambda: float(s.y[7, 7]))


def stencil_gradient(dtype: str) -> Timed:
    s = five_points(SIDE, getattr(qd, dtype))

    def run() -> None:
        s.kernel.grad()
        qd.sync()

    def value() -> float:
        s.x.grad.fill(0.0)
        s.y.grad.fill(1.0)
        s.kernel.grad()
        return float(s.x.grad[7, 7])

    return Timed(run, value)


CASES = [
    Case("reverse", f"{name}, {dtype}, {what.__name__}", partial(what, name, dtype))
    for name in ("sin", "8 carried")
    for dtype in ("f32", "f64")
    for what in (forward, gradient)
] + [
    Case("reverse", f"5-point stencil, {SIDE}^2, {dtype}, {what}", partial(make, dtype))
    for dtype in ("f32", "f64")
    for what, make in (("forward", stencil_forward), ("gradient", stencil_gradient))
]
