"""`If` over environments: what the arms assign, and what they evaluate to, become its results."""

from __future__ import annotations

import ast
from collections.abc import Callable
from math import prod
from typing import Any

from quadrants_lab.frontend.values.context import Context, Env
from quadrants_lab.frontend.values.leaves import describe, leaf_names, leaves, refilled
from quadrants_lab.frontend.values.values import Lit, Matrix, Num, Struct, Value
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass


@dataclass(slots=True)
class Arm:
    stmts: list[N.Stmt]
    env: Env
    exited: bool
    value: tuple[Value, ...]  # what the arm evaluates to


def choose(cx: Context, cond: int, then: Callable[[], Value], orelse: Callable[[], Value], node: ast.AST) -> Value:
    """The value of the arm that is taken, at the common dtype of both."""
    return branch(cx, cond, lambda: (then(),), lambda: (orelse(),), node)[0]


def branch(
    cx: Context,
    cond: int,
    then: Callable[[], tuple[Value, ...]],
    orelse: Callable[[], tuple[Value, ...]],
    node: Any,
    merge: bool = True,
) -> tuple[Value, ...]:
    """Emits an If whose arms are lowered by ``then`` and ``orelse``; their values (as many in both) are its result.

    Locals that existed before and were assigned in an arm go on with the merged value, unless ``merge`` is false: then
    the If is the last thing that its function does. If no arm goes on, neither does the block.
    """
    before = cx.frame.env
    top, cx.top = cx.top, False
    cx.depth += 1
    arms = [_arm(cx, before, run) for run in (then, orelse)]
    cx.depth -= 1
    cx.top = top
    cx.frame.env = dict(before)
    live = [a for a in arms if not a.exited]
    if isinstance(node, ast.stmt):
        for arm in arms:
            cx.end(arm.env, before, node, "if" if isinstance(node, ast.If) else "loop")
    cx.at(node)
    names = [n for n, v in before.items() if merge and any(a.env[n] is not v for a in live)]
    results: list[N.Param] = []
    yields: list[list[int]] = [[] for _ in live]
    for name in names:
        merged: list[Num] = []
        ways = [list(leaves(arm.env[name])) for arm in live]
        for k, (old, leaf) in enumerate(zip(leaves(before[name]), leaf_names(before[name], name), strict=True)):
            if all(way[k].id == old.id for way in ways):
                merged.append(old)
                continue
            results.append(cx.b.param(old.type, leaf))
            for way, out in zip(ways, yields, strict=True):
                out.append(way[k].id)
            merged.append(Num(results[-1].id, old.type))
        cx.frame.env[name] = refilled(before[name], merged)
    values: list[Value] = []
    for k in range(len(live[0].value) if live else 0):
        ends = (arm.value[k] for arm in live)  # only these can be chosen at run time: numbers, matrices, structs
        given: list[Value] = [v if isinstance(v, (Matrix, Struct)) else cx.number(v, node) for v in ends]
        if isinstance(node, ast.IfExp):
            given = _spread(given)
        ways = [list(leaves(v)) for v in given]
        _same_shape(cx, given, node)
        met: list[Num] = []
        for j in range(len(ways[0])):
            t = cx.meet(*(way[j] for way in ways))
            results.append(cx.b.param(t))
            for arm, way, out in zip(live, ways, yields, strict=True):
                with cx.b.block(arm.stmts):
                    out.append(cx.to(way[j], t))
            met.append(Num(results[-1].id, t))
        values.append(refilled(given[0], met))
    for arm, out in zip(live, yields, strict=True):
        with cx.b.block(arm.stmts):
            cx.b.yield_(*out)
    cx.b.add(N.If(cx.b.fresh(), cond, tuple(arms[0].stmts), tuple(arms[1].stmts), tuple(results)))
    if not live:
        leave(cx, N.Continue)
    return tuple(values)


def _spread(values: list[Value]) -> list[Value]:
    """Numbers beside a matrix as matrices of its shape."""
    shapes = [v.shape for v in values if isinstance(v, Matrix)]
    return [Matrix(shapes[0], (v,) * prod(shapes[0])) if shapes and isinstance(v, (Num, Lit)) else v for v in values]


def _same_shape(cx: Context, values: list[Value], node: Any) -> None:
    first = values[0]
    for v in values[1:]:
        same = type(v) is type(first) or not any(isinstance(a, (Matrix, Struct)) for a in (v, first))
        if isinstance(v, Matrix) and isinstance(first, Matrix):
            same = v.shape == first.shape
        if not same or list(leaf_names(v, "")) != list(leaf_names(first, "")):
            raise cx.fail("QL1416", node, left=describe(first), right=describe(v))


def _arm(cx: Context, before: Env, run: Callable[[], tuple[Value, ...]]) -> Arm:
    cx.frame.env = dict(before)
    with cx.b.block() as stmts:
        value = run()
    exited, cx.exited = cx.exited, False
    return Arm(stmts, cx.frame.env, exited, value)


def leave(cx: Context, kind: type[N.Break] | type[N.Continue]) -> None:
    """Ends the block with a Break or Continue of the innermost loop, carrying what its names hold now."""
    loop = cx.frame.loop
    while loop is not None and loop.kind == "static":
        loop = loop.outer
    assert loop is not None
    ids = []
    for name in loop.names:
        ids += [leaf.id for leaf in leaves(cx.frame.env[name])]
    cx.b.add(kind(cx.b.fresh(), tuple(ids)))
    cx.exited = True
