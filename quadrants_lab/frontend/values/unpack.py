"""Values with entries that are known at compile time: tuples, shapes, matrices and captured constants."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.leaves import describe
from quadrants_lab.frontend.values.values import Matrix, Obj, Shape, Value


def item(cx: Context, base: tuple[Any, ...] | Shape | Obj, node: ast.Subscript) -> Value:
    """The entry of a tuple, shape or captured constant at an index that is known at compile time."""
    if isinstance(base, Obj) and not hasattr(type(base.value), "__getitem__"):
        raise cx.fail("QL1505", node, what=describe(base))
    index = cx.known(cx.expr(node.slice), "QL1508", node.slice)
    if isinstance(base, Obj):
        try:
            return cx.wrap(base.value[index], f"{base.text}[{index!r}]", node)
        except (LookupError, TypeError):
            count = len(base.value) if hasattr(base.value, "__len__") else 0
            raise cx.fail("QL1506", node, index=repr(index), count=count) from None
    count = base.count if isinstance(base, Shape) else len(base)
    if not isinstance(index, int) or not -count <= index < count:
        raise cx.fail("QL1506", node, index=repr(index), count=count)
    if isinstance(base, Shape):
        cx.at(node)
        return cx.extent(base.buffer, index % count)
    value: Value = base[index]
    return value


def entries(cx: Context, value: Value) -> tuple[Any, ...] | None:
    """The entries of a value that can be unpacked, the rows of a matrix; None for other values."""
    if isinstance(value, tuple):
        return value
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
