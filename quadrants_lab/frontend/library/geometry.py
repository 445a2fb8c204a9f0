"""Vectors as shaders use them; meanings are those of GLSL's functions of the same names."""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library.core import formula, op, public

_sqrt: Any = op("sqrt")

formula("length", "The Euclidean length of the vector x; its derivative is 0 where it is 0.", lambda x: x.norm(),
        vectors=("x",))  # fmt: skip
formula("distance", "The length of x - y.", lambda x, y: (x - y).norm(), vectors=("x", "y"))
formula("normalize", "v / length(v): NaNs for zeros (v.normalized() gives zeros).", lambda v: v / v.norm(),
        vectors=("v",))  # fmt: skip
formula("reflect", "The direction of a ray along x that is mirrored at a plane with the unit normal n.",
        lambda x, n: x - 2.0 * x.dot(n) * n, vectors=("x", "n"))  # fmt: skip


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
