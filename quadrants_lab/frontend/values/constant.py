"""Defines values that are known at compile time, Python objects and methods; and the iteration spaces of loops
(range, ndrange, grouped)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Sized
from dataclasses import field
from itertools import product
from typing import Any

import numpy as np

from quadrants_lab.frontend.source import FINGERPRINT
from quadrants_lab.frontend.values.value import Lowering, Value
from quadrants_lab.ir.record import dataclass


@dataclass(slots=True, eq=False)
class Obj(Value):
    """A Python object without a class of values of its own: a dtype, function, module, string, None, or container of
    constants.

    Code that reads an attribute of the object or calls it uses ``raw``. All other code uses `value`, which records that
    the kernel may depend on more than the object's attributes."""

    raw: Any
    text: str = ""
    is_alias = is_object = True

    @property
    def value(self) -> Any:
        fingerprint = FINGERPRINT.get()
        if fingerprint is not None:
            fingerprint.use(self.raw)
        return self.raw

    captured = property(lambda self: self.value)
    string = property(lambda self: self.value if isinstance(self.value, str) else None)

    @property
    def snode(self) -> Any:
        return self.value if getattr(self.value, "__qd_snode__", False) is True else None

    is_space = property(lambda self: self.snode is not None)

    def describe(self) -> str:
        if self.value is None or self.string is not None:
            return f"{self.value!r}"
        kind = type(self.value).__name__
        return f"'{self.text}' ({kind})" if self.text else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"

    static_key = property(lambda self: id(self.raw))

    def structure(self) -> Any:
        return id(self.raw)

    @property
    def length(self) -> int | None:
        return len(self.value) if isinstance(self.value, Sized) else None

    def entries(self, cx: Lowering) -> tuple[Any, ...] | None:
        of = self.value
        if not isinstance(of, (tuple, list)) and not (isinstance(of, np.ndarray) and of.ndim):
            return None
        return tuple(cx.wrap(v, f"{self.text}[{k}]") for k, v in enumerate(of))

    @property
    def has_items(self) -> bool:
        return hasattr(type(self.value), "__getitem__")

    def item(self, cx: Lowering, index: Any, shown: str, node: ast.Subscript) -> Value:
        of = self.value
        try:
            found: Value = cx.wrap(of[index], f"{self.text}[{shown}]", node)
        except (LookupError, TypeError):
            raise cx.fail("QL1506", node, index=shown, count=len(of) if hasattr(of, "__len__") else 0) from None
        return found

    def items(self, cx: Lowering, part: slice, shown: str, node: ast.Subscript) -> Value:
        return self.item(cx, part, shown, node)

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        if self.value is None and self.text:
            raise cx.fail("QL1409", node, name=self.text)
        raise cx.fail("QL1406", node, what=self.describe())

    def identity(self) -> Any:
        return self.value

    def python(self, cx: Lowering) -> Any:
        return self.value


@dataclass(slots=True, eq=False)
class BoundMethod(Value):
    """A method, and the value ``self`` on which it is called. The method is the ``operation`` of that name, or
    ``func``, which may change the ``place`` that holds the value."""

    operation: str
    self: Value
    text: str
    func: Any = None
    place: Any = None
    words = "a method"


@dataclass(slots=True, eq=False)
class Range(Value):
    """The value of ``range(begin, end, step)``; ``step`` is None for 1."""

    begin: Value
    end: Value
    step: Value | None
    words = "a range"
    is_alias = is_space = True

    def python(self, cx: Lowering) -> range:
        ends = (self.begin, self.end) if self.step is None else (self.begin, self.end, self.step)
        return range(*(end.python(cx) for end in ends))


@dataclass(slots=True, eq=False)
class NdRange(Value):
    """The value of ``qd.ndrange``: begin and end of each axis, and the order in which a serial loop nests the axes."""

    axes: tuple[tuple[Value, Value], ...] = field()
    order: tuple[int, ...] = field()
    words = "an ndrange"
    is_alias = is_space = True

    def python(self, cx: Lowering) -> Any:
        return tuple(points([range(b.python(cx), e.python(cx)) for b, e in self.axes], self.order))


def points(axes: Sequence[range], order: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The indices of the points in a box, in the order in which nested loops visit them; the last axis of ``order`` is
    the innermost loop."""
    places = [order.index(k) for k in range(len(axes))]
    return (tuple(at[k] for k in places) for at in product(*(axes[k] for k in order)))


@dataclass(slots=True, eq=False)
class Grouped(Value):
    """The value of ``qd.grouped(space)``: a loop over it has one loop variable, the vector of the indices."""

    space: Value
    words = "a grouped loop"
    is_alias = True
    axes = property(lambda self: self.space.axes)

    def python(self, cx: Lowering) -> Any:
        return self.space.python(cx)
