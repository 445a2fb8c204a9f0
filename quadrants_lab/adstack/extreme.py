"""The greatest value of a SizeExpr over a box of its variables, without looking at every point.

A maximum goes through max, through min, sums and products with what does not vary, and ends at an array: the maximum
of a slice, in the array's own dtype, which is one read of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.algebra import fold
from quadrants_lab.ir import sizeexpr as S

Box = Mapping[int, tuple[int, int]]  # variable -> begin, end; none is empty


def greatest(
    e: S.SizeExpr, box: Box, value: Callable[[S.SizeExpr], int], array: Callable[[str], npt.NDArray[Any]]
) -> int | None:
    """max(e) over the box, or None where every point has to be tried. ``value`` evaluates what reads no variable of
    the box."""
    if not _varies(e, box):
        return value(e)

    def of(part: S.SizeExpr, within: Box = box) -> int | None:
        return greatest(part, within, value, array)

    match e:
        case S.SizeVar(id, _):
            return box[id][1] - 1
        case S.SizeLoad(buffer, index):
            return _greatest_element(array(buffer), index, box, value)
        case S.SizeOp("max", a, b):
            x, y = of(a), of(b)
            return None if x is None or y is None else max(x, y)
        case S.SizeOp("add" | "min" | "sub" | "mul" | "floordiv" | "isqrt" as op, a, b):
            if op in ("add", "min", "mul") and not _varies(a, box):
                a, b = b, a
            if _varies(b, box):
                return None
            by = value(b)
            if (op == "mul" and by < 0) or (op == "floordiv" and by <= 0):
                return None
            x = of(a)
            return None if x is None else fold(op, x, by)
        case S.SizeRange("max", var, begin, end, body) if not _varies(begin, box) and not _varies(end, box):
            low, high = value(begin), value(end)
            if low >= high:
                return 0
            x = of(body, {**box, var.id: (low, high)})
            return None if x is None else max(x, 0)
    return None


def _varies(e: S.SizeExpr, box: Box) -> bool:
    return (isinstance(e, S.SizeVar) and e.id in box) or any(_varies(c, box) for c in e.children())


def _greatest_element(
    array: npt.NDArray[Any], index: tuple[S.SizeExpr, ...], box: Box, value: Callable[[S.SizeExpr], int]
) -> int | None:
    """The greatest element of a slice; elements outside of the array count as 0."""
    where: list[slice] = []
    outside = False
    seen: set[int] = set()
    for e, n in zip(index, array.shape, strict=True):
        if not _varies(e, box):
            at = value(e)
            low, high = at, at + 1
        else:
            found = _shifted(e, box, value)
            if found is None or found[0] in seen:
                return None
            seen.add(found[0])
            begin, end = box[found[0]]
            low, high = begin + found[1], end + found[1]
        outside |= low < 0 or high > n
        where.append(slice(min(max(low, 0), n), max(min(high, n), 0)))
    inside = array[tuple(where)]
    best = int(np.max(inside)) if inside.size else 0
    return max(best, 0) if outside else best


def _shifted(e: S.SizeExpr, box: Box, value: Callable[[S.SizeExpr], int]) -> tuple[int, int] | None:
    """(variable, shift) of an index that is a variable plus what does not vary."""
    match e:
        case S.SizeVar(id, _):
            return id, 0
        case S.SizeOp("add" | "sub" as op, S.SizeVar(id, _), b) if id in box and not _varies(b, box):
            return id, value(b) if op == "add" else -value(b)
        case S.SizeOp("add", a, S.SizeVar(id, _)) if id in box and not _varies(a, box):
            return id, value(a)
    return None
