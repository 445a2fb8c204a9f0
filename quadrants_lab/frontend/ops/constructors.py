"""Lowers constructors of vectors, matrices and structs."""

import ast
from dataclasses import replace
from math import prod
from typing import Any

from quadrants_lab.frontend.op_table import ALL, Builtin, Lower
from quadrants_lab.frontend.ops.linalg import operand
from quadrants_lab.frontend.values import Lit, Matrix, Num, Number, Obj, Struct, Tuple, Value, matrix
from quadrants_lab.frontend.values.context import Context, argument_node, check_count


def _constructor(axes: int) -> Lower:
    """The operation `qd.Vector` (``axes`` 1) or `qd.Matrix` (``axes`` 2), which makes a vector or matrix of a list."""

    def lower(cx: Context, call: ast.Call, arr: Value, dt: Value | None) -> Value:
        node = argument_node(call, 0)
        cx.at(call)
        value = matrix.as_matrix(cx, arr, node, None if dt is None else cx.dtype(dt, call))
        if value is None:
            raise cx.fail("QL1419", node, what=arr.describe())
        if axes == 1 and len(value.shape) == 2 and value.shape[1] == 1:
            value = Matrix(value.shape[:1], value.elements)
        return Matrix(value.shape, value.elements)

    return lower


def _size(cx: Context, value: Value, call: ast.Call, op: str) -> int:
    """A number of rows or columns, which must be known at compile time."""
    n = cx.known(value, "QL1610", call, op=f"qd.Matrix.{op}")
    if not isinstance(n, int) or n < 1:
        raise cx.fail("QL1430", call, op=op, want="a number of elements", what=value.describe())
    return n


def _filled(name: str, value: int) -> Lower:
    def lower(cx: Context, call: ast.Call, dt: Value, n: Value, m: Value | None) -> Value:
        shape = tuple(_size(cx, v, call, name) for v in (n, m) if v is not None)
        check_count(cx, prod(shape), call)
        t = cx.dtype(dt, call)
        cx.at(call)
        return Matrix(shape, (Num(cx.const(value, t), t),) * prod(shape))

    return lower


def _unit(cx: Context, call: ast.Call, n: Value, i: Value, dt: Value | None) -> Value:
    size = _size(cx, n, call, "unit")
    check_count(cx, size, call)
    at = i.number(cx, argument_node(call, 1))
    if cx.type_of(at).is_float:
        raise cx.fail("QL1502", argument_node(call, 1), dtype=cx.type_of(at), k=0, text="qd.Vector.unit")
    cx.at(call)
    if (known := at.constant) is not None:
        if known not in range(size):
            raise cx.fail("QL1506", call, index=known, count=size)
        made = Matrix((size,), tuple(Lit(int(k == known), call) for k in range(size)))
        return made if dt is None else matrix.cast(cx, made, cx.dtype(dt, call))
    t = cx.options.default_ip if dt is None else cx.dtype(dt, call)
    wide: Any = cx.index(at)  # i32 or i64, so that every position fits
    tests = (cx.b.op("eq", wide.id, cx.const(k, wide.type)) for k in range(size))
    return Matrix((size,), tuple(Num(cx.b.op("select", one, cx.const(1, t), cx.const(0, t)), t) for one in tests))


def _identity(cx: Context, call: ast.Call, dt: Value, n: Value) -> Value:
    size, t = _size(cx, n, call, "identity"), cx.dtype(dt, call)
    cx.at(call)
    return _diagonal(cx, call, size, Num(cx.const(1, t), t), Num(cx.const(0, t), t))


def _diag(cx: Context, call: ast.Call, dim: Value, val: Value) -> Value:
    value = val.number(cx, argument_node(call, 1))
    cx.at(call)
    known, t = value.constant, cx.type_of(value)
    zero = Num(cx.const(0, t), t) if known is None else Lit(type(known)(0), call)
    return _diagonal(cx, call, _size(cx, dim, call, "diag"), value, zero)


def _diagonal(cx: Context, call: ast.Call, n: int, value: Number, zero: Number) -> Matrix:
    check_count(cx, n * n, call)
    return Matrix((n, n), tuple(value if i == j else zero for i in range(n) for j in range(n)))


def _rows(cx: Context, call: ast.Call, rows: Value, op: str = "rows") -> Matrix:
    return operand(cx, op, rows, argument_node(call, 0), 2)


def _struct(cx: Context, call: ast.Call, *args: Value) -> Value:
    """``qd.Struct(a=1, b=[1.0, 2.0])``, or the same with a dict: the values fix the types of the members."""
    given: dict[Any, ast.expr] = {k.arg: k.value for k in call.keywords}
    for a in call.args:
        names = [getattr(key, "value", None) for key in getattr(a, "keys", (None,))]  # literal keys of a dict
        if not all(isinstance(name, str) for name in names):
            raise cx.fail("QL1602", call, text="qd.Struct", what="takes members by name", params="name=value, ...")
        given.update(zip(names, getattr(a, "values", ()), strict=True))
    members: dict[str, Value] = {}
    for name, node in given.items():
        if name is None:
            raise cx.fail("QL1608", node)
        value = cx.expr(node)
        members[name] = value if isinstance(value, Struct) else matrix.number_or_matrix(cx, value, node)
    return Struct(None, members)


_CONSTRUCTORS: tuple[Builtin, ...] = (
    Builtin("Matrix.zero", ("dt", "n", "m="), _filled("zero", 0), "n elements, or n rows and m columns, of zeros."),
    Builtin("Matrix.one", ("dt", "n", "m="), _filled("one", 1), "n elements, or n rows and m columns, of ones."),
    Builtin("Matrix.unit", ("n", "i", "dt="), _unit, "n zeros, with a one at i."),
    Builtin("Matrix.identity", ("dt", "n"), _identity, "Ones on the diagonal of n rows and columns."),
    Builtin("Matrix.diag", ("dim", "val"), _diag, "val on the diagonal of dim rows and columns."),
    Builtin("Matrix.rows", ("rows",), _rows, "The matrix with these rows."),
    Builtin("Matrix.cols", ("cols",), lambda cx, call, cols: matrix.transposed(_rows(cx, call, cols, "cols")),
            "The matrix with these columns."),
)  # fmt: skip

ROWS: tuple[Builtin, ...] = (
    Builtin("Vector", ("arr", "dt="), _constructor(1), "A vector of the numbers in a list.", home="Matrix"),
    Builtin("Matrix", ("arr", "dt="), _constructor(2), "A matrix from a list of rows, a vector from a list of numbers.",
            home="Matrix"),
    Builtin("Matrix.get_shape", ("self",), lambda cx, call, m: Tuple(Lit(k, call) for k in m.shape),
            "The number of rows and columns.", home="Matrix"),
    Builtin("Struct", ("*",), _struct, "Named values.", ALL, home="Struct"),
    *(replace(row, home="Matrix") for row in _CONSTRUCTORS),
    Builtin("eye", ("n",), lambda cx, call, n: _identity(cx, call, Obj(float), n),
            "The identity of n rows, of default_fp.", home="math"),
)  # fmt: skip
