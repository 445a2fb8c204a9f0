"""A rough cost of running a block once, in cycles: it decides how many iterations are worth waking a worker for."""

from __future__ import annotations

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS

_COST: dict[type, int] = {N.Load: 3, N.Store: 3, N.Atomic: 12, N.Random: 20, N.Print: 500}


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
