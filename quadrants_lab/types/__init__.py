"""`qd.types`: annotations of kernel arguments, types of values, and predicates on dtypes."""

from importlib import import_module

from quadrants_lab.ir.types import DType
from quadrants_lab.lang.annotations import NDArray, NdarrayType, Template, ndarray, ref, template
from quadrants_lab.lang.buffer_view import BufferViewType
from quadrants_lab.lang.dtypes import *  # noqa: F403  # exactly the dtypes
from quadrants_lab.lang.dtypes import __all__ as _dtypes
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.matrix_types import MatrixType, VectorType, matrix, vector
from quadrants_lab.lang.struct import StructType, struct
from quadrants_lab.types import primitive_types, quant

__all__ = [  # noqa: PLE0604  # the list holds strings
    "BufferViewType", "MatrixType", "NDArray", "NdarrayType", "StructType", "Template", "VectorType", "is_integral",
    "is_real", "is_signed", "is_tensor", "matrix", "ndarray", "primitive_types", "quant", "ref", "struct",
    "template", "vector", *_dtypes,
]  # fmt: skip


def is_integral(dtype: DType) -> bool:
    return not dtype.is_float


def is_real(dtype: DType) -> bool:
    return dtype.is_float


def is_signed(dtype: DType) -> bool:
    return dtype.kind in "if"


def is_tensor(dtype: object) -> bool:
    """Whether it is the type of a vector or matrix."""
    return isinstance(dtype, MatrixType)


def __getattr__(name: str) -> object:
    if name == "sparse_matrix_builder":  # imported when it is first asked for
        return import_module("quadrants_lab.lang.sparse_matrix").sparse_matrix_builder
    return missing_attribute("qd.types", name, globals())
