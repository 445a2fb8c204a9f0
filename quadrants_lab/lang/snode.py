"""Places fields: `qd.root`, nodes of `dense`, `pointer`, `bitmasked` and `dynamic`, `FieldsBuilder`.

Placement gives fields their shape, and in a sparse layout the order of their elements in memory. A node that is not
dense has an i32 field ``activity``: 1 for each active cell, or, for a dynamic node, the length of each list. The
ancestors of an active cell are active. Inactive elements are read as 0, so that reads need no test.
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

from quadrants_lab.backends import Capabilities
from quadrants_lab.backends.pages import MOST_BYTES, PAGE
from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.ir.cell_order import SLOT, Order, order_of
from quadrants_lab.ir.types import DType, i32
from quadrants_lab.lang.dense import Field, ScalarField
from quadrants_lab.lang.derivatives import NoDerivative
from quadrants_lab.lang.dtypes import AXES, MAX_DIMS, Shape, check_offset, integers
from quadrants_lab.lang.elements import Entry
from quadrants_lab.lang.elsewhere import name_of_qd as __getattr__  # noqa: F401
from quadrants_lab.lang.quantised import BitpackedFields, place_array
from quadrants_lab.runtime import session

OUT_OF_SCOPE = ("hash",)
SPARSE = ("pointer", "bitmasked", "dynamic", "group")  # kinds of nodes whose cells can be inactive
MAX_BYTES = 2**33  # of a field in a sparse layout on a device without memory on demand
MANY_CELLS, GROUP = 4096, 1024  # so many in a cell of the node above are put into groups; the most cells of a group
SMALL_CELL, LARGE_CELL = 64, 512  # bytes; smaller ones share slots of a page; marks of larger ones may take whole pages
LEAST_SLOT, LEAST_MARKS = 256, 64  # bytes of slots: of elements, and of what says which larger cells are active


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
        raise QuadrantsRuntimeError(f"axes are numbered from 0 to {MAX_DIMS - 1}, not {numbers}", code="QL2026")
    return Axes(numbers)


class PlacementError(QuadrantsRuntimeTypeError, ValueError):
    """An object that cannot be placed."""


class SNode:
    """A node of the tree in which fields are placed. It divides each cell of its parent into cells along some axes.

    ``kind``: "root", "dense", "pointer", "bitmasked" or "dynamic". ``axes``: those divided here or above.

    Users do not see nodes of kind "group". Such a node lies above a node with many cells and divides these into groups.
    A group is active if one of its cells ever was, so that a loop need not look at all cells.
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
        self.max_num_bits = 0  # for a quant_array
        self.axes: tuple[int, ...] = tuple(sorted({*extents, *(above.axes if above else ())}))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents along `axes`."""
        return tuple(prod(node._extents.get(axis, 1) for node in self._path()) for axis in self.axes)

    def parent(self, n: int = 1) -> SNode:
        """The node n levels up, at most the root."""
        node = self
        for _ in range(n):
            node = node.above
            node = node.above if node.kind == "group" else node
        return node

    @property
    def above(self) -> SNode:
        """The node whose cells this one divides, which may be a group; the root itself for the root."""
        return self._above or self

    def dense(self, axes: Any, dimensions: Shape) -> SNode:
        """A child node with ``dimensions`` (an int for all axes) cells along ``axes``. A cell of the child is active if
        the cell of this node that contains it is active."""
        return self._add("dense", axes, dimensions)

    def pointer(self, axes: Any, dimensions: Shape) -> SNode:
        """A child node whose cells can be inactive one by one: the same as a `bitmasked` node."""
        return self._add("pointer", axes, dimensions)

    def bitmasked(self, axes: Any, dimensions: Shape) -> SNode:
        """A child node whose cells can be inactive one by one."""
        return self._add("bitmasked", axes, dimensions)

    def dynamic(self, axis: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        """A child node that is a list of up to ``dimension`` cells along one axis. It grows with `append` and with
        writes beyond its end. ``chunk_size`` is accepted and has no effect."""
        node = self._add("dynamic", axis, dimension)
        if len(node._extents) != 1:
            self._below.remove(node)
            raise QuadrantsRuntimeError(f"a dynamic node has one axis, not {axis!r}", code="QL2026")
        return node

    def quant_array(self, axes: Any, dimensions: Shape, max_num_bits: int) -> SNode:
        """A child node whose cells in one cell of this node share a word of ``max_num_bits``, 32 or 64, bits. It holds
        one quantised field."""
        node = self._add("quant_array", axes, dimensions)
        node.max_num_bits = max_num_bits
        return node

    @property
    def divided(self) -> dict[int, int]:
        """For each axis that this node divides, into how many cells."""
        return self._extents

    def _add(self, kind: str, axes: Any, dimensions: Shape) -> SNode:
        self._builder.check_open()
        along = tuple(axes) if isinstance(axes, (list, tuple)) else ()
        along = tuple(chain.from_iterable(a if isinstance(a, Axes) else (a,) for a in along))
        if not along or not all(type(a) is int for a in along) or len(set(along)) != len(along):
            raise QuadrantsRuntimeTypeError(
                f"{axes!r} are not axes", code="QL2026", help="for example qd.i, qd.ij or qd.axes(0, 1)"
            )
        sizes = integers(dimensions, f"{dimensions!r} is not a number of cells", "an int, or a tuple of ints", "QL2026")
        sizes = sizes * len(along) if len(sizes) == 1 else sizes
        if len(sizes) != len(along):
            what = f"axes and sizes must have the same size, but got {len(along)} and {len(sizes)}"
            raise QuadrantsRuntimeError(what, code="QL2026")
        if any(n <= 0 for n in sizes):
            raise QuadrantsRuntimeError(f"every extent must be positive, not {sizes}", code="QL2019")
        extents = dict(zip(along, sizes, strict=True))
        groups = self._groups(extents) if kind in ("pointer", "bitmasked") else {}
        above = self
        if groups:
            above = SNode(self._builder, self, groups, "group")
            self._below.append(above)
            extents = {axis: n // groups[axis] for axis, n in extents.items()}
        node = SNode(self._builder, above, extents, kind)
        above._below.append(node)
        return node

    def _groups(self, extents: dict[int, int]) -> dict[int, int]:
        """For each axis, the number of groups of the cells of a child node; {} if there are no groups."""
        if prod(extents.values()) <= MANY_CELLS or not (_can().pages or _can().slots):
            return {}
        most = round(GROUP ** (1 / len(extents)))
        return {axis: n // max(k for k in range(1, most + 1) if n % k == 0) for axis, n in extents.items()}

    def order(self, dtype: DType, element_shape: tuple[int, ...] = (), least: int = 0) -> Order:
        """The order in memory of the elements of a field in this node: those of a cell are contiguous. () means row by
        row. ``least``: the fewest bytes of a slot; by default the table is small and cells share no slot."""
        levels, dense = list[dict[int, int]](), False
        if self.sparse is None or not (_can().pages or _can().slots):
            return ()
        for node in reversed([*self._path()]):
            if dense and node.kind == "dense":
                levels[-1] = {a: levels[-1].get(a, 1) * node._extents.get(a, 1) for a in (*levels[-1], *node._extents)}
            else:
                levels.append(node._extents)
            dense = node.kind == "dense"
        own = [(self.axes.index(axis), level[axis]) for level in levels for axis in sorted(level)]
        order = order_of([*own, *((len(self.axes) + k, n) for k, n in enumerate(element_shape))])
        cell = prod(element_shape) * (prod(levels[-1].values()) if dense else 1)
        nbytes = cell * dtype.nbytes
        least = least or (LEAST_SLOT if nbytes >= SMALL_CELL else PAGE)
        if _can().pages and max(nbytes, least) >= PAGE:
            return order  # cells are whole pages, which need no table
        while nbytes > PAGE and cell % 2 == 0:
            cell, nbytes = cell // 2, nbytes // 2
        return (*order, (SLOT, cell * max(least // nbytes, 1)))

    def place(self, *args: Any, offset: Shape | None = None) -> SNode:
        """Gives fields, the members of struct fields, and gradients their shape and memory. ``offset``: the first index
        of each axis. Returns the node."""
        self._builder.check_open()
        shape = self.shape
        first = check_offset(offset, shape)
        if self.kind == "quant_array":
            self._fields += place_array(self, self.max_num_bits, args)
            return self
        for packed in args:
            if isinstance(packed, BitpackedFields):
                self._fields += packed.allocate(self)
        placed = list(dict.fromkeys(f for arg in args for f in _fields(arg)))
        for field in placed:
            if not (field.placed and any(isinstance(a, Entry) and a.field is field for a in args)):
                self._check_size(field)
                field.allocate(shape, first, self.order(field.dtype, field.element_shape))
                field.set_node(self)
                self._fields.append(field)
        for field in placed:
            field.drop_unplaced_companions()
            if field.primal is not None:
                session.current().recompile()
        return self

    def lazy_grad(self) -> None:
        """Places the missing gradients of all floating-point fields that are placed here or below; at ``qd.root``, of
        all fields of the session."""
        self._place_companions("grad")

    def lazy_dual(self) -> None:
        """Places the missing duals, as `lazy_grad` places gradients."""
        self._place_companions("dual")

    def _place_companions(self, which: str) -> None:
        self._builder.check_open()
        places = {field: node for node in self._all() for field in node._fields}
        if self is root._builder:
            places.update((field, self) for field in session.current().fields if field not in places and field.placed)
        for field, node in places.items():
            if field.dtype.is_float and field.primal is None:
                made = field.companion(which)
                if not made.placed:
                    made.allocate(field.shape, field.offset, field.order)
                    made.set_node(node if field.snode else None)
                    node._fields.append(made)
        session.current().recompile()

    # --- what is active -------------------------------------------------------------------------------------------

    @property
    def sparse(self) -> SNode | None:
        """The nearest node, from this one upwards, whose cells can be inactive."""
        return next((node for node in self._path() if node.kind in SPARSE), None)

    @property
    def activity(self) -> Field:
        """The i32 field that says which cells are active; it has the shape of this node, or of a dynamic node's
        parent."""
        if self._activity is None:
            assert self._above is not None
            cells = prod(self.holder.shape)
            elements = next((prod(node.shape) // cells for node in self._all() if node._fields), 1)
            most = LARGE_CELL if _can().pages else MAX_BYTES
            least = LEAST_MARKS if SMALL_CELL <= elements * i32.nbytes < most else PAGE
            self._activity = ScalarField(i32)
            self._activity.allocate(self.holder.shape, order=self.holder.order(i32, least=least))
        return self._activity

    @property
    def holder(self) -> SNode:
        """The node for each of whose cells `activity` has an element."""
        return self.above if self.kind == "dynamic" else self

    def places(self, below: SNode) -> tuple[tuple[int, int], ...]:
        """By axis: its position in an index of node ``below``, and the divisor that makes of it an index of a cell."""
        between = [node for node in below._path() if node not in set(self._path())]
        return tuple((below.axes.index(a), prod(n._extents.get(a, 1) for n in between)) for a in self.axes)

    def contents(self) -> Iterator[tuple[SNode, Field, bool]]:
        """The data that is cleared when a cell of this node is deactivated, as (node, field, whether the field is an
        activity): activities of nodes below, and fields from here downwards, without gradients and duals."""
        for node in self._all():
            if node is not self and node.kind in SPARSE:
                yield node, node.activity, True
            yield from ((node, field, False) for field in node.fields)

    @property
    def fields(self) -> list[Field]:
        """The fields that are placed in this node, without gradients and duals."""
        return [field for field in self._fields if field.primal is None]

    @property
    def capacity(self) -> int:
        """The capacity of each list of a dynamic node."""
        (n,) = self._extents.values()
        return n

    def element(self, at: Sequence[Any], slot: Any, grown: Callable[[Any, int], Any]) -> tuple[Any, ...]:
        """The index of item ``slot`` of a dynamic node's list in the parent's cell ``at``. If the parent also divides
        the list's axis, the index along this axis is ``grown(i, capacity)``, where i is the parent's index."""
        above = self._above.axes if self._above else ()
        cell = dict(zip(above, at, strict=True))
        (axis,) = self._extents
        cell[axis] = grown(cell[axis], self.capacity) if axis in cell else slot
        return tuple(cell[a] for a in self.axes)

    def find(self, index: Sequence[Any], below: SNode) -> tuple[tuple[Any, ...], Any]:
        """The index in `activity`, and the rank, of the cell that contains element ``index`` of the node ``below``. The
        cell is active if its number in `activity` exceeds the rank. ``index``: objects with ``//`` and ``%``."""
        holder = self.holder
        at = tuple(index[k] // by for k, by in holder.places(below))
        if holder is self:
            return at, 0
        (axis,) = self._extents
        k, by = self.places(below)[self.axes.index(axis)]
        return at, index[k] // by % self._extents[axis]

    def activate(self, index: tuple[int, ...]) -> None:
        """Activates the cell of this node at ``index``, and its ancestors."""
        for node in self._path():
            if node.kind in SPARSE:
                at, rank = node.find(index, self)
                node.activity[at or None] = max(node.activity[at or None], rank + 1)

    def active(self) -> tuple[npt.NDArray[np.intp], ...] | None:
        """The indices of the active elements of a field that is placed in this node, as one array for each axis; None
        if all elements are active."""
        node = self.sparse
        if node is None:
            return None
        memory = node.activity._memory
        numbers = memory.operand.nonzero() if memory.order else np.flatnonzero(memory.values())
        shape: tuple[int, ...] = memory.operand.shape
        at = memory.operand.indices(numbers) if memory.order else np.unravel_index(numbers, shape) if shape else ()
        if node.kind == "dynamic":
            lengths = np.minimum(memory.part(at) if at else memory.values()[None], node.capacity)
            at = tuple(np.repeat(i, lengths) for i in at)
            rank = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            at = node.element(at, rank, lambda i, n: i * n + rank)
        corner = dict(zip(node.axes, at, strict=True))
        sizes = [prod(self._shape_along(axis)) // prod(node._shape_along(axis)) for axis in self.axes]
        inside = np.indices(sizes).reshape(len(sizes), 1, -1)
        some = np.zeros((len(at[0]), 1), np.intp)
        return tuple(
            (corner.get(axis, some[:, 0])[:, None] * n + k + some).reshape(-1)
            for axis, n, k in zip(self.axes, sizes, inside, strict=True)
        )

    def _shape_along(self, axis: int) -> list[int]:
        return [node._extents.get(axis, 1) for node in self._path()]

    def deactivate_all(self) -> None:
        """Deactivates all cells of this node and of the nodes below it, and sets their data to 0."""
        top = self.above if self.above.kind == "group" else self
        for node in top._all():
            if node.kind in SPARSE:
                node.activity.fill(0)
                for _, field, _ in node.contents():
                    field._memory.write(..., 0)

    def _check_size(self, field: Field) -> None:
        size = prod((*self.shape, *field.element_shape)) * field.dtype.bits // 8
        most, help = MAX_BYTES, "a field there has memory for all its cells: use fewer, or arch=qd.cpu"
        if _can().pages:
            most, help = MOST_BYTES, "there are not enough addresses for more: use fewer cells"
        elif _can().slots:
            most, help = 2**32, "there addresses have 32 bits: use fewer cells, or arch=qd.cpu"
        if self.sparse is not None and size > most:
            raise QuadrantsRuntimeError(
                f"{self!r} has room for {size / 2**30:.0f} GiB of {field.dtype}, and on "
                f"{session.current().settings.backend} a field in a sparse layout can have {most >> 30} GiB",
                code="QL2036",
                help=help,
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
        if name not in OUT_OF_SCOPE:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        raise QuadrantsRuntimeError(
            f"{name}: layouts of hashed cells are outside of quadrants_lab",
            code="QL2078",
            help="use pointer or bitmasked for what is sparse",
        )

    def __repr__(self) -> str:
        return "qd.root" if self._above is None else f"{self.parent()!r} => {self.kind} {list(self.shape)}"


class SNodeTree:
    """A tree of nodes that is closed: no field can be placed in it any more."""

    def __init__(self, root: SNode) -> None:
        self._root = root

    def destroy(self) -> None:
        """Frees the memory of the tree's fields, which cannot be used any more."""
        for node in self._root._all():
            for field in node._fields:
                if field.placed:
                    field.release()
            node._fields.clear()
            if node._activity is not None:
                node._activity.release()
        session.current().recompile()


class FieldsBuilder(SNode):
    """The root of a tree whose memory can be freed: ``finalize()`` closes it and returns the `SNodeTree`."""

    def __init__(self) -> None:
        super().__init__(self, None, {}, "root")
        self.finalized = False

    @property
    def root(self) -> SNode:
        return self

    # the methods of `SNode` with the parameter names that Quadrants has here

    def dense(self, indices: Any, dimensions: Shape) -> SNode:
        return super().dense(indices, dimensions)

    def pointer(self, indices: Any, dimensions: Shape) -> SNode:
        return super().pointer(indices, dimensions)

    def bitmasked(self, indices: Any, dimensions: Shape) -> SNode:
        return super().bitmasked(indices, dimensions)

    def quant_array(self, indices: Any, dimensions: Shape, max_num_bits: int) -> SNode:
        return super().quant_array(indices, dimensions, max_num_bits)

    def dynamic(self, index: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        return super().dynamic(index, dimension, chunk_size)

    def check_open(self) -> None:
        if self.finalized:
            raise QuadrantsRuntimeError("FieldsBuilder finalized", code="QL2027", help="make another one")

    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """Closes the builder. ``raise_warning`` is accepted and has no effect."""
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


def _can() -> Capabilities:
    """The capabilities of the session's device."""
    can: Capabilities = session.current().backend.CAPABILITIES
    return can


def _fields(arg: Any) -> Iterator[Field]:
    """The fields that one argument of `SNode.place` contributes."""
    match arg:
        case Field():
            yield arg
        case BitpackedFields():  # `SNode.place` has placed these
            return
        case NoDerivative():  # the x.grad of a field that is placed already
            yield arg.wanted()
        case Entry():
            yield arg.field
        case list() | tuple():
            yield from chain.from_iterable(map(_fields, arg))
        case _ if getattr(arg, "__qd_struct_field__", False):
            yield from arg.leaf_fields()
        case _:
            help = "place fields made without a shape; a gradient needs needs_grad=True" if arg is None else ""
            raise PlacementError(f"{arg!r} cannot be placed", code="QL2026", help=help)


def deactivate_all_snodes() -> None:
    """Calls `SNode.deactivate_all` of every tree of the session that fields are placed in."""
    for top in {field.snode._builder for field in session.current().fields if field.snode is not None}:
        top.deactivate_all()
