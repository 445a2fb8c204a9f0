"""Kernels that log an iteration: the log is what an observer of the interpreter sees, and nothing else changes."""

from typing import Any

import numpy as np
import pytest
from programs import random_ir
from rigs import EXACT

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.verify import verify
from quadrants_lab.passes.log_values import INDEX, LOG, NEXT, PLACE, ROOM, TASK, log_values
from quadrants_lab.passes.pipeline import run
from quadrants_lab.pipelines.launch import front
from quadrants_lab.runtime.interpret.interpreter import Trip, interpret


@pytest.mark.parametrize("seed", range(40))
def test_the_log_is_what_an_observer_sees(seed: int) -> None:
    kernel = run(random_ir.random_kernel(seed), front(EXACT))
    logging, runs = log_values(kernel)
    verify(logging)
    for number, task in enumerate(kernel.tasks):
        place, log = np.zeros(INDEX + 8, np.int64), np.zeros(ROOM)
        lane = (1,) * len(task.indices)
        place[TASK], place[INDEX : INDEX + len(lane)] = number, lane
        arrays, changed = random_ir.arrays(seed, True), random_ir.arrays(seed, True)
        seen = observed(kernel, task, lane, arrays)
        interpret(logging, {"s": 3}, changed | {PLACE: place, LOG: log})
        assert repr(read(log[: place[NEXT]], runs[number])) == repr(seen)  # a NaN is not equal to itself
        for name, want in arrays.items():
            np.testing.assert_array_equal(changed[name], want)


def observed(kernel: N.Kernel, task: N.Offload, lane: tuple[int, ...], arrays: dict[str, Any]) -> list[Any]:
    """(id of the statement, values) of all that defines something in the iteration."""
    seen: list[Any] = []
    inside = False
    bounds = {s.id for t in kernel.tasks for s in t.bounds}

    def observe(s: N.Stmt, value: Any, env: Any) -> None:
        nonlocal inside
        if isinstance(s, N.Offload):
            inside = s.id == task.id and value == lane
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(value, Trip):
            values = (*([] if isinstance(s, N.While) else [value.index]), *value.carried)
        begins = isinstance(value, Trip) or isinstance(s, N.Offload)
        if inside and s.id not in bounds and values and (begins or s.defs()):
            seen.append((s.id, [np.asarray(v).tolist() for v in values]))

    interpret(kernel, {"s": 3}, arrays, observer=observe)
    return seen


def read(log: Any, runs: dict[int, Any]) -> list[Any]:
    found, at, bits = [], 0, log.view(np.int64)
    while at < len(log):
        entries, at = runs[int(log[at])], at + 1
        for stmt, _, defs in entries:
            values = []
            for _, t in defs:
                values.append(t.numpy(bits[at] if t.bits == 64 and not t.is_float else log[at]).tolist())
                at += 1
            if defs:
                found.append((stmt.id, values))
    return found
