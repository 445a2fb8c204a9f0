"""What an expression can be while it is lowered: a value of the running kernel, or something known already."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from quadrants_lab.ir.nodes import Buffer
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType

# ``fixed`` says in words what a name stands for that cannot be assigned ("" for a local variable).


@dataclass(slots=True, eq=False)
class Num:
    """An SSA value."""

    id: int
    type: DType
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Lit:
    """A number known at compile time; it takes its dtype only where it meets the running kernel: default_ip or
    default_fp, or ``dtype``, which an extent beyond i32 has, and what is computed with one."""

    value: Any  # bool, int or float
    node: ast.AST | None = None
    fixed: str = ""
    dtype: DType | None = None


@dataclass(slots=True, eq=False)
class ArgRef:
    """A scalar argument of the kernel, not read yet."""

    name: str
    type: DType
    fixed = "a kernel argument"


@dataclass(slots=True, eq=False)
class Matrix:
    """A vector, of ``shape`` (n,), or a matrix, of shape (n, m): its elements row by row, all of one dtype or all
    literals. It is a value: changing an element of a local makes a new one. Only what `lvalue.locate` gives has
    elements that are not read yet."""

    shape: tuple[int, ...]
    elements: tuple[Leaf, ...]
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Struct:
    """A value with named members, in order; ``type`` is the object that describes it (`quadrants_lab.lang`)."""

    type: Any
    members: dict[str, Value]
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Mem:
    """A field or ndarray; ``text`` is how the program calls it. The last ``len(element_shape)`` axes of the buffer are
    those of one element; ``offset`` is the first index of each of the others (() for zeros); ``entry``: only that entry
    of each element is meant."""

    buffer: Buffer
    text: str
    element_shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    entry: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """How many indices name an element."""
        return self.buffer.ndim - len(self.element_shape)


@dataclass(slots=True, eq=False)
class StructMem:
    """A field of structs: a field a member."""

    type: Any
    members: dict[str, Mem | StructMem]
    text: str

    @property
    def first(self) -> Mem:
        """Some field in it: all have the same axes."""
        member = next(iter(self.members.values()))
        return member if isinstance(member, Mem) else member.first


@dataclass(slots=True, eq=False)
class Element:
    """``mem[index]``, not read yet; of a matrix field the element at ``at``, or all of them where that is ()."""

    mem: Mem
    index: tuple[int, ...]
    at: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.at else self.mem.element_shape


@dataclass(slots=True, eq=False)
class Temp:
    """A local of the kernel, or an element of it, inside a parallel loop that accumulates into it. ``reduced``: by
    which operation, and where it first does; another one does not commute with it."""

    buffer: Buffer
    name: str
    reduced: tuple[str, Span] | None = None
    fixed = ""


@dataclass(slots=True, eq=False)
class Shape:
    """The shape of an ndarray: its axes are read at launch."""

    buffer: Buffer
    count: int


@dataclass(slots=True, eq=False)
class Obj:
    """Any other Python object: dtype, function, module, string, None, container of constants."""

    value: Any
    text: str = ""


@dataclass(slots=True, eq=False)
class Bound:
    """A method with the value that it is called on, and, for a func, which may change it, the place where that stands.
    ``fn``: the name of an operation, or a func."""

    fn: Any
    self: Value
    text: str
    place: Any = None


@dataclass(slots=True, eq=False)
class Range:
    """``range(begin, end, step)``, with ``step`` None where it is 1."""

    begin: Value
    end: Value
    step: Value | None


@dataclass(slots=True, eq=False)
class NdRange:
    """``qd.ndrange``: begin and end an axis, and the order in which a serial loop nests them."""

    axes: tuple[tuple[Value, Value], ...]
    order: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Grouped:
    """``qd.grouped(space)``: what is looped over with a vector of indices."""

    space: Value


Number = Num | Lit
Leaf = Number | ArgRef | Temp | Element
Value = Leaf | Matrix | Struct | Mem | StructMem | Shape | Obj | Bound | Range | NdRange | Grouped | tuple[Any, ...]


def leaves(value: Value) -> Iterator[Any]:
    """The numbers of a number, matrix or struct, in order."""
    if isinstance(value, Matrix):
        yield from value.elements
    elif isinstance(value, Struct):
        for member in value.members.values():
            yield from leaves(member)
    elif isinstance(value, (Num, Lit, ArgRef, Temp, Element)):
        yield value


def mapped(value: Value, fn: Callable[[Any], Any]) -> Any:
    """The number, matrix or struct with ``fn`` applied to each number; a local of its own."""
    if isinstance(value, Matrix):
        return Matrix(value.shape, tuple(fn(e) for e in value.elements))
    if isinstance(value, Struct):
        return Struct(value.type, {name: mapped(m, fn) for name, m in value.members.items()})
    return fn(value) if isinstance(value, (Num, Lit, ArgRef, Temp, Element)) else value


def refilled(value: Value, numbers: Iterable[Any]) -> Any:
    """The number, matrix or struct with these numbers in place of its own."""
    it = iter(numbers)
    return mapped(value, lambda _: next(it))


def leaf_names(value: Value, name: str) -> Iterator[str]:
    """What the numbers of a local are called: ``v``, ``v[0]``, ``m[1,0]``, ``s.a``."""
    if isinstance(value, Matrix):
        columns = value.shape[-1]
        for k in range(len(value.elements)):
            yield f"{name}[{k}]" if len(value.shape) == 1 else f"{name}[{k // columns},{k % columns}]"
    elif isinstance(value, Struct):
        for member, inner in value.members.items():
            yield from leaf_names(inner, f"{name}.{member}")
    elif isinstance(value, (Num, Lit, ArgRef, Temp, Element)):
        yield name


def name_of(node: ast.AST) -> str:
    """The dotted name that an expression spells, or its source."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return ast.unparse(node)


def describe(value: Value) -> str:
    """What a value is, in words."""
    if isinstance(value, (Mem, StructMem)):
        mem = value if isinstance(value, Mem) else value.first
        kind = "an ndarray" if mem.buffer.kind == "ndarray" else "a field"
        return f"{kind} with {mem.ndim} axes" if mem.ndim != 1 else f"{kind} with 1 axis"
    if isinstance(value, Matrix):
        rows, *columns = value.shape
        return f"a {rows} x {columns[0]} matrix" if columns else f"a vector of {rows}"
    if isinstance(value, Struct):
        return f"a struct of {', '.join(value.members)}"
    if isinstance(value, (Num, ArgRef)):
        return f"a number of dtype {value.type}"
    if isinstance(value, Lit):
        return f"the number {value.value}"
    if isinstance(value, (tuple, Shape)):
        return "a tuple"
    if isinstance(value, Obj):
        if value.value is None or isinstance(value.value, str):
            return f"{value.value!r}"
        return f"'{value.text}' ({type(value.value).__name__})" if value.text else f"a {type(value.value).__name__}"
    return _KINDS[type(value)]


_KINDS = {
    Range: "a range", NdRange: "an ndrange", Grouped: "a grouped loop", Temp: "a shared local", Bound: "a method",
    Element: "an element",
}  # fmt: skip
