"""The pass `peel_edges` splits a loop over a row of a cell: the trips whose neighbours lie in the same row get a
separate loop.

    for k in 0..16 { j = c * 16 + k; load @x[i, j - 1] }
    becomes
    for k in 0..1 { ... }   for k in 1..16 { j = c * 16 + k; load @x[i, c * 16 + (k - 1)] }

In the second loop all neighbours lie in the same cell, which is found once, and they are read side by side
(`backends.lower.cells`).
"""

from dataclasses import replace
from typing import NamedTuple

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import find, of_kind, renamed, rewrite, rewritten, rules, types_of, walk

MOST = 150  # a body with more statements is not emitted three times
_SERIAL = (N.StackUse, N.AdStackAlloca, N.Loop, N.Random)


class _Row(NamedTuple):
    """The index ``own`` along a row: ``begin`` plus the index of the trip."""

    own: N.Op
    begin: int


def peel_edges(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that a short innermost loop over a row of a cell, which accesses neighbours along the row in memory
    ordered by cells, does the trips at the row's ends in separate loops before and after."""
    if not any(buffer.order for buffer in kernel.buffers.values()):
        return kernel
    b, ranges = Builder(kernel.next_id, types_of(kernel.body)), Ranges(kernel)

    def peeled(s: N.For) -> N.Stmt | list[N.Stmt]:
        if s.carried or s.reverse or s.step != N.NO_ID or s.threads:
            return s
        return _peeled(kernel, s, b, ranges) or s

    return rewritten(kernel, rules({N.For: peeled}), b)


def _peeled(kernel: N.Kernel, loop: N.For, b: Builder, ranges: Ranges) -> list[N.Stmt]:
    """The loops that replace ``loop``; an empty list if it is left as it is."""
    least, n = ranges.range(loop.end) or (0, -1)
    row = _row(loop, ranges, n) if ranges.range(loop.begin) == (0, 0) and least == n else None
    if row is None or any(find(loop.body, _SERIAL)) or sum(1 for _ in walk(loop.body)) > MOST:
        return []
    ordered = [s for s in find(loop.body, N.Access) if kernel.buffers[s.buffer].order]
    used = {i for s in ordered for i in s.index}
    offsets = {i: k for i, k in _neighbours(loop.body, row.own.id, ranges).items() if i in used and 4 * abs(k) <= n}
    low, high = (max([0, *(sign * k for k in offsets.values())]) for sign in (-1, 1))
    if not offsets:
        return []
    with b.block() as made:
        b.span = loop.span
        ends = [b.const(k, loop.index.type) for k in (0, low, n - high, n)]
        for k, trips_at_edge in enumerate((low, 0, high)):
            piece = replace(loop, begin=ends[k], end=ends[k + 1])
            if k == 1:
                b.add(replace(piece, body=_inside(piece, row, offsets, b)))
            elif trips_at_edge:
                b.add(renamed(piece, b.fresh))
    return made


def _row(loop: N.For, ranges: Ranges, n: int) -> _Row | None:
    """The index along a row of ``n`` elements: a whole number of rows plus the index of the trip; None if the loop has
    none."""
    for s in of_kind(loop.body, N.Op):
        if s.prim == "add" and s.args[1] == loop.index.id:
            product = ranges.defs.get(s.args[0])
            if isinstance(product, N.Op) and product.prim == "mul" and ranges.range(product.args[1]) == (n, n):
                return _Row(s, product.id)
    return None


def _neighbours(body: N.Block, own: int, ranges: Ranges) -> dict[int, int]:
    """Maps each value that is the index ``own`` plus a constant to the constant, as far as it is in range. If it is, a
    minimum, a maximum and a modulo do not change the sum, or the modulo subtracts its divisor."""
    offsets, most = {own: 0}, ranges.range(own)
    for s in find(body, N.Op):
        by = ranges.range(s.args[1]) if len(s.args) == 2 else None
        if most is None or by is None or by[0] != by[1] or s.args[0] not in offsets:
            continue
        k, (n, _) = offsets[s.args[0]], by
        sums = {"add": k + n, "sub": k - n}
        if s.prim == "mod" and most[0] >= 0 and most[1] < n:
            offsets[s.id] = k if 2 * k <= n else k - n
        elif s.prim in sums:
            offsets[s.id] = sums[s.prim]
        elif (s.prim == "min" and most[1] <= n) or (s.prim == "max" and most[0] >= n):
            offsets[s.id] = k
    return {i: k for i, k in offsets.items() if k}


def _inside(loop: N.For, row: _Row, offsets: dict[int, int], b: Builder) -> N.Block:
    """The body for the trips whose neighbours lie in the row: there a neighbour's index is begin + (trip + constant).
    """

    def moved(s: N.Op) -> N.Stmt | list[N.Stmt]:
        if s.id not in offsets:
            return s
        by = N.Const(b.fresh(), s.type, offsets[s.id], span=s.span, adjoint_of=s.adjoint_of)
        place = replace(s, id=b.fresh(), prim="add", args=(loop.index.id, by.id), range=None, name="")
        return [by, place, replace(s, prim="add", args=(row.begin, place.id))]

    return rewrite(loop.body, rules({N.Op: moved}))
