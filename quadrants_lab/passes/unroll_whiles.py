"""`unroll_whiles`: a `while` whose test is known each time round becomes its bodies, one after the other.

Blocks of threads halve and double strides that way. Then the loops of their threads have ends that are known, or known
but for a block that is not full, and few of them run so often that vectors with a rest would pay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import end_of, rename, rewrite, substitute, types_of, walk

MOST_TRIPS = 16
MOST_STATEMENTS = 400  # in all bodies of a loop together


def unroll_whiles(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no `while` is left which is known, from constants alone, to end after at most 16 short trips."""
    whole = (s for s in walk(kernel.body) if isinstance(s, N.Const) and not s.type.is_float)
    consts = {s.id: s.type.numpy(s.value) for s in whole}
    b, ends = Builder(kernel.next_id, types_of(kernel.body)), dict[int, int]()

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        trips = _trips(s, consts) if isinstance(s, N.While) and not s.checkpoint else None
        return s if trips is None else b.made(_bodies, b, s, trips, ends)

    body = rewrite(kernel.body, one)
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, ends), next_id=b.next_id)


def _trips(loop: N.While, consts: dict[int, Any]) -> int | None:
    """How often it runs, where that is known and its bodies do not get too long."""
    known, inside = dict(consts), list(walk(loop.body))
    most = min(MOST_TRIPS, MOST_STATEMENTS // len(inside))
    if not isinstance(loop.body[-1], N.Yield) or any(isinstance(s, (N.Break, N.Continue)) for s in inside):
        return None
    values = loop.inits
    for trips in range(most + 1):
        given = [known.get(v) for v in values]
        known.update((p.id, value) for p, value in zip(loop.carried, given, strict=True))
        _evaluate(loop.cond, known)
        going = known.get(end_of(loop.cond).values[0])
        if not going:
            return None if going is None else trips
        _evaluate(loop.body, known)
        values = end_of(loop.body).values
    return None


def _evaluate(block: N.Block, known: dict[int, Any]) -> None:
    """Operations on whole numbers that are known; None for all other values."""
    for s in block:
        if isinstance(s, N.Op):
            args = [known.get(i) for i in s.args]
            with np.errstate(all="ignore"):
                known[s.id] = None if None in args else PRIMS[s.prim].evaluate(s.type, *args)
        elif not isinstance(s, N.Const):
            known.update((i, None) for i, _ in s.defs())


def _bodies(b: Builder, loop: N.While, trips: int, ends: dict[int, int]) -> None:
    """``ends``: what stands for the loop's results."""
    values = loop.inits
    for _ in range(trips):
        ids = {p.id: v for p, v in zip(loop.carried, values, strict=True)}
        copy = rename(loop.body, b.fresh, ids)
        b.types.update({new: b.types[old] for old, new in ids.items()})
        b.stmts += copy[:-1]
        values = end_of(copy).values
    ends.update((p.id, ends.get(v, v)) for p, v in zip(loop.results, values, strict=True))
