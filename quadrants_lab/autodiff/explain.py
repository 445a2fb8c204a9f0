"""Why a carried value has a stack, or has none: in words that name the line."""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.autodiff.activity import active_values
from quadrants_lab.autodiff.checkpointing import Demand, StashPlan
from quadrants_lab.autodiff.prepare import prepared
from quadrants_lab.autodiff.reverse import plan_task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


@dataclass(frozen=True, slots=True)
class Note:
    """``line``: of the loop that carries the value; ``stacked``: whether it has a stack."""

    name: str
    line: int
    dtype: str
    stacked: bool
    why: str


def explain(forward: N.Kernel) -> list[Note]:
    """One note for each value that an offloaded forward kernel carries around a loop which is reversed."""
    kernel = prepared(forward)
    active = active_values(kernel)
    notes: list[Note] = []
    for task in kernel.tasks:
        _, plan = plan_task(kernel, task, active)
        for stmt in walk(task.body):
            if not isinstance(stmt, N.Loop) or stmt.id not in plan.reversed:
                continue
            for p in stmt.carried:
                if not p.name or (isinstance(stmt, N.While) and p is stmt.carried[-1]):
                    continue
                line = stmt.span.line if stmt.span else 0
                notes.append(Note(p.name, line, p.type.name, p.id in plan.stash, _why(p, stmt, plan, active)))
    return notes


def uses(forward: N.Kernel) -> dict[int, list[str]]:
    """For each value that has a stack everything that needs it, in program order, by the value's id."""
    kernel = prepared(forward)
    active = active_values(kernel)
    found: dict[int, list[str]] = {}
    for task in kernel.tasks:
        _, plan = plan_task(kernel, task, active)
        for v in plan.stash:
            found[v] = list(dict.fromkeys(map(_said, plan.uses(v))))
    return found


def _said(d: Demand) -> str:
    return d.why + (f" at line {d.by.span.line}" if d.by.span else "")


def _why(p: N.Param, loop: N.Loop, plan: StashPlan, active: set[int]) -> str:
    if p.id in plan.stash:
        return _said(plan.demand[p.id])
    if p.id in plan.recompute:
        return "the reverse computes it again from values at hand"
    if p.id in active:
        if inner := _handed_to(p, loop):
            return f"it is only handed on to the loop at line {inner}, which says what is kept of it"
        return "every use of it in the loop is linear: no derivative reads its value"
    return "no derivative flows through it and the reverse does not read it"


def _handed_to(p: N.Param, loop: N.Loop) -> int:
    """The line of the inner loop that starts from the value, where nothing else in the body reads it; else 0."""
    users = [s for s in walk(loop.body) if p.id in s.operands()]
    if len(users) != 1 or not isinstance(users[0], N.Loop):
        return 0
    (inner,) = users
    bounds = (inner.begin, inner.end) if isinstance(inner, N.For) else ()
    return inner.span.line if p.id not in bounds and inner.span else 0
