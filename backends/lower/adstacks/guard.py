"""The one comparison of depths with capacities, between forward slice and reverse."""

from __future__ import annotations

from collections.abc import Callable

from quadrants_lab.backends.lower.adstacks import counters
from quadrants_lab.backends.lower.adstacks.stack import Stack, Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u32
from quadrants_lab.ir.walk import walk


def lower(t: Task, s: N.AdStackGuard, block: Callable[[N.Block], N.Block]) -> None:
    """``block`` lowers a block."""
    b = t.b
    stored = [st for st in t.stacks.values() if st.slots is not None]
    depths = [counters.count(t, st) for st in stored]
    over = [b.op("gt", n, st.capacity) for n, st in zip(depths, stored, strict=True)]
    any_over = over[0] if over else N.NO_ID
    for o in over[1:]:
        any_over = b.op("or", any_over, o)
    with b.block() as report:
        if over:
            _report(t, stored, over, depths)
        b.yield_()
    # a segment of a checkpointed loop pushes in the reverse, and is only checked by the guard behind it
    outer, t.guarded = t.guarded, not any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    body = block(s.body)
    t.guarded = outer
    b.span, b.adjoint_of = s.span, s.adjoint_of
    if over:
        b.add(N.If(s.id, any_over, tuple(report), body, ()))
    else:
        b.stmts += body[:-1]


def _report(t: Task, stored: list[Stack], over: list[int], depths: list[int]) -> None:
    """Names the last stack that is over its capacity."""
    b = t.b
    which, deep = b.const(stored[0].number, u32), depths[0]
    for st, o, n in zip(stored[1:], over[1:], depths[1:], strict=True):
        which = b.op("select", o, b.const(st.number, u32), which)
        deep = b.op("select", o, n, deep)
    b.add(N.Overflow(b.fresh(), which, deep))
