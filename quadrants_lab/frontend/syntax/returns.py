"""Lowers early returns of a func: inside loops, and where not all arms of an `if` return.

The first statement with such a return and all later ones become the body of a loop that runs once. A return is then a
`continue` of that loop. A return inside an inner loop is a `break` of the inner loop, and a test after the inner loop
leaves the loop around it. The pass `structure_exits` makes flags of these exits, and `fold` removes the loop. A hidden
local, `RETURN`, carries whether the func has returned, and the values.
"""

import ast
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from quadrants_lab.frontend.diagnostics import count
from quadrants_lab.frontend.syntax.branch import branch, emit_exit
from quadrants_lab.frontend.syntax.changed import snapshot
from quadrants_lab.frontend.syntax.scan import RETURN, first_return, has_break
from quadrants_lab.frontend.values import Lit, Num, Struct, Value
from quadrants_lab.frontend.values.containers import merged, outside
from quadrants_lab.frontend.values.context import Context, Loop
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.show import unprinted
from quadrants_lab.ir.types import i32, u1

Returned = list[tuple[ast.Return, tuple[Value, ...]]]


def lower_early_returns(cx: Context, body: Sequence[ast.stmt], node: ast.Return) -> tuple[Value, ...]:
    """Lowers ``body``, the last statements of a func, which contain early returns. Returns the values that the func
    returns. ``node`` is the first return."""
    results = _result_types(cx, _dry_run(cx, body), node)
    cx.at(node)
    hidden = {"": Num(cx.const(False, u1), u1)} | {
        str(k): v.map(lambda leaf: Num(cx.const(0, leaf.type), leaf.type)) for k, v in enumerate(results)
    }
    inits = [leaf.id for leaf in Struct(None, hidden).leaves()]
    carried, after = list[N.Param](), list[N.Param]()
    local = parameters(cx, Struct(None, hidden), carried)
    frame = replace(cx.frame, env={**cx.frame.env, RETURN: local}, loop=Loop("once", (RETURN,)), returning=[])
    begin, end, index = cx.const(0, i32), cx.const(1, i32), cx.b.param(i32)
    with cx.setting(frame=frame, top=False, exited=False), cx.b.block() as stmts:
        cx.stmts(body)
        if not cx.exited:
            if results:
                raise cx.fail("QL1805", node, why=f"one way returns {count(len(results), 'value')}, another none")
            cx.b.yield_(*(leaf.id for leaf in frame.env[RETURN].leaves()))
    cx.at(node)
    result = parameters(cx, Struct(None, hidden), after)
    cx.b.add(N.For(cx.b.fresh(), index, begin, end, tuple(carried), tuple(inits), tuple(stmts), tuple(after)))
    return tuple(outside(cx, value) for value in result.members.values())[1:]


def parameters(cx: Context, value: Value, params: list[N.Param], name: str | None = None) -> Any:
    """The value of a local variable, in which new parameters of a block replace the numbers. The parameters are
    appended to ``params`` and named after the local ``name``."""
    names = repeat("") if name is None else value.leaf_names(name)

    def new(leaf: Num | Lit) -> Num:
        t = cx.type_of(leaf)
        params.append(cx.b.param(t, next(names)))
        return Num(params[-1].id, t)

    return value.map(new)


def early_return(cx: Context, node: ast.Return, values: tuple[Value, ...]) -> None:
    """Lowers a return inside code that `lower_early_returns` lowers."""
    assert cx.frame.returning is not None
    cx.frame.returning.append((node, values))
    cx.at(node)
    old: Any = cx.frame.env.get(RETURN)
    if old is not None:
        members: dict[str, Value] = {"": Num(cx.const(True, u1), u1)}
        for (name, member), value in zip(list(old.members.items())[1:], values, strict=True):
            want = member.leaves()
            members[name] = value.map(lambda leaf, want=want: cx.num(leaf, next(want).type))  # type: ignore[misc]
        cx.frame.env[RETURN] = Struct(None, members)
    _leave(cx)


def propagate_return(cx: Context, loop: ast.For | ast.While) -> None:
    """Emits a test after a loop: if a return has left the loop, the loop around it is left, too."""
    frame = cx.frame
    if frame.returning is None or first_return(loop.body) is None:
        return
    hidden: Any = frame.env.get(RETURN)
    match loop:
        case ast.While(test=ast.Constant(value=forever)) if forever and not has_break(loop.body):
            _leave(cx)
        case _ if hidden is not None:
            branch(cx, hidden.members[""].id, lambda: _leave(cx), lambda: None, loop)


def _leave(cx: Context) -> None:
    """Emits the exit from the innermost run-time loop: a Continue in the loop that runs once, a Break in any other."""
    inner = cx.frame.loop and cx.frame.loop.run_time
    emit_exit(cx, N.Continue if inner is None or inner.kind == "once" else N.Break)


def _dry_run(cx: Context, body: Sequence[ast.stmt]) -> Returned:
    """The returns in the body, each with the values that it returns. To find them the body is lowered once, and the
    code is discarded."""
    undo = snapshot(cx)
    found: Returned = []
    cx.frame, cx.top = replace(cx.frame, env=dict(cx.frame.env), loop=Loop("once", ()), returning=found), False
    with unprinted(), cx.b.block():  # Python functions that are called may print
        cx.stmts(body)
    undo()
    return found


def _result_types(cx: Context, found: Returned, node: ast.Return) -> tuple[Value, ...]:
    """Placeholders (numbers, matrices and structs without ids) for the values that the func returns, with the common
    dtypes of all returns."""
    node, first = found[0] if found else (node, ())
    common = [_without_ids(cx, v, node) for v in first]
    for at, values in found[1:]:
        if len(values) != len(first):
            why = f"one way returns {count(len(first), 'value')}, another {len(values)}"
            raise cx.fail("QL1805", at, why=why)
        common = [_common(cx, a, _without_ids(cx, v, at), at) for a, v in zip(common, values, strict=True)]
    return tuple(common)


def _without_ids(cx: Context, value: Value, node: ast.Return) -> Value:
    if not value.is_held or value.is_shared:
        raise cx.fail("QL1805", node, why=f"{value.describe()} is returned before the end")
    return value.map(lambda leaf: Num(N.NO_ID, cx.type_of(leaf)))  # type: ignore[no-any-return]


def _common(cx: Context, a: Value, b: Value, node: ast.Return) -> Value:
    """A placeholder with the promoted dtypes of ``a`` and ``b``; raises QL1805 if their shapes differ."""
    if type(a) is not type(b) or a.structure() != b.structure():
        raise cx.fail("QL1805", node, why=f"one way returns {a.describe()}, another {b.describe()}")
    numbers = [Num(N.NO_ID, cx.common_dtype(x, y)) for x, y in zip(a.leaves(), b.leaves(), strict=True)]
    return merged(cx, a.with_leaves(numbers), [a, b])  # type: ignore[no-any-return]
