"""Functions of numbers; of vectors and matrices they are applied to each element."""

from __future__ import annotations

import math
from typing import Any

from quadrants_lab.frontend.library.core import ops, public
from quadrants_lab.ir.types import u32 as _u32

_floor, _log, _popcnt, _select = ops("floor log popcnt select")


@public(elementwise=True)
def fract(x: Any) -> Any:
    """Fractional part of x: x - floor(x)."""
    return x - _floor(x)


@public(elementwise=True)
def log2(x: Any) -> Any:
    """Logarithm of x to the base of 2."""
    return _log(x) / math.log(2)


@public(elementwise=True)
def degrees(x: Any) -> Any:
    """x radians in degrees."""
    return x * (180 / math.pi)


@public(elementwise=True)
def radians(x: Any) -> Any:
    """x degrees in radians."""
    return x * (math.pi / 180)


@public(elementwise=True)
def clamp(x: Any, xmin: Any, xmax: Any) -> Any:
    """x, or the bound that it lies beyond."""
    return min(xmax, max(xmin, x))


@public(elementwise=True)
def mix(x: Any, y: Any, a: Any) -> Any:
    """Linear interpolation: x at a = 0, y at a = 1."""
    return x * (1.0 - a) + y * a


@public(elementwise=True)
def mod(x: Any, y: Any) -> Any:
    """x - y * floor(x / y)."""
    return x - y * _floor(x / y)


@public(elementwise=True)
def step(edge: Any, x: Any) -> Any:
    """0 where x < edge, else 1."""
    return 0.0 if x < edge else 1.0


@public(elementwise=True)
def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any:
    """Hermite interpolation from 0 at edge0 to 1 at edge1."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@public(elementwise=True)
def ffs(x: Any) -> Any:
    """Position of the lowest set bit of the integer x, counted from 1; 0 where there is none."""
    return _select(x == 0, 0, _popcnt((x & -x) - 1) + 1)


@public(elementwise=True)
def fns(mask: Any, base: Any, offset: Any) -> Any:
    """Position of the offset-th set bit of the 32-bit mask, counted upwards from bit base (downwards where offset is
    negative; 0: the bit at base itself); 0xFFFFFFFF where there is none."""
    i = int(base)
    left = max(abs(int(offset)), 1)
    while i >= 0 and i < 32:
        if ((mask >> i) & 1) != 0:
            left -= 1
            if left == 0:
                return _u32(i)
        if offset == 0:
            return _u32(4294967295)
        i += 1 if offset > 0 else -1
    return _u32(4294967295)
