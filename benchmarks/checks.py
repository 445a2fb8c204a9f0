"""Measures the cost of looking for races: in the compilation of kernels, and in launches that check every access."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from benchmarks.relaunch import Limit, fastest

ELEMENTS = 1 << 20
SAMPLES = ("arm", "chain", "crawler", "diffusivity", "eight", "mpm", "raymarch", "words")

COMPILE = Limit("looking for races, of the time in which all kernels of the samples are compiled", 5.0, "%")
BLOCKS = Limit("the pass for blocks of threads, which these kernels have none of, of the same time", 3.0, "%")
LAUNCHES = {
    name: Limit(f"a checked launch over a bounds-checked one: {what}", 3.0, "")
    for name, what in {
        "mpm": "a step of the sample mpm",
        "stencil": "a stencil into a second field",
        "permuted": "a store to a place that data decides",
        "gathered": "in place, from a place that data decides",
        "swapped": "in place, both places from data",
        "histogram": "atomic sums",
    }.items()
}
LIMITS = (COMPILE, BLOCKS, *LAUNCHES.values())


def measure() -> dict[str, float]:
    """Runs in a worker process. Returns the value of each row, in the row's unit, by its name."""
    from benchmarks import engine

    engine.init()
    found = {limit.name: 100.0 * part for limit, part in zip((COMPILE, BLOCKS), compiling(engine), strict=True)}
    bounds, debug = (launching(engine, check) for check in ("check_out_of_bound", "debug"))
    return found | {limit.name: debug[name] / bounds[name] for name, limit in LAUNCHES.items()}


def launching(engine: Any, check: str) -> dict[str, float]:
    """Seconds of a launch of each of the `kernels` in a session with the option ``check``."""
    engine.init(**{check: True})
    launches = {"mpm": step(engine), **kernels(engine.qd)}
    return dict(zip(launches, fastest(*launches.values(), times=1), strict=True))


@contextmanager
def clocked(module: Any, name: str) -> Iterator[list[float]]:
    """Measures, within a ``with``, the seconds of each call of a module's function ``name``, also of calls that
    raise; they are appended to the list that ``as`` names."""
    plain, spent = getattr(module, name), []

    def call(*args: Any) -> Any:
        start = time.perf_counter()
        try:
            return plain(*args)
        finally:
            spent.append(time.perf_counter() - start)

    with patch.object(module, name, call):
        yield spent


def compiling(engine: Any) -> list[float]:
    """The shares of compile time that the passes `check_races` and `split_blocks` take, over all kernels and gradients
    of the sample programs."""
    import quadrants_lab.runtime.compile.compile as compiler
    from quadrants_lab.pipelines import launch as pipelines

    no_cache, others = patch.dict(os.environ, QD_OFFLINE_CACHE="0"), pipelines.FRONT[1:]
    with clocked(pipelines, "split_blocks") as splitting, clocked(compiler, "check_races") as looking:
        passes = patch.object(pipelines, "FRONT", (pipelines.split_blocks, *others))
        with no_cache, passes, clocked(compiler, "compile_kernel") as whole:
            for name in SAMPLES:
                engine.init()
                engine.sample(name).main(rounds=1)
    return [sum(part) / sum(whole) for part in (looking, splitting)]


def step(engine: Any) -> Callable[[], Any]:
    """One step of the largest sample: five launches, with sums of neighbours, gathers and structs."""
    jelly = engine.sample("mpm").jelly(128, 384, 1e-4)
    return lambda: (jelly.run(1), engine.qd.sync())


def kernels(qd: Any) -> dict[str, Callable[[], Any]]:
    """Functions that launch kernels of one loop, by the names in `LAUNCHES`."""
    import numpy as np

    x, y = qd.field(qd.f32, ELEMENTS), qd.field(qd.f32, ELEMENTS)
    at = qd.field(qd.i32, ELEMENTS)
    at.from_numpy(np.random.default_rng(1).permutation(ELEMENTS).astype(np.int32))

    @qd.kernel
    def stencil():
        for i in range(1, ELEMENTS - 1):
            y[i] = 0.25 * (x[i - 1] + 2.0 * x[i] + x[i + 1])

    @qd.kernel
    def permuted():
        for i in x:
            y[at[i]] = x[i]

    @qd.kernel
    def gathered():
        for i in range(ELEMENTS // 2):
            x[i] = 0.5 * x[ELEMENTS // 2 + at[i] // 2]

    @qd.kernel
    def swapped():
        for i in range(ELEMENTS // 2):
            a, b = at[2 * i], at[2 * i + 1]
            x[a], x[b] = x[b], x[a]

    @qd.kernel
    def histogram():
        for i in x:
            y[at[i] // 16] += x[i]

    found = (stencil, permuted, gathered, swapped, histogram)
    return {k.__name__: lambda k=k: (k(), qd.sync()) for k in found}


__all__ = ["COMPILE", "LAUNCHES", "LIMITS", "measure"]
