"""Steps from a value to a part of it: a member, an entry, elements of a matrix at constant or computed indices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from quadrants_lab.frontend.values import values as V
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.ir.record import dataclass

Change = Callable[[V.Value, str], V.Value]  # from a part, and what its name adds to that of the whole


class Step:
    """``named``: two such steps lead to the same part if they are equal, else to parts without a common number.
    ``cells``: the elements at computed indices, each in its order."""

    __slots__ = ()
    named = False
    cells: tuple[DynamicIndex, ...] = ()

    def take(self, cx: Context, value: Any, node: ast.expr) -> Any:
        """The part of a value that the step leads to."""
        raise NotImplementedError

    def put(self, cx: Context, whole: Any, node: ast.expr, change: Change) -> V.Value:
        """The value with what ``change`` makes of the part in its place."""
        raise NotImplementedError

    def meets(self, other: Step) -> bool:
        """Whether this step and another one, from one value, may lead to a number in common."""
        return True

    def index(self, shape: tuple[int, ...]) -> tuple[int | V.Num, ...]:
        """The index of the number of a matrix that the step leads to; () if it leads to several numbers."""
        return ()

    def filled(self, number: Any) -> Any:
        """A part that is this number everywhere."""
        return number


@dataclass(frozen=True, slots=True)
class Member(Step):
    """A step to a member of a struct."""

    name: str
    named = True

    def take(self, cx: Context, value: Any, node: ast.expr) -> Any:
        return value.members[self.name]

    def put(self, cx: Context, whole: Any, node: ast.expr, change: Change) -> V.Value:
        member = change(whole.members[self.name], f".{self.name}")
        return V.Struct(whole.type, {**whole.members, self.name: member})


@dataclass(frozen=True, slots=True)
class Entry(Step):
    """A step to an entry of a list or dict."""

    position: int
    named = True

    def take(self, cx: Context, value: Any, node: ast.expr) -> Any:
        return value.parts[self.position]

    def put(self, cx: Context, whole: Any, node: ast.expr, change: Change) -> V.Value:
        parts = list(whole.parts)
        parts[self.position] = change(parts[self.position], f"[{self.position}]")
        return whole.with_parts(parts)  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False)
class Part(Step):
    """A step to elements of a matrix at constant positions (row by row); to one number if ``shape`` is ()."""

    positions: tuple[int, ...]
    shape: tuple[int, ...]

    def take(self, cx: Context, value: Any, node: ast.expr) -> Any:
        return value.pick(cx, self.positions, self.shape, node)

    def put(self, cx: Context, whole: Any, node: ast.expr, change: Change) -> V.Value:
        elements = list(whole.elements)
        for p, e in zip(self.positions, change(self.take(cx, whole, node), "").leaves(), strict=True):
            elements[p] = e
        return V.Matrix(whole.shape, tuple(elements))

    def meets(self, other: Step) -> bool:
        return not isinstance(other, Part) or not {*self.positions}.isdisjoint(other.positions)

    def index(self, shape: tuple[int, ...]) -> tuple[int | V.Num, ...]:
        if self.shape:
            return ()
        return self.positions if len(shape) == 1 else divmod(self.positions[0], shape[1])


class _Dynamic(Step):
    """A step to elements at computed indices."""

    __slots__ = ()

    def put(self, cx: Context, whole: Any, node: ast.expr, change: Change) -> V.Value:
        elements = list(whole.elements)
        t = elements[0].type
        numbers = change(self._before(cx, whole, node), "").leaves()
        for cell, number in zip(self.cells, numbers, strict=True):
            for p, cond in candidates(cx, whole.shape, cell):
                elements[p] = V.Num(cx.b.op("select", cond(), number.id, elements[p].id), t)
        return V.Matrix(whole.shape, tuple(elements))

    def _before(self, cx: Context, whole: Any, node: ast.expr) -> V.Value:
        """A value of the part's shape and dtype."""
        return self.take(cx, whole, node)  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False)
class DynamicIndex(_Dynamic):
    """A step to the element of a matrix at an index that is computed at run time; axes that are constant are ints."""

    at: tuple[int | V.Num, ...]

    @property
    def cells(self) -> tuple[DynamicIndex, ...]:  # type: ignore[override]  # it is not assigned
        return (self,)

    def take(self, cx: Context, value: Any, node: ast.expr) -> Any:
        return value.at_index(cx, self.at, node) if isinstance(value, V.Element) else _chosen(cx, value, self, node)

    def _before(self, cx: Context, whole: Any, node: ast.expr) -> V.Value:
        return whole.elements[0]  # type: ignore[no-any-return]

    def meets(self, other: Step) -> bool:
        if not isinstance(other, DynamicIndex):
            return True
        return all(isinstance(k, V.Num) or isinstance(n, V.Num) or k == n
                   for k, n in zip(self.at, other.at, strict=True))  # fmt: skip

    def index(self, shape: tuple[int, ...]) -> tuple[int | V.Num, ...]:
        return self.at


@dataclass(slots=True, eq=False)
class DynamicPart(_Dynamic):
    """A step to several elements of a matrix, as ``m[i, :]`` is with ``i`` computed at run time."""

    cells: tuple[DynamicIndex, ...]
    shape: tuple[int, ...]

    def take(self, cx: Context, value: Any, node: ast.expr) -> Any:
        return V.Matrix(self.shape, tuple(cell.take(cx, value, node) for cell in self.cells))

    def filled(self, number: Any) -> Any:
        return V.Matrix(self.shape, (number,) * len(self.cells))


def _chosen(cx: Context, value: V.Matrix, step: DynamicIndex, node: ast.expr) -> V.Value:
    """The element at a computed index: of those that it may be, the one that is selected at run time."""
    in_place = value.is_memory
    among = value if in_place else value.load(cx, node)
    cx.at(node)
    possible = list(candidates(cx, among.shape, step))
    numbers: list[Any] = [among.elements[p] for p, _ in possible]

    def chosen(entry: Callable[[Any], int]) -> int:
        result = entry(numbers[-1])
        for (_, cond), number in zip(reversed(possible[:-1]), reversed(numbers[:-1]), strict=True):
            result = cx.b.op("select", cond(), entry(number), result)
        return result

    if in_place:
        at = tuple(chosen(lambda e, k=k: e.at[k]) for k in range(len(numbers[0].at)))  # type: ignore[misc]  # bound now
        return V.Element(numbers[0].mem, numbers[0].index, at)
    t = cx.type_of(numbers[0])
    return V.Num(chosen(lambda number: cx.to(number, t)), t)


def candidates(cx: Context, shape: tuple[int, ...], step: DynamicIndex) -> Iterator[tuple[int, Callable[[], int]]]:
    """The positions that the index may have, each with a function that emits the condition that it has this one."""
    known: dict[tuple[int, int], int] = {}

    def is_at(axis: int, k: int) -> int:
        index = step.at[axis]
        assert isinstance(index, V.Num)
        if (axis, k) not in known:
            known[axis, k] = cx.b.op("eq", index.id, cx.const(k, index.type))
        return known[axis, k]

    def condition(where: tuple[int, ...]) -> int:
        tests = [is_at(axis, k) for axis, k in enumerate(where) if isinstance(step.at[axis], V.Num)]
        return tests[0] if len(tests) == 1 else cx.b.op("and", tests[0], tests[1])

    axes = [range(n) if isinstance(k, V.Num) else (k,) for k, n in zip(step.at, shape, strict=True)]
    for where in product(*axes):
        yield flat(where, shape), lambda where=where: condition(where)  # type: ignore[misc]  # bound now


def flat(where: Sequence[int], shape: tuple[int, ...]) -> int:
    """The position, row by row, of an element of a vector or matrix."""
    return where[0] if len(shape) == 1 else where[0] * shape[1] + where[1]
