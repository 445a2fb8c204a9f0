"""Bytes of adstacks that one parallel iteration in flight takes, measured on both engines alike: how much the process
grows from a gradient of few trips to one of many, one thread and one iteration at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIPS = 1_000_000
FEW = 16
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class StackRow:
    """Bytes an iteration at `TRIPS` trips; None with the reason in ``why`` where the engine has none. ``reported`` is
    what our launch report says."""

    case: str
    ours: int | None
    reported: int | None
    peer: int | None
    why: str = ""


def peak() -> int:
    """Most memory that this process has had, in bytes."""
    line = next(s for s in STATUS.read_text().splitlines() if s.startswith("VmPeak"))
    return int(line.split()[1]) * 1024


def measure(name: str) -> dict[str, int]:
    """In a worker: bytes of the case's gradient, and those that a launch report gives."""
    from benchmarks import engine

    engine.init(cpu_max_num_threads=1)
    from benchmarks.cases.stacks import CASES, Space, trips

    make, dtype = CASES[name]
    space = Space(getattr(engine.qd, dtype))
    kernel = make(space)
    before = 0
    for most in (FEW, TRIPS):
        before = peak()
        space.n[None] = trips(name, most)
        kernel()
        kernel.grad()
        engine.qd.sync()
    found = {"bytes": peak() - before}
    if hasattr(kernel, "sizes"):
        found["reported"] = sum(row.bytes_per_lane for row in kernel.sizes())
    return found


def answer(case: str) -> Any:
    """What a worker answers: the names of the cases, or the bytes of one."""
    from benchmarks.cases.stacks import CASES

    return measure(case) if case else list(CASES)
