"""Structured control flow as branches and phis."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from quadrants_lab.backends._llvm.text import ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.body import Body

Values = tuple[str, ...]  # the texts of values
STRIP = 16384  # iterations of an innermost loop between two polls of the cancel flag


def if_(b: Body, s: N.If) -> None:
    fn = b.fn
    then, orelse, join = fn.label("then"), fn.label("else"), fn.label("join")
    fn.branch(b.values[s.cond], then, orelse)
    arms: list[list[tuple[str, str]]] = []  # of each, its values, with the block that they come from
    for label, block in ((then, s.then), (orelse, s.orelse)):
        fn.start(label)
        values = b.block(block, s.results)
        arms.append([(v, fn.block) for v in values])
        fn.jump(b.exit if isinstance(block[-2:][0], N.ThreadExit) else join)
    fn.start(join)
    for result, *incoming in zip(s.results, *arms, strict=True):
        b.define(result.id, result.type, fn.phi(b.type_of_param(result).text, *incoming))


def while_(b: Body, s: N.While) -> None:
    """An innermost loop polls the cancel flag once in `STRIP` trips, since to count trips is cheaper than a poll."""
    fn = b.fn
    head, body, done = fn.label("while"), fn.label("do"), fn.label("done")
    inits = b.given(s.carried, s.inits)
    before = fn.block
    fn.jump(head)
    fn.start(head)
    phis = open_phis(b, s.carried)
    rarely = b.polls and not any(isinstance(x, N.Loop) for x in walk((*s.cond, *s.body)))
    left, left_line = fn.hole() if rarely else ("", 0)
    (cond,) = b.block(s.cond)
    fn.branch(cond, body, done)
    fn.start(body)
    nexts = b.block(s.body, s.carried)
    if rarely:
        again = _poll_rarely(b, left)
        fn.patch(left_line, f"{left} = phi i32 [{STRIP}, %{before}], [{again}, %{fn.block}]")
    else:
        b.poll()
    close_phis(b, s.carried, phis, inits, before, nexts, fn.block)
    fn.jump(head)
    fn.start(done)
    for result, param in zip(s.results, s.carried, strict=True):
        b.define(result.id, result.type, b.values[param.id])


def _poll_rarely(b: Body, left: str) -> str:
    """Polls where ``left`` trips are the last one of a strip; the number of trips that are left then."""
    fn = b.fn
    fewer = fn.let(f"sub i32 {left}, 1")
    look, on, counted = fn.label("look"), fn.label("on"), fn.block
    fn.branch(fn.let(f"icmp eq i32 {fewer}, 0"), look, on)
    fn.start(look)
    b.poll()
    polled = fn.block
    fn.jump(on)
    fn.start(on)
    return fn.phi("i32", (fewer, counted), (str(STRIP), polled))


class Range(NamedTuple):
    """What a loop counts through. ``sign`` is "s" or "u", as its numbers compare; ``wraps``: flags of its additions."""

    begin: str
    end: str
    sign: str
    reverse: bool
    wraps: str = ""
    step: str = "1"


def for_(b: Body, s: N.For) -> None:
    """A loop that may run long polls the cancel flag: one that holds loops does so on each trip, an innermost one runs
    in strips, so that LLVM sees a plain inner loop. A short one with polls in it would not be unrolled."""
    steps = s.step != N.NO_ID
    sign = "s" if s.index.type.kind == "i" and not steps else "u"
    short = steps or not b.polls or _most_trips(b, s) <= STRIP

    def enter(index: str) -> None:
        b.define(s.index.id, s.index.type, index)

    def trips(over: Range, inits: Values, done: str) -> tuple[Values, str]:
        if not short and not any(isinstance(x, N.Loop) for x in walk(s.body)):
            return _strips(b, s, over, inits, done, enter)
        return loop(b, s, over, inits, done, enter, not short)

    wraps, step = "nsw " if sign == "s" else "nuw ", b.values[s.step] if steps else "1"
    guarded(b, s, Range(b.values[s.begin], b.values[s.end], sign, s.reverse, wraps, step), trips)


def _most_trips(b: Body, s: N.Stmt) -> float:
    """The most trips that a loop and the loops in it make together, as far as the ranges of their indices tell."""
    inner = sum(_most_trips(b, x) for block in s.blocks() for x in block)
    known = b.ranges.range(s.index.id) if isinstance(s, N.For) else None
    if isinstance(s, N.Loop):
        return (known[1] - known[0] + 1) * (1 + inner) if known is not None else inf
    return inner


def guarded(b: Body, s: N.For, over: Range, trips: Callable[[Range, Values, str], tuple[Values, str]]) -> None:
    """Runs a loop where its range is not empty. ``trips`` emits it: it takes the range, the carried values and the
    label to jump to, and returns the carried values behind the loop and the label of its last block."""
    fn = b.fn
    inits = b.given(s.carried, s.inits)
    enter, done = fn.label("enter"), fn.label("done")
    fn.branch(fn.let(f"icmp {over.sign}lt {ty(s.index.type).text} {over.begin}, {over.end}"), enter, done)
    skipped = fn.block
    fn.start(enter)
    last, last_block = trips(over, inits, done)
    fn.start(done)
    for result, init, value in zip(s.results, inits, last, strict=True):
        phi = fn.phi(b.type_of_param(result).text, (init, skipped), (value, last_block))
        b.define(result.id, result.type, phi)


def loop(
    b: Body, s: N.For, over: Range, inits: Values, done: str, enter: Callable[[str], None], poll: bool = True,
    keep: Callable[[Values], Values] = lambda nexts: nexts,
) -> tuple[Values, str]:  # fmt: skip
    """A loop with its test at the bottom over a range that is not empty; it ends as `guarded` says. ``enter`` gets the
    index at the start of a trip, ``keep`` makes the next carried values of those that the body yields."""
    fn, t = b.fn, ty(s.index.type).text
    begin, end, sign, reverse, wraps, step = over
    start = fn.let(f"sub {wraps}{t} {end}, 1") if reverse else begin
    head, before = fn.label("for"), fn.block
    fn.jump(head)
    fn.start(head)
    index, at = fn.hole()
    phis = open_phis(b, s.carried)
    enter(index)
    nexts = keep(b.block(s.body, s.carried))
    if poll:
        b.poll()
    following = fn.let(f"add {t} {index}, -1" if reverse else f"add {wraps}{t} {index}, {step}")
    more = fn.let(f"icmp {sign}gt {t} {index}, {begin}" if reverse else f"icmp {sign}lt {t} {following}, {end}")
    fn.patch(at, f"{index} = phi {t} [{start}, %{before}], [{following}, %{fn.block}]")
    close_phis(b, s.carried, phis, inits, before, nexts, fn.block)
    last = fn.block
    fn.branch(more, head, done)
    return nexts, last


def _strips(
    b: Body, s: N.For, over: Range, inits: Values, done: str, enter: Callable[[str], None]
) -> tuple[Values, str]:
    """As `loop`, in strips of at most `STRIP` iterations, with a poll behind each strip."""
    fn, t = b.fn, ty(s.index.type).text
    begin, end, sign, reverse, wraps, _ = over
    strip, latch = fn.label("strip"), fn.label("latch")
    before = fn.block
    fn.jump(strip)
    fn.start(strip)
    at, at_line = fn.hole()
    outer = [fn.hole() for _ in s.carried]
    left = fn.let(f"sub {t} {at}, {begin}" if reverse else f"sub {t} {end}, {at}")
    intrinsic = f"llvm.umin.{ty(s.index.type).suffix}"
    n = fn.call(t, intrinsic, (t, left), (t, str(min(STRIP, s.index.type.limits[1]))))
    edge = fn.let(f"{'sub' if reverse else 'add'} {wraps}{t} {at}, {n}")
    inner = over._replace(begin=edge, end=at) if reverse else over._replace(begin=at, end=edge)
    last, last_block = loop(b, s, inner, tuple(v for v, _ in outer), latch, enter, poll=False)
    fn.start(latch)
    finals = tuple(fn.phi(b.type_of_param(p).text, (v, last_block)) for p, v in zip(s.carried, last, strict=True))
    b.poll()
    more = fn.let(f"icmp {sign}gt {t} {edge}, {begin}" if reverse else f"icmp {sign}lt {t} {edge}, {end}")
    fn.patch(at_line, f"{at} = phi {t} [{end if reverse else begin}, %{before}], [{edge}, %{fn.block}]")
    for (name, line), init, final, p in zip(outer, inits, finals, s.carried, strict=True):
        fn.patch(line, f"{name} = phi {b.type_of_param(p).text} [{init}, %{before}], [{final}, %{fn.block}]")
    last_block = fn.block
    fn.branch(more, strip, done)
    return finals, last_block


def open_phis(b: Body, params: tuple[N.Param, ...]) -> list[int]:
    """Reserves a phi for each value that a loop carries. Returns their lines, for `close_phis`."""
    lines = []
    for p in params:
        name, line = b.fn.hole()
        b.define(p.id, p.type, name)
        lines.append(line)
    return lines


def close_phis(
    b: Body, params: tuple[N.Param, ...], lines: list[int], inits: Values, before: str, nexts: Values, latch: str
) -> None:
    """Writes the reserved phis: values come from the block ``before`` the loop and from its ``latch``."""
    for p, line, init, value in zip(params, lines, inits, nexts, strict=True):
        name = b.values[p.id]
        b.fn.patch(line, f"{name} = phi {b.type_of_param(p).text} [{init}, %{before}], [{value}, %{latch}]")
