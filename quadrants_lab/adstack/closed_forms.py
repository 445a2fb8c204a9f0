"""Computes sums and maxima of size expressions over ranges without looking at every point.

`linear_reduction` is for bodies that are linear in the range's variable; it is vectorised over outer variables.
`greatest` moves a maximum inwards, through max, min, sums and products with constants, down to the elements of an
array, where it becomes the maximum of one slice of the array.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.algebra import INT64_MAX, ZERO, fold, reads_variable, saturate
from quadrants_lab.ir import sizeexpr as S

Number = int | npt.NDArray[np.int64]
Apply = Callable[[str, Number, Number], Number]  # applies an operation, saturating
_FOLD: Any = fold  # `fold`, for the type checker: here it takes and returns integers
Box = Mapping[S.SizeVar, tuple[int, int]]  # begin and end of each variable; no range is empty


def linear_reduction(
    e: S.SizeRange, begin: Number, end: Number, value: Callable[[S.SizeExpr], Number], apply: Apply
) -> Number | None:
    """The value of ``e`` if the body is linear in the variable, or is the maximum of a linear body and 0; otherwise
    None. ``value`` evaluates the parts that do not read the variable."""
    body, clipped = e.body, False
    if isinstance(body, S.SizeOp) and body.op == "max" and body.b == ZERO:
        body, clipped = body.a, True
    found = _linear(body, e.var, value, apply)
    if found is None:
        return None
    slope, offset = found
    if clipped and slope > 0:  # the values are positive from here on
        begin = apply("max", begin, apply("sub", 0, apply("floordiv", offset, slope)))
    elif clipped and slope < 0:
        end = apply("min", end, apply("add", apply("floordiv", offset, -slope), 1))
    elif clipped:
        offset = apply("max", offset, 0)

    def at(k: Number) -> Number:
        return apply("add", apply("mul", k, slope), offset)

    trips = apply("max", apply("sub", end, begin), 0)
    first, last = at(begin), at(apply("sub", end, 1))
    if e.op == "max":
        return apply("mul", apply("min", trips, 1), apply("max", apply("max", first, last), 0))
    if isinstance(trips, int) and isinstance(first, int) and isinstance(last, int):
        return saturate(trips * (first + last) // 2)
    twice = np.asarray(apply("mul", trips, apply("add", first, last)), np.int64)
    half: npt.NDArray[np.int64] = np.where(twice == INT64_MAX, INT64_MAX, twice // 2)
    return half


def _linear(
    e: S.SizeExpr, var: S.SizeVar, value: Callable[[S.SizeExpr], Number], apply: Apply
) -> tuple[int, Number] | None:
    """The slope and the value at 0 of an expression that is linear in the variable."""
    if e == var:
        return 1, 0
    if not reads_variable(e, var):
        return 0, value(e)
    if not isinstance(e, S.SizeOp) or e.op not in ("add", "sub", "mul"):
        return None
    a, b = _linear(e.a, var, value, apply), _linear(e.b, var, value, apply)
    if a is None or b is None:
        return None
    if e.op == "mul":
        if a[0]:
            a, b = b, a
        by = a[1]
        return None if a[0] or not isinstance(by, int) else (saturate(by * b[0]), apply("mul", b[1], by))
    slope = a[0] + b[0] if e.op == "add" else a[0] - b[0]
    return slope, apply(e.op, a[1], b[1])


def greatest(
    e: S.SizeExpr, box: Box, value: Callable[[S.SizeExpr], int], array: Callable[[str], npt.NDArray[Any]]
) -> int | None:
    """The greatest value of ``e`` at the points of the box, or None if it cannot be found without trying every point.
    ``value`` evaluates the parts that read no variable of the box."""
    if not _varying(e, box):
        return value(e)

    def of(part: S.SizeExpr, within: Box = box) -> int | None:
        return greatest(part, within, value, array)

    match e:
        case S.SizeVar():
            return box[e][1] - 1
        case S.SizeLoad(buffer, index):
            return _greatest_element(array(buffer), index, box, value)
        case S.SizeOp("max", a, b):
            x, y = of(a), of(b)
            return None if x is None or y is None else max(x, y)
        case S.SizeOp("add" | "min" | "sub" | "mul" | "floordiv" | "isqrt" as op, a, b):
            if op in ("add", "min", "mul") and not _varying(a, box):
                a, b = b, a
            if _varying(b, box):
                return None
            by = value(b)
            if (op == "mul" and by < 0) or (op == "floordiv" and by <= 0):
                return None
            x = of(a)
            return None if x is None else fold(op, x, by)
        case S.SizeRange("max", var, begin, end, body) if not _varying(begin, box) and not _varying(end, box):
            low, high = value(begin), value(end)
            if low >= high:
                return 0
            x = of(body, {**box, var: (low, high)})
            return None if x is None else max(x, 0)
    return None


def _varying(e: S.SizeExpr, box: Box) -> list[S.SizeVar]:
    """The variables of the box that the expression reads."""
    return [var for var in box if reads_variable(e, var)]


def _greatest_element(
    array: npt.NDArray[Any], index: tuple[S.SizeExpr, ...], box: Box, value: Callable[[S.SizeExpr], int]
) -> int | None:
    """The greatest element of a slice whose indices are variables plus constants, each variable along one axis;
    elements outside of the array count as 0."""
    where: list[slice] = []
    outside = False
    seen: set[S.SizeVar] = set()
    for e, n in zip(index, array.shape, strict=True):
        variables = _varying(e, box)
        if not variables:
            low = value(e)
            high = low + 1
        else:
            var = variables[0]
            found = _linear(e, var, value, _FOLD) if len(variables) == 1 and var not in seen else None
            if found is None or found[0] != 1:
                return None
            seen.add(var)
            low, high = (end + int(found[1]) for end in box[var])
        outside |= low < 0 or high > n
        where.append(slice(min(max(low, 0), n), max(min(high, n), 0)))
    inside = array[tuple(where)]
    best = int(np.max(inside)) if inside.size else 0
    return max(best, 0) if outside else best
