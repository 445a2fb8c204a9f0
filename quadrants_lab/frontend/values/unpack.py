"""Values with entries that are known at compile time: tuples, shapes, matrices and captured constants."""

import ast
from typing import Any

import numpy as np

from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.leaves import describe
from quadrants_lab.frontend.values.values import Dict, List, Matrix, Obj, Shape, Value

MOST_ENTRIES = 1_000_000


def check_count(cx: Context, n: int, node: ast.AST) -> None:
    """Raises QL1212 if so many entries, which are about to be made, would fill the memory."""
    if n > MOST_ENTRIES:
        raise cx.fail("QL1212", node, n=f"{n:,}", most=f"{MOST_ENTRIES:,}")


def slice_of(cx: Context, node: ast.Slice) -> slice:
    """The slice, whose ends and step are known at compile time."""
    ends = [None if e is None else cx.known(cx.expr(e), "QL1508", node) for e in (node.lower, node.upper, node.step)]
    if ends[2] == 0:
        raise cx.fail("QL1509", node)
    return slice(*ends)


def item(cx: Context, base: tuple[Any, ...] | Shape | Obj, node: ast.Subscript) -> Value:
    """The entry of a tuple, shape or captured constant at an index that is known at compile time, or those in a
    slice."""
    if isinstance(base, Obj) and not hasattr(type(base.value), "__getitem__"):
        raise cx.fail("QL1505", node, what=describe(base))
    index: Any
    if isinstance(node.slice, ast.Slice):
        index, shown = slice_of(cx, node.slice), ast.unparse(node.slice)
    else:
        index = cx.known(cx.expr(node.slice), "QL1508", node.slice)
        shown = repr(index)
    if isinstance(base, Obj):
        try:
            return cx.wrap(base.value[index], f"{base.text}[{shown}]", node)
        except (LookupError, TypeError):
            count = len(base.value) if hasattr(base.value, "__len__") else 0
            raise cx.fail("QL1506", node, index=shown, count=count) from None
    if isinstance(index, slice):
        part = (entries(cx, base) or ())[index]
        return List(part, cx.depth) if isinstance(base, List) else part
    count = base.count if isinstance(base, Shape) else len(base)
    if not isinstance(index, int) or not -count <= index < count:
        raise cx.fail("QL1506", node, index=shown, count=count)
    if isinstance(base, Shape):
        cx.at(node)
        return cx.extent(base.buffer, index % count)
    value: Value = base[index]
    return value


def entries(cx: Context, value: Value) -> tuple[Any, ...] | None:
    """The entries of a value that can be unpacked, the rows of a matrix, the keys of a dict; None for other values."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, Dict):
        return tuple(cx.wrap(key, repr(key)) for key in value.members)
    if isinstance(value, Shape):
        return tuple(cx.extent(value.buffer, k) for k in range(value.count))
    if isinstance(value, Matrix):
        columns = value.shape[-1]
        if len(value.shape) == 1:
            return value.elements
        return tuple(Matrix((columns,), value.elements[k * columns : (k + 1) * columns]) for k in range(value.shape[0]))
    if isinstance(value, Obj) and (
        isinstance(value.value, (tuple, list)) or (isinstance(value.value, np.ndarray) and value.value.ndim)
    ):
        return tuple(cx.wrap(v, f"{value.text}[{k}]") for k, v in enumerate(value.value))
    return None
