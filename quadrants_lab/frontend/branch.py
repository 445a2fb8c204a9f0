"""`If` over environments: what the arms assign, and what they evaluate to, become its results."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrants_lab.frontend.context import Context, Env
from quadrants_lab.frontend.values import Lit, Num
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, promote


@dataclass(slots=True)
class Arm:
    stmts: list[N.Stmt]
    env: Env
    exited: bool
    value: tuple[Num | Lit, ...]  # what the arm evaluates to


def choose(
    cx: Context, cond: int, then: Callable[[], Num | Lit], orelse: Callable[[], Num | Lit], node: ast.AST
) -> Num:
    """The value of the arm that is taken, at the common dtype of both."""
    return branch(cx, cond, lambda: (then(),), lambda: (orelse(),), node)[0]


def branch(
    cx: Context,
    cond: int,
    then: Callable[[], tuple[Num | Lit, ...]],
    orelse: Callable[[], tuple[Num | Lit, ...]],
    node: Any,
    merge: bool = True,
) -> tuple[Num, ...]:
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
        old = before[name]
        assert isinstance(old, Num)
        results.append(cx.b.param(old.type, name))
        for arm, out in zip(live, yields, strict=True):
            value = arm.env[name]
            assert isinstance(value, Num)
            out.append(value.id)
        cx.frame.env[name] = Num(results[-1].id, old.type)
    values: list[Num] = []
    for k in range(len(live[0].value) if live else 0):
        t = _meet(cx, [a.value[k] for a in live])
        results.append(cx.b.param(t))
        for arm, out in zip(live, yields, strict=True):
            outer, cx.b.stmts = cx.b.stmts, arm.stmts
            out.append(cx.to(arm.value[k], t))
            cx.b.stmts = outer
        values.append(Num(results[-1].id, t))
    for arm, out in zip(live, yields, strict=True):
        outer, cx.b.stmts = cx.b.stmts, arm.stmts
        cx.b.yield_(*out)
        cx.b.stmts = outer
    cx.b.add(N.If(cx.b.fresh(), cond, tuple(arms[0].stmts), tuple(arms[1].stmts), tuple(results)))
    if not live:
        leave(cx, N.Continue)
    return tuple(values)


def _arm(cx: Context, before: Env, run: Callable[[], tuple[Num | Lit, ...]]) -> Arm:
    cx.frame.env = dict(before)
    with cx.b.block() as stmts:
        value = run()
    exited, cx.exited = cx.exited, False
    return Arm(stmts, cx.frame.env, exited, value)


def _meet(cx: Context, values: list[Num | Lit]) -> DType:
    types = [cx.type_of(v) for v in values]
    return types[0] if len(types) == 1 or types[0] is types[1] else promote(types[0], types[1])


def leave(cx: Context, kind: type[N.Break] | type[N.Continue]) -> None:
    """Ends the block: the innermost loop goes on, or ends, with the values that its names have now."""
    loop = cx.frame.loop
    assert loop is not None
    ids = []
    for name in loop.names:
        value = cx.frame.env[name]
        assert isinstance(value, Num)
        ids.append(value.id)
    cx.b.add(kind(cx.b.fresh(), tuple(ids)))
    cx.exited = True
