"""Emits the IR's ifs and loops as SPIR-V's structured control flow; results and loop-carried values become phis."""

from collections.abc import Callable

from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, i32


def if_(b: Body, s: N.If) -> None:
    fn = b.fn
    then, orelse, join = fn.label(), fn.label(), fn.label()
    then, orelse = (x if len(arm) > 1 or s.results else join for x, arm in ((then, s.then), (orelse, s.orelse)))
    before = fn.block
    fn.branch(b.values[s.cond], then, orelse, join)
    incoming: list[tuple[tuple[int, ...], int]] = []
    for label, block in ((then, s.then), (orelse, s.orelse)):
        if label == join:
            incoming.append(((), before))
            continue
        fn.start(label)
        incoming.append((b.block(block), fn.block))
        if isinstance(block[-2:][0], N.ThreadExit):
            fn.put("Return")
        else:
            fn.jump(join)
    fn.start(join)
    (v0, from0), (v1, from1) = incoming
    for k, r in enumerate(s.results):
        b.define(r.id, r.type, fn.phi(b.m.type(r.type), (v0[k], from0), (v1[k], from1)))


Carried = list[tuple[DType, int]]  # (dtype, initial value) of each carried value
Values = tuple[int, ...]


def loop(
    fn: Function, carried: Carried, test: Callable[[Values], int], body: Callable[[Values], Values],
    unfinished: Callable[[Values], int] | None = None,
) -> Values:  # fmt: skip
    """Emits a loop: while ``test`` of the carried values holds, ``body`` computes the next values. Returns the last
    values.

    ``unfinished`` computes from the last values whether the driver has ended the loop too early. It must be written
    differently from ``test``, because Mesa assumes that ``test`` is false after the loop.
    """
    header, into, more, after = fn.label(), fn.label(), fn.label(), fn.label()
    before = fn.block
    fn.enter(header)
    phis = [fn.put("Phi", fn.module.type(t), fn.module.fresh(), first, before) for t, first in carried]
    values = tuple(phi[2] for phi in phis)
    start = fn.label()
    fn.put("LoopMerge", after, more, 0)
    fn.enter(start)
    fn.branch(test(values), into, after)
    fn.start(into)
    nexts = body(values)
    fn.enter(more)
    for phi, value in zip(phis, nexts, strict=True):
        phi += [value, more]  # the operands that come from the end of the loop
    fn.jump(header)
    fn.start(after)
    if fn.module.target.cuts_loops and unfinished is not None:
        fn.note_cut(unfinished(values))
    return values


def while_(b: Body, s: N.While) -> None:
    carried = [(p.type, b.values[i]) for p, i in zip(s.carried, s.inits, strict=True)]
    if b.m.target.cuts_loops:
        last = _watched_while(b, s, carried)
    else:
        last = loop(b.fn, carried, lambda values: _bind(b, s, values), lambda values: b.block(s.body))
    b.bind(s.results, last)


def _bind(b: Body, s: N.While, values: Values) -> int:
    """Sets the carried values to ``values`` and emits the loop's condition."""
    b.bind(s.carried, values)
    (cond,) = b.block(s.cond)
    return cond


def _watched_while(b: Body, s: N.While, carried: Carried) -> Values:
    """Emits a While for drivers that cut loops. The result of the condition is a carried value, so the loop takes one
    more trip after the condition fails."""
    fn, m, zero = b.fn, b.m, b.m.const(i32, 0)

    def body(values: Values) -> Values:
        cond = _bind(b, s, values[1:])
        do, join, before = fn.label(), fn.label(), fn.block
        fn.branch(cond, do, join, join)
        fn.start(do)
        nexts = b.block(s.body)
        last = fn.block
        fn.enter(join)
        kept = zip(carried, nexts, values[1:], strict=True)
        merged = [fn.phi(m.type(t), (new, last), (old, before)) for (t, _), new, old in kept]
        return (fn.let("Select", m.type(i32), cond, m.const(i32, 1), zero), *merged)

    def test(values: Values) -> int:
        return fn.let("INotEqual", m.bool, values[0], zero)

    def unfinished(values: Values) -> int:
        return fn.let("SLessThan", m.bool, zero, values[0])

    return loop(fn, [(i32, m.const(i32, 1)), *carried], test, body, unfinished)[1:]


def for_(b: Body, s: N.For) -> None:
    """Emits a loop. The carried counter is the index; in a reversed loop it is the index plus one, so that it never
    underflows."""
    fn, t = b.fn, s.index.type
    begin, end = b.values[s.begin], b.values[s.end]
    one = b.m.const(t, 1) if s.step == N.NO_ID else b.values[s.step]
    less = "SLessThan" if t.kind == "i" else "ULessThan"

    def sides(values: Values) -> tuple[int, int]:
        return (begin, values[0]) if s.reverse else (values[0], end)

    def body(values: Values) -> Values:
        index = fn.let("ISub", b.m.type(t), values[0], one) if s.reverse else values[0]
        b.define(s.index.id, t, index)
        b.bind(s.carried, values[1:])
        nexts = b.block(s.body)
        return (index if s.reverse else fn.let("IAdd", b.m.type(t), index, one), *nexts)

    carried = [(t, end if s.reverse else begin)]
    carried += [(p.type, b.values[i]) for p, i in zip(s.carried, s.inits, strict=True)]
    # an empty range is never unfinished, even if its begin is greater than its end
    some = fn.let(less, b.m.bool, begin, end) if b.m.target.cuts_loops else 0

    def unfinished(values: Values) -> int:
        less = fn.let("ISub", b.m.type(t), *sides(values))  # written differently from the test: see `loop`
        return fn.let("LogicalAnd", b.m.bool, some, fn.let("SLessThan", b.m.bool, less, b.m.const(t, 0)))

    last = loop(fn, carried, lambda values: fn.let(less, b.m.bool, *sides(values)), body, unfinished)
    b.bind(s.results, last[1:])
