"""Reads the derivative expressions in the table of primitives: which primal values an expression needs, and its IR; and
which values of a kernel carry a derivative.

An operand's share is the part of the result's adjoint that the operand gets, as `ir.prims` explains.
"""

import ast
from collections.abc import Mapping
from functools import cache
from typing import cast

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.ir.loop_carried import merges
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import of_kind, reached, types_of, walk

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


# --- activity --------------------------------------------------------------------------------------------------------
#
# A value carries a derivative if it varies (it depends on a buffer with a gradient) and is useful (a buffer with a
# gradient depends on it).


def flows(stmt: N.Op) -> tuple[int, ...]:
    """The operands of an op with respect to which it has a derivative."""
    return tuple([stmt.args[n] for n in _open(stmt.prim, len(stmt.args))])


@cache
def _open(prim: str, arity: int) -> tuple[int, ...]:
    """The positions of the operands with respect to which the primitive has a derivative."""
    return tuple(n for n in range(arity) if share(prim, n) is not None)


def active_values(kernel: N.Kernel, with_derivative: set[str] | None = None) -> set[int]:
    """Ids of the floating-point values of an offloaded kernel through which a derivative flows between the buffers
    ``with_derivative`` (by default the buffers with an adjoint). A launch temporary (memory between two tasks of one
    launch) is never an end of the flow: a derivative flows through it, from the values written to the values read."""
    floats = {v for v, t in types_of(kernel.body).items() if t.is_float}
    carriers = {b.name for b in kernel.buffers.values() if b.grad} if with_derivative is None else with_derivative
    stmts = list(walk(kernel.body))
    # a derivative goes from a value, or a buffer by name, to another
    steps: list[tuple[int | str, int | str]] = [(a, op.id) for op in of_kind(stmts, N.Op) for a in flows(op)]
    steps += [(s.buffer, s.id) for s in of_kind(stmts, N.Read) if s.buffer in carriers]
    steps += [(s.value, s.buffer) for s in of_kind(stmts, N.Write) if s.buffer in carriers]
    steps += [pair for s in stmts for pair in merges(s)]
    forward: dict[int | str, list[int | str]] = {}
    backward: dict[int | str, list[int | str]] = {}
    for a, b in steps:
        if (a in floats or a in carriers) and (b in floats or b in carriers):
            forward.setdefault(a, []).append(b)
            backward.setdefault(b, []).append(a)
    ends: set[int | str] = {name for name in carriers if name in kernel.buffers and not kernel.buffers[name].transient}
    vary, useful = (reached(ends, lambda v, on=on: on.get(v, ())) for on in (forward, backward))  # type: ignore[misc]
    return {v for v in floats if v in vary and v in useful}
