"""Finds the loops that LLVM's loop vectoriser can handle, and those among them that access memory so regularly that
lanes (vectors over iterations) would gain nothing."""

from quadrants_lab.analysis.divergence import counting, divergence
from quadrants_lab.backends.cost import large
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import find, uses, walk

_NOT_IN_VECTORS = (N.While, N.Assert, N.Print, N.Random, N.AdStackAlloca, N.StackUse)
# primitive -> the kind of LLVM's reduction
_SUMS = {"add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max"}


def vectorisable(block: N.Block, in_loop: bool) -> bool:
    """Whether LLVM's vectoriser may gain from an innermost loop in the block; with ``in_loop``, the block itself is the
    body of a loop."""
    loops = [*find(block, N.For)]
    if loops:
        return any(vectorisable(s.body, True) for s in loops)
    if not in_loop or large(block):
        return False
    for s in walk(block):
        if isinstance(s, _NOT_IN_VECTORS):
            return False
        if s.prim and "@math" in PRIMS[s.prim].llvm:
            return False
        if isinstance(s, N.Atomic) and s.index and not s.private:
            return False
    return True


def in_rows(loop: N.For) -> bool:
    """Whether LLVM's vectoriser handles the loop well: in each access, successive trips use neighbouring elements or
    the same element, and the loop carries only sums, products, minima or maxima."""
    if any(find(loop.body, N.Loop)) or not vectorisable(loop.body, True):
        return False
    used = uses(loop.body)
    for p, end in zip(loop.carried, loop.body[-1].operands(), strict=True):
        made = _made(loop.body, p.id, end)
        if len(made) != used.get(p.id) or "?" in made or len({*made} - {""}) > 1:
            return False
    return not gathers(loop.body, loop.index.id, divergence(loop.body, [loop.index.id]).divergent)


def _made(block: N.Block, carried: int, end: int) -> list[str]:
    """How the block computes the value ``end`` from the value ``carried``, an entry for each use: the name of a
    reduction, "" if the value is unchanged, "?" for anything else. Each arm of a branch has its own entries."""
    if end == carried:
        return [""]
    made = next((s for s in block if any(d == end for d, _ in s.defs())), None)
    if isinstance(made, N.If) and all(isinstance(arm[-1], N.Yield) for arm in made.blocks()):
        at = [p.id for p in made.results].index(end)
        return [sum_ for arm in made.blocks() for sum_ in _made(arm, carried, arm[-1].operands()[at])]
    if isinstance(made, N.Op) and carried in (made.args[:1] if made.prim == "sub" else made.args):
        return [_SUMS.get(made.prim, "?")]
    return ["?"]


def gathers(block: N.Block, index: int, divergent: set[int]) -> bool:
    """Whether some access goes to elements that are not neighbours when ``index`` takes successive values.
    ``divergent``: ids of the values that change with the index."""
    up = counting(block, index, divergent)
    for s in find(block, N.Access):
        if s.index:
            *rows, last = s.index
            if not divergent.isdisjoint(rows) or (last in divergent and last not in up):
                return True
    return False
