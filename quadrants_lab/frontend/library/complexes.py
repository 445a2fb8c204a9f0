"""Complex numbers as vectors of two elements, real and imaginary part."""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library.core import ops, public

_sin, _cos, _exp, _log, _atan2, _sqrt, _vector = ops("sin cos exp log atan2 sqrt Vector")


@public(vectors=("z",), length=2)
def cconj(z: Any) -> Any:
    """The conjugate of z."""
    return _vector([z[0], -z[1]])


@public(vectors=("z1", "z2"), length=2)
def cmul(z1: Any, z2: Any) -> Any:
    """z1 times z2."""
    return _vector([z1[0] * z2[0] - z1[1] * z2[1], z1[0] * z2[1] + z1[1] * z2[0]])


@public(vectors=("z1", "z2"), length=2)
def cdiv(z1: Any, z2: Any) -> Any:
    """z1 over z2; NaNs where z2 is 0."""
    return _vector([z1[0] * z2[0] + z1[1] * z2[1], z1[1] * z2[0] - z1[0] * z2[1]]) / z2.norm_sqr()


@public(vectors=("z",), length=2)
def cinv(z: Any) -> Any:
    """1 over z; NaNs where z is 0."""
    return cconj(z) / z.norm_sqr()


@public(vectors=("z",), length=2)
def cexp(z: Any) -> Any:
    """e to the power of z."""
    return _exp(z[0]) * _vector([_cos(z[1]), _sin(z[1])])


@public(vectors=("z",), length=2)
def clog(z: Any) -> Any:
    """The logarithm of z with its imaginary part in (-pi, pi]."""
    return _vector([_log(z.norm_sqr()) / 2.0, _atan2(z[1], z[0])])


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
        r = _sqrt(z.norm())
        half = _atan2(z[1], z[0]) / 2.0
        w = _vector([r * _cos(half), r * _sin(half)])
    return w
