"""Makes structs in a kernel, and casts values to declared types (dtypes, vector, matrix and struct types)."""

import ast
import math
from collections.abc import Container, Sequence
from typing import Any

from quadrants_lab.frontend.diagnostics import count, name_of
from quadrants_lab.frontend.values import Lit, Matrix, Obj, Struct, Value, matrix
from quadrants_lab.frontend.values.context import Context, dtype_of
from quadrants_lab.ir.types import DType


def type_of(cx: Context, declared: Any) -> Any:
    """``declared`` as a dtype, or as a type, which is an object with ``__qd_type__``; None if it is neither."""
    if isinstance(getattr(declared, "__qd_type__", None), str):
        return declared
    return dtype_of(Obj(declared), cx.options)


def annotation(cx: Context, node: ast.expr | None, evaluated: Any = None) -> Any:
    """The dtype or type that an annotation names; None if it names something else. ``evaluated`` is Python's value of
    the annotation. It is needed if the annotation uses a local of the function around, which the closure does not
    contain."""
    match evaluated, node:
        case None | str() | tuple(), ast.Name() | ast.Attribute() | ast.Call():
            with cx.setting(static=cx.static + 1):
                return type_of(cx, cx.expr(node).captured)
        case None | str() | tuple(), _:
            return None
    return type_of(cx, evaluated)


def instance(cx: Context, call: ast.Call, declared: Any, args: Sequence[Value], keywords: dict[str, Value]) -> Value:
    """The value that a call of a type makes: ``vec3(...)``, ``Particle(pos=..., mass=...)``."""
    if declared.__qd_type__ == "matrix":
        if keywords:
            raise cx.fail("QL1602", call, text=ast.unparse(call.func), what="takes numbers only", params="*args")
        return matrix.construct(cx, call, tuple(declared.shape), declared.dtype, args)
    if declared.__qd_type__ == "view":
        raise cx.fail("QL1604", call, text=ast.unparse(call.func), what="a view is made outside of kernels, x[2:6]")
    names = list(declared.members)
    given = bound(cx, call, names, args, keywords, optional=names, noun="member")
    nodes = {**dict(zip(names, call.args, strict=False)), **{k.arg: k.value for k in call.keywords}}
    return Struct(declared, {
        name: as_type(cx, given.get(name, Lit(0, call)), want, nodes.get(name, call))
        for name, want in declared.members.items()
    })


def bound(
    cx: Context, call: ast.Call, names: Sequence[str], args: Sequence[Value], keywords: dict[str, Value],
    optional: Container[str] = (), positional: int | None = None, noun: str = "parameter", text: str = "",
) -> dict[str, Value]:  # fmt: skip
    """The arguments of a call, by the names of the parameters. The first ``positional`` parameters (None: all) can be
    given by position. Raises QL1602 if the arguments do not fit. ``text`` is the name of the called object in messages,
    if it differs from the name in the call."""
    most = len(names) if positional is None else positional
    given = dict(zip(names[:most], args, strict=False))
    unknown = next((k for k in keywords if k not in names or k in given), None)
    given |= keywords
    missing = next((n for n in names if n not in given and n not in optional), None)
    if unknown is not None:
        what = f"there is no {noun} '{unknown}' left"
    elif len(args) > most:
        what = f"takes {count(most, 'argument' if noun == 'parameter' else 'value')}, {len(args)} given"
    elif missing is not None:
        what = f"'{missing}' is missing"
    else:
        return given
    raise cx.fail("QL1602", call, text=text or name_of(call.func), what=what, params=", ".join(names))


def as_type(cx: Context, value: Value, declared: Any, node: ast.expr) -> Value:
    """``value`` cast to the declared type. A number is broadcast: all elements or members get it. Raises QL1417 if the
    shapes differ."""
    want = type_of(cx, declared)
    cx.at(node)
    if isinstance(want, DType):
        return cx.num(value.number(cx, node), want)
    if getattr(want, "__qd_type__", "") == "view":
        dtype = None if want.dtype is None else type_of(cx, want.dtype)
        mem = value.view
        if mem is None or dtype not in (None, mem.buffer.dtype):
            raise cx.fail("QL1433", node, what=value.describe(), target=f"a view of {dtype}" if dtype else "a view")
        return value
    if want is None or value.fields:
        return value
    if want.__qd_type__ == "matrix":
        return _as_matrix(cx, value, want, node)
    if value.is_number:
        return Struct(want, {name: as_type(cx, value, t, node) for name, t in want.members.items()})
    if value.names != tuple(want.members):
        raise cx.fail("QL1417", node, what=value.describe(), target=f"a struct of {', '.join(want.members)}")
    parts = zip(value.children(), want.members.items(), strict=True)
    return Struct(want, {name: as_type(cx, part, t, node) for part, (name, t) in parts})


def as_annotated(cx: Context, value: Value, declared: Any, node: ast.expr) -> Value:
    """The value of a parameter, return or local, cast to its annotation. If the annotation is a dtype, a matrix is cast
    element by element."""
    if not value.shape or not isinstance(declared, DType):
        return as_type(cx, value, declared, node)
    cx.at(node)
    return matrix.cast(cx, value, declared)  # type: ignore[arg-type]  # what has a shape is a matrix


def _fits(shape: tuple[int, ...], want: tuple[int | None, ...]) -> bool:
    return len(shape) == len(want) and all(n in (None, k) for n, k in zip(want, shape, strict=True))


def _as_matrix(cx: Context, value: Value, want: Any, node: ast.expr) -> Matrix:
    shape = tuple(want.shape)
    found: Any = matrix.number_or_matrix(cx, value, node, uncast=True)
    if not found.shape and None not in shape:
        found = Matrix(shape, (found,) * math.prod(shape))
    if not _fits(found.shape, shape):
        raise cx.fail("QL1417", node, what=found.describe(), target=Matrix(shape, ()).describe())
    return matrix.cast(cx, found, want.dtype)
