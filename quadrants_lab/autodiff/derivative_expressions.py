"""Reads the derivative expressions in the table of primitives: which primal values an expression needs, and its IR.

An operand's share is the part of the result's adjoint that the operand gets, as `ir.prims` explains.
"""

import ast
from collections.abc import Mapping
from functools import cache
from typing import cast

from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType

_BINARY: dict[type[ast.AST], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_COMPARE: dict[type[ast.AST], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}
OPERANDS = ("a", "b", "c")


@cache
def share(prim: str, operand: int) -> ast.expr | None:
    """The parsed share of operand number ``operand``, or None where no derivative reaches it."""
    text = PRIMS[prim].adjoint[operand]
    return None if text is None else cast("ast.expr", syntax_tree(text, "eval").body)


@cache
def needs(prim: str, operand: int) -> frozenset[str]:
    """Which of a, b, c (operands) and r (result) the share of ``operand`` reads."""
    tree = share(prim, operand)
    if tree is None:
        return frozenset()
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) & {*OPERANDS, "r"}


def emit(b: Builder, tree: ast.expr, env: Mapping[str, int], type: DType, target: DType) -> int:
    """Emits the statements that compute a share from its parsed expression ``tree``. ``env`` maps the names g (adjoint
    of the result), a, b, c (operands) and r (result) to values. Literals get the dtype ``type``; ``cast`` converts to
    ``target``, the operand's dtype."""

    def go(node: ast.expr) -> int:
        match node:
            case ast.Name(id="zero"):
                return b.const(0, type)
            case ast.Name(id=name):
                return env[name]
            case ast.Constant(value=value) if isinstance(value, (int, float)):
                return b.const(value, type)
            case ast.BinOp(left=left, op=op, right=right):
                return b.op(_BINARY[op.__class__], go(left), go(right))
            case ast.UnaryOp(operand=inner):
                return b.op("neg", go(inner))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return b.op(_COMPARE[op.__class__], go(left), go(right))
            case ast.Call(func=ast.Name(id="cast"), args=[inner]):
                return b.cast(go(inner), target)
            case ast.Call(func=ast.Name(id=name), args=args):
                return b.op(name, *(go(x) for x in args))
        raise AssertionError(f"not a derivative expression: {ast.dump(node)}")

    return go(tree)
