"""Defines values of several parts: vectors, matrices, structs, tuples, and the lists and dicts that a kernel makes.

All these values are immutable: a change to one makes a new value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial, reduce
from itertools import product
from typing import Any

from quadrants_lab.frontend.values.number import Num
from quadrants_lab.frontend.values.value import Lowering, Value
from quadrants_lab.ir.nodes import Element
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType

PASSED = "a copy of the caller's list"  # for `Value.fixed`: a list that a func took by value
STATIC_VARIABLE = "a static loop variable"
PRIVATE = "an assignment at the loop's index"  # for `Temp.reduced`: a local that only such assignments change
Cell = tuple[int | Num, ...]  # the index of a matrix element; along each axis an int, or a number of the running kernel


class _Tree(Value):
    """The protocol of a value with children."""

    __slots__ = ()

    is_held = True

    def structure(self) -> Any:
        return [type(self), list(self.labels()), *(child.structure() for child in self.children())]


class _Numbers(_Tree):
    """The protocol of a matrix or struct, whose numbers a local holds."""

    __slots__ = ()
    is_local = property(lambda self: not self.fixed)

    @property
    def is_memory(self) -> bool:
        leaves = list(self.leaves())
        return bool(leaves) and all(leaf.is_memory for leaf in leaves)

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        raise cx.fail("QL1420", node, what=self.describe())

    def numbers(self, cx: Lowering, node: ast.expr) -> Any:
        return self

    def pinned(self, why: str, node: ast.AST | None = None) -> Any:
        return replace(self, fixed=why)  # type: ignore[type-var]  # each kind is a data class


@dataclass(slots=True, eq=False)
class Matrix(_Numbers):
    """A vector of ``shape`` (n,) or a matrix of shape (n, m). ``elements`` has its numbers row by row, all of one dtype
    or all literals. Only in results of `lvalue.locate` may they be elements of memory that are not loaded yet."""

    shape: tuple[int, ...] = field()
    elements: tuple[Any, ...] = field()
    fixed: str = ""
    brackets = ("[", "]")
    length = property(lambda self: self.shape[0])
    static_key = property(lambda self: self.shape)

    def describe(self) -> str:
        rows, *columns = self.shape
        return f"a {rows} x {columns[0]} matrix" if columns else f"a vector of {rows}"

    def children(self) -> Sequence[Any]:
        return self.elements

    def labels(self) -> Iterable[str]:
        return (f"[{','.join(map(str, cell))}]" for cell in product(*map(range, self.shape)))

    def rebuilt(self, children: Iterable[Any]) -> Matrix:
        return Matrix(self.shape, tuple(children))

    def structure(self) -> Any:
        return self.shape

    def pairs(self, cx: Lowering, new: Value, node: ast.expr) -> Iterator[tuple[Any, Any]]:
        value = new if new.is_number else matrix_of(cx, new, node) or new.number(cx, node)
        if value.shape not in ((), self.shape):
            raise cx.fail("QL1417", node, what=value.describe(), target=self.describe())
        for k, leaf in enumerate(self.elements):
            yield leaf, value.nth(k)

    def nth(self, k: int) -> Any:
        return self.elements[k]

    def pick(self, cx: Lowering, cells: Iterable[Cell], shape: tuple[int, ...], node: ast.expr) -> Any:
        """The elements at the indices ``cells`` as a matrix of the given ``shape``; a single number if ``shape`` is
        ()."""
        picked = tuple(self._at(cx, cell, node) for cell in cells)
        return Matrix(shape, picked) if shape else picked[0]

    def _at(self, cx: Lowering, cell: Cell, node: ast.expr) -> Any:
        """The element at an index. If a part of the index is computed at run time, the element is chosen then, among
        all that it may be."""
        if not computed(cell):
            return self.elements[flat(cell, self.shape)]
        if self.is_shared and self.elements[0].private_copy and are_private(self.elements, cell, cx.span(node)):
            return cx.frame.env[self.elements[0].private_copy]._at(cx, cell, node)
        in_place = self.is_memory
        among = self if in_place else self.load(cx, node)
        cx.at(node)
        index, extents, places = box(among.shape, cell)
        numbers = [among.elements[p] for p in places]

        def chosen(t: DType, values: Iterable[int]) -> Any:
            return cx.b.add(Element(cx.b.fresh(), t, index, extents, tuple(values), clamped=True))

        if in_place:
            ids = zip(*(number.at for number in numbers), strict=True)
            return replace(numbers[0], at=tuple(chosen(cx.b.types[same[0]], same) for same in ids))
        t = cx.type_of(numbers[0])
        return Num(chosen(t, [cx.to(number, t) for number in numbers]), t)

    def entries(self, cx: Lowering) -> tuple[Any, ...]:
        columns = self.shape[-1]
        if len(self.shape) == 1:
            return self.elements
        return tuple(Matrix((columns,), self.elements[k * columns : (k + 1) * columns]) for k in range(self.shape[0]))

    def load(self, cx: Lowering, node: ast.expr) -> Matrix:
        loaded = tuple(e.load(cx, node).number(cx, node) for e in self.elements)
        return self if loaded == self.elements else Matrix(self.shape, loaded)

    def python(self, cx: Lowering) -> Any:
        return tuple(e.python(cx) for e in self.elements)


def are_private(temps: Sequence[Any], cell: Cell, span: Any) -> bool:
    """Whether ``temps``, the numbers of a vector or matrix that the iterations of a parallel loop share, are changed
    only by assignments at the index of the iteration. ``cell`` is the index of one such assignment; it contains all
    indices of the loop, so no other iteration accesses the element."""
    if not temps[0].iteration <= {k.id for k in computed(cell).values()}:
        return False
    for temp in temps:
        temp.reduced = temp.reduced or (PRIVATE, span)
    return all(temp.reduced[0] == PRIVATE for temp in temps)


def computed(cell: Cell) -> dict[int, Num]:
    """The parts of the index that are computed at run time, by axis."""
    return {axis: k for axis, k in enumerate(cell) if isinstance(k, Num)}


def flat(where: Any, shape: tuple[int, ...]) -> int:
    """The position, row by row, of an element of a vector or matrix."""
    return where[0] if len(shape) == 1 else where[0] * shape[1] + where[1]  # type: ignore[no-any-return]  # ints


def matrix_of(cx: Lowering, value: Value, node: ast.expr) -> Matrix | None:
    """Like `matrix.as_matrix`, but each number of a list keeps its own dtype."""
    if isinstance(value, Matrix):
        return value
    parts = value.entries(cx)
    if parts is None or not parts:
        return None
    if all(p.is_number for p in parts):
        return Matrix((len(parts),), tuple(parts))
    found = [matrix_of(cx, p, node) for p in parts]
    rows = [r for r in found if r is not None and len(r.shape) == 1]
    if len(rows) < len(parts):
        return None
    first = rows[0]
    flat: list[Any] = []
    for r in rows:
        if r.shape != first.shape:
            raise cx.fail("QL1416", node, left=first.describe(), right=r.describe())
        flat += r.elements
    return Matrix((len(rows), *first.shape), tuple(flat))


def box(shape: tuple[int, ...], cell: Cell) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """The elements that an index may refer to: the ids of its computed parts, the extents of their axes, and the
    positions of the elements."""
    at = computed(cell)
    axes: list[Any] = [range(n) if axis in at else (cell[axis],) for axis, n in enumerate(shape)]
    positions = [flat(where, shape) for where in product(*axes)]
    return tuple(i.id for i in at.values()), tuple(shape[axis] for axis in at), positions


def tests(cx: Lowering, shape: tuple[int, ...], cell: Cell) -> Iterator[tuple[int, int]]:
    """For each position of an element that a computed index may refer to, the position, and the condition that the
    index refers to it, which is emitted."""
    index, extents, positions = box(shape, cell)
    for position, where in zip(positions, product(*map(range, extents)), strict=True):
        equal = (cx.b.op("eq", i, cx.const(k, cx.b.types[i])) for i, k in zip(index, where, strict=True))
        yield position, reduce(partial(cx.b.op, "and"), equal)


@dataclass(slots=True, eq=False)
class Struct(_Numbers):
    """A struct: values by name, in order. ``type`` is the struct type, an object of `quadrants_lab.lang`."""

    type: Any
    members: dict[str, Value]
    fixed: str = ""
    brackets = ("{", "}")

    @property
    def view(self) -> Any:
        return self.members["arr"] if getattr(self.type, "__qd_view__", False) is True else None

    def describe(self) -> str:
        of = self.view
        return f"a struct of {', '.join(self.members)}" if of is None else f"a view of {of.buffer.dtype}"

    def children(self) -> Sequence[Any]:
        return tuple(self.members.values())

    def labels(self) -> Iterable[str]:
        return (f".{name}" for name in self.members)

    names = property(lambda self: tuple(self.members))

    def fits(self, new: Value) -> bool:
        return bool(new.names == self.names)

    def printed(self, cx: Lowering) -> Iterable[tuple[str, Any]]:
        return ((f"{name}: ", member) for name, member in self.members.items())

    def rebuilt(self, children: Iterable[Any]) -> Struct:
        return Struct(self.type, dict(zip(self.members, children, strict=True)))

    def load(self, cx: Lowering, node: ast.expr) -> Struct:
        return Struct(self.type, {n: m.load(cx, node) for n, m in self.members.items()}, self.fixed)


class Tuple(Value, tuple[Any, ...]):
    """A tuple of values. No local variable carries the numbers in a tuple, so it has no leaves."""

    words = "a tuple"
    holds = is_object = True
    brackets = ("(", ")")
    has_items = True
    parts = property(lambda self: self)
    length = property(len)
    static_key = property(lambda self: tuple(part.static_key for part in self))

    def structure(self) -> Any:
        return [type(self), *(part.structure() for part in self)]

    def entries(self, cx: Lowering) -> tuple[Any, ...]:
        return self

    def item(self, cx: Lowering, index: Any, shown: str, node: ast.Subscript) -> Value:
        return self[position(cx, index, shown, len(self), node)]  # type: ignore[no-any-return]

    def items(self, cx: Lowering, part: slice, shown: str, node: ast.Subscript) -> Value:
        return self.made(self[part], cx.depth)

    def python(self, cx: Lowering) -> Any:
        return tuple(part.python(cx) for part in self)

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> Any:
        return Tuple(parts)

    def made(self, parts: Iterable[Value], depth: int) -> Tuple:
        """A new tuple or list of the same kind as this one, with the entries ``parts``: the result of a slice,
        ``+`` or ``*``. ``depth`` is the depth (conditions and loops around it) of a new list."""
        return Tuple(parts)


def position(cx: Lowering, index: Any, shown: str, count: int, node: ast.Subscript) -> int:
    """The position, counted from 0, that a Python index (which may be negative) means among ``count`` entries. Raises
    QL1506 if there is no such entry."""
    try:
        return int(range(count)[index])
    except (IndexError, TypeError):
        raise cx.fail("QL1506", node, index=shown, count=count) from None


class View(Tuple):
    """The result of ``enumerate``, ``zip``, ``reversed``, ``items`` or ``values`` of lists and dicts. ``again`` makes
    the view anew, from the entries that the lists and dicts have at a later point of the program."""

    again: Callable[[], tuple[Any, ...]]

    def __new__(cls, again: Callable[[], tuple[Any, ...]]) -> View:
        made = super().__new__(cls, again())
        made.again = again
        return made

    def renewed(self) -> View:
        return View(self.again)


class Container(_Tree):
    """The protocol of a list or dict that the kernel makes. A change makes a new value with the same ``token``.
    ``keys`` has the index or key of each entry."""

    __slots__ = ()
    is_local = holds = is_object = True
    keys: Any

    def describe(self) -> str:
        return f"a {self.kind} of {len(self.parts)}"

    def children(self) -> Sequence[Any]:
        return self.parts  # type: ignore[no-any-return]

    def labels(self) -> Iterable[str]:
        return (f"[{key}]" for key in self.keys)

    def rebuilt(self, children: Iterable[Any]) -> Any:
        return self.with_parts(children)

    def place(self, key: Any) -> int:
        """The position of the entry with this index or key; raises LookupError or TypeError if there is none."""
        return int(range(len(self.parts))[key])

    def _kept(self, changed: dict[str, Any]) -> dict[str, Any]:
        return {"depth": self.depth, "token": self.token, "fixed": self.fixed, **changed}


class List(Container, Tuple):
    """A list that the kernel makes."""

    kind = "list"
    brackets = ("[", "]")
    copied = property(list)
    keys = property(lambda self: range(len(self)))

    def __new__(cls, parts: Iterable[Value], depth: int, token: object = None, fixed: str = "") -> List:
        made = super().__new__(cls, parts)
        made.depth, made.token, made.fixed = depth, token or object(), fixed
        return made

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> List:
        return List(parts, **self._kept(changed))

    def made(self, parts: Iterable[Value], depth: int) -> List:
        return List(parts, depth)


@dataclass(slots=True, eq=False)
class Dict(Container):
    """A dict that the kernel makes."""

    members: dict[Any, Value]
    depth: int = field()
    token: object = None
    fixed: str = ""
    kind = "dict"
    brackets = ("{", "}")
    copied = property(lambda self: dict(self.members))
    keys = property(lambda self: self.members)
    parts = property(lambda self: tuple(self.members.values()))
    length = property(lambda self: len(self.members))

    def __post_init__(self) -> None:
        self.token = self.token or object()

    def place(self, key: Any) -> int:
        return {k: n for n, k in enumerate(self.members)}[key]

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> Dict:
        return Dict(dict(zip(self.members, parts, strict=True)), **self._kept(changed))

    def entries(self, cx: Lowering) -> tuple[Any, ...]:
        return tuple(cx.wrap(key, repr(key)) for key in self.members)

    def printed(self, cx: Lowering) -> Iterable[tuple[str, Any]]:
        return ((f"{key!r}: ", part) for key, part in self.members.items())

    def python(self, cx: Lowering) -> Any:
        return {key: part.python(cx) for key, part in self.members.items()}
