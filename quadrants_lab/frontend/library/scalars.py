"""Implements functions of numbers, which apply to each element of vectors and matrices; normal random numbers; and
complex numbers, as vectors of a real and an imaginary part."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from quadrants_lab.frontend.library import formula, ops, public
from quadrants_lab.ir.types import u32 as _u32

_floor, _log, _popcnt, _select, _random, _sqrt, _cos = ops("floor log popcnt select random sqrt cos")
_abs, _sin, _exp, _atan2, _vector = ops("abs sin exp atan2 Vector")
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
    """The position of the offset-th set bit of the 32-bit mask, counted upwards from bit base, or downwards if offset
    is negative; offset 0 asks for the bit at base itself. 0xFFFFFFFF if there is no such bit."""
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


# --- complex numbers ------------------------------------------------------------------------------------------------

_one, _two = (partial(formula, vectors=names, length=2) for names in (("z",), ("z1", "z2")))

cconj = _one("cconj", "The conjugate of z.", lambda z: _vector([z[0], -z[1]]))
_two("cmul", "z1 times z2.", lambda z1, z2: _vector(
    [z1[0] * z2[0] - z1[1] * z2[1], z1[0] * z2[1] + z1[1] * z2[0]]
))  # fmt: skip
_two("cdiv", "z1 over z2; NaNs where z2 is 0.", lambda z1, z2: _vector(
    [z1[0] * z2[0] + z1[1] * z2[1], z1[1] * z2[0] - z1[0] * z2[1]]
) / z2.norm_sqr())  # fmt: skip
_one("cinv", "1 over z; NaNs where z is 0.", lambda z: cconj(z) / z.norm_sqr())
cexp = _one("cexp", "e to the power of z.", lambda z: _exp(z[0]) * _vector([_cos(z[1]), _sin(z[1])]))
clog = _one("clog", "The logarithm of z with its imaginary part in (-pi, pi].",
            lambda z: _vector([_log(z.norm_sqr()) / 2.0, _atan2(z[1], z[0])]))  # fmt: skip


@public(vectors=("z",), length=2)
def cpow(z: Any, n: Any) -> Any:
    """z to the power of the real number n; zeros, with derivative 0, where z is 0."""
    w = 0.0 * z
    if z.norm_sqr() > 0.0:
        w = cexp(clog(z) * n)
    return w


@public(vectors=("z",), length=2)
def csqrt(z: Any) -> Any:
    """The square root of z with a real part that is not negative; zeros, with derivative 0, where z is 0."""
    w = 0.0 * z
    if z.norm_sqr() > 0.0:
        large = _sqrt(0.5 * (z.norm() + _abs(z[0])))  # the part of the root without cancellation
        if z[0] < 0.0:
            if z[1] < 0.0:
                large = -large
            w = _vector([0.5 * z[1] / large, large])
        else:
            w = _vector([large, 0.5 * z[1] / large])
    return w
