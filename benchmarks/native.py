"""Time of ours over that of C by hand, on one thread: gcc -O3 -march=native -ffast-math, glibc's vector functions."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.relaunch import Limit, fastest

SIZE, TRIPS, LARGE, PARTICLES = 65536, 64, 1 << 24, 1 << 20
LIMITS = tuple(
    Limit(name, most, "")
    for name, most in {
        "sin * exp, 16M": 1.3, "loop of sines, forward": 1.3, "loop of sines, gradient": 1.3,
        "loop of sines, gradient, f64": 1.5, "0 to 64 trips, gradient": 2.0, "8 carried, gradient": 1.2,
        "particles to grid, 1M": 1.2, "one hot cell, 1M": 1.2,
    }.items()
)  # fmt: skip
FLAGS = ("-O3", "-march=native", "-fopenmp", "-ffast-math", "-shared", "-fPIC")


def compiled(folder: str) -> ctypes.CDLL:
    path = Path(folder, "native.so")
    subprocess.run(["gcc", *FLAGS, str(Path(__file__).with_suffix(".c")), "-o", path, "-lm", "-lmvec"], check=True)
    return ctypes.CDLL(str(path))


def _loops(lib: Any, qd: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    from benchmarks.cases.loops import LOOPS

    made: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}
    ways = {"f32": (np.float32, ctypes.c_float, ""), "f64": (np.float64, ctypes.c_double, ", f64")}
    for dtype, (as_numpy, real, suffix) in ways.items():
        loop = LOOPS["sin"](SIZE, TRIPS, getattr(qd, dtype))
        loop.kernel()
        x, dx = np.linspace(0.1, 0.9, SIZE).astype(as_numpy), np.zeros(SIZE, as_numpy)
        forward, gradient = lib[f"loop_{dtype}"], lib[f"loop_{dtype}_gradient"]
        forward.restype = real
        if dtype == "f32":
            made["loop of sines, forward"] = loop.kernel, partial(forward, *_longs(SIZE, TRIPS), _at(x))
        theirs = partial(gradient, *_longs(SIZE, TRIPS), _at(x), real(1), _at(dx))
        theirs()
        assert np.isclose(dx[0], loop.first_gradient(), rtol=1e-4), "the gradients of the loop differ"
        made[f"loop of sines, gradient{suffix}"] = loop.kernel.grad, theirs
    eight, dx = LOOPS["8 carried"](SIZE, TRIPS, qd.f32), np.zeros(SIZE, np.float32)
    eight.kernel()
    x = np.linspace(0.1, 0.9, SIZE).astype(np.float32)
    theirs = partial(lib.eight_gradient, *_longs(SIZE, TRIPS), _at(x), ctypes.c_float(1), _at(dx))
    theirs()
    assert np.isclose(dx[0], eight.first_gradient(), rtol=1e-3), "the gradients of 8 carried variables differ"
    made["8 carried, gradient"] = eight.kernel.grad, theirs
    return made


def _divergent(lib: Any, qd: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    n, x = qd.field(qd.i32, SIZE), qd.field(qd.f32, SIZE, needs_grad=True)
    y = qd.field(qd.f32, (), needs_grad=True)
    trips = np.random.default_rng(1).integers(0, TRIPS + 1, SIZE).astype(np.int32)
    values, dx = np.linspace(0.1, 0.9, SIZE).astype(np.float32), np.zeros(SIZE, np.float32)
    n.from_numpy(trips)
    x.from_numpy(values)
    y.grad[None] = 1.0

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = qd.sin(v) + 0.1
            y[None] += v

    k()
    k.grad()
    theirs = partial(lib.divergent_gradient, *_longs(SIZE), _at(trips), _at(values), ctypes.c_float(1), _at(dx))
    theirs()
    assert np.allclose(dx, x.grad.to_numpy(), rtol=1e-4, atol=1e-6), "the gradients of divergent loops differ"
    return k.grad, theirs


def _large(lib: Any, qd: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    from benchmarks.cases.throughput import particles_to_grid, sin_exp

    x, y = np.linspace(0, 1, LARGE).astype(np.float32), np.zeros(LARGE, np.float32)
    rng = np.random.default_rng(1)
    px, py = ((0.05 + 0.9 * rng.random(PARTICLES)).astype(np.float32) for _ in range(2))
    mass, cells = np.zeros((256, 256), np.float32), np.zeros(1024, np.float32)
    at, some = np.full(PARTICLES, 517, np.int32), np.full(PARTICLES, 2.0**-10, np.float32)
    places, values, targets = qd.field(qd.i32, PARTICLES), qd.field(qd.f32, PARTICLES), qd.field(qd.f32, 1024)
    places.from_numpy(at)
    values.from_numpy(some)

    @qd.kernel
    def hot():
        for i in values:
            targets[places[i]] += values[i]

    return {
        "sin * exp, 16M": (sin_exp().run, partial(lib.sin_exp, *_longs(LARGE), _at(x), _at(y))),
        "particles to grid, 1M": (
            particles_to_grid().run, partial(lib.to_grid, *_longs(PARTICLES), _at(px), _at(py), _at(mass)),
        ),
        "one hot cell, 1M": (hot, partial(lib.hot_cell, *_longs(PARTICLES), _at(at), _at(some), _at(cells))),
    }  # fmt: skip


def _at(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    kept = ctypes.c_void_p(array.ctypes.data)
    kept.array = array  # type: ignore[attr-defined]  # it lives as long
    return kept


def _longs(*numbers: int) -> tuple[ctypes.c_long, ...]:
    return tuple(map(ctypes.c_long, numbers))


def measure() -> dict[str, float]:
    """In a worker: row name -> ratio."""
    from benchmarks import engine

    engine.init(cpu_max_num_threads=1)
    qd = engine.qd
    with tempfile.TemporaryDirectory() as folder:
        lib = compiled(folder)
        pairs = {**_loops(lib, qd), "0 to 64 trips, gradient": _divergent(lib, qd), **_large(lib, qd)}
        found = {}
        for name, (ours, theirs) in pairs.items():
            ours()
            a, b = fastest(ours, theirs, times=3, rounds=15)
            print(name, f"{1e3 * a:.2f} ms, C {1e3 * b:.2f} ms", flush=True)
            found[name] = a / b
    return found
