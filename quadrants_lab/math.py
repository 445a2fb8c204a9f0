"""`qd.math`: constants, vector and matrix types, elementary functions, and functions known from shaders."""

from math import e, inf, nan, pi
from typing import Any

from quadrants_lab.ir.types import u32
from quadrants_lab.lang.matrix_types import matrix, vector
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.lang.ops import MATH, OPERATIONS

_SHARED = (
    "acos", "asin", "atan2", "ceil", "cos", "exp", "floor", "log", "log1p", "max", "min", "pow", "round", "sin", "sqrt",
    "tan", "tanh",
)  # fmt: skip

vec2, vec3, vec4 = (vector(n, float) for n in (2, 3, 4))
ivec2, ivec3, ivec4 = (vector(n, int) for n in (2, 3, 4))
uvec2, uvec3, uvec4 = (vector(n, u32) for n in (2, 3, 4))
mat2, mat3, mat4 = (matrix(n, n, float) for n in (2, 3, 4))

globals().update(MATH, **{name: OPERATIONS[name] for name in _SHARED})

__all__ = [  # noqa: PLE0604  # the two lists hold strings
    "e", "inf", "ivec2", "ivec3", "ivec4", "mat2", "mat3", "mat4", "nan", "pi", "uvec2", "uvec3", "uvec4", "vec2",
    "vec3", "vec4", *_SHARED, *MATH,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return missing_attribute("qd.math", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
