"""The types of the arguments that the front end takes, and the result that it returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.ir.nodes import Kernel


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A number that is known when the kernel is launched."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class MatrixSpec:
    """A vector or matrix that is known at launch; its elements are the scalar arguments ``name[0]``, ``name[1]``, ...
    of the kernel, row by row."""

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
    does not count the axes of ``element_shape``, which follow in memory. ``wide``: an axis has 2**31 elements or
    more."""

    dtype: DType
    ndim: int
    grad: bool = False
    element_shape: tuple[int, ...] = ()
    wide: bool = False


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """A compile-time value: a field, a number, any Python object."""

    value: Any


Spec = ScalarSpec | MatrixSpec | StructSpec | NdarraySpec | TemplateSpec


def flat_specs(specs: Iterable[Spec]) -> Iterator[Spec]:
    """The specs of scalars, arrays and templates that others are made of, in order."""
    for spec in specs:
        if isinstance(spec, MatrixSpec):
            yield from [ScalarSpec(spec.dtype)] * prod(spec.shape)
        elif isinstance(spec, StructSpec):
            yield from flat_specs(member for _, member in spec.members)
        else:
            yield spec


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel out of the front end.

    ``bindings``: field object of each "field" buffer, by buffer name. ``returns``: dtypes of the returned values; value
    k is left in the "ret" buffer ``ret<k>``. ``returns_tuple``: the kernel returns a tuple even of one value.
    ``returns_as``: where vectors, matrices or structs are returned, the type (a tuple of types for a tuple of values)
    whose numbers, in order, ``returns`` are; else None. ``reads``: attributes of Python objects, (object, name), whose
    value the kernel was made for.
    """

    kernel: Kernel
    bindings: dict[str, Any]
    returns: tuple[DType, ...]
    returns_tuple: bool = False
    returns_as: Any = None
    reads: tuple[tuple[Any, str], ...] = ()
