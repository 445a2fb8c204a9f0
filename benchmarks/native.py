"""Measures the time of kernels divided by that of C written by hand, on one thread. The C is compiled by gcc -O3
-march=native -ffast-math and uses glibc's vector functions."""

from __future__ import annotations

import ctypes
import math
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.others import GRID, LARGE, PARTICLES, SIZE, STEPS, TRIPS, WAVE, particles, starts, trips
from benchmarks.relaunch import Limit, fastest

FLAGS = ("-O3", "-march=native", "-fopenmp", "-ffast-math", "-shared", "-fPIC")
REALS = {"float32": ctypes.c_float, "float64": ctypes.c_double}


class Beside(NamedTuple):
    """A function of native.c and the case with which it is compared. ``args`` makes the arguments of the function, an
    array for each pointer. The function's result, or the element ``place`` of its last array, must equal the value of
    the case."""

    limit: Limit
    function: str
    case: str
    args: Callable[[], tuple[Any, ...]]
    place: Any = 0


def _forward() -> tuple[Any, ...]:
    return SIZE, TRIPS, starts("float32")


def _gradient(dtype: str = "float32") -> tuple[Any, ...]:
    return SIZE, TRIPS, starts(dtype), REALS[dtype](1), np.zeros(SIZE, dtype)


def _own_trips() -> tuple[Any, ...]:
    return SIZE, trips(), starts("float32"), ctypes.c_float(1), np.zeros(SIZE, np.float32)


def _elementary() -> tuple[Any, ...]:
    return LARGE, np.linspace(0, 1, LARGE).astype(np.float32), np.zeros(LARGE, np.float32)


def _to_grid() -> tuple[Any, ...]:
    return PARTICLES, *particles(), np.zeros((GRID, GRID), np.float32)


def _hot_cell() -> tuple[Any, ...]:
    at, x = np.full(PARTICLES, 517, np.int32), np.full(PARTICLES, 2.0**-10, np.float32)
    return PARTICLES, at, x, np.zeros(1024, np.float32)


def _wave() -> tuple[Any, ...]:
    u = np.zeros((STEPS + 2, WAVE, WAVE), np.float32)
    u[:2, WAVE // 2, WAVE // 2] = 1
    c, k, dc = np.ones_like(u[0]), np.zeros_like(u[0]), np.zeros_like(u[0])
    return WAVE, STEPS, u, c, k, np.zeros_like(u), dc


ROWS = [
    Beside(Limit(name, most, ""), *more)
    for name, most, *more in (
        ("sin * exp, 16M", 1.3, "sin_exp", "throughput/sin*exp, 16M", _elementary, LARGE // 3),
        ("loop of sines, forward", 1.3, "loop_f32", "reverse/sin, f32, forward", _forward),
        ("loop of sines, gradient", 1.3, "loop_f32_gradient", "reverse/sin, f32, gradient", _gradient),
        ("loop of sines, gradient, f64", 1.5, "loop_f64_gradient", "reverse/sin, f64, gradient",
         partial(_gradient, "float64")),
        ("0 to 64 trips, gradient", 1.5, "divergent_gradient", "reverse/0 to 64 trips, f32, gradient", _own_trips),
        ("8 carried, gradient", 1.2, "eight_f32_gradient", "reverse/8 carried, f32, gradient", _gradient),
        ("8 carried, gradient, f64", 1.5, "eight_f64_gradient", "reverse/8 carried, f64, gradient",
         partial(_gradient, "float64")),
        ("wave under a Tape, 200 steps", 1.3, "wave", "programs/wave, 256^2, 200 steps, under a Tape", _wave),
        ("particles to grid, 1M", 1.2, "to_grid", "throughput/particles to grid, 1M", _to_grid, (GRID // 2, GRID // 3)),
        ("one hot cell, 1M", 1.2, "hot_cell", "throughput/one hot cell, 1M", _hot_cell, 517),
    )
]  # fmt: skip
LIMITS = tuple(row.limit for row in ROWS)


def compiled(folder: str) -> ctypes.CDLL:
    path = Path(folder, "native.so")
    subprocess.run(["gcc", *FLAGS, str(Path(__file__).with_suffix(".c")), "-o", path, "-lm", "-lmvec"], check=True)
    lib = ctypes.CDLL(str(path))
    lib.loop_f32.restype = lib.wave.restype = ctypes.c_float  # these return their result
    return lib


def _passed(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def measure() -> dict[str, float]:
    """Runs in a worker process. Compares the values, and returns the ratio of times by the name of the row."""
    from benchmarks import engine
    from benchmarks.cases import all_cases

    engine.init(cpu_max_num_threads=1)
    cases, found = all_cases(), {}
    with tempfile.TemporaryDirectory() as folder:
        lib = compiled(folder)
        for row in ROWS:
            args = row.args()
            function, passed = getattr(lib, row.function), tuple(map(_passed, args))
            ours, returned = cases[row.case].setup(), function(*passed)
            ours.run()
            theirs = returned if function.restype is ctypes.c_float else float(args[-1][row.place])
            if not math.isclose(theirs, ours.value(), rel_tol=1e-3):
                raise ValueError(f"{row.limit.name}: C has {theirs}, ours {ours.value()}")
            a, b = fastest(ours.run, lambda: function(*passed), times=3, rounds=15)
            print(row.limit.name, f"{1e3 * a:.2f} ms, C {1e3 * b:.2f} ms", flush=True)
            found[row.limit.name] = a / b
    return found
