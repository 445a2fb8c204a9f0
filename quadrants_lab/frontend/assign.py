"""Assignment: to locals, to elements, with and without an operator."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.arith import binary
from quadrants_lab.frontend.context import Context, convert, describe, dtype_of
from quadrants_lab.frontend.diagnostics import count
from quadrants_lab.frontend.expr import Element, element, entries
from quadrants_lab.frontend.values import ArgRef, Lit, Mem, Num, Obj, Shape, Temp, Value, name_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1

# augmented assignments to elements that are atomic; the others read, compute and store
ATOMIC: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
_REDUCTIONS = (ast.Add, ast.Sub)


def assign(cx: Context, node: ast.Assign) -> None:
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0]
        value = cx.expr(node.value)
        set_name(cx, name, value, node, node.value)
        return
    value = cx.expr(node.value)
    for target in node.targets:
        _bind(cx, target, value, node, node.value)


def _bind(cx: Context, target: ast.expr, value: Value, node: ast.stmt, source: ast.expr) -> None:
    if isinstance(target, ast.Name):
        set_name(cx, target, value, node, source)
    elif isinstance(target, ast.Subscript):
        _store(cx, target, cx.number(value, source), node)
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = entries(cx, value)
        for t in target.elts:
            if isinstance(t, ast.Starred):
                raise cx.unsupported(t)
        if parts is None:
            raise cx.fail("QL1415", source, what=describe(value))
        if len(parts) != len(target.elts):
            raise cx.fail("QL1412", target, got=count(len(parts), "value"), want=count(len(target.elts), "name"))
        # every value is read before any name is assigned: a, b = b, a
        sources = source.elts if isinstance(source, ast.Tuple) else [source] * len(parts)
        for t, part, s in zip(target.elts, parts, sources, strict=True):
            _bind(cx, t, part, node, s)
    else:
        raise cx.fail("QL1201", target, what="assignment to an attribute", cure="assign to an element of a field")


def set_name(cx: Context, target: ast.Name, value: Value, node: ast.stmt, source: ast.expr) -> None:
    """Assigns a local: the first time it fixes the dtype, later the value is cast to it."""
    name, env = target.id, cx.frame.env
    old = env.get(name)
    if old is None:
        if is_static_call(cx, source):
            env[name] = Lit(value.value, source, "a compile-time value") if isinstance(value, Lit) else value
        elif isinstance(value, (Num, Lit, Temp)) or (isinstance(value, Obj) and value.value is None):
            cx.at(node)
            env[name] = _named(cx, cx.num(cx.number(value, source)), name)
        elif isinstance(value, (tuple, Shape)):
            env[name] = value
        else:
            raise cx.fail("QL1413", source, what=describe(value), name=name)
        return
    check_assignable(cx, target, old)
    assert isinstance(old, Num)
    number = cx.number(value, source)
    warn_loss(cx, "QL1901", number, old.type, name, source)
    cx.at(node)
    env[name] = _named(cx, cx.num(number, old.type), name)


def check_assignable(cx: Context, target: ast.Name, old: Value) -> None:
    """An error unless the name stands for a local of this iteration."""
    if isinstance(old, Temp):
        raise cx.fail("QL1704", target, name=target.id)
    fixed = "a kernel argument" if isinstance(old, ArgRef) else getattr(old, "fixed", "a compile-time value")
    if fixed or not isinstance(old, Num):
        raise cx.fail("QL1303", target, name=target.id, what=fixed or "a compile-time value")


def _named(cx: Context, value: Num, name: str) -> Num:
    """A fresh local; the statement that has just computed it gets its name."""
    if cx.b.stmts:
        last = cx.b.stmts[-1]
        if isinstance(last, N.Value) and last.id == value.id and not last.name:
            last.name = name
        elif isinstance(last, N.If) and last.results and last.results[-1].id == value.id and not last.results[-1].name:
            last.results[-1].name = name
    return Num(value.id, value.type)


def is_static_call(cx: Context, node: ast.expr) -> bool:
    """Whether the expression is ``qd.static(...)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return False
    return getattr(getattr(cx.expr(node.func), "value", None), "__qd_op__", "") == "static"


def warn_loss(cx: Context, code: str, value: Num | Lit, target: DType, name: str, node: ast.AST) -> None:
    """Warns if ``value`` does not survive the cast to ``target``."""
    source = cx.type_of(value)
    if source is target:
        return
    if isinstance(value, Lit):
        loss = "" if target.is_float or convert(value.value, target) == value.value else "cut"
    else:
        loss = loss_of(source, target)
    if loss:
        cx.warn(code, node, source=source, target=target, name=name, loss=loss)


def loss_of(source: DType, target: DType) -> str:
    """What a cast does to a value that it cannot keep; empty where it keeps it."""
    if target is u1:
        return "tested against zero"
    if source.is_float and not target.is_float:
        return "truncated"
    if source.is_float and target.bits < source.bits:
        return "rounded"
    return "wrapped" if target.is_int and target.bits < source.bits else ""


def annotated(cx: Context, node: ast.AnnAssign) -> None:
    """``a: qd.f32 = x``: the annotation is the dtype."""
    dtype = dtype_of(cx.expr(node.annotation), cx.options)
    if dtype is None:
        raise cx.fail("QL1410", node.annotation, what=f"'{name_of(node.annotation)}'")
    if node.value is None or not isinstance(node.target, ast.Name):
        raise cx.fail("QL1201", node, what="an annotation without a variable and a value", cure="assign a value")
    value = cx.scalar(node.value)
    cx.at(node)
    set_name(cx, node.target, cx.num(value, dtype), node, node.value)


# --- elements ---------------------------------------------------------------------------------------------------


def _target(cx: Context, node: ast.Subscript) -> Element:
    base = cx.expr(node.value)
    if not isinstance(base, Mem):
        raise cx.fail("QL1505", node, what=describe(base))
    return element(cx, node, base)


def _store(cx: Context, target: ast.Subscript, value: Num | Lit, node: Any) -> None:
    place = _target(cx, target)
    t = place.buffer.dtype
    if not t.is_float and cx.type_of(value).is_float:
        warn_loss(cx, "QL1903", value, t, place.text, target)
    cx.at(node)
    cx.b.store(place.buffer, place.index, cx.to(value, t))


def augmented(cx: Context, node: ast.AugAssign) -> None:
    """``target op= value``."""
    if isinstance(node.target, ast.Subscript):
        _augment_element(cx, node, node.target)
        return
    if not isinstance(node.target, ast.Name):
        raise cx.fail("QL1201", node.target, what="assignment to an attribute", cure="assign to an element of a field")
    name = node.target.id
    old = cx.frame.env.get(name)
    if old is None:
        cx.name(node.target)  # unknown names and names that ended are errors of their own
        raise cx.fail("QL1305", node, name=name)
    value = cx.scalar(node.value)
    if isinstance(old, Temp) and type(node.op) in _REDUCTIONS:
        reduce(cx, ATOMIC[type(node.op)], old, value, node)
        return
    check_assignable(cx, node.target, old)
    assert isinstance(old, Num)
    result = binary(cx, type(node.op), old, value, node, node.target, node.value)
    warn_loss(cx, "QL1901", result, old.type, name, node)
    cx.at(node)
    cx.frame.env[name] = _named(cx, cx.num(result, old.type), name)  # the operand may have begun a new scope


def reduce(cx: Context, op: str, temp: Temp, value: Num | Lit, node: ast.AST) -> None:
    """Accumulates into a local of the kernel that all iterations share."""
    cx.at(node)
    cx.b.atomic(op, temp.buffer, (), cx.to(value, temp.buffer.dtype))


def _augment_element(cx: Context, node: ast.AugAssign, target: ast.Subscript) -> None:
    place = _target(cx, target)
    value = cx.scalar(node.value)
    t = place.buffer.dtype
    op = ATOMIC.get(type(node.op))
    if op is not None:
        check_atomic(cx, op, t, node)
        if not t.is_float and cx.type_of(value).is_float:
            warn_loss(cx, "QL1903", value, t, place.text, target)
        cx.at(node)
        cx.b.atomic(op, place.buffer, place.index, cx.to(value, t))
        return
    cx.at(target)
    old = Num(cx.b.load(place.buffer, place.index), t)
    result = binary(cx, type(node.op), old, value, node, target, node.value)
    cx.at(node)
    cx.b.store(place.buffer, place.index, cx.to(result, t))


def check_atomic(cx: Context, op: str, dtype: DType, node: ast.AST) -> None:
    """An error if there is no such atomic on the dtype."""
    if op in ("and", "or", "xor") and dtype.is_float:
        raise cx.fail("QL1411", node, op=op, dtype=dtype, cure="bits of real numbers cannot be combined")
    if dtype is u1 and op not in ("and", "or", "xor", "exchange"):
        raise cx.fail("QL1411", node, op=op, dtype=dtype, cure="use |=, &= or ^=, or an i32 field")


STATEMENTS: dict[type, Callable[..., None]] = {
    ast.Assign: assign,
    ast.AnnAssign: annotated,
    ast.AugAssign: augmented,
}
