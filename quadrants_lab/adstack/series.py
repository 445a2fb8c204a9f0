"""Sums and maxima over a range of what grows evenly with the variable: as many steps for a million as for one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.algebra import INT64_MAX, ZERO, reads_variable, saturate
from quadrants_lab.ir import sizeexpr as S

Number = int | npt.NDArray[np.int64]
Apply = Callable[[str, Number, Number], Number]


def series(
    e: S.SizeRange, begin: Number, end: Number, value: Callable[[S.SizeExpr], Number], apply: Apply
) -> Number | None:
    """The value of ``e`` where its body is a line in the variable, or the greater of a line and 0; else None. ``value``
    evaluates what does not read the variable, ``apply`` an operation, saturating."""
    body, clipped = e.body, False
    if isinstance(body, S.SizeOp) and body.op == "max" and body.b == ZERO:
        body, clipped = body.a, True
    found = _line(body, e.var, value, apply)
    if found is None:
        return None
    slope, offset = found
    if clipped and slope > 0:  # the line is above 0 from here on
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


def _line(
    e: S.SizeExpr, var: S.SizeVar, value: Callable[[S.SizeExpr], Number], apply: Apply
) -> tuple[int, Number] | None:
    """(slope, value at 0) of a value that is a line in the variable."""
    if e == var:
        return 1, 0
    if not reads_variable(e, var):
        return 0, value(e)
    if not isinstance(e, S.SizeOp) or e.op not in ("add", "sub", "mul"):
        return None
    a, b = _line(e.a, var, value, apply), _line(e.b, var, value, apply)
    if a is None or b is None:
        return None
    if e.op == "mul":
        if a[0]:
            a, b = b, a
        by = a[1]
        return None if a[0] or not isinstance(by, int) else (saturate(by * b[0]), apply("mul", b[1], by))
    slope = a[0] + b[0] if e.op == "add" else a[0] - b[0]
    return slope, apply(e.op, a[1], b[1])
