"""`peel_edges`: the trips of a loop over a row of a cell whose neighbours lie in the same row get a loop of their own.

    for k in 0..16 { j = c * 16 + k; load @x[i, j - 1] }
    becomes
    for k in 0..1 { ... }   for k in 1..16 { j = c * 16 + k; load @x[i, c * 16 + (k - 1)] }

The second loop finds the cell of all neighbours once, and reads them side by side (`backends.lower.digits`).
"""

from dataclasses import replace
from typing import NamedTuple

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import find, renamed, rewrite, rewritten, substitute, types_of, walk

MOST = 150  # statements of a body that is written three times
_SERIAL = (N.StackUse, N.AdStackAlloca, N.Loop, N.Random)


class _Row(NamedTuple):
    """The index ``own`` of a row: ``begin`` plus the number of the trip."""

    own: N.Op
    begin: int


def peel_edges(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that a short innermost loop over a row of a cell, which accesses neighbours along the row in memory
    with an order, has the trips at the row's ends in loops before and after it."""
    if not any(buffer.order for buffer in kernel.buffers.values()):
        return kernel
    b, ranges = Builder(kernel.next_id, types_of(kernel.body)), Ranges(kernel)

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if not isinstance(s, N.For) or s.carried or s.reverse or s.step != N.NO_ID or s.threads:
            return s
        return _peeled(kernel, s, b, ranges) or s

    return rewritten(kernel, one, b)


def _peeled(kernel: N.Kernel, loop: N.For, b: Builder, ranges: Ranges) -> list[N.Stmt]:
    """The loops that the loop becomes; none where it stays."""
    least, n = ranges.range(loop.end) or (0, -1)
    row = _row(loop, ranges, n) if ranges.range(loop.begin) == (0, 0) and least == n else None
    if row is None or any(find(loop.body, _SERIAL)) or sum(1 for _ in walk(loop.body)) > MOST:
        return []
    offsets, same = _neighbours(loop.body, row.own.id, ranges)
    ordered = (s for s in find(loop.body, N.Access) if kernel.buffers[s.buffer].order)
    used = {same.get(i, i) for s in ordered for i in s.index} & {*offsets}
    low, high = (max([0, *(sign * offsets[i] for i in used)]) for sign in (-1, 1))
    if not used or 2 * (low + high) > n:
        return []
    with b.block() as made:
        b.span = loop.span
        ends = [b.const(k, loop.index.type) for k in (0, low, n - high, n)]
        for k, trips_at_edge in enumerate((low, 0, high)):
            piece = replace(loop, begin=ends[k], end=ends[k + 1])
            if k == 1:
                b.add(replace(piece, body=_inside(piece, row, offsets, same, b)))
            elif trips_at_edge:
                b.add(renamed(piece, b.fresh))
    return made


def _row(loop: N.For, ranges: Ranges, n: int) -> _Row | None:
    """The index of a row of ``n`` elements, a whole number of rows plus the number of the trip."""
    for s in loop.body:
        if isinstance(s, N.Op) and s.prim == "add" and s.args[1] == loop.index.id:
            product = ranges.defs.get(s.args[0])
            if isinstance(product, N.Op) and product.prim == "mul" and ranges.range(product.args[1]) == (n, n):
                return _Row(s, product.id)
    return None


def _neighbours(body: N.Block, own: int, ranges: Ranges) -> tuple[dict[int, int], dict[int, int]]:
    """The values that are the index plus a constant, each with that constant; and values that are one of these where it
    is in the range of the index, because they are made of it by a modulo, a minimum or a maximum."""
    offsets, same = dict[int, int](), dict[int, int]()
    most = ranges.range(own)
    for s in find(body, N.Op):
        by = ranges.range(s.args[1]) if len(s.args) == 2 else None
        if by is None or by[0] != by[1] or most is None:
            continue
        if s.args[0] == own and s.prim in ("add", "sub"):
            offsets[s.id] = by[0] if s.prim == "add" else -by[0]
        of = same.get(s.args[0], s.args[0])
        kept = {"mod": most[0] >= 0 and most[1] < by[0], "min": most[1] <= by[0], "max": most[0] >= by[0]}
        if of in offsets and kept.get(s.prim):
            same[s.id] = of
    return offsets, same


def _inside(loop: N.For, row: _Row, offsets: dict[int, int], same: dict[int, int], b: Builder) -> N.Block:
    """The body for trips whose neighbours lie in the row: these are begin + (trip + constant)."""

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if s.id in same:
            return []
        if not isinstance(s, N.Op) or s.id not in offsets:
            return s
        place = replace(s, id=b.fresh(), args=(loop.index.id, s.args[1]), range=None)
        return [place, replace(s, prim="add", args=(row.begin, place.id))]

    return substitute(rewrite(loop.body, one), same)
