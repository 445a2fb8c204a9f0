"""A Tape's budget: a bound for what is kept, near the least number of repeated launches, and an error that says what
is needed."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sessions import ended, in_turn, sessions  # noqa: F401 - a fixture

import quadrants_lab as qd
from quadrants_lab.runtime.tape.recomputation import repeats

N = 64


@qd.kernel
def relax(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] = 0.9 * qd.sin(x[i]) + 0.1 * y[i]


@qd.kernel
def in_place(x: qd.template()):
    for i in x:
        x[i] = 0.99 * x[i] + 0.01 * qd.sin(x[i])


@qd.kernel
def sine(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] = qd.sin(x[i])


@qd.kernel
def swap(x: qd.template(), y: qd.template()):
    for i in x:
        x[i], y[i] = y[i], 0.9 * x[i]


@qd.kernel
def push(x: qd.template(), y: qd.template(), first: qd.i32, last: qd.i32):
    for i in range(first, last):
        y[i] = y[i] + 0.1 * qd.sin(x[i])


@qd.kernel
def pull(x: qd.template(), y: qd.template()):
    for i in y:
        y[i] = 0.9 * y[i] + 0.05 * qd.sin(x[2 * i] + x[2 * i + 1])


@qd.kernel
def follow(x: qd.template(), h: qd.template(), t: qd.i32):
    for i in x:
        h[t + 1, i] = 0.9 * h[t, i] + 0.1 * qd.sin(x[i])
        x[i] = 0.9 * x[i] + 0.1 * h[t, i]


@qd.kernel
def draw(x: qd.template(), drawn: qd.template(), t: qd.i32):
    for i in x:
        w = 0.5 + qd.random(qd.f64)
        drawn[t, i] = w
        x[i] = x[i] * w


@qd.kernel
def total(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] * x[i]


class World:
    """``state``: bytes of the fields that the launches of ``step`` overwrite and read, and of the loss."""

    def __init__(self, launches: int) -> None:
        self.launches = launches
        self.x, self.y, self.small = (qd.field(qd.f64, n, needs_grad=True) for n in (N, N, N // 2))
        self.h = qd.field(qd.f64, (launches + 2, N), needs_grad=True)
        self.loss = qd.field(qd.f64, (), needs_grad=True)
        self.sizes = np.random.default_rng(1).integers(N // 8, N + 1, launches)

    def start(self) -> None:
        for a in (self.x, self.y, self.small, self.h):
            a.from_numpy(np.linspace(0.1, 0.9, a.to_numpy().size).reshape(a.to_numpy().shape))

    def run(self, step: Callable[[World, int], None], **options: Any) -> tuple[qd.ad.Tape, list[np.ndarray]]:
        """The gradients and, behind them, the values that the launches left."""
        self.start()
        with qd.ad.Tape(self.loss, **options) as tape:
            for t in range(self.launches - 1):
                step(self, t)
            total(self.x, self.loss)
        fields = self.x, self.y, self.small, self.h, self.loss
        return tape, [*(a.grad.to_numpy() for a in fields), *(a.to_numpy() for a in fields)]

    def least(self, step: Callable[[World, int], None], memory: int = 0) -> int:
        """The least budget that the error names."""
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL2091") as told:
            self.run(step, memory=memory)
        found = re.search(rf"memory={memory} needs at least (\d+) bytes", str(told.value))
        assert found is not None
        return int(found[1])


def turns(w: World, t: int) -> None:
    relax(*((w.x, w.y) if t % 2 else (w.y, w.x)))


def unequal(w: World, t: int) -> None:
    """Fields of two sizes."""
    pull(w.x, w.small) if t % 3 else relax(w.y, w.x)


def prefixes(w: World, t: int) -> None:
    """Each launch writes a different part."""
    fields = (w.x, w.y) if t % 2 else (w.y, w.x)
    push(*fields, 0, int(w.sizes[t]))


def windows(w: World, t: int) -> None:
    fields = (w.x, w.y) if t % 2 else (w.y, w.x)
    push(*fields, 3 * t % (N - 16), 3 * t % (N - 16) + 16)


def own(w: World, t: int) -> None:
    """A kernel that keeps what it overwrites for its own gradient."""
    in_place(w.x)


def exchanges(w: World, t: int) -> None:
    """Launches that keep values of one field, or of two, or none."""
    sine(w.x, w.y) if t % 3 == 0 else in_place(w.x) if t % 3 == 1 else swap(w.x, w.y)


def indexed(w: World, t: int) -> None:
    """One field is written in place; another has separate elements for each step."""
    follow(w.x, w.h, t)


@dataclass
class Row:
    """``state``: fields whose bytes are a state; ``own``: bytes that a launch keeps itself, for which there must always
    be room; ``launches``."""

    step: Callable[[World, int], None]
    state: Sequence[str]
    launches: int = 120
    own: int = 0


ROWS = {
    "turns": Row(turns, ("x", "y", "loss"), 301), "unequal": Row(unequal, ("x", "small", "loss"), 301),
    "prefixes": Row(prefixes, ("x", "y", "loss")), "windows": Row(windows, ("x", "y", "loss")),
    "own": Row(own, ("x", "loss"), own=8 * N), "indexed": Row(indexed, ("x", "loss"), own=8 * N),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_budgets_from_the_least_to_ample(name: str) -> None:
    """The right gradients and values, at most the budget kept, at most 1.5 times as many launches as revolve makes."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    row = ROWS[name]
    world = World(row.launches)
    state = sum(getattr(world, field).to_numpy().nbytes for field in row.state)
    ample, right = world.run(row.step)
    least = world.least(row.step)
    assert least <= state + row.own
    assert world.least(row.step, least - 1) == least
    assert world.run(row.step, memory=least)[0].kept_bytes >= least - 8  # of the loss, which may be done with before
    ample_slots = 3 * row.launches
    for memory in (least, *(int(n * state) + row.own for n in (1, 1.5, 2, 2.5, 3, 4, 5, 8, 13, 25, 60, ample_slots))):
        tape, found = world.run(row.step, memory=memory)
        best = repeats(row.launches, max(1, (memory - row.own) // state))
        print(f"{name}: {memory} bytes, {tape.kept_bytes} kept, {tape.made_again} made again, revolve {best}")
        assert tape.kept_bytes <= memory
        assert tape.made_again <= 1.5 * best
        assert tape.made_again == sum(step.times for step in tape.report.steps)
        for a, b in zip(found, right, strict=True):
            np.testing.assert_array_equal(a, b)
    assert tape.made_again == ample.made_again == 0


@pytest.mark.parametrize("name", ["turns", "prefixes"])
def test_no_more_is_allocated_than_is_counted(name: str) -> None:
    """The high-water mark of the process, except for the objects of Python."""
    global N
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    step, size, objects = ROWS[name].step, N, 150_000
    try:
        N = 100_000
        world = World(2)
        world.launches, world.sizes = 30, np.random.default_rng(1).integers(N // 8, N + 1, 30)
    finally:
        N = size
    world.run(step)
    for states in (1, 2, 4):
        memory = states * 16 * 100_000 + 8
        tracemalloc.start()
        try:
            world.start()
            before = tracemalloc.get_traced_memory()[0]
            with qd.ad.Tape(world.loss, memory=memory) as tape:
                tracemalloc.reset_peak()
                for t in range(world.launches - 1):
                    step(world, t)
                total(world.x, world.loss)
            most = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        assert tape.made_again > 0
        assert tape.kept_bytes - objects < most < memory + objects


@pytest.mark.parametrize("step", [turns, prefixes, windows])
@pytest.mark.parametrize("options", in_turn(sessions("cpu", "c", "vulkan", "cuda"), ("c", "vulkan", "cuda")))
def test_on_devices(options: dict[str, Any], step: Callable[[World, int], None]) -> None:
    qd.init(**options, default_fp=qd.f64)
    world = World(25)
    right = world.run(step)[1]
    least = world.least(step)
    for memory in (least, 2 * least, 3 * least + 100):
        tape, found = world.run(step, memory=memory)
        assert tape.kept_bytes <= memory
        assert tape.made_again > 0
        np.testing.assert_allclose(np.concatenate(list(map(np.ravel, found))),
                                   np.concatenate(list(map(np.ravel, right))), rtol=1e-12)  # fmt: skip


def test_repeated_launches_draw_the_same() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    world, drawn = World(30), qd.field(qd.f64, (30, N))
    for memory in (2 * 8 * N, 5 * 8 * N, 9 * 8 * N + 4):
        tape, (slope, *others) = world.run(lambda w, t: draw(w.x, drawn, t), memory=memory)
        assert tape.kept_bytes <= memory
        assert tape.made_again > 0
        factors = drawn.to_numpy()[:29].prod(0)
        start = np.linspace(0.1, 0.9, N)
        np.testing.assert_allclose(others[4], factors * start, rtol=1e-12)  # what the last launch left
        np.testing.assert_allclose(slope, 2 * factors**2 * start, rtol=1e-12)


def test_programs_that_are_repeated_without_python() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    world = World(20)
    right = world.run(turns)[1]

    @qd.ad.program
    def program() -> None:
        for t in range(19):
            turns(world, t)

    for _ in range(3):
        tape, found = world.run(lambda w, t: program() if t == 0 else None, memory=3 * 16 * N)
        assert tape.made_again > 0
        assert tape.kept_bytes <= 3 * 16 * N
        for a, b in zip(found, right, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [*ROWS, "exchanges"])
def test_gradients_inside_of_a_tape_with_any_budget(name: str) -> None:
    """Gradients that run inside of the Tape leave what the launches saved, for the gradients at the end."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    world = World(4)
    step = ROWS[name].step if name in ROWS else exchanges
    right, least = world.run(step)[1], world.least(step)
    for memory in range(least, least + 8 * 8 * N, 2 * N):
        world.start()
        with qd.ad.Tape(world.loss, memory=memory) as tape:
            for t in range(world.launches - 1):
                step(world, t)
            total(world.x, world.loss)
            tape.grad()
        fields = world.x, world.y, world.small, world.h, world.loss
        found = [*(a.grad.to_numpy() for a in fields), *(a.to_numpy() for a in fields)]
        assert tape.kept_bytes <= memory
        for a, b in zip(found, right, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore")
def test_a_budget_without_room_for_what_a_repeated_launch_keeps_is_told() -> None:
    """Launches are made again while what they begin with is saved anew. A launch over a numpy array cannot be."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, z, loss = (qd.field(qd.f64, n, needs_grad=True) for n in (4, 4, ()))
    h, at, t = qd.field(qd.f64, (7, 4), needs_grad=True), qd.field(qd.i32, 4), qd.field(qd.i32, ())
    at.from_numpy(np.array([2, 0, 3, 1], np.int32))
    factors = np.array([0.3, 0.7, -0.2, 0.4])

    @qd.kernel
    def add(a: qd.types.ndarray(qd.f64, 1)):
        for i in range(4):
            x[i] += z[i] * a[i] * z[i]

    @qd.kernel
    def advance():
        for i in x:
            h[t[None] + 1, i] = 0.5 * h[t[None], i] * x[i] + h[t[None], (i + 1) % 4] * h[t[None] + 1, i]

    @qd.kernel
    def scatter():
        for i in range(4):
            z[at[i]] = x[i] * x[i]

    def run(memory: int) -> None:
        with qd.ad.Tape(loss, memory=memory):
            add(factors)
            advance()
            scatter()

    for memory in range(0, 800, 16):
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL2091|QL2098"):
            run(memory)
