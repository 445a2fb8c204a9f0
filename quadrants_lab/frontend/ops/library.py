"""Rows of the table of operations for the functions of the library (`rows_of`), and for operations that only the
library calls (``ROWS``)."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from quadrants_lab.frontend.library import FUNCTIONS, LibraryFunction, fill
from quadrants_lab.frontend.op_table import Builtin, Lower
from quadrants_lab.frontend.ops.linalg import operand, square
from quadrants_lab.frontend.syntax import funcs
from quadrants_lab.frontend.values import Lit, Matrix, Mem, Num, Value
from quadrants_lab.frontend.values.context import Context, argument_node


def _inlined(f: LibraryFunction) -> Lower:
    """The lowering of a library function: it is inlined, and its statements are located at the call."""

    def lower(cx: Context, call: ast.Call, *args: Value | None) -> Value:
        given = dict(zip(f.func.params, args, strict=True))
        if f.sizes:
            node = argument_node(call, 0)
            first = given[f.func.params[0]]
            assert first is not None
            m = square(cx, f.func.name, first, node)
            if m.shape[0] not in f.sizes:
                want = f"square matrices of {f.sizes[0]} to {f.sizes[-1]} rows"
                raise cx.fail("QL1432", node, op=f.func.name, want=want, what=m.describe())
        _check_vectors(cx, call, f, given)
        keywords = {name: value for name, value in given.items() if value is not None}
        return funcs.inline(cx, call, f.func.source, [], keywords, hidden=True)

    return lower


def _check_vectors(cx: Context, call: ast.Call, f: LibraryFunction, given: Mapping[str, Value | None]) -> None:
    """Raises QL1430 where an argument is not a vector of the length that the function takes."""
    want = f.length
    for name in f.vectors:
        k = f.func.params.index(name)
        node = argument_node(call, k)
        value = given[name]
        assert value is not None
        v = operand(cx, f.func.name, value, node, 1)
        if want and v.shape != (want,):
            raise cx.fail("QL1430", node, op=f.func.name, want=f"vectors of {want} elements", what=v.describe())
        want = want or v.shape[0]


def rows_of(module: str) -> Iterator[Builtin]:
    """The rows for the functions of a module of the library."""
    import_module(f"quadrants_lab.frontend.library.{module}")  # importing it fills FUNCTIONS
    for f in (f for f in FUNCTIONS if f.func.fn.__module__.endswith(f".{module}")):
        params = tuple(f"{p}=" if p in f.optional else p for p in f.func.params)
        name = f"{f.home.removeprefix('simt.')}.{f.func.name}" if f.home.startswith("simt.") else f.func.name
        yield Builtin(name, params, _inlined(f), f.func.doc, home=f.home, elementwise=f.elementwise)
        if f.method:
            yield Builtin(f"Matrix.{f.func.name}", params, _inlined(f), f.func.doc, home="Matrix")


def _fill(cx: Context, call: ast.Call, x: Value, val: Value) -> Value:
    """A loop over the elements, which is parallel at the statement level of the kernel."""
    return funcs.inline(cx, call, fill.source, [x, val], {}, procedure=cx.top, hidden=True)


def _entry_of(cx: Context, call: ast.Call, x: Mem, i: Value, j: Value | None) -> Value:
    at = [cx.known(a, "QL1508", argument_node(call, k)) for k, a in enumerate((i, j), 1) if a is not None]
    shape = x.element_shape
    at = at[:1] if len(shape) == 1 and at[1:] == [0] else at
    if len(at) != len(shape) or not all(0 <= k < n for k, n in zip(at, shape, strict=True)):
        raise cx.fail("QL1506", call, index=", ".join(map(str, at)), count=" x ".join(map(str, shape or (1,))))
    return replace(x, entry=tuple(at), text=f"{x.text}.{''.join(map(str, at))}")


def _only(cx: Context, call: ast.Call, x: Any) -> Value:
    """The argument itself if it is a number; the one element of a field or array without axes."""
    found: Value = x.element(()).load(cx, call) if x.fields and not x.fields[0].ndim else x
    return found.number(cx, call)  # type: ignore[no-any-return]  # of a `Value`


def _custom_jvp(cx: Context, call: ast.Call, value: Value, change: Value) -> Value:
    a, b = value.number(cx, call), change.number(cx, call)
    t = cx.type_of(a)
    ids = cx.to(a, t), cx.to(b, t)
    cx.at(call)
    return Num(cx.b.op("custom_jvp", *ids), t)


def _epsilon(cx: Context, call: ast.Call, x: Value) -> Value:
    t = cx.type_of(x.number(cx, call))
    cx.at(call)
    return Num(cx.const(float(np.finfo(t.numpy).eps), t), t)


def _constant_like(cx: Context, call: ast.Call, value: Value, x: Value) -> Value:
    """The literal in the dtype of x, or in default_fp where x is an integer."""
    t = cx.type_of(x.number(cx, call))
    t = t if t.is_float else cx.options.default_fp
    cx.at(call)
    return Num(cx.const(value.python(cx), t), t)


def _zero_like(cx: Context, call: ast.Call, m: Value) -> Value:
    a = operand(cx, "zero_like", m, call)
    t = cx.type_of(a.elements[0])
    cx.at(call)
    return Matrix(a.shape, (Num(cx.const(0, t), t),) * len(a.elements))


ROWS: tuple[Builtin, ...] = (
    Builtin("Field.get_scalar_field", ("x", "i", "j="), _entry_of, "The field of one entry of every element.",
            home="Field"),
    Builtin("Field.fill", ("x", "val"), _fill, "Writes val to every element.", home="Field"),
    Builtin("custom_jvp", ("value", "change"), _custom_jvp, "", home="library", elementwise=True),
    Builtin("detached", ("x",), lambda cx, call, x: _custom_jvp(cx, call, x, Lit(0.0)), "", home="library",
            elementwise=True),
    Builtin("constant_like", ("value", "x"), _constant_like, "", home="library"),
    Builtin("only", ("x",), _only, "", home="library"),
    Builtin("epsilon", ("x",), _epsilon, "", home="library"),
    Builtin("Matrix.zero_like", ("m",), _zero_like, "", home="library"),
)
