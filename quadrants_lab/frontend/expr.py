"""Expressions: constants, names, attributes, elements."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrants_lab.frontend import arith
from quadrants_lab.frontend.context import Context, describe, suggestion
from quadrants_lab.frontend.values import Lit, Mem, Num, Obj, Shape, Value, name_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i32


def _constant(cx: Context, node: ast.Constant) -> Value:
    return Lit(node.value, node) if type(node.value) in (bool, int, float) else Obj(node.value)


def _tuple(cx: Context, node: ast.Tuple) -> Value:
    return tuple(cx.expr(e) for e in node.elts)


def _list(cx: Context, node: ast.List) -> Value:
    if not cx.static:
        raise cx.unsupported(node)
    return tuple(cx.expr(e) for e in node.elts)


def _format_string(cx: Context, node: ast.JoinedStr) -> Value:
    raise cx.fail("QL1207", node)


# --- attributes -------------------------------------------------------------------------------------------------


def _attribute(cx: Context, node: ast.Attribute) -> Value:
    base = cx.expr(node.value)
    if isinstance(base, Mem):
        read = _MEMBERS.get(node.attr)
        if read is None:
            hint = suggestion(node.attr, list(_MEMBERS))
            cure = f"a kernel sees {', '.join(f'{base.text}.{m}' for m in _MEMBERS)} and the elements"
            raise cx.fail("QL1306", node, text=base.text, name=node.attr, hint=hint, cure=cure)
        return read(cx, base, node)
    if isinstance(base, Obj) and base.value is not None:
        text = f"{base.text}.{node.attr}"
        try:
            return cx.wrap(getattr(base.value, node.attr), text, node)
        except AttributeError as e:
            hint = suggestion(node.attr, dir(base.value))
            cure = str(e) if isinstance(e, NotImplementedError) else "check the name"
            raise cx.fail("QL1306", node, text=base.text, name=node.attr, hint=hint, cure=cure) from None
    raise cx.fail("QL1306", node, text=name_of(node.value), name=node.attr, hint=f": it is {describe(base)}",
                  cure="only fields, ndarrays and modules have attributes in a kernel")  # fmt: skip


def _shape(cx: Context, base: Mem, node: ast.Attribute) -> Value:
    if base.buffer.shape is None:
        return Shape(base.buffer)
    return tuple(Lit(n, node) for n in base.buffer.shape)


def _grad(cx: Context, base: Mem, node: ast.Attribute) -> Value:
    if not base.buffer.grad:
        raise cx.fail("QL1507", node, text=base.text)
    return Mem(cx.buffers[base.buffer.grad], f"{base.text}.grad")


_MEMBERS: dict[str, Callable[[Context, Mem, ast.Attribute], Value]] = {
    "shape": _shape,
    "grad": _grad,
    "dtype": lambda cx, base, node: Obj(base.buffer.dtype, f"{base.text}.dtype"),
}


# --- elements ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Element:
    """``buffer[index]``, as the target of a store or atomic."""

    buffer: N.Buffer
    index: tuple[int, ...]
    text: str


def element(cx: Context, node: ast.Subscript, base: Mem) -> Element:
    """The element that a subscript of a field or ndarray names."""
    parts: list[ast.expr] = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) == 1 and isinstance(parts[0], ast.Constant) and parts[0].value is None:
        parts = []
    ndim = base.buffer.ndim
    if len(parts) != ndim:
        index = ", ".join("ijkl"[:ndim]) if ndim else "None"
        got = f"{len(parts)} indices" if len(parts) > 1 else "1 index" if parts else "None"
        raise cx.fail("QL1501", node, text=base.text, ndim=ndim, axes="axis" if ndim == 1 else "axes", got=got,
                      cure=f"write {base.text}[{index}]")  # fmt: skip
    return Element(base.buffer, tuple(_index(cx, p, k, base.text) for k, p in enumerate(parts)), base.text)


def _index(cx: Context, node: ast.expr, k: int, text: str) -> int:
    if isinstance(node, ast.Slice):
        raise cx.fail("QL1504", node)
    value = cx.scalar(node)
    t = cx.type_of(value)
    if t.is_float:
        raise cx.fail("QL1502", node, dtype=t, k=k, text=text)
    if isinstance(value, Lit) and value.value < 0 and isinstance(node, ast.UnaryOp):
        raise cx.fail("QL1503", node, k=k, text=text, back=-value.value)
    cx.at(node)
    return cx.to(value, i32)


def _subscript(cx: Context, node: ast.Subscript) -> Value:
    base = cx.expr(node.value)
    if isinstance(base, Mem):
        place = element(cx, node, base)
        cx.at(node)
        return Num(cx.b.load(place.buffer, place.index), place.buffer.dtype)
    if isinstance(base, (tuple, Shape, Obj)):
        return item(cx, base, node)
    raise cx.fail("QL1505", node, what=describe(base))


def item(cx: Context, base: tuple[Any, ...] | Shape | Obj, node: ast.Subscript) -> Value:
    """Entry of a tuple, shape or captured constant; the index is known at compile time."""
    if isinstance(base, Obj) and not hasattr(type(base.value), "__getitem__"):
        raise cx.fail("QL1505", node, what=describe(base))
    try:
        index = cx.python(cx.expr(node.slice))
    except TypeError:
        raise cx.fail("QL1508", node.slice) from None
    if isinstance(base, Obj):
        try:
            return cx.wrap(base.value[index], f"{base.text}[{index!r}]", node)
        except (LookupError, TypeError):
            count = len(base.value) if hasattr(base.value, "__len__") else 0
            raise cx.fail("QL1506", node, index=repr(index), count=count) from None
    count = base.buffer.ndim if isinstance(base, Shape) else len(base)
    if not isinstance(index, int) or not -count <= index < count:
        raise cx.fail("QL1506", node, index=repr(index), count=count)
    if isinstance(base, Shape):
        cx.at(node)
        return cx.extent(base.buffer, index % count)
    value: Value = base[index]
    return value


def entries(cx: Context, value: Value) -> tuple[Value, ...] | None:
    """The entries of what can be unpacked, else None."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, Shape):
        return tuple(cx.extent(value.buffer, k) for k in range(value.buffer.ndim))
    if isinstance(value, Obj) and isinstance(value.value, (tuple, list)):
        return tuple(cx.wrap(v, f"{value.text}[{k}]") for k, v in enumerate(value.value))
    return None


EXPRS: dict[type, Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: Context.name,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.JoinedStr: _format_string,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: arith.binop,
    ast.UnaryOp: arith.unary,
    ast.Compare: arith.compare,
    ast.BoolOp: arith.boolop,
    ast.IfExp: arith.conditional,
}
