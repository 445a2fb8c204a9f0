"""Divergent control flow: arms and trips run under a mask, and only where at least one lane takes part."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm import control as scalar
from quadrants_lab.backends._llvm.control import close_phis, open_phis
from quadrants_lab.backends._llvm.text import ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS

if TYPE_CHECKING:
    from quadrants_lab.backends.cpu.lanes.body import LaneBody

_CHEAP = 24  # cycles of an arm that runs without asking whether a lane takes it


def check(b: LaneBody, s: N.Assert) -> None:
    """Reports the first lane that fails, and ends the task."""
    fn = b.fn
    bad, good = fn.label("fail"), fn.label("ok")
    fails = b.masked(b.mask, fn.let(f"xor {b.truth} {b.vector(s.cond)}, splat (i1 true)"))
    fn.branch(b.any(fails), bad, good)
    fn.start(bad)
    outer, b.offsets = b.offsets, dict(b.offsets)
    b.lane = _first(b, fails)
    b.fail(s)
    b.offsets = outer
    fn.start(good)


def _first(b: LaneBody, mask: str) -> str:
    """The number of the first lane of a mask that is not empty, an i64."""
    return b.lowest(b.fn.let(f"bitcast {b.truth} {mask} to i{b.width}"))


def overflow(b: LaneBody, s: N.Overflow) -> None:
    """Reports the first lane that ran out of slots."""
    if not b.uniform(s.stack, s.depth):
        b.lane = _first(b, b.mask)
    which = b.reported(s.stack)
    b.overflow(which if which[0] != "%" else b.fn.let(f"zext i32 {which} to i64"), b.reported(s.depth))


def together(b: LaneBody, s: N.While) -> bool:
    """Whether all lanes leave the loop in the same trip."""
    return b.uniform(s.cond[-1].operands()[0])


def _plain(block: N.Block) -> bool:
    """Whether a block costs next to nothing and has no effect, so that it may run where no lane takes part."""
    cost = 0
    for s in block[:-1]:
        if isinstance(s, N.Op) and "@math" not in PRIMS[s.prim].llvm:
            cost += PRIMS[s.prim].cost
        elif not isinstance(s, N.Uniform):
            return False
    return cost <= _CHEAP


def if_(b: LaneBody, s: N.If) -> None:
    fn, outer, cond = b.fn, b.mask, b.vector(s.cond)
    negated = fn.let(f"xor {b.truth} {cond}, splat (i1 true)") if len(s.orelse) > 1 else ""
    given: list[tuple[str, ...]] = []
    for arm, takes in ((s.then, cond), (s.orelse, negated)):
        if len(arm) == 1:
            given.append(b.given(s.results, arm[-1].operands()))
            continue
        b.mask = b.masked(outer, takes)
        if _plain(arm):
            given.append(b.block(arm, s.results))
        else:
            run, join = fn.label("lanes"), fn.label("join")
            before = fn.block
            fn.branch(b.any(b.mask), run, join)
            fn.start(run)
            values = b.block(arm, s.results)
            after = fn.block
            fn.jump(join)
            fn.start(join)
            given.append(
                tuple(
                    fn.phi(b.type_of_param(r).text, (v, after), ("zeroinitializer", before))
                    for r, v in zip(s.results, values, strict=True)
                )
            )
        b.mask = outer
    for k, r in enumerate(s.results):
        b.define(r.id, r.type, b.select(cond, given[0][k], given[1][k], r.type))


def while_(b: LaneBody, s: N.While) -> None:
    fn, outer = b.fn, b.mask
    head, body, done = fn.label("while"), fn.label("do"), fn.label("done")
    inits = b.given(s.carried, s.inits)
    before = fn.block
    fn.jump(head)
    fn.start(head)
    going, at = fn.hole()
    phis = open_phis(b, s.carried)
    b.mask = going
    owner = s.cond[-1].operands()[0]
    b.block(s.cond)
    again = b.masked(going, b.vector(owner))
    fn.branch(b.any(again), body, done)
    fn.start(body)
    b.mask = again
    nexts = _kept(b, s.carried, b.block(s.body, s.carried))
    b.poll()
    fn.patch(at, f"{going} = phi {b.truth} [{outer}, %{before}], [{again}, %{fn.block}]")
    close_phis(b, s.carried, phis, inits, before, nexts, fn.block)
    fn.jump(head)
    fn.start(done)
    b.mask = outer
    for result, param in zip(s.results, s.carried, strict=True):
        b.define(result.id, result.type, b.values[param.id])


def _kept(b: LaneBody, carried: tuple[N.Param, ...], nexts: tuple[str, ...]) -> tuple[str, ...]:
    """The next carried values in the lanes that take part, the present ones in the others."""
    return tuple(b.select(b.mask, n, b.values[p.id], p.type) for p, n in zip(carried, nexts, strict=True))


def for_(b: LaneBody, s: N.For) -> None:
    """The loop makes trips from the least to the greatest bound of the lanes. Lanes that share a bound share the index
    too, and a lane is masked out in trips that are not its own; else each lane counts from its own bound."""
    outer = b.mask
    b.types[s.index.id] = s.index.type
    first, last, sign = _trips(b, s)
    reverse = s.reverse and b.uniform(s.index.id)

    def enter(index: str) -> None:
        b.mask = b.masked(outer, _takes_part(b, s, index))

    def trips(begin: str, end: str, inits: scalar.Values, done: str) -> tuple[scalar.Values, str]:
        keep = partial(_kept, b, s.carried)
        made = scalar.loop(b, s, begin, end, inits, done, sign, enter, reverse, keep=keep)
        b.mask = outer
        return made

    scalar.guarded(b, s, first, last, sign, trips)


def _trips(b: LaneBody, s: N.For) -> tuple[str, str, str]:
    """The trips, from the first to before the second value, and the sign with which the two compare."""
    t = s.index.type
    sign = "s" if t.kind == "i" else "u"
    v = ty(t, b.width).text
    least, most = t.limits
    if b.uniform(s.begin):
        ends = b.select(b.mask, b.vector(s.end), b.splat(str(least), t), t)
        return b.values[s.begin], b.reduce(f"{sign}max", t, ends), sign
    if b.uniform(s.end):
        begins = b.select(b.mask, b.vector(s.begin), b.splat(str(most), t), t)
        return b.reduce(f"{sign}min", t, begins), b.values[s.end], sign
    some = b.masked(b.mask, b.fn.let(f"icmp {sign}lt {v} {b.vector(s.begin)}, {b.vector(s.end)}"))
    trips = b.fn.let(f"sub {v} {b.vector(s.end)}, {b.vector(s.begin)}")
    b.offsets["trips", s.id] = b.select(some, trips, "zeroinitializer", t)
    return "0", b.reduce("umax", t, b.offsets["trips", s.id]), "u"


def _takes_part(b: LaneBody, s: N.For, trip: str) -> str:
    """Defines the index in the trip ``trip``; returns the mask of the lanes that make this trip."""
    t, fn = s.index.type, b.fn
    sign = "s" if t.kind == "i" else "u"
    v = ty(t, b.width).text
    if b.uniform(s.index.id):
        b.values[s.index.id] = trip
        here = b.splat(trip, t)
        if b.uniform(s.begin):
            return fn.let(f"icmp {sign}lt {v} {here}, {b.vector(s.end)}")
        return fn.let(f"icmp {sign}ge {v} {here}, {b.vector(s.begin)}")
    here = b.splat(trip, t)
    if s.reverse:
        before_last = fn.let(f"add {v} {here}, {b.splat('1', t)}")
        index = fn.let(f"sub {v} {b.vector(s.end)}, {before_last}")
    else:
        index = fn.let(f"add {v} {b.vector(s.begin)}, {here}")
    b.values[s.index.id] = index
    return fn.let(f"icmp ult {v} {here}, {b.offsets['trips', s.id]}")
