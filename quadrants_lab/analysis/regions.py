"""Describes which elements a launch reads or writes, as boxes: a box has a begin and an end for each axis, and the
launch accesses all elements in it."""

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

Region = tuple[tuple[int, int], ...]  # (begin, end) for each axis; the end is exclusive


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
    """The smallest box that contains both."""
    return tuple((min(x, c), max(y, d)) for (x, y), (c, d) in zip(a, b, strict=True))


def contains(a: Region, b: Region) -> bool:
    """Whether every element of ``b`` is in ``a``."""
    for (x, y), (c, d) in zip(a, b, strict=True):  # noqa: SIM110
        if c < x or y < d:
            return False
    return True


def common(a: Region, boxes: Sequence[Region]) -> Region | None:
    """The smallest box around the elements of ``a`` that are in some of the boxes; None if there are no such elements.
    """
    found = None
    for r in boxes:
        if overlap(a, r):
            found = intersection(a, r) if found is None else bounding_box(found, intersection(a, r))
    return found


def minus(a: Region, boxes: Sequence[Region]) -> list[Region]:
    """Disjoint boxes that together have the elements of ``a`` that are in none of the ``boxes``."""
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
    """Adds a box to a list, which stands for the union of its boxes. Two boxes whose union is a box are merged; a list
    of more than ``most`` boxes is replaced by one box around all of them, so that it does not grow without limit."""
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
    """Whether the union of the two boxes is a box: they differ along one axis only, and touch or overlap there."""
    other = [ends for ends in zip(a, b, strict=True) if ends[0] != ends[1]]
    if len(other) != 1:
        return False
    ((x, y), (c, d)) = other[0]
    return max(x, c) <= min(y, d)


def whole(shape: Sequence[int]) -> Region:
    """All elements of an array."""
    return tuple((0, n) for n in shape)
