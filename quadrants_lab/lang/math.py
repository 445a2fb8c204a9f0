"""`qd.math`: constants, the elementary functions, and functions that shaders have."""

from __future__ import annotations

from math import e, inf, nan, pi
from typing import Any

from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.lang.ops import MATH, OPERATIONS

_SHARED = (
    "acos", "asin", "atan2", "ceil", "cos", "exp", "floor", "log", "max", "min", "pow", "round", "sin", "sqrt", "tan",
    "tanh",
)  # fmt: skip

globals().update(MATH, **{name: OPERATIONS[name] for name in _SHARED})

__all__ = ["e", "inf", "nan", "pi", *_SHARED, *MATH]  # noqa: PLE0604  # both hold strings


def __getattr__(name: str) -> Any:
    return missing_attribute("qd.math", name, globals())
