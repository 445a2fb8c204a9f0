"""Measures how much longer a gradient launch takes because its adstacks are sized from trip counts, if these counts are
unchanged since the last launch, and if they change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROUNDS, RUNS = 40, 50
BOUNDS = 1 << 22  # elements of the array of trip counts


@dataclass(frozen=True)
class Limit:
    """A figure that has a limit. ``unit`` is "us" for seconds that are shown as microseconds, "%", or "" for a ratio;
    ``most`` is the limit in this unit."""

    name: str
    most: float
    unit: str


# the limits of the module `wasm`, which cannot be imported beside another engine
WASM_LIMITS = tuple(
    Limit(f"{mode}: {name}, over the CPU", 1.5, "")
    for mode in ("forward", "gradient")
    for name in ("scalar, wasmtime", "in lanes, wasmtime", "in lanes, Chromium")
)
UNCHANGED, SCALAR, ARRAY = (
    Limit("gradient with unchanged bounds, minus its forward launch", 1.0, "us"),
    Limit("changed scalar bound, minus the same gradient unchanged", 20.0, "us"),
    Limit("settling the depths of a changed array of bounds, over one read of the array", 1.5, ""),
)
LIMITS = (UNCHANGED, SCALAR, ARRAY)


def fastest(*runs: Callable[[], Any], times: int = RUNS, rounds: int = ROUNDS) -> list[float]:
    """The seconds of a call of each of the ``runs``: the least of several rounds, in which the runs take turns."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for n, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(times):
                run()
            best[n] = min(best[n], (time.perf_counter() - start) / times)
    return best


def measure() -> dict[str, float]:
    """Runs in a worker process. Returns the value of each row, in the row's unit, by its name."""
    from benchmarks import engine
    from benchmarks.cases.loops import Space, one

    engine.init(cpu_max_num_threads=1)
    qd = engine.qd
    s = Space(qd.f32)
    k = s.kernel_of(one)
    s.n[None] = 2
    k()
    k.grad()
    forward, gradient = fastest(k, k.grad)

    def write(value: int) -> None:
        s.n[None] = value

    trips = [2, 3]

    def changed() -> None:
        trips.reverse()
        write(trips[0])
        k.grad()

    def unchanged() -> None:
        trips.reverse()
        s.x[0] = 0.3  # a write of the same cost, but not to a loop bound
        k.grad()

    before, after = fastest(unchanged, changed)
    micro = {UNCHANGED.name: (gradient - forward) * 1e6, SCALAR.name: (after - before) * 1e6}
    return {**micro, ARRAY.name: array_ratio(qd)}


def array_ratio(qd: Any) -> float:
    """The ratio for bounds in an array. Only the preparation of the launch is timed, because the gradient itself takes
    many times as long."""
    counts = qd.ndarray(qd.i32, shape=(BOUNDS,))
    counts.fill(1)
    x, y = qd.field(qd.f32, shape=(BOUNDS,), needs_grad=True), qd.field(qd.f32, shape=(), needs_grad=True)
    y.grad[None] = 1.0

    @qd.kernel
    def k(m: qd.types.ndarray(dtype=qd.i32, ndim=1)):
        for i in x:
            v = x[i]
            for _ in range(m[i]):
                v = qd.sin(v)
            y[None] += v

    k.grad(counts)
    plan = k.grad.dispatcher.last

    def changed() -> None:
        counts[0] = 1
        plan.prepare(counts)

    settled, read = fastest(changed, counts.to_numpy().max, times=1)
    return settled / read
