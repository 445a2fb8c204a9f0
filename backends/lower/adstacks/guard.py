"""The comparison of depths with capacities: between forward slice and reverse, or ahead of the first loop that pushes
where the ends of the loops already tell how much will be pushed."""

from __future__ import annotations

from collections.abc import Callable

from quadrants_lab.backends.lower.adstacks import depths
from quadrants_lab.backends.lower.adstacks.stack import Stack, Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u32
from quadrants_lab.ir.walk import walk

Lower = Callable[[N.Block], N.Block]  # lowers a block


def _checked(t: Task) -> list[Stack]:
    """One stack for each counter."""
    return [st for st in t.stacks.values() if st.slots is not None and st.lead is st]


def lower(t: Task, s: N.AdStackGuard, block: Lower) -> None:
    b, stored = t.b, [] if t.early_check else _checked(t)
    over = [depths.exceeds(t, st) for st in stored]
    # a segment of a checkpointed loop pushes in the reverse, which only the guard behind it checks
    outer, t.guarded = t.guarded, not any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    body = block(s.body)
    t.guarded = outer
    b.span, b.adjoint_of = s.span, s.adjoint_of
    if over:
        _unless(t, s.id, stored, over, body)
    else:
        b.stmts += body[:-1]


def lower_early(t: Task, rest: N.Block, block: Lower) -> None:
    """Lowers the ``rest`` of a task's body, from the first loop that pushes on, under the condition that all stacks
    will fit."""
    b, stored = t.b, _checked(t)
    assert t.early_check is not None
    guard = t.early_check.guard
    b.span, b.adjoint_of = guard.span, guard.adjoint_of
    over = [depths.exceeds(t, st) for st in stored]
    outer, t.guarded = t.guarded, True
    body = block(rest)
    t.guarded = outer
    b.span, b.adjoint_of = guard.span, guard.adjoint_of
    _unless(t, guard.id, stored, over, body)
    b.yield_()


def _unless(t: Task, id: int, stored: list[Stack], over: list[int], body: N.Block) -> None:
    """Runs the ``body`` where no stack is ``over`` its capacity, else reports the last one that is."""
    b = t.b
    any_over = over[0]
    for o in over[1:]:
        any_over = b.op("or", any_over, o)
    with b.block() as report:
        which, deep = b.const(stored[0].number, u32), depths.exceeding(t, stored[0])
        for st, o in zip(stored[1:], over[1:], strict=True):
            which = b.op("select", o, b.const(st.number, u32), which)
            deep = b.op("select", o, depths.exceeding(t, st), deep)
        b.add(N.Overflow(b.fresh(), which, deep))
        b.yield_()
    b.add(N.If(id, any_over, tuple(report), body, ()))
