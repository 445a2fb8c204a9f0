"""Makes vectors and matrices in a kernel, and applies operations on numbers to their elements."""

import ast
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from quadrants_lab.frontend.diagnostics import count
from quadrants_lab.frontend.values import Lit, Matrix, Number, Tuple, Value
from quadrants_lab.frontend.values.compound import matrix_of
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.ir.types import DType


def build(cx: Context, shape: tuple[int, ...], elements: Sequence[Number], dtype: DType | None = None) -> Matrix:
    """The matrix of the ``elements``, row by row. With ``dtype`` each element is cast to it directly: cast to a common
    dtype first, a -1 among u32 would become 4294967295. Without ``dtype`` the elements are cast to their common dtype;
    if all of them are literals, they stay literals."""
    if dtype is not None:
        return Matrix(shape, tuple(cx.num(e, dtype) for e in elements))
    known = [e.constant for e in elements]
    if None not in known:
        kinds = {*map(type, known)}
        wide = next((e.dtype for e in elements if e.dtype is not None), None)
        if len(kinds) > 1 or wide is not None:
            kind = float if float in kinds else int
            elements = [Lit(kind(e.constant), e.node, dtype=wide) for e in elements]
    else:
        t = cx.common_dtype(*elements)
        elements = [cx.num(e, t) for e in elements]
    return Matrix(shape, tuple(elements))


def as_matrix(cx: Context, value: Value, node: ast.expr, dtype: DType | None = None) -> Matrix | None:
    """The value as a vector or matrix, cast to ``dtype`` if that is given. A list of numbers becomes a vector, and a
    list of lists or vectors becomes a matrix with these rows. None for any other value."""
    found = matrix_of(cx, value, node)
    return found if found is None or (found is value and dtype is None) else cast(cx, found, dtype)


def number_or_matrix(cx: Context, value: Value, node: ast.expr, uncast: bool = False) -> Number | Matrix:
    """``value`` as a number or as a matrix; raises an error if it is neither. With ``uncast`` the numbers of a list
    keep their own dtypes, and the caller casts them."""
    found = None if value.is_number else matrix_of(cx, value, node) if uncast else as_matrix(cx, value, node)
    return value.number(cx, node) if found is None else found


def elementwise(cx: Context, fn: Callable[..., Value], nodes: Sequence[ast.expr], node: ast.AST, *args: Value) -> Value:
    """Applies ``fn`` to the arguments element by element; numbers are broadcast to the shape of the matrices. The
    result is a matrix if some argument is one, else a number. ``nodes`` are the expressions of the arguments, and
    ``node`` is the whole expression."""
    if not any(a.shape for a in args):
        return fn(*(a.number(cx, n) for a, n in zip(args, nodes, strict=True)))
    values = [number_or_matrix(cx, a, n) for a, n in zip(args, nodes, strict=True)]
    matrices = [v for v in values if v.shape]
    first = matrices[0]
    for m in matrices:
        if m.shape != first.shape:
            raise cx.fail("QL1416", node, left=first.describe(), right=m.describe())
    out: list[Any] = [fn(*(v.nth(k) for v in values)) for k in range(prod(first.shape))]
    return build(cx, first.shape, out)


def cast(cx: Context, value: Matrix, dtype: DType | None) -> Matrix:
    """The matrix with every element cast to ``dtype``, or to the common dtype of the elements."""
    return build(cx, value.shape, value.elements, dtype)


def transposed(a: Matrix) -> Matrix:
    """The transpose of a matrix."""
    n, m = a.shape
    return Matrix((m, n), tuple(a.elements[i * m + j] for j in range(m) for i in range(n)))


def attribute(name: str, shape: tuple[int, ...], node: ast.AST) -> Value | None:
    """The value of the attribute ``n``, ``m`` or ``shape`` of a vector or matrix; None for other names."""
    rows, columns = (*shape, 1)[:2]
    both = Tuple(Lit(k, node) for k in shape)
    sizes: dict[str, Value] = {"n": Lit(rows, node), "m": Lit(columns, node), "shape": both}
    return sizes.get(name)


def construct(
    cx: Context, call: ast.Call, shape: tuple[int, ...], dtype: DType | None, args: Sequence[Value]
) -> Matrix:
    """The value of a call such as ``vec3(x, y, z)``, ``vec3(xy, z)``, ``vec3(0.0)`` or ``mat2([a, b], [c, d])``. The
    arguments contain as many numbers as the type has elements, or a single number for all elements."""
    cx.at(call)
    flat: list[Any] = []
    for a, n in zip(args, [*call.args, *([call] * len(args))], strict=False):
        flat += number_or_matrix(cx, a, n, uncast=True).leaves()
    want = prod(shape)
    if len(flat) == 1:
        flat *= want
    if len(flat) != want:
        raise cx.fail("QL1418", call, want=count(want, "number"), got=len(flat))
    return build(cx, shape, flat, dtype)


# --- elements by letters: ``v.x``, ``v.zyx``, ``v.rgb``, ``v.st`` ---

SETS = ("xyzw", "rgba", "stpq")
_POSITION = {name: {letter: k for k, letter in enumerate(name)} for name in SETS}


def swizzle(name: str) -> tuple[int, ...] | None:
    """The positions that ``name`` means if it is one to four letters of one set, else None."""
    if not 1 <= len(name) <= 4:
        return None
    for letters in _POSITION.values():
        if name[0] in letters:
            return tuple(letters[c] for c in name) if all(c in letters for c in name) else None
    return None


def letters(name: str, n: int) -> str:
    """The letters that a vector of ``n`` elements has in the set of the first letter of ``name``."""
    return next(s for s in SETS if name[0] in s)[:n]
