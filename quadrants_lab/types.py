"""Collects `qd.types`: annotations of kernel arguments, types of values, predicates on dtypes, and Quadrants'
enumerations.

`lang.elsewhere` makes the modules `qd.types.quant`, `qd.types.primitive_types` and `qd.types.enums`.
"""

from collections.abc import Callable
from enum import Enum, IntEnum
from importlib import import_module
from typing import Any

from quadrants_lab.ir.types import DTYPES, DType
from quadrants_lab.lang.annotations import NDArray, NdarrayType, Template, ndarray, ref, template
from quadrants_lab.lang.buffer_view import BufferViewType
from quadrants_lab.lang.dtypes import *  # noqa: F403  # exactly the dtypes
from quadrants_lab.lang.dtypes import (
    Layout,  # noqa: F401  # of qd.types.enums
    __all__ as _dtypes,
)
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.matrix_types import MatrixType, VectorType, matrix, vector
from quadrants_lab.lang.quantised import quant
from quadrants_lab.lang.struct import StructType, struct

__all__ = [  # noqa: PLE0604  # the list holds strings
    "BufferViewType", "MatrixType", "NDArray", "NdarrayType", "StructType", "Template", "VectorType", "is_integral",
    "is_real", "is_signed", "is_tensor", "matrix", "ndarray", "quant", "ref", "struct", "template", "vector", *_dtypes,
]  # fmt: skip

# --- sets of dtypes, of `qd.types.primitive_types` ------------------------------------------------------------------

real_types = {float, *(t for t in DTYPES.values() if t.is_float)}
integer_types = {int, bool, *(t for t in DTYPES.values() if not t.is_float)}
all_types = real_types | integer_types


def is_integral(dtype: DType) -> bool:
    return not dtype.is_float


def is_real(dtype: DType) -> bool:
    return dtype.is_float


def is_signed(dtype: DType) -> bool:
    return dtype.kind in "if"


def is_tensor(dtype: object) -> bool:
    """Whether ``dtype`` is the type of a vector or a matrix."""
    return isinstance(dtype, MatrixType)


# --- enumerations, of `qd.types.enums` ------------------------------------------------------------------------------

class Extension(Enum):
    """Features that a backend can have. All backends here have the same ones."""

    sparse = "pointer, bitmasked and dynamic layouts"
    quant = "quantised types in all layouts"
    quant_basic = "quantised types"
    mesh = "meshes"
    data64 = "numbers of 64 bits"
    adstack = "gradients of loops that carry values"
    bls = "shared memory of blocks"
    assertion = "assert in kernels"
    extfunc = "calls of functions in C"


_ENABLED = {Extension.sparse, Extension.data64, Extension.adstack, Extension.assertion}
extension = Extension


def is_extension_enabled(ext: Extension) -> bool:
    """Whether kernels of this session can use the feature."""
    if not isinstance(ext, Extension):
        raise TypeError(f"{ext!r} is not a qd.extension: they are {', '.join(e.name for e in Extension)}")
    return ext in _ENABLED


def _device_capabilities() -> type:
    """The enumeration of the capabilities of SPIR-V devices; the value of each member is its name."""
    scalars = ["float16", "float64", "int8", "int16", "int64"]
    atomics = [f"atomic_float{b}{op}" for b in ("", "16", "64") for op in ("", "_add", "_minmax")]
    rest = [
        "atomic_int64", "no_integer_wrap_decoration", "non_semantic_info", "physical_storage_buffer", "variable_ptr",
        "subgroup_arithmetic", "subgroup_ballot", "subgroup_basic", "subgroup_vote",
    ]  # fmt: skip
    names = [f"spirv_has_{name}" for name in (*scalars, *atomics, *rest)] + [f"spirv_version_1_{n}" for n in (3, 4, 5)]
    return type("DeviceCapability", (), {"__doc__": _device_capabilities.__doc__, **{name: name for name in names}})


_FORMATS = """unknown r8 rg8 rgba8 rgba8srgb bgra8 bgra8srgb r8u rg8u rgba8u r8i rg8i rgba8i r16 rg16 rgb16 rgba16 r16u
    rg16u rgb16u rgba16u r16i rg16i rgb16i rgba16i r16f rg16f rgb16f rgba16f r32u rg32u rgb32u rgba32u r32i rg32i rgb32i
    rgba32i r32f rg32f rgb32f rgba32f depth16 depth24stencil8 depth32f"""
_MADE: dict[str, Callable[[], Any]] = {  # names whose objects are made when a program first uses them
    "AutodiffMode": lambda: IntEnum("AutodiffMode", "FORWARD REVERSE NONE VALIDATION", start=0),
    "BoundaryMode": lambda: IntEnum("BoundaryMode", "UNSAFE CLAMP", start=0),
    "DeviceCapability": _device_capabilities,
    "Format": lambda: Enum("Format", _FORMATS),
    "SNodeGradType": lambda: IntEnum("SNodeGradType", "PRIMAL ADJOINT DUAL ADJOINT_CHECKBIT", start=0),
    "sparse_matrix_builder": lambda: import_module("quadrants_lab.lang.sparse_matrix").sparse_matrix_builder,
}


def __getattr__(name: str) -> Any:
    if name not in _MADE:
        return missing_attribute("qd.types", name, globals())
    globals()[name] = made = _MADE[name]()
    return made
