"""Activates and tests cells of sparse layouts (pointer, bitmasked and dynamic nodes).

Elements are 0 where no cell is active, so loads need no test. Each sparse node has an i32 field ``activity``. A cell is
active if its number in that field exceeds the cell's rank. The rank is the position in the list for a dynamic node, and
0 for other nodes. A write activates the cell that contains the written element and the cells above it, so all ancestors
of an active cell are active.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import product
from typing import Any

from quadrants_lab.frontend.values import Mem
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.number import Index, id_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import SizeConst
from quadrants_lab.ir.types import i32


@dataclass(slots=True)
class ActivitySlot:
    """The element of the activity buffer that belongs to a cell, and the id of the cell's rank."""

    buffer: N.Buffer
    index: tuple[int, ...]
    rank: int


def node_of(cx: Context, mem: Mem) -> Any:
    """The nearest sparse node above a field; None for dense fields, and for gradients and duals."""
    found = cx.bindings.get(mem.buffer.name)
    node = getattr(found, "snode", None)
    return None if node is None or found.primal is not None else node.sparse  # type: ignore[union-attr]


def activity_buffer(cx: Context, node: Any) -> N.Buffer:
    """The activity buffer of a node."""
    buffer = cx.field(node.activity, f"{node.kind}.active")
    buffer.role = "activity"
    return buffer


def activity_slot(cx: Context, node: Any, index: Sequence[int], below: Any) -> ActivitySlot:
    """The slot of the cell of ``node`` that contains the element ``index`` of the node ``below``."""
    at, rank = node.find([Index(cx, i) for i in index], below)
    types = cx.b.types
    buffer = activity_buffer(cx, node)
    most = id_of(cx, rank, buffer.dtype)
    return ActivitySlot(buffer, tuple(i.id for i in at), cx.b.cast(most, buffer.dtype) if types[most] else most)


def activate(cx: Context, node: Any, index: Sequence[int], below: Any) -> None:
    """Emits stores that activate the cell of ``node`` which contains element ``index`` of the node ``below``, and the
    cells above it. Emits nothing if the cell is known to be active."""
    if node is None or _key(node, index, below) in cx.active[-1]:
        return
    while node is not None:
        at = activity_slot(cx, node, index, below)
        one = cx.const(1, at.buffer.dtype)
        if node.kind == "dynamic":
            cx.b.atomic("max", at.buffer, at.index, cx.b.op("add", at.rank, one))
        else:  # iterations that store the same value do not race
            cx.b.store(at.buffer, at.index, one)
        cx.changed_activity.add(at.buffer.name)
        node = node.above.sparse


def activate_element(cx: Context, mem: Mem, index: Sequence[int]) -> None:
    """Activates the cells of an element of a field; called after each write."""
    node = node_of(cx, mem)
    if node is not None:
        activate(cx, node, index, cx.bindings[mem.buffer.name].snode)


def deactivate(cx: Context, node: Any, corner: Sequence[int]) -> None:
    """Deactivates a cell of ``node``; for a dynamic node, the whole list in a cell of its parent. All elements in the
    cell or list become 0."""
    cx.active = (frozenset(),) * len(cx.active)
    own = activity_buffer(cx, node)
    cx.b.store(own, tuple(corner), cx.const(0, own.dtype))
    cx.changed_activity.add(own.name)
    cell = node.parent() if node.kind == "dynamic" else node
    for inner, held, counts in node.contents():
        buffer = activity_buffer(cx, inner) if counts else cx.field(held, held.name or "placed")
        holder = inner.parent() if counts and inner.kind == "dynamic" else inner
        sizes = dict(zip(cell.axes, (by for _, by in cell.places(holder)), strict=True))
        box = [(corner[cell.axes.index(a)] if a in sizes else None, sizes.get(a, n))
               for a, n in zip(holder.axes, holder.shape, strict=True)]  # fmt: skip
        _zero(cx, buffer, box, [])
        if counts:
            cx.changed_activity.add(buffer.name)


def appended(cx: Context, node: Any, at: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Emits code that makes a list of a dynamic node longer by one. Returns the index of the new element in the list,
    and its index in the fields that are placed in the node."""
    buffer = activity_buffer(cx, node)
    slot = cx.b.atomic("add", buffer, at, cx.const(1, i32))
    cx.changed_activity.add(buffer.name)
    holder = node.parent()
    if holder.sparse is not None:
        activate(cx, holder.sparse, at, holder)
    return slot, node.element(at, slot, lambda i, n: _grown(cx, i, n, slot))


def _grown(cx: Context, i: int, n: int, slot: int) -> int:
    t = cx.b.types[i]
    return cx.b.op("add", cx.b.op("mul", i, cx.const(n, t)), cx.b.cast(slot, t))


def _zero(cx: Context, buffer: N.Buffer, box: Sequence[tuple[int | None, int]], index: list[int]) -> None:
    """Emits loops that store 0 to a box of elements. ``box`` has a pair (k, n) for each axis: the box begins at ``k *
    n`` and has the length ``n``; k is the id of a value, or None for 0. ``index`` has the indices of the outer axes,
    for which loops are emitted already."""
    if len(index) == len(box):
        for at in product(*map(range, (buffer.shape or ())[len(box) :])):
            inside = tuple(cx.const(k, i32) for k in at)
            cx.b.store(buffer, (*index, *inside), cx.const(0, buffer.dtype))
        return
    corner, n = box[len(index)]
    t = i32 if corner is None else cx.b.types[corner]
    if corner is not None and n == 1:
        _zero(cx, buffer, box, [*index, corner])
        return
    begin = cx.const(0, t) if corner is None else cx.b.op("mul", corner, cx.const(n, t))
    end = cx.b.op("add", begin, cx.const(n, t))
    k = cx.b.param(t)
    with cx.b.block() as body:
        _zero(cx, buffer, box, [*index, k.id])
        cx.b.yield_()
    cx.b.add(N.For(cx.b.fresh(), k, begin, end, (), (), tuple(body), ()))


# --- loops over active cells ------------------------------------------------------------------------------------


def _key(node: Any, index: Sequence[int], below: Any) -> tuple[Any, ...]:
    return (id(node), *((index[k], by) for k, by in node.places(below)))


@contextmanager
def known_active(cx: Context, *keys: Any) -> Iterator[None]:
    """Makes a context for lowering the body of a loop in which these cells are known to be active. Cells that were
    known to be active outside the loop no longer count, because an earlier iteration may have deactivated them."""
    cx.active = (*cx.active, frozenset(keys))
    yield
    cx.active = cx.active[:-1]


@dataclass(slots=True)
class Active:
    """The tests of a loop over a sparse layout: it runs over the elements of the node ``below``, counted from
    ``first``, whose cells in ``nodes`` are active. The widest cells are tested first, because one test can skip many
    elements. ``tests`` are the loads that were emitted, with the node of each."""

    nodes: tuple[Any, ...]
    below: Any
    first: tuple[int, ...]
    tests: list[tuple[N.Load, Any]] = field(default_factory=list)

    @staticmethod
    def over(below: Any, first: tuple[int, ...] = ()) -> Active | None:
        """The tests of a loop over the node ``below``; None if the layout has no sparse nodes, so that all elements are
        active."""
        nodes: list[Any] = []
        node = None if below is None else below.sparse
        while node is not None:
            nodes.insert(0, node)
            node = node.above.sparse
        return Active(tuple(nodes), below, first) if nodes else None

    @staticmethod
    def of(cx: Context, mem: Mem) -> Active | None:
        """The tests of a loop over a field, or over its gradient or dual."""
        found = cx.bindings.get(mem.buffer.name)
        return Active.over(getattr(getattr(found, "primal", None) or found, "snode", None), mem.offset)

    def emit(self, cx: Context, index: Sequence[int], leave: Callable[[], None]) -> Any:
        """Emits tests of whether the cells of the element at ``index`` are active. If one is not, the code runs
        that ``leave`` emits. Returns the key by which `known_active` remembers that they are active."""
        if any(self.first):
            pairs = zip(index, self.first, strict=True)
            index = [cx.b.op("sub", i, cx.const(n, cx.b.types[i])) for i, n in pairs]
        for node in self.nodes:
            at = activity_slot(cx, node, index, self.below)
            load = N.Load(cx.b.fresh(), at.buffer.dtype, at.buffer.name, at.index)
            self.tests.append((load, node))
            inactive = cx.b.op("le", cx.b.add(load), at.rank)
            with cx.b.block() as passed:
                leave()
            cx.b.add(N.If(cx.b.fresh(), inactive, tuple(passed), cx.b.nothing(), ()))
        return _key(self.nodes[-1], index, self.below)

    def snapshots(self, cx: Context, node: ast.For) -> list[N.Stmt]:
        """If the loop at ``node`` changes the activity that it tests, makes the loop test copies of the activity fields
        instead. Returns the tasks that make the copies; they must run before the loop."""
        copies: dict[str, N.Buffer] = {}
        tasks: list[N.Stmt] = []
        for load, tested in self.tests:
            if load.buffer not in cx.changed_activity:
                continue
            if load.buffer not in copies:
                live = activity_buffer(cx, tested)
                extents = tuple(map(SizeConst, live.shape or ()))
                copies[live.name] = N.Buffer(cx.unused(f"{live.name}.before"), "scratch", live.dtype, live.ndim, None,
                                             role="kept", extents=extents, order=live.order)  # fmt: skip
                cx.buffers[copies[live.name].name] = copies[live.name]
                cx.at(node.iter)
                tasks.append(_copying(cx, live, copies[live.name]))
            load.buffer = copies[load.buffer].name
        return tasks


def _copying(cx: Context, live: N.Buffer, copy: N.Buffer) -> N.Offload:
    shape = live.shape or (1,)
    with cx.b.block() as bounds:
        cx.b.yield_(*(cx.const(n, i32) for n in (*(0 for _ in shape), *shape)))
    indices = tuple(cx.b.param(i32) for _ in shape)
    at = tuple(p.id for p in indices)[: live.ndim]
    with cx.b.block() as body:
        cx.b.store(copy, at, cx.b.load(live, at))
        cx.b.yield_()
    return N.Offload(cx.b.fresh(), "range_for", tuple(bounds), indices, tuple(body), span=cx.b.span)
