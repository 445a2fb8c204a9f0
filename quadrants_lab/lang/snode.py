"""Placing fields by hand: `qd.root`, nodes of `dense`, `FieldsBuilder`.

Placement gives fields their shape. It never changes what a program means, and memory stays row-major a field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from operator import index as as_index
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.lang.dense import Field
from quadrants_lab.lang.elements import Entry
from quadrants_lab.lang.shapes import AXES, MAX_DIMS, check_offset
from quadrants_lab.runtime import session

OUTSIDE = ("pointer", "hash", "bitmasked", "dynamic", "quant_array", "bit_struct", "deactivate_all")


class Axes(tuple[int, ...]):
    """Axes of a field, by number; ``qd.ij`` is axes 0 and 1."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "qd." + "".join(AXES[n] for n in self)


NAMED_AXES = {
    name: Axes(AXES.index(letter) for letter in name)
    for name in ("i", "j", "k", "l", "ij", "ik", "il", "jk", "jl", "kl", "ijk", "ijl", "ikl", "jkl", "ijkl")
}


def axes(*numbers: int) -> Axes:
    """The axes with these numbers: ``qd.axes(0, 1)`` is ``qd.ij``."""
    if not all(0 <= as_index(n) < MAX_DIMS for n in numbers):
        raise QuadrantsRuntimeError(
            f"axes are numbered from 0 to {MAX_DIMS - 1}, not {numbers}", code="QL2026"
        )
    return Axes(numbers)


class PlacementError(QuadrantsRuntimeTypeError, ValueError):
    """Something that cannot be placed, or not so."""


class SNode:
    """A node of a tree that fields are placed in: so many children an axis, below those of its parent."""

    def __init__(self, builder: FieldsBuilder, above: SNode | None, extents: dict[int, int]) -> None:
        self._builder = builder
        self._above = above
        self._extents = extents
        self._fields: list[Field] = []
        self._below: list[SNode] = []

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis that it or a node above it divides, by number of the axis."""
        path = list(self._path())
        used = sorted({axis for node in path for axis in node._extents})
        return tuple(prod(node._extents.get(axis, 1) for node in path) for axis in used)

    def parent(self, n: int = 1) -> SNode:
        """The node n levels up, at most the root."""
        node = self
        for _ in range(n):
            node = node._above or node
        return node

    def dense(self, axes: Any, dimensions: int | Iterable[int]) -> SNode:
        """A node below that has ``dimensions`` (an int for all) children along the axes ``axes``."""
        self._builder.check_open()
        along = tuple(axes) if isinstance(axes, (list, tuple)) else ()
        along = tuple(chain.from_iterable(a if isinstance(a, Axes) else (a,) for a in along))
        if not along or not all(type(a) is int for a in along) or len(set(along)) != len(along):
            raise QuadrantsRuntimeTypeError(
                f"{axes!r} are not axes", code="QL2026", help="for example qd.i, qd.ij or qd.axes(0, 1)"
            )
        try:
            given = dimensions if isinstance(dimensions, Iterable) else (dimensions,)
            sizes = tuple(as_index(n) for n in given)
        except TypeError:
            raise QuadrantsRuntimeTypeError(
                f"{dimensions!r} is no number of children", code="QL2026", help="an int, or a tuple of ints"
            ) from None
        sizes = sizes * len(along) if len(sizes) == 1 else sizes
        if len(sizes) != len(along):
            raise QuadrantsRuntimeError(
                f"axes and sizes must have the same size, but got {len(along)} and {len(sizes)}",
                code="QL2026",
            )
        if any(n <= 0 for n in sizes):
            raise QuadrantsRuntimeError(f"every extent must be positive, not {sizes}", code="QL2019")
        node = SNode(self._builder, self, dict(zip(along, sizes, strict=True)))
        self._below.append(node)
        return node

    def place(self, *args: Any, offset: int | Iterable[int] | None = None) -> SNode:
        """Gives fields, members of struct fields, and gradients their shape and memory. ``offset``: the first index of
        each axis. Returns the node."""
        self._builder.check_open()
        shape = self.shape
        first = check_offset(offset, shape)
        placed = list(dict.fromkeys(f for arg in args for f in _fields(arg)))
        for field in placed:
            if not (field.placed and any(isinstance(a, Entry) and a.field is field for a in args)):
                field.allocate(shape, first)
                self._fields.append(field)
        for field in placed:
            field.settle()
            if field.primal is not None:
                _forget_compiled()
        return self

    def lazy_grad(self) -> None:
        """Places the gradient of each field of floating point that is placed here or below and has none placed; at the
        root, of each field of the session."""
        self._companions("grad")

    def lazy_dual(self) -> None:
        """Places the duals, as `lazy_grad` the gradients."""
        self._companions("dual")

    def _companions(self, which: str) -> None:
        self._builder.check_open()
        places = {field: node for node in self._all() for field in node._fields}
        if self is root._builder.root:
            places.update((field, self) for field in session.current().fields if field not in places and field.placed)
        for field, node in places.items():
            if field.dtype.is_float and field.primal is None:
                made = field.companion(which)
                if not made.placed:
                    made.allocate(field.shape, field.offset)
                    node._fields.append(made)
        _forget_compiled()

    def _path(self) -> Iterator[SNode]:
        node: SNode | None = self
        while node is not None:
            yield node
            node = node._above

    def _all(self) -> Iterator[SNode]:
        yield self
        for node in self._below:
            yield from node._all()

    def __getattr__(self, name: str) -> NoReturn:
        raise _outside(name) if name in OUTSIDE else AttributeError(f"SNode has no attribute {name!r}")

    def __repr__(self) -> str:
        return "qd.root" if self._above is None else f"<qd.SNode of type dense: {self.shape}>"


class SNodeTree:
    """A finalized tree."""

    def __init__(self, root: SNode) -> None:
        self._root = root

    def destroy(self) -> None:
        """Gives the memory of its fields back; they cannot be used any more."""
        for node in self._root._all():
            for field in node._fields:
                if field.placed:
                    field.release()
            node._fields.clear()
        _forget_compiled()


class FieldsBuilder:
    """A tree of its own, whose memory can be given back: ``finalize()`` closes it and returns the `SNodeTree`."""

    def __init__(self) -> None:
        self.root = SNode(self, None, {})
        self.finalized = False

    def check_open(self) -> None:
        if self.finalized:
            raise QuadrantsRuntimeError("FieldsBuilder finalized", code="QL2027", help="make another one")

    def dense(self, indices: Any, dimensions: int | Iterable[int]) -> SNode:
        """See `SNode.dense`."""
        return self.root.dense(indices, dimensions)

    def place(self, *args: Any, offset: int | Iterable[int] | None = None) -> None:
        """See `SNode.place`; at the root fields are 0-d."""
        self.root.place(*args, offset=offset)

    def lazy_grad(self) -> None:
        """See `SNode.lazy_grad`."""
        self.root.lazy_grad()

    def lazy_dual(self) -> None:
        """See `SNode.lazy_dual`."""
        self.root.lazy_dual()

    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """Closes the builder. ``raise_warning`` is accepted: a builder without fields is no reason for a warning."""
        self.check_open()
        self.finalized = True
        return SNodeTree(self.root)

    def __getattr__(self, name: str) -> NoReturn:
        raise (
            _outside(name) if name in OUTSIDE else AttributeError(f"FieldsBuilder has no attribute {name!r}")
        )


class Root:
    """``qd.root``: the tree of the current session."""

    def __getattr__(self, name: str) -> Any:
        now = session.current()
        if now not in _roots:
            _roots[now] = FieldsBuilder()
        return getattr(_roots[now].root, name)

    def __repr__(self) -> str:
        return "qd.root"


_roots: WeakKeyDictionary[session.Session, FieldsBuilder] = WeakKeyDictionary()
root = Root()


def _fields(arg: Any) -> Iterator[Field]:
    """The fields that an argument of `SNode.place` stands for."""
    if isinstance(arg, Field):
        yield arg
    elif isinstance(arg, Entry):
        yield arg.field
    elif isinstance(arg, (list, tuple)):
        yield from chain.from_iterable(map(_fields, arg))
    elif getattr(arg, "__qd_struct_field__", False):
        yield from chain.from_iterable(map(_fields, arg.members.values()))
    else:
        raise PlacementError(
            f"{arg!r} cannot be placed",
            code="QL2026",
            help="place fields made without a shape; a gradient needs needs_grad=True" if arg is None else "",
        )


def _forget_compiled() -> None:
    """Kernels that were compiled for fields as they were are compiled anew."""
    now = session.current()
    now.placements += 1
    now.forget_fast_paths()


def _outside(name: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"{name}: sparse, dynamic and quantised layouts are outside of quadrants_lab",
        code="QL2028",
        help="use dense: it has every element, and no activation",
    )
