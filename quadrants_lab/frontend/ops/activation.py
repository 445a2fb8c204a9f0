"""Lowers operations on sparse layouts: `qd.activate`, `qd.append` and so on, and the methods of lists of dynamic
nodes."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

from quadrants_lab.frontend.op_table import Builtin, Lower
from quadrants_lab.frontend.source import note_unknown
from quadrants_lab.frontend.values import Element, Matrix, Num, Obj, Value, active_cells
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.lvalue import given_index
from quadrants_lab.frontend.values.update import store_number
from quadrants_lab.ir.types import i32, u1

ALL = ("pointer", "bitmasked", "dynamic")


def _node(cx: Context, call: ast.Call, value: Value, kinds: tuple[str, ...] = ALL) -> Any:
    """The node that is the first argument of the call; its kind must be one of ``kinds``."""
    node = value.snode
    if node is None:
        raise cx.fail("QL1711", argument_node(call, 0), what=value.describe(), kinds=" or ".join(kinds))
    if node.kind not in kinds:
        raise cx.fail("QL1711", argument_node(call, 0), what=f"a {node.kind} node", kinds=" or ".join(kinds))
    return node


def _indices(cx: Context, call: ast.Call, value: Value, ndim: int) -> tuple[int, ...]:
    """The SSA ids of an index with ``ndim`` axes, given as the argument ``value`` of the call."""
    numbers = given_index(cx, call, value, ndim, "node, indices")
    cx.at(call)
    found = [cx.index(n) for n in numbers]
    return tuple(cx.to(n, cx.type_of(n)) for n in found)


def _activate(cx: Context, call: ast.Call, node: Value, indices: Value) -> Value:
    cell = _node(cx, call, node, ALL[:2])
    active_cells.activate(cx, cell, _indices(cx, call, indices, len(cell.axes)), cell)
    return Obj(None)


def _is_active(cx: Context, call: ast.Call, node: Value, indices: Value) -> Value:
    cell = _node(cx, call, node, ALL[:2])
    at = active_cells.activity_slot(cx, cell, _indices(cx, call, indices, len(cell.axes)), cell)
    return Num(cx.b.op("gt", cx.b.load(at.buffer, at.index), at.rank), u1)


def _deactivate(cx: Context, call: ast.Call, cell: Any, at: tuple[int, ...], mems: Sequence[Any]) -> Value:
    cx.at(call)
    active_cells.deactivate(cx, cell, at)
    return Obj(None)


def _length(cx: Context, call: ast.Call, cell: Any, at: tuple[int, ...], mems: Sequence[Any]) -> Value:
    cx.at(call)
    count = cx.b.load(active_cells.activity_buffer(cx, cell), at)  # an append to a full list counts, but stores nothing
    return Num(cx.b.op("min", count, cx.const(cell.capacity, i32)), i32)


def _append(
    cx: Context, call: ast.Call, cell: Any, at: tuple[int, ...], mems: Sequence[Any], val: Value, node: ast.expr
) -> Value:
    """Appends ``val`` to a list of a dynamic node, unless the list is full. Returns the index of the element in the
    list."""
    parts = [val] if len(mems) == 1 else list(val.leaves())
    if len(parts) != len(mems) or any(m.buffer.ndim != len(cell.axes) + len(m.element_shape) for m in mems):
        raise cx.fail("QL1417", node, what=val.describe(), target=f"an element of {len(mems)} fields")
    cx.at(call)
    slot, place = active_cells.appended(cx, cell, at)
    full = cx.b.op("lt", slot, cx.const(cell.capacity, i32))
    with cx.b.when(full):
        for mem, part in zip(mems, parts, strict=True):
            for leaf, number in Element(mem, place).pairs(cx, part, node):
                store_number(cx, leaf, number, call)
    return Num(slot, i32)


def _of_node(lower: Callable[..., Value], kinds: tuple[str, ...] = ALL[2:]) -> Lower:
    """The lowering of an operation whose arguments are a node and an index: the cell of the node, or the list of a
    dynamic node, at this index."""

    def of_node(cx: Context, call: ast.Call, node: Value, indices: Value, *val: Value) -> Value:
        cell = _node(cx, call, node, kinds)
        holder = cell.parent() if cell.kind == "dynamic" else cell
        at = _indices(cx, call, indices, len(holder.axes))
        mems = [cx.wrap(f, f.name or "placed", call) for f in cell.fields] if val else []
        return lower(cx, call, cell, at, mems, *val, *(argument_node(call, 2) for _ in val))

    return of_node


def _of_list(lower: Callable[..., Value]) -> Lower:
    """An operation on a list of a dynamic node, as a method: ``x[i].append(v)``."""

    def of_list(cx: Context, call: ast.Call, x: Any, *val: Value) -> Value:
        mem, *index = x
        at = tuple(k.id for k in index)
        cell = cx.bindings[mem.fields[0].buffer.name].snode.sparse
        return lower(cx, call, cell, at, mem.fields, *val, *(argument_node(call, 1) for _ in val))

    return of_list


def _parent(cx: Context, call: ast.Call, x: Value, n: Value | None) -> Value:
    """The node that a field or node is placed in."""
    note_unknown()
    levels = 1 if n is None else n.python(cx)
    found = (x.fields or (x,))[0].python(cx)
    return Obj(found.parent(levels), ast.unparse(call))


def _rescale_index(cx: Context, call: ast.Call, a: Value, b: Value, index: Value) -> Value:
    """An index of the node or field ``a`` as an index of ``b``: each axis is multiplied, or divided, by the ratio of
    the extents."""
    note_unknown()
    of, to = (v.python(cx) for v in (a, b))
    for k, grid in enumerate((of, to)):
        if not any(getattr(grid, mark, False) is True for mark in ("__qd_snode__", "__qd_field__")):
            raise cx.fail("QL1711", argument_node(call, k), what=(a, b)[k].describe(), kinds="any")
    parts = index.entries(cx) or (index,)
    if len(parts) > min(len(of.shape), len(to.shape)):
        what = f"I has {len(parts)} entries, a and b have {len(of.shape)} and {len(to.shape)} axes"
        raise cx.fail("QL1602", call, text="qd.rescale_index", what=what, params="a, b, I")
    node = argument_node(call, 2)
    out = []
    for k, value in enumerate(parts):
        number = cx.num(value.load(cx, node).number(cx, node))
        cx.at(call)
        n, m = of.shape[k], to.shape[k]
        by = cx.const(max(n // m, m // n), number.type)
        out.append(Num(cx.b.op("floordiv" if n >= m else "mul", number.id, by), number.type))
    return Matrix((len(out),), tuple(out))


ROWS: tuple[Builtin, ...] = (
    Builtin("activate", ("node", "indices"), _activate, "Makes a cell of a pointer or bitmasked node active, and the "
            "cells above it."),
    Builtin("deactivate", ("node", "indices"), _of_node(_deactivate, ALL),
            "Makes a cell, or a list of a dynamic node, inactive: what lies in it becomes 0."),
    Builtin("is_active", ("node", "indices"), _is_active, "Whether a cell of a pointer or bitmasked node is active."),
    Builtin("SNode.length", ("node", "indices"), _of_node(_length), "How many elements a list of a dynamic node has.",
            home="SNode"),
    Builtin("append", ("node", "indices", "val"), _of_node(_append),
            "Appends to a list of a dynamic node; the index of the new element in it."),
    Builtin("rescale_index", ("a", "b", "I"), _rescale_index, "The index of b that the index I of a falls into; a and "
            "b are fields or nodes."),
    Builtin("Field.append", ("x", "val"), _of_list(_append), "See qd.append.", home="Field"),
    Builtin("Field.length", ("x",), _of_list(_length), "See qd.length.", home="Field"),
    Builtin("Field.deactivate", ("x",), _of_list(_deactivate), "See qd.deactivate.", home="Field"),
    Builtin("Field.parent", ("x", "n="), _parent, "The node that it is placed in.", home="Field"),
)  # fmt: skip
