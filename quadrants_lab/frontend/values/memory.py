"""Defines values that stand for memory: fields and ndarrays, their elements, and their shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from quadrants_lab.frontend.values.compound import Matrix, Struct, Tuple, position
from quadrants_lab.frontend.values.number import Num, id_of
from quadrants_lab.frontend.values.value import Leaf, Lowering, Value
from quadrants_lab.ir.nodes import Buffer
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32


class _Memory(Value):
    """The protocol of a field of numbers or structs, whose ``fields`` have the same axes. ``text`` is the expression
    that names it in the program."""

    __slots__ = ()
    text: str
    is_alias = is_space = True

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
    """A field or ndarray. Its elements are numbers, vectors or matrices: the last ``len(element_shape)`` axes of the
    buffer are the axes of an element. ``offset`` holds the first index of each other axis; () means zeros. ``entry`` is
    () for whole elements; otherwise the program refers to this one entry of every element. ``clamp``: an index that is
    out of bounds means the nearest element. ``packed``: the memory of a quantised field, for which ``buffer`` only
    describes shape and dtype; see `values.packed`."""

    buffer: Buffer
    text: str
    element_shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    entry: tuple[int, ...] = ()
    clamp: bool = False
    packed: Any = None

    fields = property(lambda self: (self,))
    static_key = property(lambda self: (self.buffer.name, self.entry))

    @property
    def ndim(self) -> int:
        """The number of indices of an element."""
        return self.buffer.ndim - len(self.element_shape)

    def element(self, index: tuple[int, ...]) -> Element:
        """The element of this memory at the index, not loaded."""
        return Element(self, index)

    def derivative(self, cx: Lowering, which: str) -> Mem | None:
        """The memory of its gradient ("grad") or tangent ("dual"); None if it has none."""
        name, text = getattr(self.buffer, which), f"{self.text}.{which}"
        return replace(self, buffer=cx.buffers[name], text=text) if name else None

    def structure(self) -> Any:
        return self.static_key

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

    def element(self, index: tuple[int, ...]) -> Struct:
        """The element of this memory at the index, not loaded."""
        return Struct(self.type, {name: member.element(index) for name, member in self.members.items()})

    def derivative(self, cx: Lowering, which: str) -> StructMem | None:
        """The field of structs that holds the "grad" or "dual" of each member that has one; None if no member has
        one."""
        found = {name: member.derivative(cx, which) for name, member in self.members.items()}
        members: Any = {name: made for name, made in found.items() if made is not None}
        return StructMem(self.type, members, f"{self.text}.{which}") if members else None


@dataclass(slots=True, eq=False)
class Element(Leaf):
    """The element ``mem[index]``, not loaded yet. In a matrix field ``at`` is the position of one entry of the element;
    () means the whole element."""

    mem: Mem
    index: tuple[int, ...]
    at: tuple[int, ...] = ()
    words = "an element"
    is_memory = True
    shape = static_key = property(lambda self: () if self.at else self.mem.element_shape)

    def pick(self, cx: Lowering, cells: Iterable[Sequence[int | Num]], shape: tuple[int, ...], node: ast.expr) -> Any:
        """The entries at these indices as a matrix of this shape; one entry if ``shape`` is ()."""
        cx.at(node)
        picked = [
            Element(self.mem, self.index, tuple(id_of(cx, k, i32) for k in cell))
            for cell in cells
        ]
        return Matrix(shape, tuple(picked)) if shape else picked[0]

    def pairs(self, cx: Lowering, new: Value, node: ast.expr) -> Iterator[tuple[Any, Any]]:
        yield from self.cells(cx, node).pairs(cx, new, node) if self.shape else Leaf.pairs(self, cx, new, node)

    def cells(self, cx: Lowering, node: ast.expr) -> Any:
        return self.pick(cx, product(*map(range, self.shape)), self.shape, node) if self.shape else self

    def load(self, cx: Lowering, node: ast.expr) -> Num | Matrix:
        cx.at(node)
        if not self.shape:
            return _loaded(cx, self)
        numbers = []
        for where in product(*map(range, self.shape)):
            at = tuple(cx.const(k, i32) for k in where)
            numbers.append(_loaded(cx, Element(self.mem, self.index, at)))
        return Matrix(self.shape, tuple(numbers))


def _loaded(cx: Lowering, cell: Element) -> Num:
    """One number of memory."""
    if cell.mem.packed is not None:
        return cell.mem.packed.load(cx, cell)  # type: ignore[no-any-return]
    buffer = cell.mem.buffer
    return Num(cx.b.load(buffer, (*cell.index, *cell.at)), buffer.dtype)


@dataclass(slots=True, eq=False)
class Shape(Value):
    """The shape of an ndarray, which is known at launch."""

    buffer: Buffer
    count: int
    words = "a tuple"
    has_items = True
    length = property(lambda self: self.count)

    def entries(self, cx: Lowering) -> Tuple:
        return Tuple(cx.extent(self.buffer, k) for k in range(self.count))

    def item(self, cx: Lowering, index: Any, shown: str, node: ast.Subscript) -> Value:
        axis = position(cx, index, shown, self.count, node)
        cx.at(node)
        return cx.extent(self.buffer, axis)  # type: ignore[no-any-return]

    def items(self, cx: Lowering, part: slice, shown: str, node: ast.Subscript) -> Value:
        return Tuple(self.entries(cx)[part])
