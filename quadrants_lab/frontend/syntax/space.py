"""Lowers the iteration space of a loop: the indices of a field or array, a range, or a range for each of several
axes."""

import ast
from dataclasses import replace

from quadrants_lab.frontend.values import Grouped, Lit, Mem, NdRange, Num, Obj, Range, StructMem, Value
from quadrants_lab.frontend.values.active_cells import Active
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, i32, i64, u64


@dataclass(slots=True)
class Space:
    """The iteration space of a loop: a box, whose ``axes`` are half-open ranges. A box of one axis may have a ``step``.

    ``grouped``: the loop variable is the vector of the indices of the first ``rank`` axes. ``order``: for each axis,
    from the outermost loop to the innermost, the position of its loop variable; () for the order in which the variables
    are written. Bounds and step are i32, i64 or literals without dtype."""

    kind: str  # of the Offload, if the loop is parallel
    axes: tuple[tuple[Num | Lit, Num | Lit], ...]
    step: Num | Lit | None = None
    grouped: bool = False
    rank: int = 0
    order: tuple[int, ...] = ()
    active: Active | None = None  # in sparse layouts: how to skip inactive elements

    @property
    def dtype(self) -> DType:
        """The dtype of the indices: i32 if all bounds are i32 and the number of trips, if it is known, fits i32; else
        i64."""
        bounds = [*(b for axis in self.axes for b in axis), *([] if self.step is None else [self.step])]
        narrow = all(b.is_within(i32) for b in bounds)
        if narrow and self.trips is not None:
            narrow = i32.holds(len(self.trips))
        return i32 if narrow else i64

    @property
    def trips(self) -> range | None:
        """The indices of a range with a step, if its bounds and its step are literals; else None."""
        ends = [b.constant for b in (*self.axes[0], self.step) if b is not None] if self.step is not None else []
        return range(*ends) if ends and None not in ends else None

    @property
    def sizes(self) -> list[int] | None:
        """The number of indices of each axis; None if the bounds of some axis are not known at compile time."""
        known = [(b.constant, e.constant) for b, e in self.axes]
        return None if any(None in ends for ends in known) else [max(0, e - b) for b, e in known]

    @property
    def count_dtype(self) -> DType:
        """The dtype of the number of trips of a range with a step: i64 if there may be 2**31 trips or more."""
        if self.dtype is i64 or self.trips is not None:
            return self.dtype
        known = self.step.constant if self.step is not None else None
        return i32 if self.above_zero or (known is not None and abs(known) > 2) else i64

    @property
    def above_zero(self) -> bool:
        """Whether literal bounds of this range with a step show that no index is negative."""
        (begin, end), step = self.axes[0], self.step.constant if self.step is not None else None
        least = None if step is None else (begin if step > 0 else end).constant
        return least is not None and bool(least >= 0)

    def id(self, cx: Context, bound: Num | Lit) -> int:
        """The SSA id of a bound, cast to the dtype of the indices."""
        t = self.dtype
        return cx.to(bound.typed(t), t)


def space_of(cx: Context, node: ast.For, value: Value) -> Space:
    """The iteration space of a loop over the value."""
    match value:
        case Grouped():
            space = space_of(cx, node, value.space)
            once = ((Lit(0, node.iter), Lit(1, node.iter)),)  # one iteration without index, for a field without axes
            return replace(space, axes=space.axes or once, grouped=True, rank=len(space.axes))
        case Mem() | StructMem():
            cx.at(node.iter)
            mem = value.fields[0]
            return Space("struct_for", _axes(cx, mem, node), active=Active.of(cx, mem))
        case Obj() if (below := value.snode) is not None:
            box: list[tuple[Num | Lit, Num | Lit]] = [(Lit(0, node.iter), Lit(n, node.iter)) for n in below.shape]
            return Space("struct_for", tuple(box), active=Active.over(below))
        case NdRange():
            axes = tuple((_first(cx, b, node), _bound(cx, e, node)) for b, e in value.axes)
            return Space("range_for", tuple(axes[k] for k in value.order), order=value.order)
        case Range():
            step = None if value.step is None else _bound(cx, value.step, node)
            return Space("range_for", ((_first(cx, value.begin, node), _bound(cx, value.end, node)),), step)
    raise cx.fail("QL1701", node.iter, what=value.describe())


def _axes(cx: Context, mem: Mem, node: ast.For) -> tuple[tuple[Num | Lit, Num | Lit], ...]:
    """For each axis of a field or ndarray the begin and the end of its indices."""
    axes: list[tuple[Num | Lit, Num | Lit]] = []
    for k in range(mem.ndim):
        first, size = mem.offset[k] if mem.offset else 0, cx.extent(mem.buffer, k)
        # only fields have offsets, and their sizes are known
        axes.append((Lit(first, node.iter), Lit(size.constant + first, size.node) if first else size))
    return tuple(axes)


def _first(cx: Context, value: Value, node: ast.For) -> Num | Lit:
    """The begin of an axis, converted as by `_bound`. A u64 issues a warning, because no loop runs over indices from
    2**63 on."""
    number = value.number(cx, node.iter)
    if cx.type_of(number) is u64:
        cx.warn("QL1906", node.iter)
    return _bound(cx, number, node)


def _bound(cx: Context, value: Value, node: ast.For) -> Num | Lit:
    """A loop bound: a literal as it is, any other number cast to i32 or i64. A float is cast with a warning. A u64 is
    clamped to the greatest i64, since no loop runs beyond it."""
    number = value.number(cx, node.iter)
    t = cx.type_of(number)
    if t.is_float:
        cx.warn("QL1902", node.iter, dtype=t)
    if number.constant is not None:
        return Lit(int(number.constant), number.node)
    cx.at(node.iter)
    if t.is_float:
        return cx.num(number, i32)
    if t is u64:
        most = cx.const(i64.limits[1], u64)
        return cx.num(Num(cx.b.op("min", number.id, most), u64), i64)
    return cx.index(number)
