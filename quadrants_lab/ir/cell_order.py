"""Computes the order of elements in the memory of a sparse layout: its cells are contiguous, so that memory is
needed only where some cell is active.

An `Order` is a list of levels (axis, extent), outermost first, like the digits of a number with mixed bases. The levels
of an axis have its extent as their product. Element (i, j) of the order ((0, 64), (1, 64), (0, 16), (1, 16)) has the
digits i // 16, j // 16, i % 16, j % 16. () means row-major memory, all of which is allocated.

An order that ends in (`SLOT`, n) has a table: each run of n elements in this order gets a slot of the memory when
something is first written there. Without a table only pages of the operating system are allocated when they are
first written to, which saves memory for cells of a page or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from quadrants_lab.ir.record import dataclass

Order = tuple[tuple[int, int], ...]
SLOT = -1  # in place of an axis
CLAIMED, FIRST = 1, 2  # words of a table: a thread is about to give the stretch a slot; the number of the first slot
_LINE = 64  # bytes


@dataclass(frozen=True, slots=True)
class Slots:
    """Memory with a table: a u32 with the number of slots that are taken; a u32 for each of ``count`` stretches, 0 or
    `CLAIMED` for one without a slot, else the slot's number; and from element number ``begin`` on the slots, of
    ``size`` elements each. Slots 0 and `CLAIMED` stay zero. ``elements``: how many the whole memory has, the words
    included."""

    size: int
    count: int
    begin: int

    @property
    def elements(self) -> int:
        return self.begin + (FIRST + self.count) * self.size


def slots_in(order: Order, itemsize: int) -> Slots | None:
    """The `Slots` of memory whose cells lie in this order; None if such memory has no table of slots."""
    if not order or order[-1][0] != SLOT:
        return None
    size = order[-1][1]
    count = -(-prod(n for _, n in order[:-1]) // size)
    return Slots(size, count, -(-4 * (1 + count) // _LINE) * _LINE // itemsize)


def levels_of(order: Order) -> Order:
    """The order without its table."""
    return order[:-1] if order and order[-1][0] == SLOT else order


def order_of(levels: Iterable[tuple[int, int]]) -> Order:
    """The order of these levels, in as few levels as possible."""
    given = list(levels)
    out: list[tuple[int, int]] = []
    for axis, n in given:
        if out and out[-1][0] == axis:
            out[-1] = axis, out[-1][1] * n
        elif n > 1 or (all(m == 1 for a, m in given if a == axis) and axis not in {a for a, _ in out}):
            out.append((axis, n))
    return tuple(out)


def is_row_major(order: Order) -> bool:
    """Whether the elements follow each other row by row."""
    axes = [axis for axis, _ in levels_of(order)]
    return axes == sorted(set(axes))


def digits(order: Order) -> Iterator[tuple[int, int, int, bool]]:
    """For each level its axis, its extent, the product of the inner extents of the axis, and whether it is the
    axis's outermost."""
    order = levels_of(order)
    for k, (axis, n) in enumerate(order):
        inner = prod(m for a, m in order[k + 1 :] if a == axis)
        yield axis, n, inner, all(a != axis for a, _ in order[:k])


def split_shape(order: Order, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How to turn an array of the elements in memory order into one in the order of indices: reshape it to the returned
    shape, which has an axis for each level, and transpose it by the returned permutation, which sorts these axes by the
    axis of the index, outermost level first."""
    order = levels_of(order)
    shape = tuple(n for _, n in order)
    permutation = tuple(sorted(range(len(order)), key=lambda k: (order[k][0], k)))
    assert {axis for axis, _ in order} == set(range(ndim))
    return shape, permutation
