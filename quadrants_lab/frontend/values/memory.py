"""Memory: fields and ndarrays, their elements, and their shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Any

from quadrants_lab.frontend.values.compound import Matrix, Tuple, position
from quadrants_lab.frontend.values.number import Num
from quadrants_lab.frontend.values.value import Leaf, Lowering, Value
from quadrants_lab.ir.nodes import Buffer
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32


class _Memory(Value):
    """The answers of a field, of numbers or of structs. ``text`` is the expression that names it in the program."""

    __slots__ = ()
    text: str

    @property
    def fields(self) -> tuple[Mem, ...]:
        """The fields of which it consists, which have the same axes."""
        raise NotImplementedError

    def describe(self) -> str:
        mem = self.fields[0]
        kind = "an ndarray" if mem.buffer.kind == "ndarray" else "a field"
        return f"{kind} with {mem.ndim} axes" if mem.ndim != 1 else f"{kind} with 1 axis"

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        axes = self.fields[0].ndim
        index = ", ".join("ijkl"[:axes]) if axes else "None"
        raise cx.fail("QL1401", node, text=self.text, what=self.describe(), index=index)


@dataclass(slots=True, eq=False)
class Mem(_Memory):
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
        return (self,)

    def structure(self) -> Any:
        return self.buffer.name, self.entry

    def static_key(self) -> Any:
        return self.buffer.name, self.entry

    def python(self, cx: Lowering) -> Any:
        if self.buffer.name in cx.bindings:
            return cx.bindings[self.buffer.name]
        raise TypeError(self.describe())


@dataclass(slots=True, eq=False)
class StructMem(_Memory):
    """A field of structs, which has a field for each member."""

    type: Any
    members: dict[str, Mem | StructMem]
    text: str

    @property
    def fields(self) -> tuple[Mem, ...]:
        return tuple(field for member in self.members.values() for field in member.fields)


@dataclass(slots=True, eq=False)
class Element(Leaf):
    """``mem[index]``, not loaded yet. In a matrix field ``at`` is the position of one entry, () for all entries."""

    mem: Mem
    index: tuple[int, ...]
    at: tuple[int, ...] = ()
    words = "an element"

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.at else self.mem.element_shape

    def static_key(self) -> Any:
        return self.shape

    @property
    def is_memory(self) -> bool:
        return True

    def at_index(self, cx: Lowering, index: tuple[int | Num, ...], node: ast.expr) -> Element:
        """One entry of an element of a matrix field."""
        cx.at(node)
        at = tuple(k.id if isinstance(k, Num) else cx.const(k, i32) for k in index)
        return Element(self.mem, self.index, at)

    def pick(self, cx: Lowering, positions: Iterable[int], shape: tuple[int, ...], node: ast.expr) -> Any:
        """The entries at these positions, row by row, as a matrix; one entry if ``shape`` is ()."""
        cells = [
            self.at_index(cx, (p,) if len(self.shape) == 1 else divmod(p, self.shape[-1]), node) for p in positions
        ]
        return Matrix(shape, tuple(cells)) if shape else cells[0]

    def cells(self, cx: Lowering, node: ast.expr) -> Any:
        """The entries of an element of a matrix field, one by one."""
        return self.pick(cx, range(prod(self.shape)), self.shape, node)

    def load(self, cx: Lowering, node: ast.expr) -> Num | Matrix:
        buffer = self.mem.buffer
        cx.at(node)
        if not self.shape:
            return Num(cx.b.load(buffer, (*self.index, *self.at)), buffer.dtype)
        numbers = []
        for where in product(*map(range, self.shape)):
            at = tuple(cx.const(k, i32) for k in where)
            numbers.append(Num(cx.b.load(buffer, (*self.index, *at)), buffer.dtype))
        return Matrix(self.shape, tuple(numbers))


@dataclass(slots=True, eq=False)
class Shape(Value):
    """The shape of an ndarray, which is known at launch."""

    buffer: Buffer
    count: int
    words = "a tuple"

    @property
    def length(self) -> int:
        return self.count

    def entries(self, cx: Lowering) -> Tuple:
        return Tuple(cx.extent(self.buffer, k) for k in range(self.count))

    has_items = True

    def item(self, cx: Lowering, index: Any, shown: str, node: ast.Subscript) -> Value:
        if isinstance(index, slice):
            return Tuple(self.entries(cx)[index])
        axis = position(cx, index, shown, self.count, node)
        cx.at(node)
        extent: Value = cx.extent(self.buffer, axis)
        return extent
