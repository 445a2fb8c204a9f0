"""Vectors as shaders use them; meanings are those of GLSL's functions of the same names."""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library.core import op, public

_sqrt: Any = op("sqrt")


@public(vectors=("x",))
def length(x: Any) -> Any:
    """The Euclidean length of the vector x; its derivative is 0 where it is 0."""
    return x.norm()


@public(vectors=("x", "y"))
def distance(x: Any, y: Any) -> Any:
    """The length of x - y."""
    return (x - y).norm()


@public(vectors=("v",))
def normalize(v: Any) -> Any:
    """v / length(v): NaNs for zeros (v.normalized() gives zeros)."""
    return v / v.norm()


@public(vectors=("x", "n"))
def reflect(x: Any, n: Any) -> Any:
    """The direction of a ray along x that is mirrored at a plane with the unit normal n."""
    return x - 2.0 * x.dot(n) * n


@public(vectors=("x", "n"))
def refract(x: Any, n: Any, eta: Any) -> Any:
    """The direction of a ray along the unit vector x behind a surface with the unit normal n, eta the ratio of the
    indices of refraction; zeros where it is totally reflected."""
    along = x.dot(n)
    k = 1.0 - eta * eta * (1.0 - along * along)
    bent = 0.0 * x
    if k >= 0.0:
        bent = eta * x - (eta * along + _sqrt(k)) * n
    return bent
