"""Implements `qd.sparse`: fields of structs in which an element becomes active when it is written to; and functions
that say how much of a sparse field is active and how much memory it takes."""

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.lang.dense import Field
from quadrants_lab.lang.dtypes import Shape, check_shape
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.snode import SPARSE, axes, root
from quadrants_lab.lang.struct import StructType
from quadrants_lab.lang.struct_field import StructField
from quadrants_lab.runtime.memory.memory import Celled, Memory

__all__ = ["grid", "nbytes", "trim", "usage"]


def grid(field_dict: Mapping[str, Any], shape: Shape) -> StructField:
    """A field of structs with the members ``field_dict``, placed in a bitmasked node of ``qd.root``. A loop over the
    field runs over its active elements."""
    extents = check_shape("sparse grid", shape)
    made: StructField = StructType(field_dict, {}).field()
    root.bitmasked(axes(*range(len(extents))), extents).place(made)
    return made


def usage(x: Any) -> float:
    """The share (0 to 1) of the elements of a field, or of a field of structs, that are active; 1 in a dense layout."""
    first = next(_fields(x))
    active = first._active()
    return 1.0 if active is None else len(active[0]) / prod(first.shape)


def nbytes(x: Any) -> int:
    """The bytes of memory that a field, or a field of structs, takes now. Memory that says which cells are active is
    included, gradients are not. In a sparse layout on the CPU and in C memory is counted in whole pages."""
    return sum(memory.operand.nbytes for memory in _memories(_fields(x)))


def trim(x: Any) -> None:
    """Frees those parts of the memory of a field, or of a field of structs, and of its gradients that hold only zeros.
    Cells that kernels deactivated keep their memory until this call. No other thread may launch kernels over the field
    meanwhile. Without effect on Vulkan, Metal and AMDGPU."""
    fields = list(_fields(x))
    relatives = [relative for f in fields for relative in (f.grad, f.dual) if relative]
    for memory in _memories([*fields, *relatives]):
        if isinstance(memory, Celled):
            memory.operand.trim()


def _memories(fields: Iterable[Field]) -> list[Memory]:
    """The memory of the fields, and of the activity fields of the nodes above them, each once."""
    found = {id(f): f for f in fields}
    nodes = [node for f in found.values() if f.snode is not None for node in f.snode._path()]
    found.update((id(node.activity), node.activity) for node in nodes if node.kind in SPARSE)
    return [f._memory for f in found.values()]


def _fields(x: Any) -> Iterator[Field]:
    if not isinstance(x, (Field, StructField)):
        raise QuadrantsRuntimeTypeError(f"{x!r} is not a field", code="QL2012")
    return x.leaf_fields()


def __getattr__(name: str) -> Any:
    return missing_attribute("qd.sparse", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
