"""Which values carry a derivative: those that depend on a buffer with a gradient and reach one (vary and useful)."""

from __future__ import annotations

from quadrants_lab.autodiff.rules import share
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import end_of, reached, types_of, walk


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


def computed_from(block: N.Block) -> dict[int, list[int]]:
    """For each value in the block, at any depth, those that it is made of, directly or handed on by control."""
    found: dict[int, list[int]] = {}
    for s in walk(block):
        if isinstance(s, N.Value):
            found.setdefault(s.id, []).extend(s.operands())
        for a, b in links(s):
            found.setdefault(b, []).append(a)
    return found


def active_values(kernel: N.Kernel, with_derivative: set[str] | None = None) -> set[int]:
    """Ids of the floating-point values through which a derivative flows in this (offloaded) kernel, between the
    buffers ``with_derivative`` (None: those with an adjoint). Launch temporaries among these are no ends: a derivative
    flows through them, from what is written there to what is read."""
    types = types_of(kernel.body)
    carriers = {b.name for b in kernel.buffers.values() if b.grad} if with_derivative is None else with_derivative
    steps: list[tuple[int | str, int | str]] = []  # between values, and buffers by name
    for stmt in walk(kernel.body):
        if isinstance(stmt, N.Op):
            steps += [(a, stmt.id) for a in flows(stmt)]
        elif isinstance(stmt, N.Access) and stmt.buffer in carriers:
            steps += [(stmt.buffer, stmt.id)] if isinstance(stmt, N.Read) else []
            steps += [(stmt.value, stmt.buffer)] if isinstance(stmt, N.Write) else []
        steps += links(stmt)
    forward: dict[int | str, list[int | str]] = {}
    backward: dict[int | str, list[int | str]] = {}
    for a, b in steps:
        if all(isinstance(v, str) or types[v].is_float for v in (a, b)):
            forward.setdefault(a, []).append(b)
            backward.setdefault(b, []).append(a)
    ends: set[int | str] = {name for name in carriers if name in kernel.buffers and not kernel.buffers[name].passing}
    vary, useful = (reached(ends, lambda v, on=on: on.get(v, ())) for on in (forward, backward))  # type: ignore[misc]
    return {v for v in vary if v in useful and isinstance(v, int)}
