"""Random sequences of launches in place, of writes from Python and of copies: derivatives of the whole, second ones
too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from sessions import NIGHT, WITH_F64, sessions

import quadrants_lab as qd


@qd.kernel
def sine(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] = qd.sin(x[i]) + 0.1

@qd.kernel
def product(x: qd.template(), y: qd.template(), z: qd.template()):
    for i in x:
        z[i] = x[i] * y[i]

@qd.kernel
def add_square(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] += 0.3 * x[i] * x[i]

@qd.kernel
def gather(x: qd.template(), y: qd.template(), k: qd.template()):
    for i in x:
        y[i] = 0.5 * y[i] + x[k[i]] * x[i]

@qd.kernel
def swap(x: qd.template(), y: qd.template()):
    for i in x:
        x[i], y[i] = y[i], 0.9 * x[i]

@qd.kernel
def iterate(x: qd.template(), y: qd.template(), k: qd.template(), more: qd.i32):
    for i in x:
        v = x[i]
        for j in range(k[i] + more):
            v += 0.2 * qd.sin(v) * x[j % 3]
        y[i] = v

@qd.kernel
def turn(k: qd.template()):
    for i in k:
        k[i] = (k[i] + 1) % 3

@qd.kernel
def total(x: qd.template(), s: qd.template()):
    for i in x:
        s[None] += x[i]

@qd.kernel
def scale(x: qd.template(), s: qd.template()):
    for i in x:
        x[i] = 0.5 * x[i] + 0.1 * s[None]

@qd.kernel
def measure(x: qd.template(), s: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] * x[i] * s[None]

@qd.kernel
def multiply(loss: qd.template(), by: qd.f64):
    loss[None] = loss[None] * by

@qd.kernel
def part(x: qd.template(), y: qd.template(), first: qd.i32, last: qd.i32):
    for i in range(first, last):
        x[i] = qd.sin(x[i] + y[2 - i])

@qd.kernel
def advance(h: qd.template(), x: qd.template(), t: qd.i32):
    for i in x:
        h[t + 1, i] = 0.5 * h[t, i] * x[i] + h[t, (i + 1) % 3]

@qd.kernel
def enter(h: qd.template(), x: qd.template(), t: qd.i32):
    for i in x:
        h[t, i] = qd.sin(x[i])

@qd.kernel
def leave(h: qd.template(), x: qd.template(), t: qd.i32):
    for i in x:
        x[i] += h[t, i]

@qd.kernel
def clear(x: qd.template()):
    for i in range(2):
        x[i] = 0.0


class World:
    def __init__(self) -> None:
        both = {"needs_grad": True, "needs_dual": True}
        self.fields = [qd.field(qd.f64, 3, **both) for _ in range(3)]
        self.s, self.loss = qd.field(qd.f64, (), **both), qd.field(qd.f64, (), **both)
        self.k = qd.field(qd.i32, 3)
        self.h = qd.field(qd.f64, (5, 3), **both)

    def start(self, values: list[np.ndarray]) -> None:
        for x, value in zip(self.fields, values, strict=True):
            x.from_numpy(value)
        self.k.from_numpy(np.array([0, 2, 1], np.int32))
        self.s[None], self.loss[None] = 0.7, 0.0
        self.h.fill(0.0)

    def steps(self, rng: random.Random) -> Iterator[tuple[Callable[..., None], tuple[Any, ...]]]:
        s, k, h, loss = self.s, self.k, self.h, self.loss
        for x in self.fields:  # what Python writes before the first launch that uses a field is its start
            yield measure, (x, s, loss)
        for t in range(5):
            yield enter, (h, x, t)
        for _ in range(rng.randint(3, 14)):
            x, y, z = rng.sample(self.fields, 3)
            value, number, t = rng.uniform(-1, 1), rng.randrange(3), rng.randrange(4)
            yield rng.choice([
                (sine, (x, y)), (product, (x, y, z)), (add_square, (x, y)), (gather, (x, y, k)), (swap, (x, y)),
                (iterate, (x, y, k, number)), (turn, (k,)), (total, (x, s)), (scale, (x, s)), (clear, (x,)),
                (part, (x, y, number, 3)), (part, (x, y, 0, number)), (enter, (h, x, t)), (leave, (h, x, t)),
                (advance, (h, x, t)), (advance, (h, y, t)), (leave, (h, y, t + 1)),
                (measure, (x, s, loss)), (multiply, (loss, 0.5 + number)),
                (x.__setitem__, (number, value)), (x.fill, (value,)), (x.copy_from, (y,)), (k.__setitem__, (number, 2)),
                (x.from_numpy, (np.array([value, 0.1, -value]),)), (s.__setitem__, (None, value)),
            ])  # fmt: skip
        yield measure, (x, s, loss)


def seeds(cpu: int, elsewhere: Sequence[int]) -> pytest.MarkDecorator:
    """``options`` and ``seed``: by day the first ones on the CPU, and some on each other backend; 15 times as many by
    night."""
    rows = []
    for options in WITH_F64:
        by_day = range(cpu) if options.id == "cpu" else elsewhere
        rows += [pytest.param(*options.values, k, marks=options.marks, id=f"{options.id}-{k}")
                 for k in (range(15 * len(by_day)) if NIGHT else by_day)]  # fmt: skip
    return pytest.mark.parametrize(("options", "seed"), rows)


@pytest.mark.filterwarnings("ignore")
@seeds(cpu=15, elsewhere=(11, 30, 38))  # where a device would save a part, and then all that the part is of
def test_derivatives_of_random_launches(options: dict[str, Any], seed: int) -> None:
    qd.init(**options, default_fp=qd.f64)
    world, rng = World(), np.random.default_rng(seed)
    steps = list(world.steps(random.Random(seed)))
    start = [rng.uniform(-1, 1, 3) for _ in range(3)]
    way = [rng.normal(size=3) for _ in range(3)]

    def run() -> None:
        for act, args in steps:
            act(*args)

    def value(h: float) -> float:
        world.start([a + h * w for a, w in zip(start, way, strict=True)])
        run()
        return float(world.loss[None])

    @qd.ad.checkpoint
    def some(first: int, last: int) -> None:
        middle = (first + last) // 2
        for act, args in steps[first:middle]:
            act(*args)
        if last - first > 4:
            some(middle, last)
        else:
            for act, args in steps[middle:last]:
                act(*args)

    def in_segments() -> None:
        for n in range(0, len(steps), 7):
            some(n, min(n + 7, len(steps)))

    def derivative() -> float:
        return sum(float((x.grad.to_numpy() * w).sum()) for x, w in zip(world.fields, way, strict=True))

    def least(launch: Callable[[], None]) -> int:
        world.start(start)
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL2091") as told, qd.ad.Tape(world.loss, memory=0):
            launch()
        return int(str(told.value).split("at least ")[1].split()[0])

    right = (value(1e-6) - value(-1e-6)) / 2e-6
    ways: list[tuple[dict[str, Any], Callable[[], None]]] = [
        ({}, run), ({"validation": True}, run), ({}, in_segments), ({"memory": 2000}, run),
        *(({"memory": least(run) + more}, run) for more in (0, 24, 100)), ({"memory": least(in_segments)}, in_segments),
    ]  # fmt: skip
    for keywords, launch in ways:
        world.start(start)
        with qd.ad.Tape(world.loss, **keywords) as tape:
            launch()
        found = derivative()
        assert found == pytest.approx(right, rel=1e-5, abs=1e-5)
        assert tape.kept_bytes <= keywords.get("memory", 2**30)

    tangent = 0.0
    for x, w in zip(world.fields, way, strict=True):
        world.start(start)
        with qd.ad.FwdMode(world.loss, x, seed=w):
            run()
        tangent += float(world.loss.dual[None])
    assert tangent == pytest.approx(found, rel=1e-9, abs=1e-9)


@pytest.mark.filterwarnings("ignore")
@seeds(cpu=10, elsewhere=range(2))
def test_a_program_that_runs_again(options: dict[str, Any], seed: int) -> None:
    """It runs from other values, with other scalars, with another end, with a write by Python, and unchanged."""
    qd.init(**options, default_fp=qd.f64)
    world, chance, rng = World(), random.Random(seed), np.random.default_rng(seed)

    def launches() -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        return [(act, args) for act, args in world.steps(chance) if isinstance(act, type(sine))]

    steps = launches()
    other = [(act, (args[0], 0.7 * args[1]) if act is multiply else args) for act, args in steps]
    some = chance.randrange(len(steps))
    longer = [*steps, *launches()[-5:]]
    written = [*steps[:some], (world.s.__setitem__, (None, 0.3)), *steps[some:]]
    for program in (steps, steps, other, steps, longer, longer, steps[:some] + longer[-4:], written, steps, steps):
        start, way = ([rng.uniform(-1, 1, 3) for _ in range(3)] for _ in range(2))

        def run() -> float:
            for act, args in program:
                act(*args)
            return float(world.loss[None])

        ends = []
        for h in (1e-6, -1e-6):
            world.start([a + h * w for a, w in zip(start, way, strict=True)])
            ends.append(run())
        world.start(start)
        with qd.ad.Tape(world.loss):
            run()
        found = sum(float((x.grad.to_numpy() * w).sum()) for x, w in zip(world.fields, way, strict=True))
        assert found == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5)


@pytest.mark.filterwarnings("ignore")
@seeds(cpu=10, elsewhere=range(2))
def test_second_derivatives_of_random_launches(options: dict[str, Any], seed: int) -> None:
    """They are compared with differences of gradients: all steps, little memory, and the launches alone, twice."""
    qd.init(**options, default_fp=qd.f64)
    world, rng = World(), np.random.default_rng(seed)
    steps = list(world.steps(random.Random(seed)))
    launches = [(act, args) for act, args in steps if isinstance(act, type(sine))]
    for program, memory in ((steps, None), (steps, 600), (launches, None), (launches, None)):
        start, way = ([rng.uniform(-1, 1, 3) for _ in range(3)] for _ in range(2))

        def run() -> None:
            for act, args in program:
                act(*args)

        def gradients(h: float) -> np.ndarray:
            world.start([a + h * w for a, w in zip(start, way, strict=True)])
            with qd.ad.Tape(world.loss):
                run()
            return np.array([x.grad.to_numpy() for x in world.fields])

        changes, slopes = (gradients(1e-5) - gradients(-1e-5)) / 2e-5, gradients(0.0)
        world.start(start)
        found = np.array(qd.ad.hessian_vector(run, world.loss, world.fields, way, memory=memory))
        assert found == pytest.approx(changes, rel=1e-6, abs=1e-6 * max(1.0, np.abs(changes).max()))
        assert np.array([x.grad.to_numpy() for x in world.fields]) == pytest.approx(slopes, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("options", sessions("cpu"))
def test_python_writes_among_launches_that_are_made_again(options: dict[str, Any]) -> None:
    """Each budget divides the program differently; what Python wrote is restored before launches that read it."""
    qd.init(**options, default_fp=qd.f64)
    world = World()
    x, _, z = world.fields
    start = [np.array([0.1, 0.2, 0.3]) + 0.3 * n for n in range(3)]
    found = []
    for memory in (None, *range(240, 360, 20)):
        world.start(start)
        with qd.ad.Tape(world.loss, memory=memory):
            add_square(x, z)
            for n in range(5):
                z[1] = -0.7 + 0.1 * n
                add_square(x, z)
                swap(x, z)
            measure(x, world.s, world.loss)
        found.append([a.grad.to_numpy() for a in world.fields])
    np.testing.assert_allclose(found, [found[0]] * len(found), rtol=1e-12)
