"""Vectors and matrices in a kernel: made, taken apart, and put through what is defined on numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from quadrants_lab.frontend.diagnostics import count
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.leaves import describe
from quadrants_lab.frontend.values.unpack import entries
from quadrants_lab.frontend.values.values import Lit, Matrix, Num, Number, Value
from quadrants_lab.ir.types import DType


def made(cx: Context, shape: tuple[int, ...], elements: Sequence[Number]) -> Matrix:
    """The matrix of these elements, at their common dtype; literals stay literals where all of them are."""
    nums = [e for e in elements if isinstance(e, Num)]
    if not nums:
        kinds = {type(e.value) for e in elements if isinstance(e, Lit)}
        wide = next((e.dtype for e in elements if isinstance(e, Lit) and e.dtype is not None), None)
        if len(kinds) > 1 or wide is not None:
            kind = float if float in kinds else int
            elements = [Lit(kind(e.value), e.node, dtype=wide) for e in elements if isinstance(e, Lit)]
    elif len(nums) < len(elements) or any(n.type is not nums[0].type for n in nums):
        t = cx.meet(*elements)
        elements = [cx.num(e, t) for e in elements]
    return Matrix(shape, tuple(elements))


def as_matrix(cx: Context, value: Value, node: ast.expr) -> Matrix | None:
    """A matrix from a matrix, a list of numbers (a vector) or a list of lists or vectors (its rows); None for
    anything else."""
    if isinstance(value, Matrix):
        return value
    parts = entries(cx, value)
    if parts is None or not parts:
        return None
    if all(isinstance(p, (Num, Lit)) for p in parts):
        return made(cx, (len(parts),), [p for p in parts if isinstance(p, (Num, Lit))])
    found = [as_matrix(cx, p, node) for p in parts]
    rows = [r for r in found if r is not None and len(r.shape) == 1]
    if len(rows) < len(parts):
        return None
    first = rows[0]
    flat: list[Any] = []
    for r in rows:
        if r.shape != first.shape:
            raise cx.fail("QL1416", node, left=describe(first), right=describe(r))
        flat += r.elements
    return made(cx, (len(rows), *first.shape), flat)


def shaped(cx: Context, value: Value, node: ast.expr) -> Number | Matrix:
    """``value`` as a number or matrix, or the error that says what it is."""
    if isinstance(value, (Num, Lit)):
        return value
    found = as_matrix(cx, value, node)
    return cx.number(value, node) if found is None else found


def each(cx: Context, fn: Callable[..., Value], nodes: Sequence[ast.expr], node: ast.AST, *args: Value) -> Value:
    """``fn`` of numbers; of matrices of one shape, and numbers, the matrix of ``fn`` of their elements.

    ``nodes`` are the expressions of the arguments, ``node`` that of the whole.
    """
    if not any(isinstance(a, Matrix) for a in args):
        return fn(*(cx.number(a, n) for a, n in zip(args, nodes, strict=True)))
    values = [shaped(cx, a, n) for a, n in zip(args, nodes, strict=True)]
    matrices = [v for v in values if isinstance(v, Matrix)]
    first = matrices[0]
    for m in matrices:
        if m.shape != first.shape:
            raise cx.fail("QL1416", node, left=describe(first), right=describe(m))
    out = []
    for k in range(len(first.elements)):
        result = fn(*(v.elements[k] if isinstance(v, Matrix) else v for v in values))
        assert isinstance(result, (Num, Lit))
        out.append(result)
    return made(cx, first.shape, out)


def cast(cx: Context, value: Matrix, dtype: DType) -> Matrix:
    """Every element as ``dtype``, values of the running kernel."""
    return Matrix(value.shape, tuple(cx.num(e, dtype) for e in value.elements if isinstance(e, (Num, Lit))))


def transposed(a: Matrix) -> Matrix:
    """Rows become columns."""
    n, m = a.shape
    return Matrix((m, n), tuple(a.elements[i * m + j] for j in range(m) for i in range(n)))


ATTRIBUTES: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "n": lambda shape: shape[0],
    "m": lambda shape: shape[1] if len(shape) > 1 else 1,
    "shape": lambda shape: shape,
}


def attribute(name: str, shape: tuple[int, ...], node: ast.AST) -> Value | None:
    """``.n``, ``.m`` and ``.shape``."""
    read = ATTRIBUTES.get(name)
    if read is None:
        return None
    known = read(shape)
    return tuple(Lit(k, node) for k in known) if isinstance(known, tuple) else Lit(known, node)


# --- constructors -----------------------------------------------------------------------------------------------


def of_type(cx: Context, call: ast.Call, shape: tuple[int, ...], dtype: DType | None, args: Sequence[Value]) -> Matrix:
    """``vec3(x, y, z)``, ``vec3(xy, z)``, ``vec3(0.0)``, ``mat2([a, b], [c, d])``: as many numbers as the type has, or
    one for all."""
    flat: list[Any] = []
    for a, n in zip(args, [*call.args, *([call] * len(args))], strict=False):
        value = shaped(cx, a, n)
        flat += value.elements if isinstance(value, Matrix) else [value]
    want = 1
    for k in shape:
        want *= k
    if len(flat) == 1:
        flat *= want
    if len(flat) != want:
        raise cx.fail("QL1418", call, want=count(want, "number"), got=len(flat))
    cx.at(call)
    result = made(cx, shape, flat)
    return result if dtype is None else cast(cx, result, dtype)
