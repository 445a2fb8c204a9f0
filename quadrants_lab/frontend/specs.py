"""What the front end is told about each argument, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.types import DType


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A number that is known when the kernel is launched."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class MatrixSpec:
    """A vector or matrix that is known at launch; its elements are the scalar arguments ``name[0]``, ``name[1]``, ... of
    the kernel, row by row."""

    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StructSpec:
    """A struct or dataclass instance: a spec a member; member ``a`` of argument ``s`` is the argument ``s.a``.
    ``type`` describes it, as in `quadrants_lab.frontend.values.Struct`."""

    type: Any
    members: tuple[tuple[str, Spec], ...]


@dataclass(frozen=True, slots=True)
class NdarraySpec:
    """An array passed at launch: only dtype and number of axes are known; ``grad``: it comes with an adjoint. ``ndim``
    does not count the axes of ``element_shape``, which follow in memory."""

    dtype: DType
    ndim: int
    grad: bool = False
    element_shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """A compile-time value: a field, a number, any Python object."""

    value: Any


Spec = Union[ScalarSpec, MatrixSpec, StructSpec, NdarraySpec, TemplateSpec]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel out of the front end.

    ``bindings``: field object of each "field" buffer, by buffer name. ``returns``: dtypes of the returned values; value
    k is left in the "ret" buffer ``ret<k>``. ``returns_tuple``: the kernel returns a tuple even of one value.
    """

    kernel: Kernel
    bindings: dict[str, Any]
    returns: tuple[DType, ...]
    returns_tuple: bool = False
