"""Branches on one condition, one behind the other, as one branch: the adjoint of a loop over a sparse layout has a
branch that repeats forward values, and one that uses them."""

from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import end_of, find, map_blocks, substitute, uses


def merged(block: N.Block, written: set[str]) -> N.Block:
    """The block in which a branch with results, and a branch without results behind it, are one where they have the
    same condition and only the second one uses the results. ``written``: buffers that the task writes to; loads of the
    same element of others are one."""
    block = _same_values(block, written)
    for n, first in enumerate(block):
        if not isinstance(first, N.If):
            continue
        between, second = _next_branch(block[n + 1 :])
        if second is None or second.cond != first.cond or second.results or not _own(block, first, second):
            continue
        arms = []
        for a, b in zip((first.then, first.orelse), (second.then, second.orelse), strict=True):
            values = dict(zip((p.id for p in first.results), end_of(a).operands(), strict=True))
            arms.append(_idle((*a[:-1], *substitute(b, values))))
        one = replace(first, then=arms[0], orelse=arms[1], results=())
        return merged((*block[:n], *between, one, *block[n + 2 + len(between) :]), written)
    return tuple(map_blocks(s, lambda inner: merged(inner, written)) if isinstance(s, N.If) else s for s in block)


def _next_branch(block: N.Block) -> tuple[N.Block, N.If | None]:
    """What comes before the next branch, and the branch; None where something else than arithmetic comes before."""
    for n, s in enumerate(block):
        if isinstance(s, N.If):
            return block[:n], s
        if not isinstance(s, (N.Const, N.Op)):
            break
    return (), None


def _own(block: N.Block, first: N.If, second: N.If) -> bool:
    """Whether nothing but the second branch uses the results of the first, and each arm ends in values."""
    counts, inside = uses(block), uses((second,))
    only = all(counts.get(p.id, 0) == inside.get(p.id, 0) for p in first.results)
    return only and all(isinstance(arm[-1], N.Yield) for arm in (*first.blocks(), *second.blocks()))


def _idle(block: N.Block) -> N.Block:
    """The block, or only its end where all before computes values that nobody uses."""
    return block if any(not isinstance(s, (N.Const, N.Op, N.Load)) for s in block[:-1]) else block[-1:]


def _same_values(block: N.Block, written: set[str]) -> N.Block:
    """The block with equal constants, operations and loads as one."""
    known: dict[object, int] = {}
    same: dict[int, int] = {}
    out: list[N.Stmt] = []
    for s in block:
        key: object = None
        if isinstance(s, N.Const):
            key = s.type, type(s.value), s.value
        elif isinstance(s, N.Op):
            key = s.type, s.prim, tuple(same.get(i, i) for i in s.args)
        elif isinstance(s, N.Load) and s.buffer not in written:
            key = s.buffer, tuple(same.get(i, i) for i in s.index)
        if key is not None and key in known:
            same[s.id] = known[key]
            continue
        if key is not None:
            known[key] = s.id
        out.append(s)
    return substitute(tuple(out), same) if same else block


def written(block: N.Block) -> set[str]:
    """The buffers that the block writes to."""
    return {s.buffer for s in find(block, N.Write)}
