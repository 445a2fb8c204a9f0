"""What an expression can be while it is lowered: a value of the running kernel, or something known already."""

from __future__ import annotations

import ast
from typing import Any

from quadrants_lab.frontend.source import FINGERPRINT
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
    """Any other Python object: dtype, function, module, string, None, container of constants. ``raw``: the object, for
    those who only read attributes of it, or call it; it is its `value` for all others."""

    raw: Any
    text: str = ""

    @property
    def value(self) -> Any:
        fingerprint = FINGERPRINT.get()
        if fingerprint is not None:
            fingerprint.use(self.raw)
        return self.raw


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
