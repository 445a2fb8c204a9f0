"""Programs of many launches: value and gradient under a Tape, and the same launches and gradients by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.cases import Case, Timed
from benchmarks.engine import qd

SIZE, STEPS, PAIRS = 256, 200, 1000


class Wave:
    """The wave equation on a square, each step in elements of its own; the loss is the sum of squares at the end."""

    def __init__(self) -> None:
        n, steps = SIZE, STEPS
        u = self.u = qd.field(qd.f32, shape=(steps + 2, n, n), needs_grad=True)
        c = self.c = qd.field(qd.f32, shape=(n, n), needs_grad=True)
        loss = self.loss = qd.field(qd.f32, shape=(), needs_grad=True)

        @qd.kernel
        def step(t: qd.i32):
            for i, j in qd.ndrange((1, n - 1), (1, n - 1)):
                around = u[t, i - 1, j] + u[t, i + 1, j] + u[t, i, j - 1] + u[t, i, j + 1]
                u[t + 1, i, j] = 2.0 * u[t, i, j] - u[t - 1, i, j] + 0.1 * c[i, j] * (around - 4.0 * u[t, i, j])

        @qd.kernel
        def measure():
            for i, j in c:
                loss[None] += u[steps + 1, i, j] ** 2

        self.step, self.measure = step, measure
        c.fill(1.0)
        for t in range(2):
            u[t, n // 2, n // 2] = 1.0

    def forward(self) -> None:
        for t in range(1, STEPS + 1):
            self.step(t)
        self.measure()

    def taped(self) -> None:
        with qd.ad.Tape(self.loss):
            self.forward()
        qd.sync()

    def by_hand(self) -> None:
        self.loss.fill(0.0)
        self.u.grad.fill(0.0)
        self.c.grad.fill(0.0)
        self.forward()
        self.loss.grad.fill(1.0)
        self.measure.grad()
        for t in range(STEPS, 0, -1):
            self.step.grad(t)
        qd.sync()

    def value(self) -> float:
        return float(self.c.grad.to_numpy().sum())


class InPlace:
    """The same with two fields, of which each step overwrites one."""

    def __init__(self, size: int = SIZE, steps: int = STEPS) -> None:
        n = self.size = size
        self.steps = steps
        self.p, self.q, self.c = (qd.field(qd.f32, shape=(n, n), needs_grad=True) for _ in range(3))
        c = self.c
        loss = self.loss = qd.field(qd.f32, shape=(), needs_grad=True)

        @qd.kernel
        def step(p: qd.template(), q: qd.template()):
            for i, j in qd.ndrange((1, n - 1), (1, n - 1)):
                around = p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1]
                q[i, j] = 2.0 * p[i, j] - q[i, j] + 0.1 * c[i, j] * (around - 4.0 * p[i, j])

        @qd.kernel
        def measure(p: qd.template()):
            for i, j in p:
                loss[None] += p[i, j] ** 2

        self.step, self.measure = step, measure
        c.fill(1.0)

    def taped(self) -> None:
        for x in (self.p, self.q):
            x.fill(0.0)
            x[self.size // 2, self.size // 2] = 1.0
        for x in (self.p, self.q, self.c):  # and not those of all programs of the process
            x.grad.fill(0.0)
        with qd.ad.Tape(self.loss, clear_gradients=False):
            for _ in range(self.steps // 2):
                self.step(self.p, self.q)
                self.step(self.q, self.p)
            self.measure(self.p)
        qd.sync()

    def value(self) -> float:
        return float(self.c.grad.to_numpy().sum())


def wave(way: str) -> Timed:
    w: Any = InPlace() if way == "in place" else Wave()
    run: Callable[[], Any] = w.by_hand if way == "by hand" else w.taped
    return Timed(run, w.value)


def pairs() -> Timed:
    """Launches of almost nothing, each with its gradient."""
    x = qd.field(qd.f32, shape=4, needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def square(i: qd.i32):
        for _ in range(1):
            loss[None] += x[i] * x[i]

    def run() -> None:
        with qd.ad.Tape(loss):
            for n in range(PAIRS):
                square(n % 4)
        qd.sync()

    return Timed(run, lambda: float(x.grad[1]))


CASES = [
    Case("programs", f"wave, {SIZE}^2, {STEPS} steps, under a Tape", lambda: wave("under a Tape")),
    Case("programs", f"wave, {SIZE}^2, {STEPS} steps in place, under a Tape", lambda: wave("in place")),
    Case("programs", f"wave, {SIZE}^2, {STEPS} steps, by hand", lambda: wave("by hand")),
    Case("programs", f"{PAIRS} launches of one iteration, under a Tape", pairs),
]
