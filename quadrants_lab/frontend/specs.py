"""Defines descriptions of a kernel's arguments (specs), from which the front end lowers the kernel, and the result
of lowering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
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
    """A vector or matrix that is known at launch. Its elements, row by row, are the arguments ``name[0]``, ``name[1]``,
    ... of the kernel."""

    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StructSpec:
    """A struct or dataclass instance. Member ``a`` of argument ``s`` is the argument ``s.a`` of the kernel. ``type`` is
    that of `quadrants_lab.frontend.values.Struct`."""

    type: Any
    members: tuple[tuple[str, Spec], ...]


@dataclass(frozen=True, slots=True)
class NdarraySpec:
    """An array that is passed at launch, with an adjoint if ``grad``. The axes of ``element_shape`` follow the ``ndim``
    axes in memory. ``wide``: an axis has 2**31 elements or more. ``clamp``: an index that is out of bounds means the
    nearest element."""

    dtype: DType
    ndim: int
    grad: bool = False
    element_shape: tuple[int, ...] = ()
    wide: bool = False
    clamp: bool = False


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """A value that is known at compile time: a field, a number, any Python object."""

    value: Any


Spec = ScalarSpec | MatrixSpec | StructSpec | NdarraySpec | TemplateSpec


def flat_specs(specs: Iterable[Spec]) -> Iterator[Spec]:
    """The specs of scalars, arrays and templates that the specs consist of, in order."""
    for spec in specs:
        match spec:
            case MatrixSpec():
                yield from [ScalarSpec(spec.dtype)] * prod(spec.shape)
            case StructSpec():
                yield from flat_specs(member for _, member in spec.members)
            case _:
                yield spec


def without_values(spec: Spec) -> Spec:
    """The spec without the objects that were passed for templates."""
    match spec:
        case StructSpec():
            return replace(spec, members=tuple((name, without_values(member)) for name, member in spec.members))
        case TemplateSpec():
            return TemplateSpec(None)
    return spec


@dataclass(frozen=True, slots=True)
class Lowered:
    """The result of the front end.

    ``bindings`` maps the names of "field" buffers to the field objects. ``returns`` are the dtypes of the returned
    numbers; number k is stored in the "ret" buffer ``ret<k>``. ``returns_tuple``: the kernel returns a tuple, even of
    one value. ``returns_as`` is the vector, matrix or struct type that the numbers make up, or a tuple of types if the
    kernel returns several; None if it returns plain numbers. ``reads`` are pairs (object, name) of attributes on whose
    values the kernel depends.
    """

    kernel: Kernel
    bindings: Mapping[str, Any]
    returns: tuple[DType, ...]
    returns_tuple: bool = False
    returns_as: Any = None
    reads: tuple[tuple[Any, str], ...] = ()
