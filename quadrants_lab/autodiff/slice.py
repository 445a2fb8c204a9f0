"""The forward slice of a task: what the reverse needs, without side effects, with the pushes of what is stashed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quadrants_lab.autodiff.scopes import Scopes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder

_EFFECTS = (N.Store, N.Assert, N.Print)


def forward_slice(task: N.Offload, stacks: Mapping[int, int], b: Builder) -> N.Block:
    """The task's body under the same ids, memory effects left out, ``AdStackPush stacks[v], v`` after the
    definition of every stashed value v. No terminator. What nobody reads is left to dead-code elimination."""

    def pushes(ids: list[int], span_of: N.Stmt) -> list[N.Stmt]:
        return [N.AdStackPush(b.fresh(), stacks[v], v, span=span_of.span) for v in ids if v in stacks]

    def block(stmts: N.Block, owner: N.Stmt | None) -> N.Block:
        out: list[N.Stmt] = []
        if owner is not None:
            out += pushes([p.id for p in owner.params()], owner)
        for stmt in stmts:
            if isinstance(stmt, _EFFECTS):
                continue
            if isinstance(stmt, N.Atomic):  # its old value is gone; `check_data_access` refuses whoever needs it
                stmt = N.Load(stmt.id, stmt.type, stmt.buffer, stmt.index, span=stmt.span)
            if isinstance(stmt, N.While):
                stmt = replace(stmt, body=block(stmt.body, stmt), cond=block(stmt.cond, None))
            elif stmt.blocks():
                stmt = stmt.with_blocks(tuple(block(s, stmt) for s in stmt.blocks()))
            out.append(stmt)
            out += pushes([i for i, _ in stmt.defs()], stmt)
        return tuple(out)

    return block(task.body[:-1], None)


def export_from_ifs(body: N.Block, values: list[int], scopes: Scopes, b: Builder) -> tuple[N.Block, dict[int, int]]:
    """Hands values defined in ifs outside all loops out to the task's outermost block as results of those ifs.

    Returns the new body and, for each value, the id under which the outermost block knows it. Where the arm did not
    run the result is 0; nothing reads it then, because the reverse takes the same arm.
    """
    known: dict[int, int] = {}
    for v in values:
        inner, scope = v, scopes.of[v]
        while scope.owner is not None:
            owner = scope.owner
            assert isinstance(owner, N.If)
            result = b.param(scopes.types[v], scopes.names[v])
            body = _with_result(body, owner.id, scope.arm, inner, result, b)
            assert scope.parent is not None
            inner, scope = result.id, scope.parent
        known[v] = inner
    return body, known


def _with_result(body: N.Block, owner: int, arm: int, value: int, result: N.Param, b: Builder) -> N.Block:
    out: list[N.Stmt] = []
    for stmt in body:
        if isinstance(stmt, N.If) and stmt.id == owner:
            arms = [_yielding(block, value if n == arm else None, result, b) for n, block in enumerate(stmt.blocks())]
            stmt = replace(stmt, then=arms[0], orelse=arms[1], results=(*stmt.results, result))
        elif isinstance(stmt, N.If):
            stmt = stmt.with_blocks(tuple(_with_result(s, owner, arm, value, result, b) for s in stmt.blocks()))
        out.append(stmt)
    return tuple(out)


def _yielding(block: N.Block, value: int | None, result: N.Param, b: Builder) -> N.Block:
    end = block[-1]
    assert isinstance(end, N.Yield)
    with b.block() as made:
        if value is None:
            value = b.const(0, result.type)
    return (*block[:-1], *made, replace(end, values=(*end.values, value)))
