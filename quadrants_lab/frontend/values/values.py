"""What an expression can be while it is lowered: a value that the kernel computes, or a compile-time value.

The attribute ``fixed`` of a value is "" for a local variable. Otherwise the name that has the value cannot be assigned,
and ``fixed`` says in words why.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from quadrants_lab.frontend.source import FINGERPRINT
from quadrants_lab.ir.nodes import Buffer
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType


@dataclass(slots=True, eq=False)
class Num:
    """An SSA value."""

    id: int
    type: DType
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Lit:
    """A number that is known at compile time. It gets a dtype where it becomes an operand: ``dtype``, which extents
    beyond i32 have and what is computed with them, else default_ip or default_fp. ``member``: the member of an
    enumeration whose number it is."""

    value: Any  # bool, int or float
    node: ast.AST | None = None
    fixed: str = ""
    dtype: DType | None = None
    member: Enum | None = None


@dataclass(slots=True, eq=False)
class ArgRef:
    """A scalar argument of the kernel that has not been loaded yet."""

    name: str
    type: DType
    fixed = "a kernel argument"


@dataclass(slots=True, eq=False)
class Matrix:
    """A vector, of ``shape`` (n,), or a matrix, of shape (n, m): its elements row by row, all of one dtype or all
    literals. It is immutable: assigning an element of a local makes a new matrix. Elements that are not loaded yet
    occur only in results of `lvalue.locate`."""

    shape: tuple[int, ...]
    elements: tuple[Leaf, ...]
    fixed: str = ""


class List(tuple[Any, ...]):
    """A list that the kernel makes. It is immutable: a change makes a list of other entries with the same ``token``.
    ``depth`` is the number of run-time conditions and loops around the place where it was made."""

    depth: int
    token: object
    fixed: str

    def __new__(cls, parts: Iterable[Value], depth: int, token: object = None, fixed: str = "") -> List:
        made = super().__new__(cls, parts)
        made.depth, made.token, made.fixed = depth, token or object(), fixed
        return made


class View(tuple[Any, ...]):
    """What ``enumerate``, ``zip``, ``reversed``, ``items`` and ``values`` make of lists and dicts; ``again`` makes it
    of the entries that they have at another point of the program."""

    again: Callable[[], tuple[Any, ...]]

    def __new__(cls, again: Callable[[], tuple[Any, ...]]) -> View:
        made = super().__new__(cls, again())
        made.again = again
        return made


@dataclass(slots=True, eq=False)
class Dict:
    """A dict that the kernel makes, immutable as `List` is."""

    members: dict[Any, Value]
    depth: int
    token: object = None
    fixed: str = ""

    def __post_init__(self) -> None:
        self.token = self.token or object()


@dataclass(slots=True, eq=False)
class Struct:
    """A value with named members, in order. ``type`` is the object of `quadrants_lab.lang` that describes it."""

    type: Any
    members: dict[str, Value]
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Mem:
    """A field or ndarray. ``text`` is the expression that names it in the program. The last ``len(element_shape)`` axes
    of the buffer are those of an element; ``offset`` holds the first index of each other axis, () for zeros. ``entry``
    is the position of one entry where the program refers to that entry of every element, () for whole elements."""

    buffer: Buffer
    text: str
    element_shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    entry: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """The number of indices of an element."""
        return self.buffer.ndim - len(self.element_shape)

    @property
    def fields(self) -> tuple[Mem, ...]:
        """Itself, as for `StructMem`."""
        return (self,)


@dataclass(slots=True, eq=False)
class StructMem:
    """A field of structs, which has a field for each member."""

    type: Any
    members: dict[str, Mem | StructMem]
    text: str

    @property
    def fields(self) -> tuple[Mem, ...]:
        """The fields of all members, which have the same axes."""
        return tuple(field for member in self.members.values() for field in member.fields)


@dataclass(slots=True, eq=False)
class Element:
    """``mem[index]``, not loaded yet. In a matrix field ``at`` is the position of one entry, () for all entries."""

    mem: Mem
    index: tuple[int, ...]
    at: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.at else self.mem.element_shape


@dataclass(slots=True, eq=False)
class Temp:
    """A number of a local of the kernel inside a parallel loop that accumulates into it or sets it to a constant.
    ``reduced`` holds the operation and the place of the first change; no other operation is allowed, because it would
    not commute. ``iteration`` has the ids of the indices of the loop."""

    buffer: Buffer
    name: str
    reduced: tuple[str, Span] | None = None
    iteration: frozenset[int] = frozenset()
    fixed = ""


@dataclass(slots=True, eq=False)
class Shape:
    """The shape of an ndarray, which is known at launch."""

    buffer: Buffer
    count: int


@dataclass(slots=True, eq=False)
class Obj:
    """Any other Python object: dtype, function, module, string, None, container of constants.

    Use ``raw`` to read an attribute of the object or to call it. Any other use reads `value`, which
    records that the kernel may depend on more than the object's attributes."""

    raw: Any
    text: str = ""

    @property
    def value(self) -> Any:
        fingerprint = FINGERPRINT.get()
        if fingerprint is not None:
            fingerprint.use(self.raw)
        return self.raw


@dataclass(slots=True, eq=False)
class BoundMethod:
    """A method and the value that it is called on. ``fn`` is the name of an operation, or a func; ``place`` is the
    place of the value, which a func may change."""

    fn: Any
    self: Value
    text: str
    place: Any = None


@dataclass(slots=True, eq=False)
class Range:
    """``range(begin, end, step)``; ``step`` is None for 1."""

    begin: Value
    end: Value
    step: Value | None


@dataclass(slots=True, eq=False)
class NdRange:
    """``qd.ndrange``: begin and end of each axis, and the order in which a serial loop nests the axes."""

    axes: tuple[tuple[Value, Value], ...]
    order: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Grouped:
    """``qd.grouped(space)``: a loop over it has one loop variable, the vector of the indices."""

    space: Value


Number = Num | Lit
Leaf = Number | ArgRef | Temp | Element
PASSED = "a copy of the caller's list"  # `fixed` of a list that a func took by value
STATIC_VARIABLE = "a static loop variable"
Static = Mem | StructMem | Shape | Obj | BoundMethod | Range | NdRange | Grouped
Value = Leaf | Matrix | Struct | Dict | Static | tuple[Any, ...]


class LoopConfig(NamedTuple):
    """What `qd.loop_config` says about the next loop; 0 and False where it says nothing."""

    serialize: bool = False
    checkpoint: bool = False
    block_dim: int = 0
    lanes: int = 0
    colours: int = 0
