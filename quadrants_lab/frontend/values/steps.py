"""Defines steps from a value to a part of it: to a member of a struct, an entry of a list or dict, or elements of a
matrix."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.values.compound import Cell, Matrix, box, computed
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.number import Num
from quadrants_lab.frontend.values.value import Value
from quadrants_lab.ir.nodes import WithElement
from quadrants_lab.ir.record import dataclass

Change = Callable[[Value, str], Value]  # (part, suffix of the part's name) -> the new part


@dataclass(frozen=True, slots=True)
class Child:
    """A step to the child at ``position``: a member of a struct, or an entry of a list or dict. ``label`` is the suffix
    of its name, such as ``.pos``."""

    position: int
    label: str
    is_dynamic = False
    shape = cells = index = ()

    def filled(self, number: Any) -> Any:
        """A part that is this number everywhere."""
        return number

    def meets(self, other: Any) -> bool:
        """Whether this step and ``other``, both from the same value, lead to the same part."""
        return bool(self == other)

    def take(self, cx: Context, value: Value, node: ast.expr) -> Any:
        """The part of a value that the step leads to."""
        return value.children()[self.position]

    def put(self, cx: Context, whole: Value, node: ast.expr, change: Change) -> Any:
        """Returns ``whole``, in which the result of ``change`` replaces the part to which the step leads."""
        children = list(whole.children())
        children[self.position] = change(children[self.position], self.label)
        return whole.rebuilt(children)


@dataclass(slots=True, eq=False)
class Elements:
    """A step to the elements of a matrix at the indices ``cells``, as a matrix of the given ``shape``, or as a number
    if ``shape`` is (). ``is_dynamic``: a part of each index is computed at run time."""

    cells: tuple[Cell, ...]
    shape: tuple[int, ...]
    is_dynamic = property(lambda self: bool(computed(self.cells[0])))

    @property
    def index(self) -> Cell:
        """The index of the number that the step leads to; () if it leads to several numbers."""
        return () if self.shape else self.cells[0]

    def take(self, cx: Context, value: Any, node: ast.expr) -> Any:
        """The part of a value that the step leads to."""
        return value.pick(cx, self.cells, self.shape, node)

    def put(self, cx: Context, whole: Any, node: ast.expr, change: Change) -> Any:
        """Returns ``whole``, in which the result of ``change`` replaces the part to which the step leads."""
        elements = list(whole.elements)
        any_one = self.is_dynamic and not self.shape  # every element has the same dtype
        numbers = change(elements[0] if any_one else self.take(cx, whole, node), "").leaves()
        for cell, new in zip(self.cells, numbers, strict=True):
            index, extents, places = box(whole.shape, cell)
            made = [new]
            if self.is_dynamic:
                values = tuple(elements[p].id for p in places)
                results = tuple(cx.b.param(elements[p].type) for p in places)
                cx.b.add(WithElement(cx.b.fresh(), index, extents, values, new.id, results))
                made = [Num(r.id, r.type) for r in results]
            for p, number in zip(places, made, strict=True):
                elements[p] = number
        return whole.rebuilt(elements)

    def meets(self, other: Any) -> bool:
        """Whether this step and ``other``, both from the same matrix, may lead to the same number."""
        if not self.is_dynamic and not other.is_dynamic:
            return not {*self.cells}.isdisjoint(other.cells)
        pairs = zip(self.index, other.index, strict=False) if self.is_dynamic and other.is_dynamic else ()
        return all(k == n or computed((k, n)) for k, n in pairs)

    def filled(self, number: Any) -> Any:
        """A part that is this number everywhere."""
        return Matrix(self.shape, (number,) * len(self.cells)) if self.shape else number


Step = Child | Elements
