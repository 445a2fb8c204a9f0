"""Control flow: the structured statements are SPIR-V's structured control flow, carried values and results its phis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Function
    from quadrants_lab.backends._spirv.body import Body


def if_(b: Body, s: N.If) -> None:
    fn = b.fn
    then, orelse, join = fn.label(), fn.label(), fn.label()
    empty = len(s.orelse) == 1 and not s.results
    before = fn.block
    fn.branch(b.values[s.cond], then, join if empty else orelse, join)
    ways: list[tuple[tuple[int, ...], int]] = []
    for label, block in ((then, s.then), (orelse, s.orelse)):
        if label == orelse and empty:
            ways.append(((), before))
            continue
        fn.start(label)
        values = b.block(block)
        ways.append((values, fn.block))
        fn.jump(join)
    fn.start(join)
    (v0, from0), (v1, from1) = ways
    for k, r in enumerate(s.results):
        b.define(r.id, r.type, fn.phi(b.m.type(r.type), (v0[k], from0), (v1[k], from1)))


Carried = list[tuple[DType, int]]  # dtype and first value


def loop(
    fn: Function,
    carried: Carried,
    test: Callable[[tuple[int, ...]], int],
    body: Callable[[tuple[int, ...]], tuple[int, ...]],
) -> tuple[int, ...]:
    """While ``test`` of the carried values holds, ``body`` makes the next ones. Returns the last ones."""
    header, into, more, after = fn.label(), fn.label(), fn.label(), fn.label()
    before = fn.block
    fn.jump(header)
    fn.start(header)
    phis = [fn.open_phi(fn.module.type(t), first, before) for t, first in carried]
    values = tuple(id for id, _ in phis)
    start = fn.label()
    fn.put("LoopMerge", after, more, 0)
    fn.jump(start)
    fn.start(start)
    fn.branch(test(values), into, after)
    fn.start(into)
    nexts = body(values)
    fn.jump(more)
    fn.start(more)
    for (_, phi), value in zip(phis, nexts, strict=True):
        phi += [value, more]
    fn.jump(header)
    fn.start(after)
    return values


def while_(b: Body, s: N.While) -> None:
    def bind(values: tuple[int, ...]) -> int:
        for p, v in zip(s.carried, values, strict=True):
            b.define(p.id, p.type, v)
        (cond,) = b.block(s.cond)
        return cond

    carried = [(p.type, b.values[i]) for p, i in zip(s.carried, s.inits, strict=True)]
    last = loop(b.fn, carried, bind, lambda values: b.block(s.body))
    for r, v in zip(s.results, last, strict=True):
        b.define(r.id, r.type, v)


def for_(b: Body, s: N.For) -> None:
    """Forwards the counter is the index; backwards it is one more, so that it never passes the least number."""
    fn, t = b.fn, s.index.type
    begin, end = b.values[s.begin], b.values[s.end]
    one = b.m.const(t, 1)
    less = "SLessThan" if t.kind == "i" else "ULessThan"

    def test(values: tuple[int, ...]) -> int:
        return fn.let(less, b.m.bool, begin, values[0]) if s.reverse else fn.let(less, b.m.bool, values[0], end)

    def body(values: tuple[int, ...]) -> tuple[int, ...]:
        index = fn.let("ISub", b.m.type(t), values[0], one) if s.reverse else values[0]
        b.define(s.index.id, t, index)
        for p, v in zip(s.carried, values[1:], strict=True):
            b.define(p.id, p.type, v)
        nexts = b.block(s.body)
        return (index if s.reverse else fn.let("IAdd", b.m.type(t), index, one), *nexts)

    carried = [(t, end if s.reverse else begin)]
    carried += [(p.type, b.values[i]) for p, i in zip(s.carried, s.inits, strict=True)]
    last = loop(fn, carried, test, body)
    for r, v in zip(s.results, last[1:], strict=True):
        b.define(r.id, r.type, v)
