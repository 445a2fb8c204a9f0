"""The elements of an array that a launch reads or writes, as a box of indices.

The bounds of a box are size expressions of scalar arguments and shapes (`analysis.boxes`). Since a Tape evaluates them
at every launch, they are compiled to a Python function of the arguments, once for each plan and buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

from quadrants_lab.adstack.evaluate import Live, evaluated, reads
from quadrants_lab.analysis.accesses import Access, Accesses
from quadrants_lab.analysis.algebra import fold
from quadrants_lab.analysis.boxes import Box, box_of
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.record import function
from quadrants_lab.runtime.arguments.signature import memory_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan

_OPERATIONS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "min": "min({}, {})", "max": "max({}, {})",
}  # fmt: skip
Region = tuple[tuple[int, int], ...]  # of each axis begin and end (exclusive)
Elements = Callable[[Sequence[Any]], Region]  # arguments of a launch -> the elements that it touches


def overlap(a: Region, b: Region) -> bool:
    """Whether the boxes have an element in common."""
    for (x, y), (c, d) in zip(a, b, strict=True):  # noqa: SIM110 - runs at each launch under a Tape; `all` takes twice as long
        if x >= d or c >= y or x >= y or c >= d:
            return False
    return True


def intersection(a: Region, b: Region) -> Region:
    """The intersection; empty along some axis if the boxes do not overlap."""
    return tuple((max(x, c), min(y, d)) for (x, y), (c, d) in zip(a, b, strict=True))


def bounding_box(a: Region, b: Region) -> Region:
    """The smallest box that holds both."""
    return tuple((min(x, c), max(y, d)) for (x, y), (c, d) in zip(a, b, strict=True))


def contains(a: Region, b: Region) -> bool:
    """Whether ``a`` has every element of ``b``."""
    for (x, y), (c, d) in zip(a, b, strict=True):  # noqa: SIM110
        if c < x or y < d:
            return False
    return True


def common(a: Region, boxes: Sequence[Region]) -> Region | None:
    """The smallest box around what ``a`` has in common with the boxes; None if that is nothing."""
    found = None
    for r in boxes:
        if overlap(a, r):
            found = intersection(a, r) if found is None else bounding_box(found, intersection(a, r))
    return found


def minus(a: Region, boxes: Sequence[Region]) -> list[Region]:
    """Boxes that hold each element of ``a`` once, except for those that are in one of the boxes."""
    left = [a]
    for box in boxes:
        left = [piece for r in left for piece in ([r] if not overlap(r, box) else _around(r, box))]
    return left


def _around(a: Region, box: Region) -> Iterator[Region]:
    for axis, (ends, (c, d)) in enumerate(zip(a, box, strict=True)):
        x, y = ends
        for piece in ((x, min(c, y)), (max(d, x), y)):
            if piece[0] < piece[1]:
                yield (*a[:axis], piece, *a[axis + 1 :])
        a = (*a[:axis], (max(x, c), min(y, d)), *a[axis + 1 :])


def volume(a: Region) -> int:
    return prod(high - low for low, high in a)


def is_empty(a: Region) -> bool:
    return any(x >= y for x, y in a)


def add(regions: list[Region], new: Region, most: int = 8) -> None:
    """Adds a box to a list that stands for the union of its boxes. Two boxes whose union is a box are merged; a list of
    more than ``most`` boxes is replaced by the box around them all, so that it does not grow without bound."""
    for r in regions:
        if contains(r, new):
            return
    if is_empty(new):
        return
    for n, r in enumerate(regions):
        if _side_by_side(r, new) or contains(new, r):
            del regions[n]
            add(regions, bounding_box(r, new), most)
            return
    regions.append(new)
    if len(regions) > most:
        regions[:] = [reduce(bounding_box, regions)]


def _side_by_side(a: Region, b: Region) -> bool:
    """Whether the union is a box: they differ along one axis only, and touch or overlap there."""
    other = [ends for ends in zip(a, b, strict=True) if ends[0] != ends[1]]
    if len(other) != 1:
        return False
    ((x, y), (c, d)) = other[0]
    return max(x, c) <= min(y, d)


class Footprint:
    """The elements of one buffer that some accesses of a plan's kernel touch. ``of``: a function of a launch's
    arguments to the region; ``everywhere``: along some axis the indices depend on data."""

    def __init__(self, plan: Plan, info: Accesses, accesses: Sequence[Access]) -> None:
        self.box = box_of(info, accesses)
        self.everywhere = any(
            info.bound(form, low=low) is None for a in accesses for form in a.at for low in (True, False)
        )
        self.of = _compiled(plan, self.box)

    def scalars(self) -> set[str]:
        """The scalar arguments that the region depends on."""
        return set().union(*(reads(e)[0] for e in (*self.box.low, *self.box.high)))

    def live(self, live: Live) -> Region | None:
        """The region of a launch with this data; None where that lacks something."""
        with suppress(LookupError):
            ends = zip(self.box.low, self.box.high, strict=True)
            return tuple((evaluated(low, live), evaluated(high, live)) for low, high in ends)
        return None


def footprint(plan: Plan, buffer: str, writes: bool) -> Footprint | None:
    """The elements of the buffer that launches of the plan write, or read; None where they touch none."""
    key = buffer, writes
    if key not in plan.footprints:
        info = plan.known_accesses
        found = [a for a in info.of.values() if a.stmt.buffer == buffer and isinstance(a.stmt, N.Load) != writes]
        plan.footprints[key] = Footprint(plan, info, found) if found else None
    return plan.footprints[key]


def _compiled(plan: Plan, box: Box) -> Elements:
    """A function from a launch's arguments to the region."""
    at = {slot.name: n for n, slot in enumerate(plan.slots)}
    at |= {name: n for n, _, name in plan.gradient_args}  # which have the array's shape
    shapes = {b for e in (*box.low, *box.high) for b in reads(e)[1]}
    arrays = {name: f"shape_of(a[{at[name]}])" for name in shapes if name in at}
    of_fields = {name: f"_{n}" for n, name in enumerate(sorted(shapes - at.keys()))}
    names = arrays | of_fields

    def text(e: S.SizeExpr) -> str:
        match e:
            case S.SizeConst(value):
                return str(value)
            case S.SizeArg(arg):
                return f"int(a[{at[arg]}])"
            case S.SizeShape(of, axis):
                return f"{names[of]}[{axis}]"
            case S.SizeOp(op, x, y):
                return _OPERATIONS.get(op, f"fold('{op}', {{}}, {{}})").format(text(x), text(y))
        raise TypeError(f"not an expression of arguments and shapes: {e!r}")

    ends = ", ".join(f"({text(low)}, {text(high)})" for low, high in zip(box.low, box.high, strict=True))
    space = {"fold": fold, "shape_of": shape_of}
    space |= {local: plan.fields[name].operand.shape for name, local in of_fields.items()}
    region: Elements = function("region", f"def region(a): return ({ends}{',' * bool(ends)})", space)
    return region


def whole(shape: Sequence[int]) -> Region:
    """All elements of an array."""
    return tuple((0, n) for n in shape)


def shape_of(array: Any) -> tuple[int, ...]:
    """The shape of an argument as its kernel sees it: with the axes of its elements."""
    memory = memory_of(array)
    shape: tuple[int, ...] = (array if memory is None else memory.operand).shape
    return shape
