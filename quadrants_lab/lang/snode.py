"""Placing fields by hand: `qd.root`, nodes of `dense`, `pointer`, `bitmasked` and `dynamic`, `FieldsBuilder`.

Placement gives fields their shape, and memory stays row-major and dense a field. What a node that is not dense adds is
a field of i32, its ``activity``: 1 for each cell that is active, or for each list of a dynamic node its length. An
active cell's ancestors are active, and what is not active is 0 in memory, so that reading needs no test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import prod
from operator import index as as_index
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import i32
from quadrants_lab.lang.dense import Field, ScalarField
from quadrants_lab.lang.elements import Entry
from quadrants_lab.lang.shapes import AXES, MAX_DIMS, Shape, check_offset, integers
from quadrants_lab.runtime import session

OUTSIDE = ("hash", "quant_array", "bit_struct")
SPARSE = ("pointer", "bitmasked", "dynamic")  # nodes whose cells need not be active
MOST = 2**33  # bytes of a field in a sparse layout, which has memory for all that could be active


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
    """A node of a tree that fields are placed in: so many children an axis, below those of its parent.

    ``kind``: "root", "dense", "pointer", "bitmasked" or "dynamic". ``axes``: those that it or a node above it divides.
    """

    __qd_snode__ = True

    def __init__(self, builder: FieldsBuilder, above: SNode | None, extents: dict[int, int], kind: str) -> None:
        self._builder = builder
        self._above = above
        self._extents = extents
        self._fields: list[Field] = []
        self._below: list[SNode] = []
        self._activity: Field | None = None
        self.kind = kind
        self.axes: tuple[int, ...] = tuple(sorted({*extents, *(above.axes if above else ())}))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis that it or a node above it divides, by number of the axis."""
        return tuple(prod(node._extents.get(axis, 1) for node in self._path()) for axis in self.axes)

    def parent(self, n: int = 1) -> SNode:
        """The node n levels up, at most the root."""
        node = self
        for _ in range(n):
            node = node._above or node
        return node

    def dense(self, axes: Any, dimensions: Shape) -> SNode:
        """A node below that has ``dimensions`` (an int for all) children along the axes ``axes``, all of them active as
        soon as this cell is."""
        return self._add("dense", axes, dimensions)

    def pointer(self, axes: Any, dimensions: Shape) -> SNode:
        """The same where each child is active or not. Here it has the memory of a `bitmasked` node."""
        return self._add("pointer", axes, dimensions)

    def bitmasked(self, axes: Any, dimensions: Shape) -> SNode:
        """The same where each child is active or not."""
        return self._add("bitmasked", axes, dimensions)

    def dynamic(self, axis: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        """A list of up to ``dimension`` children along one axis, which grows with `append` and with writes beyond its
        end. ``chunk_size`` is taken and changes nothing."""
        node = self._add("dynamic", axis, dimension)
        if len(node._extents) != 1:
            self._below.remove(node)
            raise QuadrantsRuntimeError(f"a dynamic node has one axis, not {axis!r}", code="QL2026")
        return node

    def _add(self, kind: str, axes: Any, dimensions: Shape) -> SNode:
        self._builder.check_open()
        along = tuple(axes) if isinstance(axes, (list, tuple)) else ()
        along = tuple(chain.from_iterable(a if isinstance(a, Axes) else (a,) for a in along))
        if not along or not all(type(a) is int for a in along) or len(set(along)) != len(along):
            raise QuadrantsRuntimeTypeError(
                f"{axes!r} are not axes", code="QL2026", help="for example qd.i, qd.ij or qd.axes(0, 1)"
            )
        sizes = integers(dimensions, f"{dimensions!r} is no number of children", "an int, or a tuple of ints", "QL2026")
        sizes = sizes * len(along) if len(sizes) == 1 else sizes
        if len(sizes) != len(along):
            raise QuadrantsRuntimeError(
                f"axes and sizes must have the same size, but got {len(along)} and {len(sizes)}",
                code="QL2026",
            )
        if any(n <= 0 for n in sizes):
            raise QuadrantsRuntimeError(f"every extent must be positive, not {sizes}", code="QL2019")
        node = SNode(self._builder, self, dict(zip(along, sizes, strict=True)), kind)
        self._below.append(node)
        return node

    def place(self, *args: Any, offset: Shape | None = None) -> SNode:
        """Gives fields, members of struct fields, and gradients their shape and memory. ``offset``: the first index of
        each axis. Returns the node."""
        self._builder.check_open()
        shape = self.shape
        first = check_offset(offset, shape)
        placed = list(dict.fromkeys(f for arg in args for f in _fields(arg)))
        for field in placed:
            if not (field.placed and any(isinstance(a, Entry) and a.field is field for a in args)):
                self._check_room(field)
                field.allocate(shape, first)
                field.lie_in(self)
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
        if self is root._builder:
            places.update((field, self) for field in session.current().fields if field not in places and field.placed)
        for field, node in places.items():
            if field.dtype.is_float and field.primal is None:
                made = field.companion(which)
                if not made.placed:
                    made.allocate(field.shape, field.offset)
                    made.lie_in(node if field.snode else None)
                    node._fields.append(made)
        _forget_compiled()

    # --- what is active -------------------------------------------------------------------------------------------

    @property
    def sparse(self) -> SNode | None:
        """The nearest node at or above this one whose cells need not be active."""
        return next((node for node in self._path() if node.kind in SPARSE), None)

    @property
    def activity(self) -> Field:
        """The i32 field of what is active: of the shape of the node, of a dynamic one of the shape of its parent."""
        if self._activity is None:
            assert self._above is not None
            self._activity = ScalarField(i32)
            self._activity.allocate(self._above.shape if self.kind == "dynamic" else self.shape)
        return self._activity

    def places(self, below: SNode) -> tuple[tuple[int, int], ...]:
        """For each axis of this node where in an index of the node ``below`` it stands, and by what that is divided."""
        between = [node for node in below._path() if node not in set(self._path())]
        return tuple((below.axes.index(a), prod(n._extents.get(a, 1) for n in between)) for a in self.axes)

    def contents(self) -> Iterator[tuple[SNode, Field, bool]]:
        """What is lost when a cell of this node is deactivated, with its node: activities below, which are marked, and
        fields, but not gradients and duals."""
        for node in self._all():
            if node is not self and node.kind in SPARSE:
                yield node, node.activity, True
            yield from ((node, field, False) for field in node.fields)

    @property
    def fields(self) -> list[Field]:
        """What is placed here, without gradients and duals."""
        return [field for field in self._fields if field.primal is None]

    @property
    def room(self) -> int:
        """How many children a list of a dynamic node can have."""
        (n,) = self._extents.values()
        return n

    def element(self, at: Sequence[Any], slot: Any, grown: Callable[[Any, int], Any]) -> tuple[Any, ...]:
        """The index of the child ``slot`` of the list of a dynamic node that belongs to its parent's cell ``at``; where
        the parent has the list's axis, too, ``grown(i, room)`` is the index along it."""
        above = self._above.axes if self._above else ()
        cell = dict(zip(above, at, strict=True))
        (axis,) = self._extents
        cell[axis] = grown(cell[axis], self.room) if axis in cell else slot
        return tuple(cell[a] for a in self.axes)

    def find(self, index: Sequence[Any], below: SNode) -> tuple[tuple[Any, ...], Any]:
        """Where in `activity` the cell is counted that the element ``index`` of the node ``below`` lies in, and what
        the number there exceeds where it is active. ``index``: numbers, arrays, or anything with ``//`` and ``%``."""
        holder = self._above if self.kind == "dynamic" else self
        assert holder is not None
        at = tuple(index[k] // by for k, by in holder.places(below))
        if holder is self:
            return at, 0
        (axis,) = self._extents
        k, by = self.places(below)[self.axes.index(axis)]
        return at, index[k] // by % self._extents[axis]

    def activate(self, index: tuple[int, ...]) -> None:
        """Activates the cell of this node at the index, and those above it."""
        for node in self._path():
            if node.kind in SPARSE:
                at, rank = node.find(index, self)
                node.activity[at or None] = max(node.activity[at or None], rank + 1)

    def active(self) -> npt.NDArray[np.bool_]:
        """Which elements of a field that is placed in this node are active."""
        node = self.sparse
        if node is None:
            return np.ones(self.shape, bool)
        at, rank = node.find(np.ogrid[tuple(map(slice, self.shape))], self)
        return np.broadcast_to(node.activity.to_numpy()[at] > rank, self.shape)

    def deactivate_all(self) -> None:
        """Nothing in nodes from here downwards that can be inactive is active any more, and what lay there is 0."""
        for node in self._all():
            if node.kind in SPARSE:
                node.activity.fill(0)
                for _, field, _ in node.contents():
                    field.clear()

    def _check_room(self, field: Field) -> None:
        size = prod((*self.shape, *field.element_shape)) * field.dtype.bits // 8
        if self.sparse is not None and size > MOST:
            raise QuadrantsRuntimeError(
                f"{self!r} has room for {size / 2**30:.0f} GiB of {field.dtype}, more than {MOST >> 30} GiB",
                code="QL2036",
                help="a sparse layout has memory for all that could be active: use fewer cells",
            )

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
        raise _outside(name) if name in OUTSIDE else AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __repr__(self) -> str:
        return "qd.root" if self._above is None else f"{self._above!r} => {self.kind} {list(self.shape)}"


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
            if node._activity is not None:
                node._activity.release()
        _forget_compiled()


class FieldsBuilder(SNode):
    """The root of a tree of its own, whose memory can be given back: ``finalize()`` closes it and returns the
    `SNodeTree`."""

    def __init__(self) -> None:
        super().__init__(self, None, {}, "root")
        self.finalized = False

    @property
    def root(self) -> SNode:
        return self

    # what Quadrants calls axes here

    def dense(self, indices: Any, dimensions: Shape) -> SNode:
        return super().dense(indices, dimensions)

    def pointer(self, indices: Any, dimensions: Shape) -> SNode:
        return super().pointer(indices, dimensions)

    def bitmasked(self, indices: Any, dimensions: Shape) -> SNode:
        return super().bitmasked(indices, dimensions)

    def dynamic(self, index: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        return super().dynamic(index, dimension, chunk_size)

    def check_open(self) -> None:
        if self.finalized:
            raise QuadrantsRuntimeError("FieldsBuilder finalized", code="QL2027", help="make another one")

    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """Closes the builder. ``raise_warning`` is accepted: a builder without fields is no reason for a warning."""
        self.check_open()
        self.finalized = True
        return SNodeTree(self)


class Root:
    """``qd.root``: the tree of the current session."""

    def __getattr__(self, name: str) -> Any:
        now = session.current()
        if now not in _roots:
            _roots[now] = FieldsBuilder()
        return getattr(_roots[now], name)

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


def deactivate_all_snodes() -> None:
    """Deactivates all cells of all trees of the session that can be inactive, see `SNode.deactivate_all`."""
    for top in {field.snode._builder for field in session.current().fields if field.snode is not None}:
        top.deactivate_all()


def _forget_compiled() -> None:
    """Kernels that were compiled for fields as they were are compiled anew."""
    now = session.current()
    now.placements += 1
    now.forget_fast_paths()


def _outside(name: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"{name}: layouts of hashed and of quantised cells are outside of quadrants_lab",
        code="QL2028",
        help="use pointer or bitmasked for what is sparse, and whole numbers of a dtype for what has few bits",
    )
