"""`qd.types`: what kernel arguments are annotated with, and questions about dtypes."""

from __future__ import annotations

from quadrants_lab.ir.types import DType, f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64
from quadrants_lab.lang.annotations import NDArray, NdarrayType, Template, ndarray, template
from quadrants_lab.lang.dtypes import (
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint1,
    uint8,
    uint16,
    uint32,
    uint64,
)
from quadrants_lab.lang.matrix_types import MatrixType, VectorType, matrix, vector
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.lang.struct import StructType, struct

__all__ = [
    "MatrixType", "NDArray", "NdarrayType", "StructType", "Template", "VectorType", "f16", "f32", "f64", "float16",
    "float32", "float64", "i8", "i16", "i32", "i64", "int8", "int16", "int32", "int64", "is_integral", "is_real",
    "is_signed", "matrix", "ndarray", "struct", "template", "u1", "u8", "u16", "u32", "u64", "uint1", "uint8",
    "uint16", "uint32", "uint64", "vector",
]  # fmt: skip


def is_integral(dtype: DType) -> bool:
    return not dtype.is_float


def is_real(dtype: DType) -> bool:
    return dtype.is_float


def is_signed(dtype: DType) -> bool:
    return dtype.kind in "if"


def __getattr__(name: str) -> object:
    return missing_attribute("qd.types", name, globals())
