"""Complex numbers as vectors of two elements, real and imaginary part."""

from __future__ import annotations

from functools import partial
from typing import Any

from quadrants_lab.frontend.library.core import formula, ops, public

_abs, _sin, _cos, _exp, _log, _atan2, _sqrt, _vector = ops("abs sin cos exp log atan2 sqrt Vector")
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
        large = _sqrt(0.5 * (z.norm() + _abs(z[0])))  # the part of the root that has no cancellation
        if z[0] < 0.0:
            if z[1] < 0.0:
                large = -large
            w = _vector([0.5 * z[1] / large, large])
        else:
            w = _vector([large, 0.5 * z[1] / large])
    return w
