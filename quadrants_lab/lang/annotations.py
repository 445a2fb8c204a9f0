"""Defines annotations of kernel arguments: `template`, `types.ndarray`, `types.NDArray[...]`, scalar dtypes."""

from __future__ import annotations

from typing import Any

from quadrants_lab.errors import QuadrantsSyntaxError
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.runtime.arguments.slots import ArraySlot, TemplateSlot, TensorSlot


class Annotation:
    """Base of the annotations that are not also types of values. ``slot(name)`` makes the object that checks and
    converts the argument ``name``."""

    __slots__ = ()

    def slot(self, name: str) -> TemplateSlot | ArraySlot | TensorSlot:
        raise NotImplementedError


class Template(Annotation):
    """The annotation of an argument that is known at compile time: a field, or a value that becomes a constant."""

    __qd_template__ = True

    def __init__(self, element_type: Any = None, ndim: int | None = None) -> None:
        """The arguments are accepted and have no effect."""

    def __repr__(self) -> str:
        return "qd.template()"

    def slot(self, name: str) -> TemplateSlot:
        return TemplateSlot(name)


def template(element_type: Any = None, ndim: int | None = None) -> Template:
    """See `Template`."""
    return Template(element_type, ndim)


def ref(tp: Any) -> Template:
    """The annotation of an argument that a func changes for its caller; ``tp`` is the argument's type."""
    return Template(tp)


template.__qd_template__ = True  # type: ignore[attr-defined]  # for annotations without a call, read by the front end
ref.__qd_template__ = True  # type: ignore[attr-defined]  # for annotations that are not evaluated


@dataclass(frozen=True, slots=True)
class NdarrayType(Annotation):
    """The annotation of a numpy array or a `qd.ndarray`; None for ``dtype`` or ``ndim`` allows any.

    ``dtype`` can be a vector or matrix type; ``ndim`` does not count the axes of its values."""

    dtype: Any = None
    ndim: int | None = None
    needs_grad: bool | None = None
    element_shape: tuple[int | None, ...] | None = None
    clamp: bool = False

    def __repr__(self) -> str:
        return f"qd.types.ndarray(dtype={self.dtype}, ndim={self.ndim})"

    def __or__(self, other: None) -> TensorType:
        return NotImplemented if other is not None else TensorType(self)

    __ror__ = __or__

    def slot(self, name: str) -> ArraySlot:
        element = self.dtype if getattr(self.dtype, "__qd_type__", "") else None
        dtype = self.dtype if element is None else element.dtype
        shape = (self.element_shape or ()) if element is None else tuple(element.shape)
        given = None if dtype is None else as_dtype(dtype)
        return ArraySlot(name, given, self.ndim, self.needs_grad, shape, self.clamp)


@dataclass(frozen=True, slots=True)
class TensorType(Annotation):
    """The annotation of an argument that is a field, an array or None: `qd.Tensor`. With ``array`` (an `NdarrayType`)
    the argument is such an array or None: the annotation ``array | None``."""

    array: NdarrayType | None = None

    def __repr__(self) -> str:
        return "qd.Tensor" if self.array is None else f"{self.array} | None"

    def slot(self, name: str) -> TensorSlot:
        return TensorSlot(name, (self.array or NdarrayType()).slot(name), self.array is not None)


def ndarray(
    dtype: Any = None, ndim: int | None = None, element_dim: int | None = None,
    element_shape: tuple[int | None, ...] | None = None, needs_grad: bool | None = None, boundary: str = "unsafe",
) -> NdarrayType:  # fmt: skip
    """The annotation of an array argument. The kind of its elements is given by ``element_shape`` (() for numbers, (n,)
    for vectors, (n, m) for matrices), by ``element_dim``, the length of ``element_shape``, or by a vector or matrix
    type as ``dtype``. ``needs_grad``: True requires a gradient, False forbids one. ``boundary``: "clamp" takes the
    nearest element where an index is out of bounds; "unsafe" leaves it to the program that there is none."""
    element = getattr(dtype, "__qd_type__", "") == "matrix"
    if not element and dtype is not None and not isinstance(dtype, DType) and dtype not in (int, float, bool):
        hint = "for example dtype=qd.f32, or dtype=qd.types.vector(3, qd.f32)"
        raise QuadrantsSyntaxError(f"{dtype!r} is not a dtype", code="QL2010", help=hint)
    if ndim is not None and (not isinstance(ndim, int) or ndim < 0):
        raise QuadrantsSyntaxError(f"ndim={ndim!r} is not a number of axes", code="QL2020")
    if boundary not in ("unsafe", "clamp"):
        raise QuadrantsSyntaxError(
            f"boundary={boundary!r} is neither 'unsafe' nor 'clamp'",
            code="QL2021",
            help="indices are checked in sessions with debug=True or check_out_of_bound=True",
        )
    if element_shape is None and element_dim is not None:
        element_shape = (None,) * element_dim
    if element_shape is not None and (element or len(element_shape) > 2):
        raise QuadrantsSyntaxError(
            f"an array cannot have elements of shape {element_shape} and of dtype {dtype!r}",
            code="QL2020",
            help="give a dtype and an element_shape, or a vector or matrix type",
        )
    return NdarrayType(dtype, ndim, needs_grad, element_shape, boundary == "clamp")


class NDArray:
    """``NDArray[qd.f32, 2]`` is `ndarray` (dtype=qd.f32, ndim=2)."""

    def __class_getitem__(cls, key: Any) -> NdarrayType:
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) > 2:
            raise QuadrantsSyntaxError("NDArray takes a dtype and a number of axes: NDArray[qd.f32, 2]", code="QL2020")
        return ndarray(*parts)
