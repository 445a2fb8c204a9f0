"""Decides for each primal value that the reverse needs whether it is available there, recomputed, or stashed on an
adstack (the to-be-recorded analysis).

The reverse needs operands of non-linear operations, indices of memory that carries a gradient, branch conditions and
trip counts. Values of the task's outermost block and loop indices are available in the reverse. All other needed
values are sinks of a graph: the dataflow from values that cannot be recomputed. The values of a minimum vertex cut of
this graph are stashed, and the needed values behind the cut are recomputed from them. The capacity of a value in this
graph is what it costs to stash it: its size in bytes, times a factor for each loop around its definition.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any

from quadrants_lab.autodiff.derivative_expressions import OPERANDS, needs
from quadrants_lab.autodiff.mincut import min_vertex_cut
from quadrants_lab.autodiff.recursive_checkpointing import Segment, segments_of
from quadrants_lab.autodiff.scopes import Scopes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import by_class, reached

_LOOP_WEIGHT = 64  # the assumed number of trips of a loop


@dataclass(slots=True)
class Demand:
    """A value that the reverse needs, the reason in words for the launch report, and the statement that needs it."""

    value: int
    why: str
    by: N.Stmt


@dataclass(slots=True)
class StashPlan:
    """What `stash_plan` decided.

    ``reversed`` has the ids of statements that have an adjoint. ``stash`` has the values that are pushed on stacks,
    ``export`` the values that are defined in an if outside all loops and become results of this if, and ``recompute``
    the values that the reverse computes again. ``segments`` has the checkpointed loops in which values are stashed, by
    id, inner loops first. ``needed`` has all demands, and ``demand`` the first demand for each stashed or exported
    value. ``graph`` maps each value that is not available to the operands from which it can be computed again, or to
    None.
    """

    reversed: set[int]
    stash: list[int] = field(default_factory=list)
    export: list[int] = field(default_factory=list)
    recompute: set[int] = field(default_factory=set)
    segments: dict[int, Segment] = field(default_factory=dict)
    demand: dict[int, Demand] = field(default_factory=dict)
    needed: list[Demand] = field(default_factory=list)
    graph: dict[int, tuple[int, ...] | None] = field(default_factory=dict)

    def uses(self, value: int) -> list[Demand]:
        """The demands for a stashed value and for the values that are recomputed from it."""
        above: dict[int, list[int]] = {}
        for v in self.recompute:
            for a in self.graph[v] or ():
                above.setdefault(a, []).append(v)
        found = reached([value], lambda v: above.get(v, ()))
        return [d for d in self.needed if d.value in found]


def reversed_statements(block: N.Block, active: set[int], with_grad: set[str]) -> set[int]:
    """Ids of statements, at any depth, that have an adjoint."""
    found: set[int] = set()
    for stmt in block:
        inner: set[int] = set()
        for b in stmt.blocks():
            inner |= reversed_statements(b, active, with_grad)
        own = (
            (isinstance(stmt, N.Write) and stmt.buffer in with_grad)
            or any(i in active for i, _ in stmt.defs())
        )
        if own or inner:
            found.add(stmt.id)
        found |= inner
    return found


def demands(block: N.Block, rev: set[int], active: set[int]) -> list[Demand]:
    """The demands of the adjoint of the block, in program order."""
    out: list[Demand] = []
    for stmt in block:
        if stmt.id not in rev:
            continue
        out += _DEMANDS[type(stmt)](stmt, active)
        for b in stmt.blocks():
            out += demands(b, rev, active)
    return out


def _op_demands(op: N.Op, active: set[int]) -> list[Demand]:
    names = {n for k, a in enumerate(op.args) if a in active for n in needs(op.prim, k)}
    values = {**dict(zip(OPERANDS, op.args, strict=False)), "r": op.id}
    role = {"r": f"result of {op.prim}"}
    return [Demand(values[n], role.get(n, f"operand of {op.prim}"), op) for n in sorted(names)]


def _access_demands(s: N.Access, active: set[int]) -> list[Demand]:
    return [Demand(i, f"index into {s.buffer}", s) for i in s.index]


def _atomic_demands(s: N.Atomic, active: set[int]) -> list[Demand]:
    compared = [Demand(s.value, f"operand of atomic {s.op}", s)] if s.op in N.MINMAX else []
    return _access_demands(s, active) + compared


# what the adjoint of a statement needs, apart from what the statements in its blocks need
_DEMANDS: dict[type[N.Stmt], Callable[[Any, set[int]], list[Demand]]] = by_class({
    N.Stmt: lambda s, active: [],
    N.Op: _op_demands,
    N.Access: _access_demands,
    N.Atomic: _atomic_demands,
    N.Choice: lambda s, active: [Demand(i, "index of a local vector", s) for i in s.index],
    N.If: lambda s, active: [Demand(s.cond, "condition of this if", s)],
    N.For: lambda s, active: [Demand(v, "bound of this loop", s) for v in s.deciding()],
    N.While: lambda s, active: [Demand(s.results[-1].id, "trip count of this loop", s)],
})


def stash_plan(
    task: N.Offload, scopes: Scopes, active: set[int], with_grad: set[str], read_only: set[str]
) -> StashPlan:
    """The plan for one task. ``read_only`` has the buffers that no task of the kernel writes."""
    plan = StashPlan(reversed_statements(task.body, active, with_grad))
    needed = demands(task.body, plan.reversed, active)
    for d in needed:
        plan.demand.setdefault(d.value, d)

    segments = segments_of(task.body, scopes, plan.reversed, [d.value for d in needed])
    for s in segments.values():
        outside = [Demand(v, "value that the checkpointed loop runs again from", s.loop) for v in s.outside]
        needed += outside
        for d in outside:
            plan.demand.setdefault(d.value, d)

    def sources_of(v: int) -> tuple[int, ...] | None:
        """The values from which v can be computed again, or None if that is impossible."""
        stmt = scopes.defs[v]
        if isinstance(stmt, N.WithElement):
            return *stmt.index, *stmt.becoming(stmt.position(v))
        if isinstance(stmt, (N.Op, N.Element)) or (isinstance(stmt, N.Load) and stmt.buffer in read_only):
            return stmt.operands()
        return None

    graph = plan.graph
    plan.needed = needed
    todo = [d.value for d in needed]
    while todo:
        v = todo.pop()
        if v in graph or scopes.of[v].parent is None or scopes.is_available(v):
            continue
        graph[v] = sources_of(v)
        todo += graph[v] or ()

    order = {v: n for n, v in enumerate(scopes.of)}
    vertices = sorted(graph, key=order.__getitem__)
    capacity = {v: scopes.types[v].nbytes * _LOOP_WEIGHT ** scopes.of[v].loops for v in vertices}
    edges = [(a, v) for v in vertices for a in graph[v] or () if a in graph]
    leaves = [v for v in vertices if graph[v] is None]
    wanted = dict.fromkeys(d.value for d in needed if d.value in graph)
    cut = min_vertex_cut(capacity, edges, leaves, wanted)

    kept: set[int] = set()
    todo = list(wanted)
    while todo:
        v = todo.pop()
        if v not in graph or v in kept or v in plan.recompute:
            continue
        if v in cut:
            kept.add(v)
        else:
            plan.recompute.add(v)
            todo += graph[v] or ()
            for a in graph[v] or ():
                plan.demand.setdefault(a, plan.demand[v])
    for v in sorted(kept, key=order.__getitem__):
        (plan.stash if scopes.of[v].loops else plan.export).append(v)
    around = {loop for v in plan.stash for loop in scopes.of[v].owners()}
    plan.segments = {loop: s for loop, s in segments.items() if loop in around}
    return plan
