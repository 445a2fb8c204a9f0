"""Kernels with a loop whose trip count is only known at launch, for the cases of other files."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.engine import qd


class Loop:
    """``size`` iterations in parallel, ``trips`` inside each; ``kernel`` adds all results into ``y``."""

    def __init__(self, size: int, trips: int, dtype: Any = None) -> None:
        dtype = dtype or qd.f32
        self.x = qd.field(dtype, shape=size, needs_grad=True)
        self.y = qd.field(dtype, shape=(), needs_grad=True)
        self.n = qd.field(qd.i32, shape=())
        self.x.from_numpy(np.linspace(0.1, 0.9, size).astype(np.float64 if dtype is qd.f64 else np.float32))
        self.n[None] = trips
        self.y.grad[None] = 1.0
        self.kernel = self.make()

    def make(self) -> Any:
        raise NotImplementedError

    def first_gradient(self) -> float:
        """dy/dx[0] by a gradient of its own, earlier ones cleared."""
        self.x.grad.fill(0.0)
        self.y.grad[None] = 1.0
        self.kernel.grad()
        return float(self.x.grad[0])


class Linear(Loop):
    def make(self) -> Any:
        x, y, n = self.x, self.y, self.n

        @qd.kernel
        def linear():
            for i in x:
                v = x[i]
                for _ in range(n[None]):
                    v = v * 0.95 + 0.01
                y[None] += v

        return linear


class Sine(Loop):
    def make(self) -> Any:
        x, y, n = self.x, self.y, self.n

        @qd.kernel
        def sine():
            for i in x:
                v = x[i]
                for _ in range(n[None]):
                    v = qd.sin(v) + 0.1
                y[None] += v

        return sine


class Eight(Loop):
    def make(self) -> Any:
        x, y, n = self.x, self.y, self.n

        @qd.kernel
        def eight():
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

        return eight


LOOPS: dict[str, type[Loop]] = {"linear": Linear, "sin": Sine, "8 carried": Eight}
