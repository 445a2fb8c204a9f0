"""Cases with random numbers: kernels that draw in a million iterations, and gradients of loops with draws, to be
compared with the same loop with a sine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.cases import Case, Timed
from benchmarks.engine import qd, synced

N = 1 << 20
SIZE, TRIPS = 65536, 16  # iterations and trips in the cases of gradients


def _filled(dtype: Any, make: Callable[[Any], Any], mean: float) -> Timed:
    """A case that fills a field with random numbers; ``make`` returns the kernel. Engines draw different numbers, so
    the compared value says only whether their mean is right."""
    y = qd.field(dtype, shape=(N,))

    def right() -> float:
        return float(abs(y.to_numpy().mean() - mean) < 0.01 * max(1.0, mean))

    return Timed(synced(make(y)), right)


def one(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            y[i] = qd.random()

    return k


def four(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            y[i] = qd.random() + qd.random() + qd.random() + qd.random()

    return k


def integers(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            y[i] = qd.abs(qd.random(qd.i32) % 100)

    return k


def doubles(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            y[i] = qd.random(qd.f64)

    return k


def conditional(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            v = 0.5
            if i % 2 == 0:
                v = qd.random()
            y[i] = v

    return k


def pi() -> Timed:
    hits = qd.field(qd.i32, shape=())

    @qd.kernel
    def k():
        for _ in range(N):
            x = qd.random()
            y = qd.random()
            if x * x + y * y < 1.0:
                hits[None] += 1

    def right() -> float:
        hits[None] = 0
        k()
        return float(abs(4.0 * hits[None] / N - 3.14159) < 0.02)

    return Timed(synced(k), right)


def gradient(draws: bool) -> Timed:
    """The case of the gradient of a loop with a random draw in each trip, or, without ``draws``, with a sine."""
    x, y = (qd.field(qd.f32, shape=(SIZE,), needs_grad=True) for _ in range(2))

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(TRIPS):
                if qd.static(draws):
                    v = v * (1.0 - 0.1 * qd.random() * v)
                else:
                    v = qd.sin(v)
            y[i] += v

    x.fill(0.5)
    y.grad.fill(1.0)
    k()
    return Timed(synced(k.grad))


FILLED = {
    "one": (qd.f32, one, 0.5), "four": (qd.f32, four, 2.0), "i32 % 100": (qd.i32, integers, 49.5),
    "f64": (qd.f64, doubles, 0.5), "in a branch": (qd.f32, conditional, 0.5),
}  # fmt: skip
CASES = [
    *(Case("draws", name, partial(_filled, *of)) for name, of in FILLED.items()),
    Case("draws", "Monte Carlo pi", pi),
    Case("draws", "gradient, a draw a trip", lambda: gradient(True)),
    Case("draws", "gradient, a sine a trip", lambda: gradient(False)),
]
