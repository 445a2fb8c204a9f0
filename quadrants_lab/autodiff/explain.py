"""Explains in words, with line numbers, why a value has a stack or has none."""

import ast
from collections.abc import Set
from dataclasses import dataclass

from quadrants_lab.autodiff.checkpointing import Demand, StashPlan
from quadrants_lab.autodiff.reverse import plans
from quadrants_lab.autodiff.scopes import Scopes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find, reached, walk


@dataclass(frozen=True, slots=True)
class Note:
    """Whether a value that the loop at ``line`` carries has a stack, and why."""

    name: str
    line: int
    dtype: str
    stacked: bool
    why: str


_ADDED = frozenset(("trips", "group", "segment", "live", "row"))  # names of values that passes add


def added_names(function: ast.AST) -> Set[str]:
    """Names of values that passes add, without the names that the function itself uses."""
    return _ADDED - {x.id for x in ast.walk(function) if isinstance(x, ast.Name)}


def unstacked(forward: N.Kernel, function: ast.AST) -> list[Note]:
    """The notes about the function's values that have no stack."""
    added = added_names(function)
    return [note for note in explain(forward) if not note.stacked and note.name not in added]


def explain(forward: N.Kernel) -> list[Note]:
    """One note for each loop-carried value of the loops of an offloaded forward kernel that have an adjoint."""
    notes: list[Note] = []
    for task, _, plan, active in plans(forward):
        for stmt in find(task.body, N.Loop):
            if stmt.id not in plan.reversed:
                continue
            for p in stmt.carried:
                if not p.name or p is stmt.counter:
                    continue
                line = stmt.span.line if stmt.span else 0
                notes.append(Note(p.name, line, p.type.name, p.id in plan.stash, _why(p, stmt, plan, active)))
    return notes


@dataclass(frozen=True, slots=True)
class Kept:
    """Why a value has a stack. ``uses`` has everything that needs the value, in program order, and ``choice`` says why
    the value is not recomputed."""

    uses: list[str]
    choice: str


def on_stacks(forward: N.Kernel) -> dict[int, Kept]:
    """The values that have a stack, by id."""
    return {
        v: Kept(list(dict.fromkeys(map(_reason, plan.uses(v)))), _choice(v, scopes, plan))
        for _, scopes, plan, _ in plans(forward)
        for v in plan.stash
    }


def _choice(v: int, scopes: Scopes, plan: StashPlan) -> str:
    """Why the minimum cut chose this value rather than the values from which it could be computed again."""
    if plan.graph.get(v) is None:
        if isinstance(scopes.defs[v], N.Loop):
            return "its loop hands it on from trip to trip, so only the whole loop could compute it again"
        if scopes.defs[v].loads:
            return "it is read from memory that the kernel writes, so it may not be there any more"
        return "what made it, a branch, the check of an index or an atomic operation, is not run again"
    cone = reached([v], lambda a: [x for x in plan.graph[a] or () if x in plan.graph])
    last = [a for a in cone if plan.graph[a] is None]
    names = ", ".join(scopes.names[a] or f"%{a}" for a in last)
    width = sum(scopes.types[a].nbytes for a in last)
    inner = max(scopes.of[a].loops for a in last) > scopes.of[v].loops if last else False
    where = ", in every trip of an inner loop" if inner else ""
    return f"to compute it again {names} would be kept: {width} bytes a time{where}; it takes {scopes.types[v].nbytes}"


def _reason(d: Demand) -> str:
    return d.why + (f" at line {d.by.span.line}" if d.by.span else "")


def _why(p: N.Param, loop: N.Loop, plan: StashPlan, active: set[int]) -> str:
    if p.id in plan.stash:
        return _reason(plan.demand[p.id])
    if p.id in plan.recompute:
        return "the reverse computes it again from values at hand"
    if p.id in active:
        if inner := _handed_to(p, loop):
            return f"it is only handed on to the loop at line {inner}, which says what is kept of it"
        return "every use of it in the loop is linear: no derivative reads its value"
    return "no derivative flows through it and the reverse does not read it"


def _handed_to(p: N.Param, loop: N.Loop) -> int:
    """The line of the inner loop to which ``loop`` hands the value, if nothing else in its body reads the value; else
    0."""
    users = [s for s in walk(loop.body) if p.id in s.operands()]
    if len(users) != 1 or not isinstance(users[0], N.Loop):
        return 0
    (inner,) = users
    return inner.span.line if p.id not in inner.deciding() and inner.span else 0
