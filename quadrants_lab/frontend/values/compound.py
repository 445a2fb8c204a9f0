"""Values of several parts: vectors, matrices, structs; tuples, and the lists and dicts that a kernel makes.

All of them are immutable: a change makes another value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from itertools import chain
from typing import Any

from quadrants_lab.frontend.values.value import Lowering, Value
from quadrants_lab.ir.record import dataclass

PASSED = "a copy of the caller's list"  # `fixed` of a list that a func took by value
STATIC_VARIABLE = "a static loop variable"


class _Numbers(Value):
    """The answers of a matrix or struct, whose numbers a local holds."""

    __slots__ = ()

    @property
    def is_local(self) -> bool:
        return not self.fixed

    @property
    def is_memory(self) -> bool:
        leaves = list(self.leaves())
        return bool(leaves) and all(leaf.is_memory for leaf in leaves)

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        raise cx.fail("QL1420", node, what=self.describe())


@dataclass(slots=True, eq=False)
class Matrix(_Numbers):
    """A vector, of ``shape`` (n,), or a matrix, of shape (n, m): its elements row by row, all of one dtype or all
    literals. Elements that are not loaded yet occur only in results of `lvalue.locate`."""

    shape: tuple[int, ...] = field()
    elements: tuple[Any, ...]
    fixed: str = ""
    brackets = ("[", "]")

    def describe(self) -> str:
        rows, *columns = self.shape
        return f"a {rows} x {columns[0]} matrix" if columns else f"a vector of {rows}"

    def leaves(self) -> Iterator[Any]:
        return iter(self.elements)

    def map(self, fn: Callable[[Any], Any]) -> Matrix:
        return Matrix(self.shape, tuple(map(fn, self.elements)))

    def leaf_names(self, name: str) -> Iterator[str]:
        columns = self.shape[-1]
        for k in range(len(self.elements)):
            yield f"{name}[{k}]" if len(self.shape) == 1 else f"{name}[{k // columns},{k % columns}]"

    def structure(self) -> Any:
        return self.shape

    @property
    def length(self) -> int:
        return self.shape[0]

    def entries(self, cx: Lowering) -> tuple[Any, ...]:
        columns = self.shape[-1]
        if len(self.shape) == 1:
            return self.elements
        return tuple(Matrix((columns,), self.elements[k * columns : (k + 1) * columns]) for k in range(self.shape[0]))

    def nth(self, k: int) -> Any:
        return self.elements[k]

    def static_key(self) -> Any:
        return self.shape

    def pick(self, cx: Lowering, positions: tuple[int, ...], shape: tuple[int, ...], node: ast.expr) -> Any:
        """The elements at these positions, row by row, as a matrix; one number if ``shape`` is ()."""
        picked = tuple(self.elements[p] for p in positions)
        return Matrix(shape, picked) if shape else picked[0]

    def load(self, cx: Lowering, node: ast.expr) -> Matrix:
        loaded = tuple(e.load(cx, node).number(cx, node) for e in self.elements)
        return self if loaded == self.elements else Matrix(self.shape, loaded)

    def python(self, cx: Lowering) -> Any:
        return tuple(e.python(cx) for e in self.elements)


@dataclass(slots=True, eq=False)
class Struct(_Numbers):
    """A value with named members, in order. ``type`` is the object of `quadrants_lab.lang` that describes it."""

    type: Any
    members: dict[str, Value]
    fixed: str = ""

    def describe(self) -> str:
        of: Any = self.view
        return f"a struct of {', '.join(self.members)}" if of is None else f"a view of {of.buffer.dtype}"

    def leaves(self) -> Iterator[Any]:
        return chain.from_iterable(member.leaves() for member in self.members.values())

    def map(self, fn: Callable[[Any], Any]) -> Struct:
        return Struct(self.type, {name: m.map(fn) for name, m in self.members.items()})

    def leaf_names(self, name: str) -> Iterator[str]:
        for member, inner in self.members.items():
            yield from inner.leaf_names(f"{name}.{member}")

    def structure(self) -> Any:
        return {name: m.structure() for name, m in self.members.items()}

    @property
    def view(self) -> Any:
        return self.members["arr"] if getattr(self.type, "__qd_view__", False) is True else None

    def load(self, cx: Lowering, node: ast.expr) -> Struct:
        return Struct(self.type, {n: m.load(cx, node) for n, m in self.members.items()}, self.fixed)


class _Parts(Value):
    """The answers of a value with entries."""

    __slots__ = ()

    @property
    def length(self) -> int:
        return len(self.parts)

    def structure(self) -> Any:
        return [type(self), list(getattr(self, "members", ())), *(part.structure() for part in self.parts)]

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> Any:
        return Tuple(parts)


def position(cx: Lowering, index: Any, shown: str, count: int, node: ast.Subscript) -> int:
    """The index, which must be one of as many entries; QL1506 otherwise."""
    if not isinstance(index, int) or not -count <= index < count:
        raise cx.fail("QL1506", node, index=shown, count=count)
    return index % count


class Tuple(_Parts, tuple[Any, ...]):
    """A tuple of values. It has no numbers of its own: no local carries those in it."""

    words = "a tuple"
    brackets = ("(", ")")

    @property
    def parts(self) -> tuple[Any, ...]:
        return self

    def entries(self, cx: Lowering) -> tuple[Any, ...]:
        return self

    def python(self, cx: Lowering) -> Any:
        return tuple(part.python(cx) for part in self)

    def static_key(self) -> Any:
        return tuple(part.static_key() for part in self)

    has_items = True

    def item(self, cx: Lowering, index: Any, shown: str, node: ast.Subscript) -> Value:
        if isinstance(index, slice):
            return self.made(self[index], cx.depth)
        found: Value = self[position(cx, index, shown, len(self), node)]
        return found

    def made(self, parts: Iterable[Value], depth: int) -> Tuple:
        """What Python makes of entries of it, by a slice, ``+`` or ``*``, at this depth."""
        return Tuple(parts)


class View(Tuple):
    """What ``enumerate``, ``zip``, ``reversed``, ``items`` and ``values`` make of lists and dicts; ``again`` makes it
    of the entries that they have at another point of the program."""

    again: Callable[[], tuple[Any, ...]]

    def __new__(cls, again: Callable[[], tuple[Any, ...]]) -> View:
        made = super().__new__(cls, again())
        made.again = again
        return made

    def renewed(self) -> View:
        return View(self.again)


class Container(_Parts):
    """The answers of a list or dict that the kernel makes. A change makes one of other entries with the same ``token``.
    ``depth`` is the number of run-time conditions and loops around the place where it was made."""

    __slots__ = ()
    kind: str
    depth: int
    token: object
    fixed: str

    def describe(self) -> str:
        return f"a {self.kind} of {len(self.parts)}"

    def leaves(self) -> Iterator[Any]:
        return chain.from_iterable(part.leaves() for part in self.parts)

    def map(self, fn: Callable[[Any], Any]) -> Any:
        return self.with_parts([part.map(fn) for part in self.parts])

    def _keys(self) -> Iterable[Any]:
        return range(len(self.parts))

    def copied(self) -> Any:
        """A list or dict of Python with its entries."""
        return list(self.parts)

    def place(self, key: Any) -> int:
        """The position of the entry with this index or key; LookupError or TypeError where there is none."""
        return int(range(len(self.parts))[key])

    def leaf_names(self, name: str) -> Iterator[str]:
        for key, part in zip(self._keys(), self.parts, strict=True):
            yield from part.leaf_names(f"{name}[{key}]")

    def _kept(self, changed: dict[str, Any]) -> dict[str, Any]:
        return {"depth": self.depth, "token": self.token, "fixed": self.fixed, **changed}

    @property
    def is_local(self) -> bool:
        return True


class List(Container, Tuple):
    """A list."""

    kind = "list"
    brackets = ("[", "]")

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
    """A dict."""

    members: dict[Any, Value]
    depth: int = field()
    token: object = None
    fixed: str = ""
    kind = "dict"

    def __post_init__(self) -> None:
        self.token = self.token or object()

    @property
    def parts(self) -> tuple[Any, ...]:
        return tuple(self.members.values())

    def _keys(self) -> Iterable[Any]:
        return self.members

    def copied(self) -> dict[Any, Value]:
        return dict(self.members)

    def place(self, key: Any) -> int:
        return {k: n for n, k in enumerate(self.members)}[key]

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> Dict:
        return Dict(dict(zip(self.members, parts, strict=True)), **self._kept(changed))

    def entries(self, cx: Lowering) -> tuple[Any, ...]:
        return tuple(cx.wrap(key, repr(key)) for key in self.members)

    def python(self, cx: Lowering) -> Any:
        return {key: part.python(cx) for key, part in self.members.items()}
