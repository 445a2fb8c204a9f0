"""A rough estimate of the cycles that a block takes. It decides how many iterations are worth waking a worker for, and
which iterations a GPU's thread runs in step."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS

_COST: dict[type, int] = {N.Load: 3, N.Store: 3, N.Atomic: 12, N.Random: 20, N.Print: 500}
_CHEAP = 60  # the most cycles of a short iteration
_PLAIN = (N.Const, N.Op, N.ArgLoad, N.ShapeOf, N.Load, N.Store, N.Atomic)
IN_STEP = 4  # short iterations that a GPU's thread runs in step


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


def short(task: N.Offload) -> bool:
    """Whether a GPU's thread should run iterations of the task in step: they are short, straight code that reads
    memory."""
    block = task.body
    plain = task.kind != "serial" and all(isinstance(s, _PLAIN) for s in block[:-1])
    loads = sum(isinstance(s, (N.Load, N.Atomic)) for s in block)
    return plain and 0 < loads <= 8 and estimate(block)[0] <= _CHEAP
