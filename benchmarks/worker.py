"""The process of one engine. It answers the requests of `benchmarks.race` on its original standard output.

``python -m benchmarks.worker process [arch]`` measures what only a fresh process can (import, init, first compile of
each kernel) and ends; ``... first NAME`` measures another first kernel. ``... stacks [case]`` answers with the names of
all cases, or the bytes of the adstacks of one, and ``... device-stacks [case]`` does the same on a GPU. ``...
forward-on-vulkan case`` and ``... gradient-on-vulkan case`` launch a case, so that its compiled code is on disk. ``...
relaunch``, ``... checks``, ``... blocks``, ``... native``, ``... stencils`` and ``... arrays`` answer with the figures
of the module of that name, and ``... sizes 'elifs 25'`` with the compile times of that program. ``... serve`` reads one
JSON request a line, ``{"case": key, "seconds": s}``, and answers with one sample: seconds a run, over as many runs as
fill ``s`` seconds.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

# Engines print banners: keep the real standard output for answers and send everything else to the log (stderr).
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def seconds(run: Callable[[], Any], times: int = 1, after: Callable[[], Any] | None = None) -> float:
    """The mean time of one of ``times`` runs. ``after``, if given, is called after each run and is not timed."""
    rounds = range(times)
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    apart = 0.0
    for _ in rounds:
        run()
        if after is not None:
            begun = time.perf_counter()
            after()
            apart += time.perf_counter() - begun
    stop = time.perf_counter()
    gc.enable()
    return (stop - start - apart) / times


def process(arch: str) -> dict[str, float]:
    """Seconds of import, init and compilation, by row. The first kernel of a process has a row of its own, so that
    imports do not count for the later ones."""
    from benchmarks import engine

    arch = arch or "cpu"
    rows = {"import": engine.IMPORT_SECONDS, "init": seconds(lambda: engine.init(arch))}
    from benchmarks.cases.launch import field_loop
    from benchmarks.cases.loops import LOOPS

    def to_its_end(run: Callable[[], Any]) -> float:
        return seconds(lambda: (run(), engine.qd.sync()))

    rows["first kernel of the process"] = to_its_end(field_loop().run)
    rows["import, init and first kernel"] = sum(rows.values())
    loops = {name: make(16, 5) for name, make in LOOPS.items()}
    for name, loop in loops.items():
        rows[f"{name}, forward"] = to_its_end(loop.kernel)
        rows[f"{name}, gradient"] = to_its_end(loop.kernel.grad)
    if arch != "cpu":
        return rows
    mpm = engine.sample("mpm")
    jelly = mpm.jelly()
    throw = mpm.np.ones(2, mpm.np.float32)
    rows["sample mpm, forward"] = seconds(lambda: jelly.run(1))
    rows["sample mpm, gradient"] = seconds(lambda: jelly.gradient(throw, 1))
    return rows


def first(name: str) -> dict[str, float]:
    """Seconds of the first kernel of a process, for a different kernel than `process` measures."""
    from benchmarks import engine
    from benchmarks.cases import launch

    engine.init()
    run = {"rotate": launch.rotate, "det": launch.det}[name]().run
    return {f"first kernel of the process: {name}": seconds(engine.synced(run))}


def serve() -> None:
    """Answers requests with samples. The first request of a case sets it up and warms it; only the present case is
    held."""
    from benchmarks import engine
    from benchmarks.cases import all_cases, cuda_cases

    timed, times, key, first = None, 1, "", 0.0
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if timed is None or key != request["case"]:
                timed, times, key = None, 1, request["case"]
                case = (all_cases() | cuda_cases())[key]
                engine.init(case.arch)
                timed = case.setup()
                first = seconds(timed.run)
                while (took := seconds(timed.run, times, timed.after) * times) < request["seconds"]:
                    times = max(2 * times, int(0.8 * times * request["seconds"] / max(took, 1e-7)))
            answer = {"seconds": seconds(timed.run, times, timed.after), "value": float(timed.value()), "first": first}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}
        print(json.dumps(answer), file=ANSWERS)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        from benchmarks import code, sizes, stacks

        case = "".join(sys.argv[2:])
        modes = {
            "process": lambda: process(case),
            "first": lambda: first(case),
            "device-stacks": lambda: stacks.on_device(case),
            "stacks": lambda: stacks.answer(case),
            "code": lambda: code.answer(case),
            "forward-on-vulkan": lambda: code.launch(case, gradient=False),
            "gradient-on-vulkan": lambda: code.launch(case, gradient=True),
            "sizes": lambda: sizes.measure(case),
        }
        # other modes are modules, which are imported only now: they may import numpy, whose import time is part of an
        # engine's
        run = modes.get(sys.argv[1]) or importlib.import_module(f"benchmarks.{sys.argv[1]}").measure
        print(json.dumps(run()), file=ANSWERS)
