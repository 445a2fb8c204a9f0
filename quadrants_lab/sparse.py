"""`qd.sparse`: fields of structs whose elements are active once they are written to, and how many are."""

from collections.abc import Mapping
from math import prod
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.lang.shapes import Shape, check_shape
from quadrants_lab.lang.snode import axes, root
from quadrants_lab.lang.struct import struct
from quadrants_lab.lang.struct_field import StructField

__all__ = ["grid", "usage"]


def grid(field_dict: Mapping[str, Any], shape: Shape) -> StructField:
    """A field of structs with these members, placed in a bitmasked node of ``qd.root``. A loop over it runs over the
    elements that are active."""
    extents = check_shape("sparse grid", shape)
    made: StructField = struct(**field_dict).field()
    root.bitmasked(axes(*range(len(extents))), extents).place(made)
    return made


def usage(x: Any) -> float:
    """The share of the elements of a field, or of a field of structs, that are active; 1 in a dense layout."""
    while isinstance(x, StructField):
        x = next(iter(x.members.values()))
    if getattr(x, "__qd_field__", False) is not True:
        raise QuadrantsRuntimeTypeError(f"{x!r} is not a field", code="QL2012")
    active = x._active()
    return 1.0 if active is None else len(active[0]) / prod(x.shape)


def __getattr__(name: str) -> Any:
    return missing_attribute("qd.sparse", name, globals())
