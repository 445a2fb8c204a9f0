"""The language's scalar types under all their names; and checks of the dtypes, shapes, offsets, orders and layouts that
callers pass."""

from collections.abc import Iterable
from enum import Enum
from operator import index as as_index
from typing import Any

import numpy as np

from quadrants_lab.errors import (
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
    QuadrantsSyntaxError,
    QuadrantsTypeError,
)
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


# --- shapes ----------------------------------------------------------------------------------------------------------

MAX_DIMS = 12
AXES = "ijklmnopqrst"[:MAX_DIMS]
Shape = int | Iterable[int]


class Layout(Enum):
    """How the entries of vectors, matrices and structs lie in memory. It is accepted and has no effect."""

    AOS = 1
    SOA = 2
    NULL = 3


def check_shape(kind: str, shape: Shape) -> tuple[int, ...]:
    """The extents of ``shape``, at most `MAX_DIMS` of them; raises an error if they are too many or not positive
    integers."""
    extents = integers(shape, f"{shape!r} is not a shape", "an int, or a tuple of ints; () for 0-d")
    if any(n <= 0 for n in extents) or len(extents) > MAX_DIMS:
        why = "every extent must be positive" if len(extents) <= MAX_DIMS else f"at most {MAX_DIMS} axes"
        raise QuadrantsRuntimeError(f"{extents} is not a valid shape for a {kind}: {why}", code="QL2019")
    return extents


def check_offset(offset: Shape | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The first index of each axis; () if all are 0."""
    if offset is None:
        return ()
    first = integers(offset, f"{offset!r} is not an offset", "an int, or a tuple with an int an axis")
    if len(first) != len(shape):
        what = f"The dimensionality of shape and offset must be the same ({len(shape)} != {len(first)})"
        raise QuadrantsSyntaxError(what, code="QL2019")
    return first if any(first) else ()


def check_order(order: str | None, shape: tuple[int, ...]) -> None:
    """Raises an error if ``order`` is not a permutation of the letters of the axes."""
    if order is None:
        return
    if len(order) != len(shape):
        what = f"The dimensionality of shape and order must be the same ({len(shape)} != {len(order)})"
        raise QuadrantsSyntaxError(what, code="QL2019")
    letters = AXES[: len(shape)]
    for letter in order:
        if letter not in letters:
            raise QuadrantsSyntaxError(f"Invalid axis {letter}", code="QL2019", help=f"the axes are {letters}")
    if len(set(order)) != len(order):
        raise QuadrantsSyntaxError("The axes in order must be different", code="QL2019")


def integers(given: Shape, wrong: str, help: str, code: str = "QL2019") -> tuple[int, ...]:
    """One integer, or a sequence of integers, as a tuple. Raises an error with the message ``wrong`` and the help
    ``help`` for any other object."""
    try:
        return tuple(as_index(n) for n in given) if isinstance(given, Iterable) else (as_index(given),)
    except TypeError:
        raise QuadrantsRuntimeTypeError(wrong, code=code, help=help) from None
