"""`qd.sparse`: fields of structs whose elements are active once they are written to, and how many are."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.lang.dense import Field
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.lang.shapes import Shape, check_shape
from quadrants_lab.lang.snode import SPARSE, axes, root
from quadrants_lab.lang.struct import struct
from quadrants_lab.lang.struct_field import StructField

__all__ = ["grid", "nbytes", "usage"]


def grid(field_dict: Mapping[str, Any], shape: Shape) -> StructField:
    """A field of structs with these members, placed in a bitmasked node of ``qd.root``. A loop over it runs over the
    elements that are active."""
    extents = check_shape("sparse grid", shape)
    made: StructField = struct(**field_dict).field()
    root.bitmasked(axes(*range(len(extents))), extents).place(made)
    return made


def usage(x: Any) -> float:
    """The share of the elements of a field, or of a field of structs, that are active; 1 in a dense layout."""
    first = next(_fields(x))
    active = first._active()
    return 1.0 if active is None else len(active[0]) / prod(first.shape)


def nbytes(x: Any) -> int:
    """The bytes of memory that a field, or a field of structs, takes now, with those that say which of its cells are
    active, and without those of gradients. In a sparse layout on the CPU they are whole pages of memory."""
    fields = {id(f): f for f in _fields(x)}
    nodes = [node for f in fields.values() if f.snode is not None for node in f.snode._path()]
    fields.update((id(node.activity), node.activity) for node in nodes if node.kind in SPARSE)
    return sum(f._memory.operand.nbytes for f in fields.values())


def _fields(x: Any) -> Iterator[Field]:
    if isinstance(x, StructField):
        for member in x.members.values():
            yield from _fields(member)
    elif isinstance(x, Field):
        yield x
    else:
        raise QuadrantsRuntimeTypeError(f"{x!r} is not a field", code="QL2012")


def __getattr__(name: str) -> Any:
    return missing_attribute("qd.sparse", name, globals())
