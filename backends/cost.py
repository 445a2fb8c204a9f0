"""A rough cost of running a block once, in cycles: it decides how many iterations are worth waking a worker for, and
which a GPU's thread runs in step."""

from __future__ import annotations

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS

_COST: dict[type, int] = {N.Load: 3, N.Store: 3, N.Atomic: 12, N.Random: 20, N.Print: 500}
_CHEAP = 60  # cycles of a short iteration
_PLAIN = (N.Const, N.Op, N.ArgLoad, N.ShapeOf, N.Load, N.Store, N.Atomic)
IN_STEP = 4  # short iterations that a GPU's thread runs in step


def constants(block: N.Block) -> dict[int, int]:
    return {s.id: s.value for s in block if isinstance(s, N.Const)}


def estimate(block: N.Block, known: dict[int, int] | None = None) -> tuple[int, bool]:
    """(cycles, exact): ``exact`` is false where a loop's trip count is not known, which counts as one trip."""
    known = {**(known or {}), **constants(block)}
    total, exact = 0, True
    for s in block:
        if isinstance(s, N.Op):
            total += PRIMS[s.prim].cost
        total += _COST.get(type(s), 0)
        trips = 1
        if isinstance(s, N.For):
            if s.begin in known and s.end in known:
                trips = max(0, known[s.end] - known[s.begin])
            else:
                exact = False
        elif isinstance(s, N.While):
            exact = False
        for inner in s.blocks():
            cycles, sure = estimate(inner, known)
            total += trips * (cycles + 1)
            exact = exact and sure
    return total, exact


def short(task: N.Offload) -> bool:
    """Whether iterations had better run in step: they are short and straight, and wait for memory."""
    block = task.body
    plain = task.kind != "serial" and all(isinstance(s, _PLAIN) for s in block[:-1])
    loads = sum(isinstance(s, (N.Load, N.Atomic)) for s in block)
    return plain and 0 < loads <= 8 and estimate(block)[0] <= _CHEAP
