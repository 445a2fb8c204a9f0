"""The leaves of a value: the numbers that it consists of. Names and descriptions of values for messages."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from quadrants_lab.frontend.values import values as V

_LEAVES = (V.Num, V.Lit, V.ArgRef, V.Temp, V.Element)
_KINDS = {
    V.Range: "a range", V.NdRange: "an ndrange", V.Grouped: "a grouped loop", V.Temp: "a shared local",
    V.BoundMethod: "a method", V.Element: "an element",
}  # fmt: skip


def leaves(value: V.Value) -> Iterator[Any]:
    """The numbers of a number, matrix or struct, in order; nothing for other values."""
    if isinstance(value, V.Matrix):
        yield from value.elements
    elif isinstance(value, V.Struct):
        for member in value.members.values():
            yield from leaves(member)
    elif isinstance(value, _LEAVES):
        yield value


def is_shared(value: V.Value) -> bool:
    """Whether the value belongs to a local that all iterations of a parallel loop share."""
    return not isinstance(value, V.Num) and any(isinstance(leaf, V.Temp) for leaf in leaves(value))


def is_local(value: V.Value | None) -> bool:
    """Whether a name with this value is a local variable, which can be assigned."""
    return isinstance(value, (V.Num, V.Temp, V.Matrix, V.Struct)) and not value.fixed


def map_leaves(value: V.Value, fn: Callable[[Any], Any]) -> Any:
    """A new number, matrix or struct with ``fn`` applied to each number; other values are returned as they are."""
    if isinstance(value, V.Matrix):
        return V.Matrix(value.shape, tuple(fn(e) for e in value.elements))
    if isinstance(value, V.Struct):
        return V.Struct(value.type, {name: map_leaves(m, fn) for name, m in value.members.items()})
    return fn(value) if isinstance(value, _LEAVES) else value


def with_leaves(value: V.Value, numbers: Iterable[Any]) -> Any:
    """The number, matrix or struct with these numbers in place of its own."""
    left = iter(numbers)
    return map_leaves(value, lambda _: next(left))


def leaf_names(value: V.Value, name: str) -> Iterator[str]:
    """The names of the numbers of a local ``name``: ``v``, ``v[0]``, ``m[1,0]``, ``s.a``."""
    if isinstance(value, V.Matrix):
        columns = value.shape[-1]
        for k in range(len(value.elements)):
            yield f"{name}[{k}]" if len(value.shape) == 1 else f"{name}[{k // columns},{k % columns}]"
    elif isinstance(value, V.Struct):
        for member, inner in value.members.items():
            yield from leaf_names(inner, f"{name}.{member}")
    elif isinstance(value, _LEAVES):
        yield name


def name_of(node: ast.AST) -> str:
    """The dotted name that an expression spells, or its source."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return ast.unparse(node)


def describe(value: V.Value) -> str:
    """The value in words, for messages."""
    if isinstance(value, (V.Mem, V.StructMem)):
        mem = value.fields[0]
        kind = "an ndarray" if mem.buffer.kind == "ndarray" else "a field"
        return f"{kind} with {mem.ndim} axes" if mem.ndim != 1 else f"{kind} with 1 axis"
    if isinstance(value, V.Matrix):
        rows, *columns = value.shape
        return f"a {rows} x {columns[0]} matrix" if columns else f"a vector of {rows}"
    if isinstance(value, V.Struct):
        return f"a struct of {', '.join(value.members)}"
    if isinstance(value, (V.Num, V.ArgRef)):
        return f"a number of dtype {value.type}"
    if isinstance(value, V.Lit):
        return f"the number {value.value}"
    if isinstance(value, (tuple, V.Shape)):
        return "a tuple"
    if isinstance(value, V.Obj):
        if value.value is None or isinstance(value.value, str):
            return f"{value.value!r}"
        return f"'{value.text}' ({type(value.value).__name__})" if value.text else f"a {type(value.value).__name__}"
    return _KINDS[type(value)]
