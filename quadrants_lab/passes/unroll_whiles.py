"""`unroll_whiles`: unrolls a `while` whose number of trips follows from constants.

Blocks of threads often halve or double a stride in such a loop. Unrolled, the loops over threads in it have constant
ends, so the backend vectorizes them without a loop for the remainder.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import emit_copy, end_of, rewrite, substitute, types_of, walk

MOST_TRIPS = 16
MOST_STATEMENTS = 400  # in all copies of the body together


def unroll_whiles(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no `while` that, decided by constants, ends after at most 16 short trips."""
    whole = (s for s in walk(kernel.body) if isinstance(s, N.Const) and not s.type.is_float)
    consts = {s.id: s.type.numpy(s.value) for s in whole}
    b, ends = Builder(kernel.next_id, types_of(kernel.body)), dict[int, int]()

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        trips = _trips(s, consts) if isinstance(s, N.While) and not s.checkpoint else None
        return s if trips is None else b.made(_bodies, b, s, trips, ends)

    body = rewrite(kernel.body, one)
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, ends), next_id=b.next_id)


def _trips(loop: N.While, consts: dict[int, Any]) -> int | None:
    """The number of trips; None where it is not known or the unrolled loop would be too long."""
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
    """Evaluates operations on known integers; other values become None."""
    for s in block:
        if isinstance(s, N.Op):
            args = [known.get(i) for i in s.args]
            with np.errstate(all="ignore"):
                known[s.id] = None if None in args else PRIMS[s.prim].evaluate(s.type, *args)
        elif not isinstance(s, N.Const):
            known.update((i, None) for i, _ in s.defs())


def _bodies(b: Builder, loop: N.While, trips: int, ends: dict[int, int]) -> None:
    """Emits the copies of the body; ``ends`` maps the loop's results to the values that replace them."""
    values = loop.inits
    for _ in range(trips):
        ids = {p.id: v for p, v in zip(loop.carried, values, strict=True)}
        values = emit_copy(b, loop.body, ids)
    ends.update((p.id, ends.get(v, v)) for p, v in zip(loop.results, values, strict=True))
