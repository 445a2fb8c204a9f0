"""Which values carry a derivative: those that depend on a buffer with a gradient and reach one (vary and useful)."""

from __future__ import annotations

from quadrants_lab.autodiff.rules import share
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import end_of, types_of, walk


def flows(stmt: N.Op) -> tuple[int, ...]:
    """The operands of an op that a derivative can reach."""
    return tuple(a for n, a in enumerate(stmt.args) if share(stmt.prim, n) is not None)


def links(stmt: N.Stmt) -> list[tuple[int, int]]:
    """(from, to) pairs through which a structured statement hands values on."""
    pairs: list[tuple[int, int]] = []
    if isinstance(stmt, N.If):
        for block in stmt.blocks():
            pairs += _yielded(block, stmt.results)
    elif isinstance(stmt, N.Loop):
        pairs += [(i, c.id) for i, c in zip(stmt.inits, stmt.carried, strict=True)]
        pairs += [(i, r.id) for i, r in zip(stmt.inits, stmt.results, strict=True)]
        pairs += _yielded(stmt.body, stmt.carried) + _yielded(stmt.body, stmt.results)
    return pairs


def _yielded(block: N.Block, to: tuple[N.Param, ...]) -> list[tuple[int, int]]:
    end = end_of(block)
    return [(y, p.id) for y, p in zip(end.values, to, strict=True)]


def active_values(kernel: N.Kernel, with_derivative: set[str] | None = None) -> set[int]:
    """Ids of the floating-point values through which a derivative flows in this (offloaded) kernel, between the
    buffers ``with_derivative`` (None: those with an adjoint).

    A launch temporary counts as input where a varying value is written to it and as output where a useful one is
    read from it, so the two directions are iterated over the whole kernel until nothing changes.
    """
    types = types_of(kernel.body)
    edges: list[tuple[int, int]] = []  # value -> value
    reads: dict[str, list[int]] = {}
    writes: dict[str, list[int]] = {}
    for stmt in walk(kernel.body):
        if isinstance(stmt, N.Op):
            edges += [(a, stmt.id) for a in flows(stmt)]
        elif isinstance(stmt, N.Load):
            reads.setdefault(stmt.buffer, []).append(stmt.id)
        elif isinstance(stmt, N.Write):
            writes.setdefault(stmt.buffer, []).append(stmt.value)
            if isinstance(stmt, N.Atomic):
                reads.setdefault(stmt.buffer, []).append(stmt.id)
        edges += links(stmt)
    edges = [(a, b) for a, b in edges if _differentiable(types, a) and _differentiable(types, b)]
    ends = {b.name for b in kernel.buffers.values() if b.grad} if with_derivative is None else with_derivative
    temps = {b.name for b in kernel.buffers.values() if b.name in ends and b.passing}

    forward = _adjacency(edges)
    backward = _adjacency([(b, a) for a, b in edges])
    vary = _closure(forward, ends - temps, temps, reads, writes)
    useful = _closure(backward, ends - temps, temps, writes, reads)
    return {v for v in vary & useful if _differentiable(types, v)}


def _differentiable(types: dict[int, DType], v: int) -> bool:
    t = types.get(v)
    return t is not None and t.is_float


def _adjacency(edges: list[tuple[int, int]]) -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    for a, b in edges:
        out.setdefault(a, []).append(b)
    return out


def _closure(
    edges: dict[int, list[int]],
    start: set[str],
    temps: set[str],
    sources: dict[str, list[int]],
    sinks: dict[str, list[int]],
) -> set[int]:
    """Values reachable from ``start`` buffers' sources; a temporary joins once one of its sinks is reached."""
    reached: set[int] = set()
    buffers = set(start)
    todo = [v for b in buffers for v in sources.get(b, ())]
    while True:
        while todo:
            v = todo.pop()
            if v not in reached:
                reached.add(v)
                todo += edges.get(v, ())
        joined = {b for b in temps - buffers if any(v in reached for v in sinks.get(b, ()))}
        if not joined:
            return reached
        buffers |= joined
        todo = [v for b in joined for v in sources.get(b, ())]
