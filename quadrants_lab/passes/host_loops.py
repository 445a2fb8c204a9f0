"""Improves loops of blocks of threads for backends that run a whole block in one thread.

`unroll_whiles` unrolls a `while` whose number of trips follows from constants. Blocks often halve or double a stride in
such a loop. After unrolling, the loops over threads in it have constant ends, so the backend vectorises them without a
loop for the remainder. `thread_rows` splits a loop over threads t that computes ``t // 16`` and ``t % 16`` into a loop
over rows of 16 threads and a loop within the row, whose accesses are contiguous. `narrowed` limits a loop to the
threads that do something.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.walk import (
    constants,
    emit_copy,
    end_of,
    find,
    of_kind,
    rename,
    rewrite,
    rewritten,
    rules,
    substitute,
    types_of,
    walk,
)

MOST_TRIPS = 16
MOST_STATEMENTS = 400  # the most statements of all copies of a body together


def unroll_whiles(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no `while` is left that, as follows from constants, ends after at most 16 short trips."""
    whole = (s for s in find(kernel.body, N.Const) if not s.type.is_float)
    consts = {s.id: s.type.numpy(s.value) for s in whole}
    b, ends = Builder(kernel.next_id, types_of(kernel.body)), dict[int, int]()

    def unrolled(s: N.While) -> N.Stmt | list[N.Stmt]:
        trips = None if s.checkpoint else _trips(s, consts)
        return s if trips is None else b.made(_bodies, b, s, trips, ends)

    body = rewrite(kernel.body, rules({N.While: unrolled}))
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, ends), next_id=b.next_id)


def _trips(loop: N.While, consts: dict[int, Any]) -> int | None:
    """How many trips the loop makes; None if this is not known or the unrolled loop would be too long."""
    known, inside = dict(consts), list(walk(loop.body))
    most = min(MOST_TRIPS, MOST_STATEMENTS // len(inside))
    if not isinstance(loop.body[-1], N.Yield) or any(of_kind(inside, (N.Break, N.Continue))):
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
    """Evaluates the operations whose operands are known integers. ``known``: id -> value; it gets the results, None for
    the other operations."""
    for s in block:
        if isinstance(s, N.Op):
            args = [known.get(i) for i in s.args]
            with np.errstate(all="ignore"):
                known[s.id] = None if None in args else PRIMS[s.prim].evaluate(s.type, *args)
        elif not isinstance(s, N.Const):
            known.update((i, None) for i, _ in s.defs())


def _bodies(b: Builder, loop: N.While, trips: int, ends: dict[int, int]) -> None:
    """Emits the copies of the body. ``ends``: filled with result of the loop -> value that replaces it."""
    values = loop.inits
    for _ in range(trips):
        values = emit_copy(b, loop.body, {p.id: v for p, v in zip(loop.carried, values, strict=True)})
    ends.update((p.id, ends.get(v, v)) for p, v in zip(loop.results, values, strict=True))


def thread_rows(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no loop over threads divides the thread's index by just one constant."""
    b, consts = Builder(kernel.next_id, types_of(kernel.body)), constants(walk(kernel.body))

    def split(s: N.For) -> N.Stmt | list[N.Stmt]:
        by = _row(s, consts) if s.threads else 0
        return b.made(_rows, b, s, by) if by else s

    return rewritten(kernel, rules({N.For: split}), b)


def _row(loop: N.For, consts: dict[int, int | float]) -> int:
    """The constant by which the loop divides the thread's index; 0 if there is none, or several."""
    if consts.get(loop.begin) != 0 or loop.carried:
        return 0
    by = {consts.get(s.args[1], 0) for s in find(loop.body, N.Op) if _divides(s, loop.index.id)}
    (n,) = by if len(by) == 1 else (0,)
    return int(n) if n > 1 else 0


def _divides(s: N.Op, t: int) -> bool:
    return s.prim in ("floordiv", "mod") and s.args[0] == t


def _rows(b: Builder, loop: N.For, by: int) -> None:
    b.span, t, last = loop.span, loop.index.id, loop.body[-1]
    zero, size, row, place = b.const(0, i32), b.const(by, i32), b.param(i32, "row"), b.param(i32, "place")
    rows = b.op("floordiv", b.op("add", loop.end, b.const(by - 1, i32)), size)
    ids = {s.id: row.id if s.prim == "floordiv" else place.id
           for s in find(loop.body, N.Op) if _divides(s, t)}  # fmt: skip
    with b.block() as outer:
        first = b.op("mul", row.id, size)
        threads = b.op("min", b.op("sub", loop.end, first), size)
        with b.block() as inner:
            ids[t] = b.op("add", first, place.id)
            b.stmts += substitute(rewrite(loop.body[:-1], lambda s: () if s.id in ids else s), ids)
            b.stmts.append(last)
        within = replace(loop, index=place, begin=zero, end=threads, body=tuple(inner), threads=False)
        b.add(replace(within, id=b.fresh()))
        b.yield_()
    b.add(replace(within, index=row, end=rows, body=tuple(outer)))


def narrowed(b: Builder, loop: N.For) -> None:
    """Emits the loop over threads t. If everything in it is guarded by ``t < n`` or ``t == 2``, it runs only over these
    threads."""
    before, guard, last = loop.body[:-2], loop.body[-2], loop.body[-1]
    made = {s.id: s for s in of_kind(before, (N.Const, N.Op, N.Load))}
    test = made.get(guard.cond) if isinstance(guard, N.If) and not guard.results and len(guard.orelse) == 1 else None
    if not isinstance(test, N.Op) or len(made) < len(before) or test.args[0] != loop.index.id:
        b.add(loop)
        return
    varying = {loop.index.id}  # values that may differ between threads
    for s in before:
        varying |= {s.id} if s.loads or varying.intersection(s.operands()) else set()
    n, known = test.args[1], made.get(test.args[1])
    begin, end = loop.begin, loop.end
    exact = test.prim == "eq" and isinstance(known, N.Const) and known.value >= 0
    if n in varying or not (exact or test.prim == "lt"):
        b.add(loop)
        return
    b.span, ids = loop.span, dict[int, int]()
    for s in rename(tuple(s for s in before if s.id not in varying), b.fresh, ids):
        b.add(s)
    n = ids.get(n, n)
    if exact:
        begin, n = n, b.op("add", n, b.const(1, i32))
    end = b.op("min", end, n)
    assert isinstance(guard, N.If)
    b.add(replace(loop, begin=begin, end=end, body=(*before, *guard.then[:-1], last)))
