"""Unrolls loops in which reverse mode would stash many bytes in each trip: the carried values are stashed once for
several trips, and the reverse computes the values of the other trips again.

A loop of t trips becomes a loop of ceil(t / n) trips. Its body is n copies of the old body. Each copy but the first
stands in an if that tests whether its trip exists, and that stands inside the if of the copy before. So plain
operations compute the carried values of each copy from the carried values of the first copy, and the minimum cut need
not stash them. The adstacks then need 1/n of the slots, at the price of (n - 1)/n of one more forward pass. This is
checkpointing with segments of n trips that are held in registers.
"""

from collections.abc import Mapping
from dataclasses import replace

from quadrants_lab.autodiff.prepare import induction_formulas
from quadrants_lab.autodiff.reverse import plans
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import all_are, emit_copy, end_of, find, rewritten, rules, types_of, walk

LEAST_BYTES = 32  # stashed in a trip; if fewer are, computing again does not pay
MOST_STATEMENTS = 160  # in all copies of a body together
_PLAIN = (N.Pure, N.Load, N.Assert, N.If, N.Yield)

Trips = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Unroll(Parametrised):
    """Joins several trips of a loop to one trip if the gradient would stash many bytes in each trip. The gradient
    then stashes the carried values once for all joined trips, and computes the carried values of the trips in
    between again. The pass runs on an offloaded forward kernel before `reverse`. The same operations compute every
    value, in the same order as before. ``trips``: how many trips may be joined in loops that carry floats of at
    most 32 bits, and in other loops."""

    trips: Trips = (1, 1)

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        loops = unrolled_loops(kernel, self.trips)
        if not loops:
            return kernel
        b = Builder(kernel.next_id, types_of(kernel.body))
        consts = {s.id: s for s in find(kernel.body, N.Const)}

        def grouped(s: N.For) -> N.Stmt | list[N.Stmt]:
            return b.made(_grouped, b, s, loops[s.id], consts) if s.id in loops else s

        return rewritten(kernel, rules({N.For: grouped}), b)


def unrolled_loops(kernel: N.Kernel, trips: Trips) -> dict[int, int]:
    """The ids of the loops to unroll, and for each the number of trips that become one, at most ``trips``. These
    loops run upwards, and have no checkpoint and no loop, write, print or random number inside. Each trip would stash
    at least 32 bytes of values that can be computed again from carried values. The copies of the body have at most
    `MOST_STATEMENTS` statements together."""
    candidates = {s.id: s for s in find(kernel.body, N.For) if _copies(s, trips) > 1}
    if not candidates:
        return {}
    kept = dict.fromkeys(candidates, 0)
    for _, scopes, plan, _ in plans(kernel):
        for v in plan.stash:
            loop = scopes.of[v].owner
            if loop is not None and loop.id in kept and isinstance(scopes.defs[v], (N.For, N.Op)):
                kept[loop.id] += scopes.types[v].nbytes
    return {loop: _copies(candidates[loop], trips) for loop, size in kept.items() if size >= LEAST_BYTES}


def _copies(loop: N.For, trips: Trips) -> int:
    """The number of trips that may become one, judged by the statements of the body."""
    if loop.reverse or loop.checkpoint or loop.index.type not in (i32, i64):
        return 1
    floats = [p.type for p in loop.carried if p.type.is_float]
    body = list(walk(loop.body))
    if sum(t.nbytes for t in floats) < LEAST_BYTES or not all_are(body, _PLAIN):
        return 1
    return min(trips[any(t.bits > 32 for t in floats)], MOST_STATEMENTS // len(body))


def _grouped(b: Builder, loop: N.For, copies: int, consts: Mapping[int, N.Const]) -> None:
    """Emits the loop over groups of ``copies`` trips, which counts in i64 where i32 might overflow."""
    b.span = loop.span
    t = loop.index.type
    rewritten = induction_formulas(b, loop)  # else `p + c` would become the result of an if
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
        b.add(N.Op(loop.index.id, t, "add", (loop.begin, at), name=loop.index.name))
        b.stmts += loop.body[:-1]
        b.yield_(*_further(b, loop, 1, copies, left, end_of(loop.body).values))
    b.add(replace(loop, index=number, begin=b.const(0, t), end=b.cast(groups, t), body=tuple(body)))


def _further(
    b: Builder, loop: N.For, n: int, copies: int, left: int, values: tuple[int, ...]
) -> tuple[int, ...]:
    """Emits the n-th copy of the loop's body, with the carried values ``values``, and the copies after it. Returns the
    carried values after the last copy that runs. ``left`` is the number of iterations that remain before the first copy
    of the group."""
    if n == copies:
        return values
    there = b.op("lt", b.const(n, b.types[left]), left)
    with b.block() as then:
        index = b.op("add", loop.index.id, b.const(n, loop.index.type), name=loop.index.name)
        ids = {loop.index.id: index, **{p.id: v for p, v in zip(loop.carried, values, strict=True)}}
        b.yield_(*_further(b, loop, n + 1, copies, left, emit_copy(b, loop.body, ids)))
    with b.block() as orelse:
        b.yield_(*values)
    results = tuple(b.param(p.type, p.name) for p in loop.carried)
    b.add(N.If(b.fresh(), there, tuple(then), tuple(orelse), results))
    return tuple(p.id for p in results)
