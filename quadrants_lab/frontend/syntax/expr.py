"""The table of expressions by AST node; constants, tuples, lists and format strings."""

from __future__ import annotations

import ast
from collections.abc import Callable

from quadrants_lab.frontend.syntax import logic
from quadrants_lab.frontend.syntax.printing import text_parts
from quadrants_lab.frontend.values import arith
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import read
from quadrants_lab.frontend.values.values import Lit, Obj, Value


def _constant(cx: Context, node: ast.Constant) -> Value:
    return Lit(node.value, node) if type(node.value) in (bool, int, float) else Obj(node.value)


def _sequence(cx: Context, node: ast.Tuple | ast.List) -> Value:
    return tuple(cx.expr(e) for e in node.elts)


def _format_string(cx: Context, node: ast.JoinedStr) -> Value:
    """The text of a format string, which must be known at compile time."""
    with cx.setting(static=cx.static + 1):
        parts = text_parts(cx, node)
    if not all(isinstance(p, str) for p in parts):
        raise cx.fail("QL1207", node)
    return Obj("".join(map(str, parts)))


EXPRS: dict[type, Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: Context.name,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.JoinedStr: _format_string,
    ast.Attribute: read,
    ast.Subscript: read,
    ast.BinOp: arith.binop,
    ast.UnaryOp: arith.unary,
    ast.Compare: logic.compare,
    ast.BoolOp: logic.boolop,
    ast.IfExp: logic.conditional,
}
