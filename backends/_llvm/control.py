"""Control flow: the one place where a condition steers what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm.text import ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.body import Body

STRIP = 16384  # iterations of an innermost loop between two looks at the cancel flag


def if_(b: Body, s: N.If) -> None:
    fn = b.fn
    then, orelse, join = fn.label("then"), fn.label("else"), fn.label("join")
    fn.branch(b.values[s.cond], then, orelse)
    ways: list[tuple[tuple[str, ...], str]] = []
    for label, block in ((then, s.then), (orelse, s.orelse)):
        fn.start(label)
        values = b.block(block, s.results)
        ways.append((values, fn.block))
        fn.jump(b.exit if isinstance(block[-2:][0], N.Leave) else join)
    fn.start(join)
    (v0, from0), (v1, from1) = ways
    for k, result in enumerate(s.results):
        value = fn.phi(b.type_of_param(result).text, (v0[k], from0), (v1[k], from1))
        b.define(result.id, result.type, value)


def while_(b: Body, s: N.While) -> None:
    fn = b.fn
    head, body, done = fn.label("while"), fn.label("do"), fn.label("done")
    inits = b.given(s.carried, s.inits)
    before = fn.block
    fn.jump(head)
    fn.start(head)
    phis = open_phis(b, s.carried)
    (cond,) = b.block(s.cond)
    fn.branch(cond, body, done)
    fn.start(body)
    nexts = b.block(s.body, s.carried)
    b.poll()
    close_phis(b, s.carried, phis, inits, before, nexts, fn.block)
    fn.jump(head)
    fn.start(done)
    for result, param in zip(s.results, s.carried, strict=True):
        b.define(result.id, result.type, b.values[param.id])


def for_(b: Body, s: N.For) -> None:
    """Loops test at the bottom, behind one guard. A loop that may run long is left when the launch is cancelled: one
    that holds loops looks at the flag each time round, an innermost one runs in strips, so that LLVM sees a plain
    inner loop."""
    fn, t = b.fn, ty(s.index.type).text
    begin, end = b.values[s.begin], b.values[s.end]
    known = b.ranges.range(s.index.id)
    signed = "s" if s.index.type.kind == "i" and s.step == N.NO_ID else "u"
    short = (known is not None and known[1] - known[0] < STRIP) or s.step != N.NO_ID
    leaf = not any(isinstance(x, N.Loop) for x in walk(s.body))
    inits = b.given(s.carried, s.inits)

    enter, done = fn.label("enter"), fn.label("done")
    fn.branch(fn.let(f"icmp {signed}lt {t} {begin}, {end}"), enter, done)
    skipped = fn.block
    fn.start(enter)
    if b.polls and leaf and not short:
        last, last_block = _strips(b, s, begin, end, inits, done)
    else:
        last, last_block = _plain_loop(b, s, begin, end, inits, poll=not short or not leaf, done=done)
    fn.start(done)
    for k, result in enumerate(s.results):
        value = fn.phi(b.type_of_param(result).text, (inits[k], skipped), (last[k], last_block))
        b.define(result.id, result.type, value)


def _plain_loop(
    b: Body, s: N.For, begin: str, end: str, inits: tuple[str, ...], poll: bool, done: str
) -> tuple[tuple[str, ...], str]:
    """One loop over a range that is not empty, leaving to ``done``; returns the carried values and the last block."""
    fn, t = b.fn, ty(s.index.type).text
    signed = "s" if s.index.type.kind == "i" and s.step == N.NO_ID else "u"
    wraps = "nsw" if signed == "s" else "nuw"
    start = fn.let(f"sub {wraps} {t} {end}, 1") if s.reverse else begin
    loop, before = fn.label("for"), fn.block
    fn.jump(loop)
    fn.start(loop)
    index, at = fn.hole()
    b.define(s.index.id, s.index.type, index)
    phis = open_phis(b, s.carried)
    nexts = b.block(s.body, s.carried)
    if poll:
        b.poll()
    if s.reverse:
        step = fn.let(f"add {t} {index}, -1")
        more = fn.let(f"icmp {signed}gt {t} {index}, {begin}")
    else:
        step = fn.let(f"add {wraps} {t} {index}, {1 if s.step == N.NO_ID else b.values[s.step]}")
        more = fn.let(f"icmp {signed}lt {t} {step}, {end}")
    fn.patch(at, f"{index} = phi {t} [{start}, %{before}], [{step}, %{fn.block}]")
    close_phis(b, s.carried, phis, inits, before, nexts, fn.block)
    last = fn.block
    fn.branch(more, loop, done)
    return nexts, last


def _strips(
    b: Body, s: N.For, begin: str, end: str, inits: tuple[str, ...], done: str
) -> tuple[tuple[str, ...], str]:
    """As `_plain_loop`, in strips of at most STRIP iterations with a look at the cancel flag after each."""
    fn, t = b.fn, ty(s.index.type).text
    signed = "s" if s.index.type.kind == "i" else "u"
    wraps = "nsw" if signed == "s" else "nuw"
    strip, latch = fn.label("strip"), fn.label("latch")
    before = fn.block
    fn.jump(strip)
    fn.start(strip)
    at, at_line = fn.hole()
    outer = [fn.hole() for _ in s.carried]
    left = fn.let(f"sub {t} {at}, {begin}" if s.reverse else f"sub {t} {end}, {at}")
    intrinsic = f"llvm.umin.{ty(s.index.type).suffix}"
    n = fn.call(t, intrinsic, (t, left), (t, str(min(STRIP, s.index.type.limits[1]))))
    edge = fn.let(f"sub {wraps} {t} {at}, {n}" if s.reverse else f"add {wraps} {t} {at}, {n}")
    low, high = (edge, at) if s.reverse else (at, edge)
    last, last_block = _plain_loop(b, s, low, high, tuple(v for v, _ in outer), poll=False, done=latch)
    fn.start(latch)
    finals = [fn.phi(b.type_of_param(p).text, (v, last_block)) for p, v in zip(s.carried, last, strict=True)]
    b.poll()
    more = fn.let(
        f"icmp {signed}gt {t} {edge}, {begin}" if s.reverse else f"icmp {signed}lt {t} {edge}, {end}"
    )
    start = end if s.reverse else begin
    fn.patch(at_line, f"{at} = phi {t} [{start}, %{before}], [{edge}, %{fn.block}]")
    for (name, line), init, final, p in zip(outer, inits, finals, s.carried, strict=True):
        fn.patch(line, f"{name} = phi {b.type_of_param(p).text} [{init}, %{before}], [{final}, %{fn.block}]")
    last_block = fn.block
    fn.branch(more, strip, done)
    return tuple(finals), last_block


def open_phis(b: Body, params: tuple[N.Param, ...]) -> list[int]:
    lines = []
    for p in params:
        name, line = b.fn.hole()
        b.define(p.id, p.type, name)
        lines.append(line)
    return lines


def close_phis(
    b: Body, params: tuple[N.Param, ...], lines: list[int], inits: tuple[str, ...], before: str,
    nexts: tuple[str, ...], latch: str,
) -> None:  # fmt: skip
    for p, line, init, value in zip(params, lines, inits, nexts, strict=True):
        name = b.values[p.id]
        b.fn.patch(line, f"{name} = phi {b.type_of_param(p).text} [{init}, %{before}], [{value}, %{latch}]")
