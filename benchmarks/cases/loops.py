"""Kernels with an inner loop whose trip count is only known at launch. Cases in other files use them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.engine import qd

Make = Callable[..., Any]  # makes a kernel of the fields x, y, n and w of a `Space`

class Space:
    """The fields of a kernel with ``size`` parallel iterations. Each iteration makes ``n`` trips of its inner loop and
    adds its result to ``y``."""

    def __init__(self, dtype: Any, size: int = 1) -> None:
        self.dtype = dtype
        self.x = qd.field(dtype, shape=size, needs_grad=True)
        self.y = qd.field(dtype, shape=(), needs_grad=True)
        self.n = qd.field(qd.i32, shape=())
        self.w = qd.field(dtype, shape=300, needs_grad=True)
        self.x.fill(0.3)
        self.w.fill(0.4)
        self.y.grad[None] = 1.0

    def kernel_of(self, make: Make) -> Any:
        return make(self.x, self.y, self.n, self.w)


def linear(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = v * 0.95 + 0.01
            y[None] += v

    return k


def one(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v) + 0.1
            y[None] += v

    return k


def eight(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            a = x[i]
            b = a * 0.9
            c = a * 0.8
            d = a * 0.7
            e = a * 0.6
            f = a * 0.5
            g = a * 0.4
            h = a * 0.3
            for _ in range(n[None]):
                a = qd.sin(a) + 0.1 * b
                b = qd.sin(b) + 0.1 * c
                c = qd.sin(c) + 0.1 * d
                d = qd.sin(d) + 0.1 * e
                e = qd.sin(e) + 0.1 * f
                f = qd.sin(f) + 0.1 * g
                g = qd.sin(g) + 0.1 * h
                h = qd.sin(h) + 0.1 * a
            y[None] += a + b + c + d + e + f + g + h

    return k


def own_trips(x: Any, y: Any, n: Any, w: Any) -> Any:
    """A kernel in which each iteration has its own number of trips, at most the ``n`` at the time the kernel is
    made."""
    own = qd.field(qd.i32, x.shape[0])
    own.from_numpy(np.random.default_rng(1).integers(0, n[None] + 1, x.shape[0]).astype(np.int32))

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(own[i]):
                v = qd.sin(v) + 0.1
            y[None] += v

    return k


class Loop(Space):
    """A kernel of this file with its fields; each iteration begins with a different number."""

    def __init__(self, make: Make, size: int, trips: int, dtype: Any = qd.f32) -> None:
        super().__init__(dtype, size)
        self.x.from_numpy(np.linspace(0.1, 0.9, size).astype(np.float64 if dtype is qd.f64 else np.float32))
        self.n[None] = trips
        self.kernel = self.kernel_of(make)

    def value(self) -> float:
        self.y[None] = 0.0
        self.kernel()
        return float(self.y[None])

    def first_gradient(self) -> float:
        """dy/dx[0], from a launch of the gradient after all gradients are set to 0."""
        self.x.grad.fill(0.0)
        self.y.grad[None] = 1.0
        self.kernel.grad()
        return float(self.x.grad[0])


LOOPS: dict[str, Callable[..., Loop]] = {
    "linear": partial(Loop, linear), "sin": partial(Loop, one), "8 carried": partial(Loop, eight),
}  # fmt: skip
