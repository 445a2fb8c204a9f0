"""Collects `qd.math`: constants, vector and matrix types, elementary functions, and functions known from shaders."""

from math import e, inf, nan, pi  # noqa: F401  # names of this module
from typing import Any

from quadrants_lab.ir.types import u32
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.matrix_types import matrix, vector
from quadrants_lab.lang.ops import MATH, OPERATIONS

_SHARED = (
    "acos", "asin", "atan2", "ceil", "cos", "exp", "floor", "log", "log1p", "max", "min", "pow", "round", "sin", "sqrt",
    "tan", "tanh",
)  # fmt: skip

vec2, vec3, vec4 = (vector(n, float) for n in (2, 3, 4))
ivec2, ivec3, ivec4 = (vector(n, int) for n in (2, 3, 4))
uvec2, uvec3, uvec4 = (vector(n, u32) for n in (2, 3, 4))
mat2, mat3, mat4 = (matrix(n, n, float) for n in (2, 3, 4))

_NAMES = (
    "e", "inf", "ivec2", "ivec3", "ivec4", "mat2", "mat3", "mat4", "nan", "pi", "uvec2", "uvec3", "uvec4", "vec2",
    "vec3", "vec4", *_SHARED,
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """The operation ``name``; it is made when a program first uses it."""
    if name == "__all__":
        return [*_NAMES, *MATH]
    known = None if name.startswith("_") else OPERATIONS[name] if name in _SHARED else MATH.get(name)
    if known is None:
        return missing_attribute("qd.math", name, globals() if name.startswith("_") else __dir__())
    globals()[name] = known
    return known


def __dir__() -> list[str]:
    return sorted({*_NAMES, *MATH})
