"""Cases of programs with many launches: value and gradient under a Tape, and the same launches and gradients called
by hand. There are also the programs of kernels/ in which every time step writes new elements, at the sizes of their
`main` and at larger ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Case, Timed
from benchmarks.engine import qd, sample
from benchmarks.others import STEPS, WAVE

PAIRS = 1000


class Wave:
    """The wave equation on a square, each step in elements of its own; the loss is the sum of squares at the end."""

    def __init__(self) -> None:
        n, steps = WAVE, STEPS
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
    """The wave equation with two fields; each step overwrites one of them."""

    def __init__(self, size: int = WAVE, steps: int = STEPS) -> None:
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

    def taped(self, memory: int | None = None) -> qd.ad.Tape:
        for x in (self.p, self.q):
            x.fill(0.0)
            x[self.size // 2, self.size // 2] = 1.0
        for x in (self.p, self.q, self.c):  # clears only the gradients of this program
            x.grad.fill(0.0)
        with qd.ad.Tape(self.loss, clear_gradients=False, memory=memory) as tape:
            for _ in range(self.steps // 2):
                self.step(self.p, self.q)
                self.step(self.q, self.p)
            self.measure(self.p)
        qd.sync()
        return tape

    def value(self) -> float:
        return float(self.c.grad.to_numpy().sum())


def wave(way: str) -> Timed:
    w: Any = InPlace() if way == "in place" else Wave()
    run: Callable[[], Any] = w.by_hand if way == "by hand" else w.taped
    return Timed(run, w.value)


def swings(steps: int, n: int) -> Callable[[], None]:
    """The case of ``n`` pendulums over ``steps`` steps, each step in elements of its own. The gradient is that of their
    final positions."""
    x, v = (qd.field(qd.f32, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    v.fill(0.5)

    @qd.kernel
    def step(t: qd.i32):
        for i in range(n):
            v[t + 1, i] = v[t, i] - 0.01 * qd.sin(x[t, i])
            x[t + 1, i] = x[t, i] + 0.01 * v[t + 1, i]

    @qd.kernel
    def measure():
        for i in range(n):
            loss[None] += x[steps, i] ** 2

    def run() -> None:
        with qd.ad.Tape(loss):
            for t in range(steps):
                step(t)
            measure()
        qd.sync()

    return run


@qd.data_oriented
class Pair:
    """An object with two fields as attributes."""

    x: Any
    y: Any

    @qd.kernel
    def step(self):
        for i in self.x:
            self.y[i] = self.x[i] * 1.001 + 0.01 * qd.sin(self.x[i])


class Turns:
    """Cases in which two fields swap their roles in each of 200 steps: as attributes that the program exchanges, and as
    arguments."""

    def __init__(self) -> None:
        self.loss = qd.field(qd.f32, shape=(), needs_grad=True)
        loss, (self.x, self.y) = self.loss, (qd.field(qd.f32, shape=64, needs_grad=True) for _ in range(2))

        @qd.kernel
        def step(x: qd.template(), y: qd.template()):
            for i in x:
                y[i] = x[i] * 1.001 + 0.01 * qd.sin(x[i])

        @qd.kernel
        def measure(x: qd.template()):
            for i in x:
                loss[None] += x[i]

        self.step, self.measure, self.own = step, measure, Pair()

    def arguments(self) -> None:
        x, y = self.x, self.y
        with qd.ad.Tape(self.loss):
            for _ in range(STEPS):
                self.step(x, y)
                x, y = y, x
            self.measure(x)

    def attributes(self) -> None:
        own = self.own
        own.x, own.y = self.x, self.y
        with qd.ad.Tape(self.loss):
            for _ in range(STEPS):
                own.step()
                own.x, own.y = own.y, own.x
            self.measure(own.x)


def tiny(count: int = PAIRS) -> tuple[Any, Callable[[], None]]:
    """A loss, and a function that does ``count`` launches, each of which does almost nothing but add to the loss."""
    x = qd.field(qd.f32, shape=4, needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def square(i: qd.i32):
        for _ in range(1):
            loss[None] += x[i] * x[i]

    def launches() -> None:
        for n in range(count):
            square(n % 4)

    return loss, launches


def pairs() -> Timed:
    """The case of the launches of `tiny` under a Tape, which runs the gradient of each launch."""
    loss, launches = tiny()

    def run() -> None:
        with qd.ad.Tape(loss):
            launches()
        qd.sync()

    return Timed(run, lambda: float(loss[None]))


def ripple(n: int, steps: int) -> Timed:
    module = sample("ripple")
    pond = module.Pond(n, steps)
    pond.picture.from_numpy(module.drawn(module.PICTURE, n))
    return _gradient(pond, np.zeros((n, n), np.float32))


def billiards(rows: int, steps: int) -> Timed:
    module = sample("billiards")
    places = module.rack(rows)
    table = module.Table(places, steps, target=len(places) - 1)
    table.goal[None] = [2.0, 0.5]
    return _gradient(table, np.array([3.6, 0.02], np.float32))


def sticks(n: int, steps: int) -> Timed:
    some = sample("sticks").Sticks(n, steps)
    return _gradient(some, np.linspace(0.4, 1.0, 3 * n, dtype=np.float32).reshape(n, 3))


def robot(hidden: int, steps: int, wide: int) -> Timed:
    module = sample("robot")
    walker = module.Robot(*module.built(module.BODY.replace("###", "###" * wide)), hidden, steps)
    draw = np.random.default_rng(4)
    weights = [draw.normal(0.0, 0.1, field.to_numpy().shape).astype(np.float32) for field in walker.weights]
    return _gradient(walker, weights)


def smoke(n: int, steps: int, iterations: int) -> Timed:
    module = sample("smoke")
    flow = module.Flow(n, steps, iterations)
    flow.q.from_numpy(np.stack([module.disc(n, 0.4, 0.25)] * (steps + 1)))
    flow.target.from_numpy(module.disc(n, 0.55, 0.25))
    return _gradient(flow, np.full((n, n, 2), 0.2, np.float32))


def muscle(cells: int, steps: int, a_side: int) -> Timed:
    module = sample("muscle")
    places, kinds, volume = module.built(module.BODY, cells, a_side)
    body = module.Body(places, kinds, volume, cells, steps, dt=0.12 / cells)
    return _gradient(body, np.full((2, 4), 0.02, np.float32))


def _gradient(program: Any, parameters: Any) -> Timed:
    found: list[Any] = []

    def run() -> None:
        found[:] = [program.gradient(parameters)]

    def value() -> float:
        slopes = found[0][1]
        return float(sum(np.abs(slope).sum() for slope in (slopes if isinstance(slopes, list) else [slopes])))

    return Timed(run, value)


# by sample program: a function to call with the sizes of its `main`, and one with larger sizes
SAMPLES: dict[str, tuple[Callable[..., Timed], dict[str, tuple[int, ...]]]] = {
    "ripple": (ripple, {"32^2, 100 steps": (32, 100), "256^2, 200 steps": (256, 200)}),
    "billiards": (billiards, {"11 balls, 200 steps": (4, 200), "211 balls, 200 steps": (20, 200)}),
    "sticks": (sticks, {"8 sticks, 200 steps": (8, 200), "20,000 sticks, 200 steps": (20_000, 200)}),
    "robot": (robot, {"16 masses, 150 steps": (12, 150, 1), "64 units, 28 masses": (64, 150, 3)}),
    "smoke": (smoke, {"32^2, 20 steps": (32, 20, 6), "256^2, 20 steps": (256, 20, 6)}),
    "muscle": (muscle, {"80 particles, 200 steps": (24, 200, 2), "2,880 particles, 100 steps": (48, 100, 12)}),
}
CASES = [
    *(
        Case("programs", f"{name}, {size}", partial(make, *arguments))
        for name, (make, sizes) in SAMPLES.items()
        for size, arguments in sizes.items()
    ),
    Case("programs", f"wave, {WAVE}^2, {STEPS} steps, under a Tape", lambda: wave("under a Tape")),
    Case("programs", f"wave, {WAVE}^2, {STEPS} steps in place, under a Tape", lambda: wave("in place")),
    Case("programs", f"wave, {WAVE}^2, {STEPS} steps, by hand", lambda: wave("by hand")),
    Case("programs", f"{PAIRS} launches of one iteration, under a Tape", pairs),
]
