"""The language's scalar types under all their names."""

from typing import Any

import numpy as np

from quadrants_lab.errors import QuadrantsTypeError
from quadrants_lab.ir import types as T
from quadrants_lab.ir.types import DType, f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64
from quadrants_lab.runtime import session

__all__ = [
    "f16", "f32", "f64", "float16", "float32", "float64", "i8", "i16", "i32", "i64", "int8", "int16", "int32", "int64",
    "u1", "u8", "u16", "u32", "u64", "uint1", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

float16, float32, float64 = f16, f32, f64
int8, int16, int32, int64 = i8, i16, i32, i64
uint1, uint8, uint16, uint32, uint64 = u1, u8, u16, u32, u64


def as_dtype(given: Any) -> DType:
    """``given`` as a dtype of the language; Python's int, float and bool mean default_ip, default_fp and u1."""
    if given is int or given is float:
        options = session.current().settings.compile
        return options.default_ip if given is int else options.default_fp
    match given:
        case DType():
            return given
        case type() if given is bool:
            return u1
        case str() if given in T.DTYPES:
            hint = f"write qd.{given}, without quotes"
        case type() | np.dtype() if (meant := T.from_numpy(given)) is not None:
            hint = f"write qd.{meant}"
        case _:
            hint = "the dtypes are " + ", ".join(f"qd.{name}" for name in T.DTYPES)
    raise QuadrantsTypeError(f"{given!r} is not a dtype", code="QL2010", help=hint)
