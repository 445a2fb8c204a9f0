"""`determine_ad_stack_size`: the greatest depth of every adstack as a SizeExpr.

A dynamic program over the condensation of the task's control flow graph: along a path depths add, where paths meet
the greater one stays, a counted loop multiplies by its trips (or sums over its range, where the trips of an inner
loop vary with it), a loop that is not counted leaves the stack to the counting slice. A loop of the reverse that pushes
and pops a stack runs a segment of a checkpointed loop in each iteration: it takes the greatest of them.
"""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.adstack.cfg import Cfg, build_cfg
from quadrants_lab.adstack.scc import Component, Dag, condense
from quadrants_lab.analysis import algebra as A
from quadrants_lab.analysis.effects import touched
from quadrants_lab.analysis.symbols import Symbols
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir import sizeexpr as S
from quadrants_lab.ir.walk import end_of, map_offloads, walk


def determine_ad_stack_size(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that every AdStackAlloca has its ``size``: never less than the depth that any iteration of the
    task reaches, and equal to it where no push lies under a condition that depends on data."""
    written = touched(kernel.body, N.Write)
    return map_offloads(kernel, lambda task: _size_task(kernel, task, written))


def _size_task(kernel: N.Kernel, task: N.Offload, written: set[str]) -> N.Offload:
    if not any(isinstance(s, N.AdStackAlloca) for s in task.body):
        return task
    cfg = build_cfg(task)
    dag = condense(cfg)
    symbols = Symbols(task, kernel.buffers, written)
    inside = pushed_in_reverse(task)
    whole = build_cfg(task, whole=True) if inside else cfg
    whole_dag = condense(whole) if inside else dag

    def sized(s: N.AdStackAlloca) -> N.AdStackAlloca:
        if s.id not in inside:
            return replace(s, size=_depth(task, cfg, dag, symbols, s.id))
        return replace(s, size=_depth(task, whole, whole_dag, symbols, s.id))

    return replace(task, body=tuple(sized(s) if isinstance(s, N.AdStackAlloca) else s for s in task.body))


def pushed_in_reverse(task: N.Stmt) -> set[int]:
    """Stacks of checkpointed loops: they are pushed by the reverse, which runs segments again."""
    guards = tuple(s for s in walk((task,)) if isinstance(s, N.AdStackGuard))
    return {s.stack for s in walk(guards) if isinstance(s, N.AdStackPush)}


def _depth(task: N.Offload, cfg: Cfg, dag: Dag, symbols: Symbols, stack: int) -> S.SizeExpr:
    depth = _longest(cfg, dag, symbols, stack)
    bounds = end_of(task.bounds)
    k = len(task.indices)
    for n, p in reversed(list(enumerate(task.indices))):
        if depth is None or not A.reads_variable(depth, symbols.vars[p.id]):
            continue
        begin, end = symbols.size(bounds.values[n]), symbols.size(bounds.values[k + n])
        depth = None if begin is None or end is None else A.over_range("max", symbols.vars[p.id], begin, end, depth)
    # a variable of a loop that is left (its index read after it) has no range here
    if depth is None or A.is_open(depth):
        return S.SizeCounted(stack)
    return depth


def _longest(cfg: Cfg, dag: Dag, symbols: Symbols, stack: int) -> S.SizeExpr | None:
    """The greatest depth along any path through the DAG, or None where it has to be counted."""
    into: dict[int, list[int]] = {}
    for a, b in dag.edges:
        into.setdefault(b, []).append(a)
    at_end: dict[int, S.SizeExpr] = {}
    greatest: S.SizeExpr = A.ZERO
    for component in dag.components:
        own = _component(cfg, component, symbols, stack)
        if own is None:
            return None
        before: S.SizeExpr = A.ZERO
        for p in into.get(component.id, ()):
            before = A.binary("max", before, at_end[p])
        at_end[component.id] = A.binary("add", before, own)
        if not any(a == component.id for a, _ in dag.edges):
            greatest = A.binary("max", greatest, at_end[component.id])
    return greatest


def _component(cfg: Cfg, component: Component, symbols: Symbols, stack: int) -> S.SizeExpr | None:
    if component.body is None:
        return S.SizeConst(cfg.nodes[component.nodes[0]].pushes(stack))
    body = _longest(cfg, component.body, symbols, stack)
    if body is None or body == A.ZERO:
        return body
    loop = component.loop
    if not isinstance(loop, N.For):
        return None
    begin, end = symbols.size(loop.begin), symbols.size(loop.end)
    if any(cfg.nodes[n].pops(stack) for n in component.nodes):  # it leaves the stack as it was
        return A.greatest_over(symbols.vars[loop.index.id], begin, end, body)
    if begin is None or end is None:
        return None
    return A.over_range("sum", symbols.vars[loop.index.id], begin, end, body)


def counted_stacks(kernel: N.Kernel) -> set[int]:
    """Stacks whose size only the counting slice knows."""
    found: set[int] = set()
    for task in kernel.tasks:
        for s in task.body:
            if isinstance(s, N.AdStackAlloca) and s.size is not None:
                found |= {e.stack for e in A.subexpressions(s.size) if isinstance(e, S.SizeCounted)}
    return found
