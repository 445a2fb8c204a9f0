"""Returns in the middle of a func: inside loops, and where neither arm of an `if` always returns.

The statements from the first of these on become the body of a loop that runs once. A return is then a `continue` of
that loop, or a `break` of the loop that it stands in with another test behind it; `structure_exits` makes flags of
them and `fold` takes the loop away. The values are carried in one hidden local, `RETURN`.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import repeat
from typing import Any

from quadrants_lab.frontend.diagnostics import count
from quadrants_lab.frontend.syntax.branch import branch, leave
from quadrants_lab.frontend.syntax.scan import RETURN, breaks, returns
from quadrants_lab.frontend.values.context import Context, Loop
from quadrants_lab.frontend.values.leaves import describe, leaf_names, leaves, mapped
from quadrants_lab.frontend.values.values import Lit, Matrix, Num, Struct, Value
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i32, promote, u1

Returned = list[tuple[ast.Return, tuple[Value, ...]]]


def early(cx: Context, body: Sequence[ast.stmt], node: ast.Return) -> tuple[Value, ...]:
    """Lowers the rest of a func, which returns from the middle; what it returns."""
    found = _dry(cx, body)
    outer, top = cx.frame, cx.top
    results = _meet(cx, found, node)
    cx.at(node)
    hidden = {"": Num(cx.const(False, u1), u1)} | {
        str(k): mapped(v, lambda leaf: Num(cx.const(0, leaf.type), leaf.type)) for k, v in enumerate(results)
    }
    inits = [leaf.id for leaf in leaves(Struct(None, hidden))]
    carried, after = list[N.Param](), list[N.Param]()
    local = parameters(cx, Struct(None, hidden), carried)
    cx.frame = replace(outer, env={**outer.env, RETURN: local}, loop=Loop("once", (RETURN,)), returning=[])
    cx.top = False
    begin, end, index = cx.const(0, i32), cx.const(1, i32), cx.b.param(i32)
    with cx.b.block() as stmts:
        cx.stmts(body)
        if not cx.exited:
            if results:
                raise cx.fail("QL1805", node, why=f"one way returns {count(len(results), 'value')}, another none")
            cx.b.yield_(*(leaf.id for leaf in leaves(cx.frame.env[RETURN])))
    cx.exited, cx.frame, cx.top = False, outer, top
    cx.at(node)
    result = parameters(cx, Struct(None, hidden), after)
    cx.b.add(N.For(cx.b.fresh(), index, begin, end, tuple(carried), tuple(inits), tuple(stmts), tuple(after)))
    return tuple(result.members.values())[1:]


def parameters(cx: Context, value: Value, params: list[N.Param], name: str | None = None) -> Any:
    """The local with a new parameter for each of its numbers; they are appended to ``params``."""
    names = repeat("") if name is None else leaf_names(value, name)

    def new(leaf: Num) -> Num:
        params.append(cx.b.param(leaf.type, next(names)))
        return Num(params[-1].id, leaf.type)

    return mapped(value, new)


def leave_func(cx: Context, node: ast.Return, values: tuple[Value, ...]) -> None:
    """A return inside code that `early` lowers."""
    assert cx.frame.returning is not None
    cx.frame.returning.append((node, values))
    cx.at(node)
    old = cx.frame.env.get(RETURN)
    if isinstance(old, Struct):
        members: dict[str, Value] = {"": Num(cx.const(True, u1), u1)}
        for (name, member), value in zip(list(old.members.items())[1:], values, strict=True):
            want = leaves(member)
            members[name] = mapped(value, lambda leaf, want=want: cx.num(leaf, next(want).type))  # type: ignore[misc]
        cx.frame.env[RETURN] = Struct(None, members)
    _leave(cx)


def resume(cx: Context, loop: ast.For | ast.While) -> None:
    """Continues a return behind a loop that it left."""
    frame = cx.frame
    if frame.returning is None or returns(loop.body) is None:
        return
    forever = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    hidden = frame.env.get(RETURN)
    if forever and not breaks(loop.body):
        _leave(cx)
    elif isinstance(hidden, Struct):
        flag = hidden.members[""]
        assert isinstance(flag, Num)

        def gone() -> tuple[()]:
            _leave(cx)
            return ()

        branch(cx, flag.id, gone, lambda: (), loop)


def _leave(cx: Context) -> None:
    """Ends the innermost loop, or, where that is the one that runs once, its iteration."""
    inner = cx.frame.loop
    while inner is not None and inner.kind == "static":
        inner = inner.outer
    leave(cx, N.Continue if inner is None or inner.kind == "once" else N.Break)


def _dry(cx: Context, body: Sequence[ast.stmt]) -> Returned:
    """What the returns in the body return: lowers the body once and discards the code."""
    outer, top, sites, serialize = cx.frame, cx.top, cx.sites, cx.serialize
    found: Returned = []
    loop = Loop("once", ())
    cx.frame = replace(outer, env=dict(outer.env), ended=dict(outer.ended), loop=loop, returning=found)
    cx.top = False
    messages = len(cx.messages)
    with redirect_stdout(io.StringIO()), cx.b.block():  # functions of Python may print
        cx.stmts(body)
    del cx.messages[messages:]
    cx.frame, cx.top, cx.sites, cx.serialize = outer, top, sites, serialize
    cx.exited = False
    return found


def _meet(cx: Context, found: Returned, node: ast.Return) -> tuple[Value, ...]:
    """The values that all returns can be cast to: numbers, matrices and structs of them."""
    node, first = found[0] if found else (node, ())
    met = [_numbers(cx, v, node) for v in first]
    for at, values in found[1:]:
        if len(values) != len(first):
            why = f"one way returns {count(len(first), 'value')}, another {len(values)}"
            raise cx.fail("QL1805", at, why=why)
        for k, value in enumerate(values):
            met[k] = _common(cx, met[k], _numbers(cx, value, at), at)
    return tuple(met)


def _numbers(cx: Context, value: Value, node: ast.Return) -> Value:
    if not isinstance(value, (Num, Lit, Matrix, Struct)):
        raise cx.fail("QL1805", node, why=f"{describe(value)} is returned before the end")
    return mapped(value, lambda leaf: Num(N.NO_ID, cx.type_of(leaf)))  # type: ignore[no-any-return]


def _common(cx: Context, a: Value, b: Value, node: ast.Return) -> Value:
    if type(a) is not type(b) or list(leaf_names(a, "")) != list(leaf_names(b, "")):
        raise cx.fail("QL1805", node, why=f"one way returns {describe(a)}, another {describe(b)}")
    others = leaves(b)

    def meet(leaf: Num) -> Num:
        other = next(others).type
        return leaf if leaf.type is other else Num(N.NO_ID, promote(leaf.type, other))

    return mapped(a, meet)  # type: ignore[no-any-return]
