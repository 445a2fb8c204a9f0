"""A rough estimate of the cycles that a block takes, by which devices schedule their tasks, and of its size."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import walk

_COST: dict[type, int] = {N.Load: 3, N.Store: 3, N.Atomic: 12, N.Random: 20, N.Print: 500}
_LARGE = 1000  # statements


def constants(block: N.Block) -> dict[int, int]:
    return {s.id: s.value for s in block if isinstance(s, N.Const)}


def estimate(block: N.Block, known: dict[int, int] | None = None) -> tuple[int, bool]:
    """(cycles, exact). A loop whose trip count is not known counts as one trip, and makes ``exact`` false."""
    known = {**(known or {}), **constants(block)}
    total, exact = 0, True
    for s in block:
        if isinstance(s, N.Op):
            total += PRIMS[s.prim].cost
        total += _COST.get(type(s), 0)
        trips = 1
        if isinstance(s, N.For) and s.begin in known and s.end in known:
            trips = max(0, known[s.end] - known[s.begin])
        elif isinstance(s, N.Loop):
            exact = False
        for inner in s.blocks():
            cycles, sure = estimate(inner, known)
            total += trips * (cycles + 1)
            exact = exact and sure
    return total, exact


def large(block: N.Block) -> bool:
    """Whether a loop over the block would take LLVM too long: the time of its vectoriser grows with the square of the
    statements, and so does the time to choose registers for all the constants that it hoists out of the loop."""
    return sum(1 for _ in walk(block)) > _LARGE
