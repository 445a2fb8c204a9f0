"""Emits if, while and for as branches and phis. If lanes diverge, arms and trips run under a mask, and are skipped if
no lane takes part."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

from quadrants_lab.backends._llvm.body import Body
from quadrants_lab.backends._llvm.text import ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import find

Values = tuple[str, ...]  # a value's text for each result or carried parameter
STRIP = 16384  # iterations of an innermost loop between two polls of the cancel flag
_CHEAP = 24  # an arm of at most so many cycles runs without a test whether any lane takes it


# --- if ---------------------------------------------------------------------------------------------------------


def if_(b: Body, s: N.If) -> None:
    if not b.uniform(s.cond):
        _if_in_lanes(b, s)
        return
    fn = b.fn
    then, orelse, join = fn.label("then"), fn.label("else"), fn.label("join")
    fn.branch(b.values[s.cond], then, orelse)
    arms: list[list[tuple[str, str]]] = []  # for each arm: (value, label of the block that computed it) for each result
    for label, block in ((then, s.then), (orelse, s.orelse)):
        fn.start(label)
        arms.append([(v, fn.block) for v in b.block(block, s.results)])
        fn.jump(b.exit if isinstance(block[-2:][0], N.ThreadExit) else join)
    fn.start(join)
    for result, *incoming in zip(s.results, *arms, strict=True):
        b.define(result.id, result.type, fn.phi(b.type_of_param(result), *incoming))


def _if_in_lanes(b: Body, s: N.If) -> None:
    outer, cond = b.mask, b.vector(s.cond)
    negated = b.inverse(cond) if len(s.orelse) > 1 else ""
    given: list[Values] = []
    for arm, takes in ((s.then, cond), (s.orelse, negated)):
        if len(arm) == 1:
            given.append(b.given(s.results, arm[-1].operands()))
            continue
        b.mask = b.masked(outer, takes)
        given.append(b.block(arm, s.results) if _plain(arm) else _where_any(b, arm, s.results))
        b.mask = outer
    for r, then, orelse in zip(s.results, *given, strict=True):
        b.define(r.id, r.type, b.select(cond, then, orelse, r.type))


def _where_any(b: Body, arm: N.Block, results: tuple[N.Param, ...]) -> Values:
    """Emits an arm that runs if at least one lane takes it; returns the values of the arm's results."""
    fn = b.fn
    before = fn.block
    with fn.when(b.any(b.mask), "lanes", "join"):
        values = b.block(arm, results)
        after = fn.block
    both = zip(results, values, strict=True)
    return tuple(fn.phi(b.type_of_param(r), (v, after), ("zeroinitializer", before)) for r, v in both)


def _plain(block: N.Block) -> bool:
    """Whether a block is cheap and has no side effect, so that it may run even if no lane takes part."""
    cost = 0
    for s in block[:-1]:
        if s.prim and "@math" not in PRIMS[s.prim].llvm:
            cost += PRIMS[s.prim].cost
        elif not isinstance(s, N.Uniform):
            return False
    return cost <= _CHEAP


# --- while ------------------------------------------------------------------------------------------------------


def while_(b: Body, s: N.While) -> None:
    """Emits a while loop. An innermost loop polls the cancel flag once in `STRIP` trips, since counting trips is
    cheaper than a poll."""
    fn, outer = b.fn, b.mask
    owner = s.cond[-1].operands()[0]
    together = b.uniform(owner)  # all lanes leave the loop in the same trip
    rarely = together and b.polls and not any(find((*s.cond, *s.body), N.Loop))
    head, body, done = fn.label("while"), fn.label("do"), fn.label("done")
    # the first value that the loop carries: how many trips are left until the poll, or the mask of lanes that go on
    first = [("i32", str(STRIP))] if rarely else [] if together else [(b.truth, outer)]
    phis, again = fn.cycle(head, *_carried(b, s.carried, b.given(s.carried, s.inits)), *first)
    b.bind(s.carried, phis[: len(s.carried)])
    if not together:
        b.mask = phis[-1]
    (more,) = b.block(s.cond)
    if not together:
        b.mask = b.masked(phis[-1], b.vector(owner))
        more = b.any(b.mask)
    fn.branch(more, body, done)
    fn.start(body)
    nexts = _kept(b, s.carried, b.block(s.body, s.carried), together)
    if not rarely:
        b.poll()
    last = [_poll_rarely(b, phis[-1])] if rarely else [] if together else [b.mask]
    again(*nexts, *last)
    fn.jump(head)
    fn.start(done)
    b.mask = outer
    b.bind(s.results, [b.values[p.id] for p in s.carried])


def _kept(b: Body, carried: tuple[N.Param, ...], nexts: Values, together: bool) -> Values:
    """Selects the carried values of the next trip: ``nexts`` in lanes that take part, the present values in lanes
    that have left the loop."""
    if together:
        return nexts
    return tuple(b.select(b.mask, n, b.values[p.id], p.type) for p, n in zip(carried, nexts, strict=True))


def _poll_rarely(b: Body, left: str) -> str:
    """Emits a poll that runs when ``left``, the number of trips until the next poll, is 0; returns the new number."""
    fn = b.fn
    fewer, counted = fn.let(f"sub i32 {left}, 1"), fn.block
    with fn.when(fn.let(f"icmp eq i32 {fewer}, 0"), "look"):
        b.poll()
        polled = fn.block
    return fn.phi("i32", (fewer, counted), (str(STRIP), polled))


# --- for --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a loop. ``sign``: "s" or "u", how its integers are compared; ``wraps``: LLVM's flags for its
    additions. ``takes_part``, only if the bounds differ between lanes: a function that returns the mask of the lanes
    that make the present trip. If each lane has an index of its own, the function defines that index."""

    begin: str
    end: str
    sign: str
    reverse: bool
    wraps: str = ""
    step: str = "1"
    takes_part: Callable[[str], str] | None = None


def for_(b: Body, s: N.For) -> None:
    """Emits a for loop. A loop that may run long polls the cancel flag. An innermost loop whose bounds are the same in
    all lanes polls after each strip of `STRIP` trips, so that LLVM sees a plain inner loop; any other long loop polls
    in each trip. A short loop does not poll, because LLVM does not unroll a loop that polls.

    Bounds may differ between lanes. If one of the two bounds is the same in all lanes, the lanes share the index: the
    loop runs from the least begin to the greatest end, and in each trip masks the lanes whose range does not hold the
    index. If both bounds differ, each lane counts from its own begin, and the loop makes as many trips as the lane with
    the most.
    """
    fn, steps, outer = b.fn, s.step != N.NO_ID, b.mask
    together = b.uniform(s.begin, s.end)
    if together:
        sign = "s" if s.index.type.kind == "i" and not steps else "u"
        wraps, step = "nsw " if sign == "s" else "nuw ", b.values[s.step] if steps else "1"
        over = Range(b.values[s.begin], b.values[s.end], sign, s.reverse, wraps, step)
        short = steps or not b.polls or _most_trips(b, s) <= STRIP
    else:
        over, short = _trips(b, s), False
    strips = together and not short and not any(find(s.body, N.Loop))
    inits = b.given(s.carried, s.inits)
    enter, done = fn.label("enter"), fn.label("done")
    fn.branch(fn.let(f"icmp {over.sign}lt {ty(s.index.type).text} {over.begin}, {over.end}"), enter, done)
    skipped = fn.block
    fn.start(enter)
    if strips:
        last, last_block = _strips(b, s, over, inits, done)
    else:
        last, last_block = _loop(b, s, over, inits, done, not short)
    b.mask = outer
    fn.start(done)
    for result, init, value in zip(s.results, inits, last, strict=True):
        phi = fn.phi(b.type_of_param(result), (init, skipped), (value, last_block))
        b.define(result.id, result.type, phi)


def _most_trips(b: Body, s: N.Stmt) -> float:
    """An upper bound for how many trips a loop and the loops inside make together, from the ranges of their bounds."""
    inner = sum(_most_trips(b, x) for block in s.blocks() for x in block)
    known = b.ranges.range(s.index.id) if isinstance(s, N.For) else None
    if isinstance(s, N.Loop):
        return (known[1] - known[0] + 1) * (1 + inner) if known is not None else inf
    return inner


def _loop(b: Body, s: N.For, over: Range, inits: Values, done: str, poll: bool) -> tuple[Values, str]:
    """Emits a loop over a range that is not empty, with the test at the bottom; it jumps to the label ``done`` when it
    ends. Returns the last carried values, and the label of the last block."""
    fn, t = b.fn, ty(s.index.type).text
    begin, end, sign, reverse, wraps = over.begin, over.end, over.sign, over.reverse, over.wraps
    start = fn.let(f"sub {wraps}{t} {end}, 1") if reverse else begin
    head = fn.label("for")
    (index, *phis), again = fn.cycle(head, (t, start), *_carried(b, s.carried, inits))
    b.bind((s.index, *s.carried), [index, *phis])
    if over.takes_part:
        b.mask = b.masked(b.mask, over.takes_part(index))
    nexts = _kept(b, s.carried, b.block(s.body, s.carried), not over.takes_part)
    if poll:
        b.poll()
    following = fn.let(f"add {t} {index}, -1" if reverse else f"add {wraps}{t} {index}, {over.step}")
    more = fn.let(f"icmp {sign}gt {t} {index}, {begin}" if reverse else f"icmp {sign}lt {t} {following}, {end}")
    again(following, *nexts)
    last = fn.block
    fn.branch(more, head, done)
    return nexts, last


def _strips(b: Body, s: N.For, over: Range, inits: Values, done: str) -> tuple[Values, str]:
    """Like `_loop`, in strips of at most `STRIP` iterations, with a poll after each strip."""
    fn, t = b.fn, ty(s.index.type).text
    begin, end, sign, reverse, wraps = over.begin, over.end, over.sign, over.reverse, over.wraps
    strip, latch = fn.label("strip"), fn.label("latch")
    (at, *outer), again = fn.cycle(strip, (t, end if reverse else begin), *_carried(b, s.carried, inits))
    left = fn.let(f"sub {t} {at}, {begin}" if reverse else f"sub {t} {end}, {at}")
    intrinsic = f"llvm.umin.{ty(s.index.type).suffix}"
    n = fn.call(t, intrinsic, (t, left), (t, str(min(STRIP, s.index.type.limits[1]))))
    edge = fn.let(f"{'sub' if reverse else 'add'} {wraps}{t} {at}, {n}")
    inner = replace(over, begin=edge, end=at) if reverse else replace(over, begin=at, end=edge)
    last, last_block = _loop(b, s, inner, tuple(outer), latch, poll=False)
    fn.start(latch)
    finals = tuple(fn.phi(b.type_of_param(p), (v, last_block)) for p, v in zip(s.carried, last, strict=True))
    b.poll()
    more = fn.let(f"icmp {sign}gt {t} {edge}, {begin}" if reverse else f"icmp {sign}lt {t} {edge}, {end}")
    again(edge, *finals)
    last_block = fn.block
    fn.branch(more, strip, done)
    return finals, last_block


def _trips(b: Body, s: N.For) -> Range:
    """The range that a loop runs over when its bounds differ between lanes."""
    t, fn = s.index.type, b.fn
    sign, v = "s" if t.kind == "i" else "u", ty(t, b.width).text
    least, most = t.limits

    def compared(how: str, x: str, y: str) -> str:
        return fn.let(f"icmp {how} {v} {x}, {y}")

    def before_end(trip: str) -> str:
        return compared(f"{sign}lt", b.splat(trip, t), b.vector(s.end))

    def from_begin(trip: str) -> str:
        return compared(f"{sign}ge", b.splat(trip, t), b.vector(s.begin))

    if b.uniform(s.begin):
        last = b.reduce(f"{sign}max", t, b.select(b.mask, b.vector(s.end), b.splat(str(least), t), t))
        return Range(b.values[s.begin], last, sign, s.reverse, takes_part=before_end)
    if b.uniform(s.end):
        first = b.reduce(f"{sign}min", t, b.select(b.mask, b.vector(s.begin), b.splat(str(most), t), t))
        return Range(first, b.values[s.end], sign, s.reverse, takes_part=from_begin)
    begins, ends = b.vector(s.begin), b.vector(s.end)
    some = b.masked(b.mask, compared(f"{sign}lt", begins, ends))
    trips = b.select(some, fn.let(f"sub {v} {ends}, {begins}"), "zeroinitializer", t)

    def own(trip: str) -> str:
        here = b.splat(trip, t)
        if s.reverse:
            before_last = fn.let(f"add {v} {here}, {b.splat('1', t)}")
            b.values[s.index.id] = fn.let(f"sub {v} {ends}, {before_last}")
        else:
            b.values[s.index.id] = fn.let(f"add {v} {begins}, {here}")
        return compared("ult", here, trips)

    return Range("0", b.reduce("umax", t, trips), "u", False, takes_part=own)


# --- what loops carry -------------------------------------------------------------------------------------------


def _carried(b: Body, params: tuple[N.Param, ...], inits: Values) -> list[tuple[str, str]]:
    """The LLVM type and the first value of each carried parameter, for `Function.cycle`."""
    return [*zip(map(b.type_of_param, params), inits, strict=True)]
