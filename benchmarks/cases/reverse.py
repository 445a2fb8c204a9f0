"""Gradients through 65,536 loops of 64 trips, beside their forward pass."""

from __future__ import annotations

from functools import partial

from benchmarks.cases import Case, Timed
from benchmarks.cases.loops import LOOPS
from benchmarks.engine import qd

SIZE, TRIPS = 65536, 64


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


CASES = [
    Case("reverse", f"{name}, {dtype}, {what.__name__}", partial(what, name, dtype))
    for name in ("sin", "8 carried")
    for dtype in ("f32", "f64")
    for what in (forward, gradient)
]
