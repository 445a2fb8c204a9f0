"""Functions of numbers, which apply to each element of vectors and matrices; normal random numbers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from quadrants_lab.frontend.library.core import formula, ops, public
from quadrants_lab.ir.types import u32 as _u32

_floor, _log, _popcnt, _select, _random, _sqrt, _cos = ops("floor log popcnt select random sqrt cos")
_like = ops("constant_like")[0]  # a literal in the dtype of the second argument: alone it has default_fp
_each = partial(formula, elementwise=True)

_each("fract", "Fractional part of x: x - floor(x).", lambda x: x - _floor(x))
_each("log2", "Logarithm of x to the base of 2.", lambda x: _log(x) / _like(math.log(2), x))
_each("degrees", "x radians in degrees.", lambda x: x * _like(180 / math.pi, x))
_each("radians", "x degrees in radians.", lambda x: x * _like(math.pi / 180, x))
clamp = _each("clamp", "x, or the bound that it lies beyond.", lambda x, xmin, xmax: min(xmax, max(xmin, x)))
_each("mix", "Linear interpolation: x at a = 0, y at a = 1.", lambda x, y, a: x * (1.0 - a) + y * a)
_each("mod", "x - y * floor(x / y).", lambda x, y: x - y * _floor(x / y))
_each("step", "0 where x < edge, else 1.", lambda edge, x: 0.0 if x < edge else 1.0)
_each("ffs", "Position of the lowest set bit of the integer x, counted from 1; 0 where there is none.",
      lambda x: _select(x == 0, 0, _popcnt((x & -x) - 1) + 1))  # fmt: skip


@public(elementwise=True)
def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any:
    """Hermite interpolation from 0 at edge0 to 1 at edge1."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


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


@public("", optional=("dt",))
def randn(dt: Any = float) -> Any:
    """A number of the standard normal distribution, of the dtype dt (default_fp), by the transformation of Box and
    Muller (A note on the generation of random normal deviates, 1958)."""
    u = 1.0 - _random(dt)  # in (0, 1]: its logarithm is finite
    return _sqrt(-2.0 * _log(u)) * _cos(_like(2.0 * math.pi, u) * _random(dt))
