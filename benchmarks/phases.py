"""``python -m benchmarks.phases``: prints how much CPU time, in milliseconds, each phase of the compilation of the
gradient of the sample mpm takes. The time of a phase excludes that of inner phases with a row of their own."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from functools import wraps
from time import process_time
from typing import Any

import numpy as np

import quadrants_lab as qd
from quadrants_lab.kernels.mpm import jelly

Phases = Counter[str]


def clocked(found: Phases, inner: list[float], row: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function ``fn``: its own time, without that of inner phases, is added to the row."""

    @wraps(fn)
    def run(*args: Any, **named: Any) -> Any:
        inner.append(0.0)
        start = process_time()
        try:
            return fn(*args, **named)
        finally:
            took = process_time() - start
            found[row] += took - inner.pop()
            if inner:
                inner[-1] += took

    return run


def measure() -> Phases:
    """Seconds by phase, in a process that has compiled other kernels before, without a disk cache."""
    qd.init(arch=qd.cpu, offline_cache=False)
    thrown, throw = jelly(), np.ones(2, np.float32)
    thrown.run(1)  # compiles the kernels, so that only the gradient remains
    jelly(4).gradient(throw, 1)  # so that all imports are done
    from quadrants_lab.backends.cpu import jit, tasks
    from quadrants_lab.passes import pipeline
    from quadrants_lab.runtime.compile import compile as compiler

    found, inner = Phases(), [0.0]
    rows = {
        "front end": (compiler, "lowered_kernel"), "passes": (pipeline, "run"),
        "checks of the IR": (compiler, "_in_mode"),
        "LLVM's text": (tasks, "module"), "LLVM: text to IR": (jit, "parse"), "LLVM: optimisation": (jit, "optimise"),
        "LLVM: machine code": (jit, "object_code"), "rest of the compiler": (compiler, "compile_kernel"),
    }  # fmt: skip
    for row, (module, name) in rows.items():
        setattr(module, name, clocked(found, inner, row, getattr(module, name)))
    clocked(found, inner, "Tape, launches", thrown.gradient)(throw, 1)
    return found


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = measure()
    for row, seconds in times.most_common():
        print(f"{row:22}{1e3 * seconds:8.1f} ms")
    print(f"{'all':22}{1e3 * sum(times.values()):8.1f} ms")
