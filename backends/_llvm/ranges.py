"""Ranges of integer values, as far as they follow from constants, loop bounds and shapes.

They say where an addition cannot wrap (``nsw``, which is what lets LLVM see that neighbouring iterations touch
neighbouring addresses) and where a division needs no guard.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants_lab.ir.types import DType

Range = tuple[int, int]  # both ends included


def full(t: DType) -> Range:
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.kind == "i" else (0, (1 << t.bits) - 1)


def within(r: Range, t: DType) -> bool:
    low, high = full(t)
    return low <= r[0] and r[1] <= high


def union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _corners(fn: Callable[[int, int], int]) -> Callable[[Range, Range], Range | None]:
    def rule(a: Range, b: Range) -> Range | None:
        ends = [fn(x, y) for x in a for y in b]
        return min(ends), max(ends)

    return rule


def _quot(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x // y)(a, b) if a[0] >= 0 and b[0] > 0 else None


def _rem(a: Range, b: Range) -> Range | None:
    return (0, min(b[1] - 1, a[1])) if a[0] >= 0 and b[0] > 0 else None


def _shr(a: Range, b: Range) -> Range | None:
    return (a[0] >> b[0], a[1] >> b[0]) if b[0] == b[1] else None


def _and(a: Range, b: Range) -> Range | None:
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    return (0, max(a[1], b[1])) if a[0] >= 0 or b[0] >= 0 else None


_RULES: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": _corners(lambda x, y: x + y),
    "sub": _corners(lambda x, y: x - y),
    "mul": _corners(lambda x, y: x * y),
    "min": _corners(min),
    "max": _corners(max),
    "quot": _quot,
    "rem": _rem,
    "shr": _shr,
    "and": _and,
}


def exact(prim: str, args: tuple[Range | None, ...], t: DType) -> bool:
    """Whether the mathematical result of add, sub or mul always fits the dtype."""
    a, b = (full(t) if r is None else r for r in args)
    r = _RULES[prim](a, b) if prim in _RULES else None
    return r is not None and within(r, t)


def result(prim: str, args: tuple[Range | None, ...], out: DType) -> Range | None:
    """The range of an operation's result, None where nothing is known beyond its dtype ``out``."""
    r = None
    if prim in ("cast", "bitcast"):
        r = args[0]
    elif prim == "select":
        r = None if args[1] is None or args[2] is None else union(args[1], args[2])
    elif prim in _RULES and out.is_int:
        a, b = (full(out) if r is None else r for r in args)
        r = _RULES[prim](a, b)
    return r if r is not None and within(r, out) else None
