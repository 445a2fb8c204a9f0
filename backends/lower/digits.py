"""Digits of indices that are sums of a cell's first index and a place in the cell, as the loops of `passes.over_cells`
make them, or quotients of such a sum: an address in an order of cells then needs no division."""

from collections.abc import Iterator

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.cell_order import Order, digits
from quadrants_lab.ir.walk import find, walk

# the id of an index -> the cell's id, its extent, the place's id, 1; or a value's id, 1, NO_ID, and what divides it
Splits = dict[int, tuple[int, int, int, int]]


def splits(task: N.Offload, ranges: Ranges) -> Splits:
    """The values of the task that are a number times a constant plus an index below that constant, and quotients."""
    consts = {s.id: s.value for s in find(task.body, N.Const) if s.type.is_int}
    products: dict[int, tuple[int, int]] = {}
    found: Splits = {}
    for s in walk(task.body):
        if isinstance(s, N.Op) and s.prim == "mul" and s.args[1] in consts:
            products[s.id] = s.args[0], consts[s.args[1]]
        elif isinstance(s, N.Op) and s.prim == "add" and s.args[0] in products:
            cell, n = products[s.args[0]]
            low, high = ranges.range(s.args[1]) or (-1, n)
            if low >= 0 and high < n:
                found[s.id] = cell, n, s.args[1], 1
        elif isinstance(s, N.Op) and s.prim == "floordiv" and consts.get(s.args[1], 0) > 0:
            found[s.id] = s.args[0], 1, N.NO_ID, consts[s.args[1]]
    return found


def places(order: Order, index: tuple[int, ...], known: Splits) -> Iterator[tuple[int, int, int, int]]:
    """For each level of the order its extent, and how to compute its digit of the index: the value, by what it is
    divided, and modulo what (0: it needs no modulo)."""
    for axis, n, inner, outermost in digits(order):
        i, by, modulo = index[axis], inner, 0 if outermost else n
        while i in known:
            cell, m, place, divisor = known[i]
            by *= divisor
            if by % m == 0:
                i, by = cell, by // m
            elif modulo and m % (by * modulo) == 0:
                i, modulo = place, 0 if by * modulo == m else modulo
            else:
                break
        yield n, i, by, modulo
