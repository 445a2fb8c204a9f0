"""Lowers matrix algebra: ``@``, and the methods of vectors and matrices whose formulas depend on the shape.

Algorithms on matrices are in `quadrants_lab.frontend.library`, written in the kernel language itself.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from quadrants_lab.frontend.op_table import Builtin, Lower
from quadrants_lab.frontend.values import Lit, Matrix, Num, Number, Obj, Value, arith, matrix
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.lvalue import locate
from quadrants_lab.frontend.values.update import write
from quadrants_lab.ir.types import DType, u1


def operand(cx: Context, op: str, value: Value, node: ast.expr, ndim: int = 0) -> Matrix:
    """``value`` as a matrix (``ndim`` 2), as a vector (1) or as either (0); raises QL1430 for any other value."""
    m = matrix.as_matrix(cx, value, node)
    if m is None or (ndim and len(m.shape) != ndim):
        want = ("a vector or matrix", "a vector", "a matrix")[ndim]
        raise cx.fail("QL1430", node, op=op, want=want, what=(value if m is None else m).describe())
    return m


def square(cx: Context, op: str, value: Value, node: ast.expr) -> Matrix:
    """``value`` as a square matrix; raises QL1430 for any other value."""
    m = operand(cx, op, value, node)
    if len(m.shape) != 2 or m.shape[0] != m.shape[1]:
        raise cx.fail("QL1430", node, op=op, want="a square matrix", what=m.describe())
    return m


def _pair(cx: Context, op: str, call: ast.Call, left: Value, right: Value, ndim: int = 0) -> tuple[Matrix, Matrix]:
    """Two operands, which must have the same shape."""
    a, b = operand(cx, op, left, argument_node(call, 0), ndim), operand(cx, op, right, argument_node(call, 1), ndim)
    if a.shape != b.shape:
        raise cx.fail("QL1416", call, left=a.describe(), right=b.describe())
    return a, b


def _binary(op: type) -> Callable[[Context, Any, Number, Number], Number]:
    return lambda cx, node, a, b: arith.binary(cx, op, a, b, node, node, node)


_add, _sub, _mul, _div = (_binary(op) for op in (ast.Add, ast.Sub, ast.Mult, ast.Div))


def _sum(cx: Context, node: Any, terms: Sequence[Any]) -> Number:
    total: Number = reduce(partial(_add, cx, node), terms)
    return total


def _inner(cx: Context, node: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Number:
    """The inner product of two sequences of numbers."""
    return _sum(cx, node, [_mul(cx, node, x, y) for x, y in zip(xs, ys, strict=True)])


def _real(cx: Context, value: Number) -> DType:
    """The dtype of the number, default_fp for integers."""
    t = cx.type_of(value)
    return t if t.is_float else cx.options.default_fp


def _root(cx: Context, node: Any, value: Number) -> Number:
    """The square root of ``value``, a sum of squares. At 0 the derivative is defined as 0: the length of a vector has a
    kink there, and 0 is the subgradient of least length. So that no infinity arises, the root of 1 is taken at 0, and a
    select replaces the result by 0."""
    t = _real(cx, value)
    x = cx.to(value, t)
    cx.at(node)
    positive = cx.b.op("gt", x, cx.const(0.0, t))
    root = cx.b.op("sqrt", cx.b.op("select", positive, x, cx.const(1.0, t)))
    return Num(cx.b.op("select", positive, root, x), t)


def matmul(cx: Context, node: Any, left: Value, right: Value) -> Value:
    """``left @ right``; if both are vectors, their inner product."""
    a = operand(cx, "@", left, getattr(node, "left", node))
    b = operand(cx, "@", right, getattr(node, "right", node))
    inner = a.shape[-1]
    if inner != b.shape[0]:
        raise cx.fail("QL1431", node, left=a.describe(), right=b.describe())
    rows = [a.elements[k : k + inner] for k in range(0, len(a.elements), inner)]
    width = b.shape[1] if len(b.shape) == 2 else 1
    columns = [b.elements[k::width] for k in range(width)]
    flat = [_inner(cx, node, r, c) for r in rows for c in columns]
    shape = (*a.shape[:-1], *b.shape[1:])
    return matrix.build(cx, shape, flat) if shape else flat[0]


def _method(name: str, lower: Lower, ndim: int = 0) -> Lower:
    """The row of a method. ``lower`` gets the matrix, which must have ``ndim`` axes, and the other arguments."""
    return lambda cx, call, x, *more: lower(cx, call, operand(cx, name, x, argument_node(call, 0), ndim), *more)


def _inner_product(name: str, ndim: int) -> Lower:
    def lower(cx: Context, call: ast.Call, x: Value, y: Value) -> Value:
        a, b = _pair(cx, name, call, x, y, ndim)
        return _inner(cx, call, a.elements, b.elements)

    return lower


def _cross(cx: Context, call: ast.Call, x: Value, y: Value) -> Value:
    a, b = _pair(cx, "cross", call, x, y, 1)
    if a.shape not in ((2,), (3,)):
        raise cx.fail("QL1430", call, op="cross", want="vectors of 2 or 3 elements", what=a.describe())

    def minor(i: int, j: int) -> Number:
        first = _mul(cx, call, a.elements[i], b.elements[j])
        return _sub(cx, call, first, _mul(cx, call, a.elements[j], b.elements[i]))

    if a.shape == (2,):
        return minor(0, 1)
    return matrix.build(cx, (3,), [minor(1, 2), minor(2, 0), minor(0, 1)])


def _outer_product(cx: Context, call: ast.Call, x: Value, y: Value) -> Value:
    a = operand(cx, "outer_product", x, argument_node(call, 0), 1)
    b = operand(cx, "outer_product", y, argument_node(call, 1), 1)
    flat = [_mul(cx, call, p, q) for p in a.elements for q in b.elements]
    return matrix.build(cx, (a.shape[0], b.shape[0]), flat)


def _norm(cx: Context, call: ast.Call, a: Matrix, eps: Value | None) -> Number:
    total = _inner(cx, call, a.elements, a.elements)
    if eps is None or eps.constant == 0:
        return _root(cx, call, total)
    total = _add(cx, call, total, eps.number(cx, argument_node(call, 1)))
    return arith.emit(cx, "sqrt", _real(cx, total), total, node=call)


def _normalized(cx: Context, call: ast.Call, a: Matrix, eps: Value | None) -> Value:
    length = _norm(cx, call, a, None)
    if eps is not None:
        length = _add(cx, call, length, eps.number(cx, argument_node(call, 1)))
    t = _real(cx, length)
    size = cx.to(length, t)
    cx.at(call)
    zero, one = cx.const(0.0, t), cx.const(1.0, t)
    there = cx.b.op("ne", size, zero)
    share = cx.b.op("div", one, cx.b.op("select", there, size, one))
    scale = Num(cx.b.op("select", there, share, zero), t)
    return matrix.build(cx, a.shape, [_mul(cx, call, e, scale) for e in a.elements])


def _trace(cx: Context, call: ast.Call, x: Value) -> Value:
    a = square(cx, "trace", x, argument_node(call, 0))
    return _sum(cx, call, a.elements[:: a.shape[0] + 1])


def _extreme(name: str, meaning: Callable[..., Any]) -> Lower:
    def lower(cx: Context, call: ast.Call, m: Matrix) -> Value:
        def better(best: Any, e: Any) -> Number:
            return arith.fold(meaning, best, e, node=call) or arith.emit(cx, name, cx.type_of(e), best, e, node=call)

        best: Number = reduce(better, m.elements)
        return best

    return _method(name, lower)


def _quantifier(name: str, prim: str, meaning: Callable[..., Any]) -> Lower:
    """The method any or all: whether any, or every, element differs from 0."""

    def lower(cx: Context, call: ast.Call, m: Matrix) -> Value:
        elements: Sequence[Any] = m.elements
        if all(e.constant is not None for e in elements):
            return Lit(meaning(e.value for e in elements), call)
        cx.at(call)
        return Num(reduce(partial(cx.b.op, prim), [cx.to(e, u1) for e in elements]), u1)

    return _method(name, lower)


def _fill(cx: Context, call: ast.Call, x: Value, val: Value) -> Value:
    node, source = argument_node(call, 0), argument_node(call, 1)
    val.number(cx, source)
    write(cx, locate(cx, node), val, node, source, call)
    return Obj(None)


def _cast(cx: Context, call: ast.Call, m: Matrix, dtype: Value) -> Value:
    cx.at(call)
    return matrix.cast(cx, m, cx.dtype(dtype, argument_node(call, 1)))


_METHODS: tuple[Builtin, ...] = (
    Builtin("Matrix.__matmul__", ("self", "other"), matmul, "The product of matrices and vectors."),
    Builtin("Matrix.dot", ("self", "other"), _inner_product("dot", 1), "The inner product of two vectors."),
    Builtin("Matrix.frobenius_inner", ("self", "other"), _inner_product("frobenius_inner", 0),
            "The sum of the products of the elements."),
    Builtin("Matrix.cross", ("self", "other"), _cross, "The cross product; of vectors of 2 elements, a number."),
    Builtin("Matrix.outer_product", ("self", "other"), _outer_product, "All products of an element of each vector."),
    Builtin("Matrix.norm_sqr", ("self",), _method(
            "norm_sqr", lambda cx, call, m: _inner(cx, call, m.elements, m.elements)),
            "The sum of the squares of the elements."),
    Builtin("Matrix.norm", ("self", "eps="), _method("norm", _norm),
            "sqrt(norm_sqr() + eps); its derivative is 0 where it is 0."),
    Builtin("Matrix.norm_inv", ("self", "eps="), _method("norm", lambda cx, call, m, eps: _div(
            cx, call, Lit(1.0, call), _norm(cx, call, m, eps))), "1 / norm(eps)."),
    Builtin("Matrix.normalized", ("self", "eps="), _method("normalized", _normalized, 1),
            "The vector over norm() + eps; of zeros it is zero."),
    Builtin("Matrix.transpose", ("self",), _method("transpose", lambda cx, call, m: matrix.transposed(m), 2),
            "Rows become columns."),
    Builtin("Matrix.trace", ("self",), _trace, "The sum of the diagonal."),
    Builtin("Matrix.sum", ("self",), _method("sum", lambda cx, call, m: _sum(cx, call, m.elements)),
            "The sum of the elements."),
    Builtin("Matrix.max", ("self",), _extreme("max", max), "The greatest element."),
    Builtin("Matrix.min", ("self",), _extreme("min", min), "The least element."),
    Builtin("Matrix.any", ("self",), _quantifier("any", "or", any), "Whether an element is not zero."),
    Builtin("Matrix.all", ("self",), _quantifier("all", "and", all), "Whether no element is zero."),
    Builtin("Matrix.fill", ("self", "val"), _fill, "Every element becomes val."),
    Builtin("Matrix.cast", ("self", "dtype"), _method("cast", _cast), "The elements as dtype."),
)  # fmt: skip

_FUNCTIONS: tuple[Builtin, ...] = (
    Builtin("dot", ("x", "y"), _inner_product("dot", 1), "The inner product of two vectors.", home="math"),
    Builtin("cross", ("x", "y"), _cross, "The cross product of two vectors.", home="math"),
)

ROWS = (*(replace(row, home="Matrix") for row in _METHODS), *_FUNCTIONS)
