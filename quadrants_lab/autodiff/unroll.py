"""Several trips of a loop as one, where reverse mode keeps much of each: the carried values are kept once for all of
them, and the reverse computes those in between again.

A loop over t trips becomes one over ceil(t / n), whose body is n copies of the loop's, each but the first in an if that
asks whether there is such a trip, within the if of the one before: so what a copy starts from is computed from what
the first one starts from by operations alone, and the minimum cut need not keep it. The adstacks have an n-th of the
slots, for (n - 1) / n of a forward pass more. It is checkpointing with segments of n trips that are held in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quadrants_lab.autodiff.activity import active_values
from quadrants_lab.autodiff.prepare import induction_formulas, prepared
from quadrants_lab.autodiff.reverse import plan_task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import end_of, rename, rewritten, types_of, walk

LEAST_BYTES = 32  # kept a trip; less is not worth the second computation
MOST_STATEMENTS = 160  # in all copies of a body together
_PLAIN = (N.Pure, N.Load, N.Assert, N.If, N.Yield)


Trips = tuple[int, int]  # most that may be one: of loops that carry floats of at most 32 bits, and of others


def unroll(trips: Trips) -> N.Pass:
    """The pass for offloaded forward kernels on their way to `reverse`, ``trips`` as one where `unrolled_loops` finds
    it worthwhile. It guarantees that every value is computed by the same operations in the same order as before."""

    def unroll(kernel: N.Kernel) -> N.Kernel:
        """Several trips of a loop as one, where the gradient would keep much of each: the carried values are kept once
        for all of them, and those in between computed again."""
        loops = unrolled_loops(kernel, trips)
        if not loops:
            return kernel
        b = Builder(kernel.next_id, types_of(kernel.body))
        consts = {s.id: s for s in walk(kernel.body) if isinstance(s, N.Const)}

        def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
            return b.made(_grouped, b, s, loops[s.id], consts) if isinstance(s, N.For) and s.id in loops else s

        return rewritten(kernel, one, b)

    return unroll


def unrolled_loops(kernel: N.Kernel, trips: Trips) -> dict[int, int]:
    """By id, the loops of which several trips should be one, and how many: at most ``trips``. These are loops upwards,
    without loop, write, print or random number inside and without a checkpoint, that would keep at least 32 bytes of
    what can be computed again from carried values a trip, and whose copies do not get too long."""
    candidates = {s.id: s for s in walk(kernel.body) if isinstance(s, N.For) and _copies(s, trips) > 1}
    if not candidates:
        return {}
    ready = prepared(kernel)
    active = active_values(ready)
    kept = dict.fromkeys(candidates, 0)
    for task in ready.tasks:
        if not any(s.id in candidates for s in walk(task.body)):
            continue
        scopes, plan = plan_task(ready, task, active)
        for v in plan.stash:
            loop = scopes.of[v].owner
            if loop is not None and loop.id in kept and isinstance(scopes.defs[v], (N.For, N.Op)):
                kept[loop.id] += scopes.types[v].nbytes
    return {loop: _copies(candidates[loop], trips) for loop, size in kept.items() if size >= LEAST_BYTES}


def _copies(loop: N.For, trips: Trips) -> int:
    """How many copies of the body may become one, by what it is made of."""
    if loop.reverse or loop.checkpoint or loop.index.type not in (i32, i64):
        return 1
    floats = [p.type for p in loop.carried if p.type.is_float]
    body = list(walk(loop.body))
    if sum(t.nbytes for t in floats) < LEAST_BYTES or not all(isinstance(s, _PLAIN) for s in body):
        return 1
    return min(trips[any(t.bits > 32 for t in floats)], MOST_STATEMENTS // len(body))


def _grouped(b: Builder, loop: N.For, copies: int, consts: Mapping[int, N.Const]) -> None:
    """The loop over groups of ``copies`` trips. Its trips are counted in i64 where i32 might not hold their number."""
    b.span = loop.span
    t = loop.index.type
    rewritten = induction_formulas(b, loop)  # in the loop over groups a step would be the result of an if
    assert isinstance(rewritten, N.For)
    loop = rewritten
    counted = t if loop.begin in consts and consts[loop.begin].value >= 0 else i64
    one = b.const(1, counted)
    begin = b.cast(loop.begin, counted)
    trips = b.op("sub", b.op("max", b.cast(loop.end, counted), begin), begin)
    groups = b.op("add", b.op("floordiv", b.op("sub", trips, one), b.const(copies, counted)), one)
    number = b.param(t, "group")
    with b.block() as body:
        at = b.op("mul", number.id, b.const(copies, t))
        left = b.op("sub", trips, b.cast(at, counted))
        first = N.Op(loop.index.id, t, "add", (loop.begin, at), name=loop.index.name)
        b.add(first)
        b.stmts += loop.body[:-1]
        end = end_of(loop.body)
        b.yield_(*_further(b, loop, 1, copies, left, end.values))
    zero = b.const(0, t)
    b.add(replace(loop, index=number, begin=zero, end=b.cast(groups, t), body=tuple(body)))


def _further(
    b: Builder, loop: N.For, n: int, copies: int, left: int, values: tuple[int, ...]
) -> tuple[int, ...]:
    """Adds the copies from the n-th on, the first of which starts from ``values``, and returns what the last of them
    that runs hands on. ``left``: trips from the group's first one on."""
    if n == copies:
        return values
    there = b.op("lt", b.const(n, b.types[left]), left)
    with b.block() as then:
        index = b.op("add", loop.index.id, b.const(n, loop.index.type), name=loop.index.name)
        ids = {loop.index.id: index, **{p.id: v for p, v in zip(loop.carried, values, strict=True)}}
        copy = rename(loop.body, b.fresh, ids)
        b.types.update({new: b.types[old] for old, new in ids.items()})
        b.stmts += copy[:-1]
        end = end_of(copy)
        b.yield_(*_further(b, loop, n + 1, copies, left, end.values))
    with b.block() as orelse:
        b.yield_(*values)
    results = tuple(b.param(p.type, p.name) for p in loop.carried)
    b.add(N.If(b.fresh(), there, tuple(then), tuple(orelse), results))
    return tuple(p.id for p in results)
