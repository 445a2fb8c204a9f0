"""The programs of some cases, written for other engines (JAX, Numba, Dr.Jit, C). Each module has a table ``PROGRAMS``:
key of a case (`benchmarks.cases`) -> function that makes the program.

``python -m benchmarks.others.NAME`` answers requests as `benchmarks.worker` does. The engine is imported by the
function that makes a program.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Run = Callable[[], Callable[[], float]]  # runs the program to its end; the result is a function that returns the value
Make = Callable[[], Run]
Programs = dict[str, Make]

LARGE, PARTICLES, GRID = 1 << 24, 1 << 20, 256
SIZE, TRIPS = 65536, 64
WAVE, STEPS = 256, 200
# the cases of `benchmarks.cases.divergent`
DIVERGENT = ("primes", "two breaks", "u32", "one long in 64", "escape")


def starts(dtype: str) -> Any:
    """The starting values of the loops of `benchmarks.cases.loops`."""
    return np.linspace(0.1, 0.9, SIZE).astype(dtype)


def trips() -> Any:
    """The number of trips of each iteration, for cases in which iterations make different numbers of trips."""
    return np.random.default_rng(1).integers(0, TRIPS + 1, SIZE).astype(np.int32)


def particles() -> list[Any]:
    rng = np.random.default_rng(1)
    return [(0.05 + 0.9 * rng.random(PARTICLES)).astype(np.float32) for _ in range(2)]


def large(sin_exp: Make, to_grid: Make, hot_cell: Make) -> Programs:
    return {
        "throughput/sin*exp, 16M": sin_exp,
        "throughput/particles to grid, 1M": to_grid,
        "throughput/one hot cell, 1M": hot_cell,
    }


def loops(forward: Callable[..., Run], gradient: Callable[..., Run], one: Any, eight: Any) -> Programs:
    """The programs of the loops ``one`` and ``eight``, which carry one and eight variables."""
    return {
        "reverse/sin, f32, forward": partial(forward, one, "float32"),
        "reverse/sin, f32, gradient": partial(gradient, one, "float32"),
        "reverse/sin, f64, gradient": partial(gradient, one, "float64"),
        "reverse/8 carried, f32, gradient": partial(gradient, eight, "float32"),
        "reverse/8 carried, f64, gradient": partial(gradient, eight, "float64"),
        "reverse/0 to 64 trips, f32, forward": lambda: forward(one, "float32", trips()),
        "reverse/0 to 64 trips, f32, gradient": lambda: gradient(one, "float32", trips()),
    }


def serve(programs: Programs) -> None:
    """Answers requests, one on each line, with the seconds of a run. The first request for a case makes its program."""
    run, key = None, ""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if run is None or key != request["case"]:
                key = request["case"]
                run = programs[key]()
                run()
            start, times = time.perf_counter(), 0
            while times == 0 or time.perf_counter() - start < request["seconds"]:
                value = run()
                times += 1
            took = (time.perf_counter() - start) / times
            answer: dict[str, Any] = {"seconds": took, "value": float(value())}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
