"""The leaves of a value: the numbers that it consists of. Names and descriptions of values for messages."""

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
    """The numbers of a number, matrix, struct, list or dict, in order; nothing for other values."""
    if isinstance(value, V.Matrix):
        yield from value.elements
    elif isinstance(value, V.Struct):
        for member in value.members.values():
            yield from leaves(member)
    elif isinstance(value, (V.List, V.Dict)):
        for part in parts_of(value):
            yield from leaves(part)
    elif isinstance(value, _LEAVES):
        yield value


def parts_of(value: V.Value) -> tuple[V.Value, ...]:
    """The entries of a list, dict or tuple; nothing for other values."""
    return tuple(value.members.values()) if isinstance(value, V.Dict) else value if isinstance(value, tuple) else ()


def with_parts(value: Any, parts: Iterable[V.Value], **changed: Any) -> Any:
    """The list, dict or tuple with these entries in place of its own, and other attributes as ``changed`` says."""
    if not isinstance(value, (V.List, V.Dict)):
        return tuple(parts)
    kept = {name: getattr(value, name) for name in ("depth", "token", "fixed")} | changed
    if isinstance(value, V.List):
        return V.List(parts, **kept)
    return V.Dict(dict(zip(value.members, parts, strict=True)), **kept)


def kind_of(value: V.List | V.Dict) -> str:
    return "dict" if isinstance(value, V.Dict) else "list"


def structure(value: V.Value) -> Any:
    """What is equal for two values between which a run-time condition can choose: shapes, names of members, number of
    entries, and the identity of what is no number."""
    if isinstance(value, V.Matrix):
        return value.shape
    if isinstance(value, V.Struct):
        return {name: structure(m) for name, m in value.members.items()}
    if isinstance(value, (V.Dict, tuple)):
        return [type(value), list(getattr(value, "members", ())), *map(structure, parts_of(value))]
    if isinstance(value, _LEAVES):
        return "a number"
    if isinstance(value, V.Mem):
        return value.buffer.name, value.entry
    return id(getattr(value, "raw", value))


def is_shared(value: V.Value) -> bool:
    """Whether the value belongs to a local that all iterations of a parallel loop share."""
    return not isinstance(value, V.Num) and any(isinstance(leaf, V.Temp) for leaf in leaves(value))


def is_local(value: V.Value | None) -> bool:
    """Whether a name with this value is a local variable, which can be assigned."""
    variable = isinstance(value, (V.Num, V.Temp, V.Matrix, V.Struct)) and not value.fixed
    return variable or isinstance(value, (V.List, V.Dict))


def stands_for_memory(value: V.Value | None) -> bool:
    """Whether the value is numbers of fields and ndarrays that are not loaded, as a parameter by reference may be."""
    return isinstance(value, (V.Element, V.Matrix, V.Struct)) and {type(leaf) for leaf in leaves(value)} == {V.Element}


def map_leaves(value: V.Value, fn: Callable[[Any], Any]) -> Any:
    """A new number, matrix, struct, list or dict with ``fn`` applied to each number; other values stay as they are."""
    if isinstance(value, V.Matrix):
        return V.Matrix(value.shape, tuple(fn(e) for e in value.elements))
    if isinstance(value, V.Struct):
        return V.Struct(value.type, {name: map_leaves(m, fn) for name, m in value.members.items()})
    if isinstance(value, (V.List, V.Dict)):
        return with_parts(value, [map_leaves(part, fn) for part in parts_of(value)])
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
    elif isinstance(value, (V.List, V.Dict)):
        keys = value.members if isinstance(value, V.Dict) else range(len(value))
        for key, part in zip(keys, parts_of(value), strict=True):
            yield from leaf_names(part, f"{name}[{key}]")
    elif isinstance(value, _LEAVES):
        yield name


def name_of(node: ast.AST) -> str:
    """The dotted name that an expression spells, or its source."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return ast.unparse(node)


def viewed(value: V.Value) -> V.Mem | None:
    """The ndarray of which the value is a view of consecutive elements; None for any other value."""
    view = isinstance(value, V.Struct) and getattr(value.type, "__qd_view__", False) is True
    return value.members["arr"] if view else None  # type: ignore[union-attr, return-value]  # of a struct, an ndarray


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
        if (of := viewed(value)) is not None:
            return f"a view of {of.buffer.dtype}"
        return f"a struct of {', '.join(value.members)}"
    if isinstance(value, (V.Num, V.ArgRef)):
        return f"a number of dtype {value.type}"
    if isinstance(value, V.Lit):
        return f"the number {value.value}"
    if isinstance(value, (V.List, V.Dict)):
        return f"a {kind_of(value)} of {len(parts_of(value))}"
    if isinstance(value, (tuple, V.Shape)):
        return "a tuple"
    if isinstance(value, V.Obj):
        if value.value is None or isinstance(value.value, str):
            return f"{value.value!r}"
        return f"'{value.text}' ({type(value.value).__name__})" if value.text else f"a {type(value.value).__name__}"
    return _KINDS[type(value)]
