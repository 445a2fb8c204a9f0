"""Defines the scalar types of the language. Each dtype is an immutable singleton, compared by identity."""

from dataclasses import field
from typing import Any

import numpy as np

from quadrants_lab.ir.record import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """A scalar dtype.

    ``kind`` is "b" (truth value), "i" (signed), "u" (unsigned) or "f" (floating point); ``bits`` its width.
    ``nbytes`` is its size in a field or ndarray: u1 takes one byte there. ``is_int``: whether it is signed or unsigned;
    u1 is no integer. Passes read ``is_float`` and ``is_int`` for each statement, so these are no properties.
    """

    name: str
    kind: str
    bits: int
    numpy: Any
    nbytes: int = field(init=False)
    is_float: bool = field(init=False)
    is_int: bool = field(init=False)

    def __post_init__(self) -> None:
        facts = {"nbytes": max(1, self.bits // 8), "is_float": self.kind == "f", "is_int": self.kind in "iu"}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer dtype."""
        low = -(1 << (self.bits - 1)) if self.kind == "i" else 0
        return low, low + (1 << self.bits) - 1

    def holds(self, value: int) -> bool:
        """Whether the integer dtype can represent this value."""
        low, high = self.limits
        return low <= value <= high

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name  # copies and unpickled dtypes are the same singletons

    def __call__(self, value: Any) -> Any:
        """A Python number rounded to the dtype, for ``qd.f32(x)`` outside of kernels."""
        return self.numpy(value)


u1 = DType("u1", "b", 1, np.bool_)
i8 = DType("i8", "i", 8, np.int8)
i16 = DType("i16", "i", 16, np.int16)
i32 = DType("i32", "i", 32, np.int32)
i64 = DType("i64", "i", 64, np.int64)
u8 = DType("u8", "u", 8, np.uint8)
u16 = DType("u16", "u", 16, np.uint16)
u32 = DType("u32", "u", 32, np.uint32)
u64 = DType("u64", "u", 64, np.uint64)
f16 = DType("f16", "f", 16, np.float16)
f32 = DType("f32", "f", 32, np.float32)
f64 = DType("f64", "f", 64, np.float64)

DTYPES: dict[str, DType] = {t.name: t for t in (u1, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64)}


def from_numpy(dtype: Any) -> DType | None:
    """The dtype of a numpy dtype (or scalar type), or None."""
    return _BY_NUMPY.get(np.dtype(dtype))


_BY_NUMPY: dict[Any, DType] = {np.dtype(t.numpy): t for t in DTYPES.values()}


_IN_ALL = 65504  # the greatest f16: larger numbers need the slow `errstate`, which hides numpy's warning of an overflow


def convert(value: Any, dtype: DType) -> Any:
    """A Python number converted by the rules of a cast: rounded, saturated, wrapped, or compared with 0."""
    if dtype.is_float:
        if dtype is f64:
            return float(value)
        if abs(value) <= _IN_ALL:
            return dtype.numpy(value).item()
        with np.errstate(all="ignore"):
            return dtype.numpy(value).item()
    if dtype is u1:
        return bool(value)
    if isinstance(value, float):
        low, high = dtype.limits
        return 0 if value != value else int(min(max(value, low), high))
    return wrapped(int(value), dtype)


def wrapped(value: int, t: DType) -> int:
    """The value of the integer dtype that is congruent to ``value``."""
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.kind == "i" and value >> (t.bits - 1) else value


UNSIGNED: dict[int, DType] = {t.bits: t for t in (u8, u16, u32, u64)}
_RANK = {t: (t.is_float, t.bits, t.kind == "u") for t in DTYPES.values()}


def unsigned(t: DType) -> DType:
    """The unsigned integer dtype of the same width."""
    return UNSIGNED[t.bits]


def promote(a: DType, b: DType) -> DType:
    """The common type of two operands: float beats integer, the wider wins, at equal width the unsigned one.

    u1 counts as the narrowest integer. The common type of two u1 is i32, because arithmetic on them is on integers.
    """
    if a is b:
        return i32 if a is u1 else a
    return a if _RANK[a] > _RANK[b] else b
