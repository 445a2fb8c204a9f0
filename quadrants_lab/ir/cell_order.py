"""The order of elements in memory in pages: the cells of a sparse layout are contiguous, so that pages which no active
cell touches need no memory.

An `Order` is a list of levels (axis, extent), outermost first, like the digits of a number with mixed bases. The levels
of an axis have its extent as their product. Element (i, j) of the order ((0, 64), (1, 64), (0, 16), (1, 16)) has the
digits i // 16, j // 16, i % 16, j % 16. () means row-major memory without pages.
"""

from collections.abc import Iterable, Iterator
from math import prod

Order = tuple[tuple[int, int], ...]


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
    axes = [axis for axis, _ in order]
    return axes == sorted(set(axes))


def digits(order: Order) -> Iterator[tuple[int, int, int, bool]]:
    """For each level its axis, its extent, the product of the inner extents of the axis, and whether it is the
    axis's outermost."""
    for k, (axis, n) in enumerate(order):
        inner = prod(m for a, m in order[k + 1 :] if a == axis)
        yield axis, n, inner, all(a != axis for a, _ in order[:k])


def split_shape(order: Order, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How an array of the elements in memory order becomes one in the order of the indices: the shape with an axis for
    each level, and the permutation that sorts these axes by the axis of the index, outermost first."""
    shape = tuple(n for _, n in order)
    permutation = tuple(sorted(range(len(order)), key=lambda k: (order[k][0], k)))
    assert {axis for axis, _ in order} == set(range(ndim))
    return shape, permutation
