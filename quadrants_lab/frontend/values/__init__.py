"""Defines the classes of values: what an expression of a kernel is while it is lowered. The module `value` has
their common protocol; other modules have arithmetic on values, and places (variables or elements to which values
are written)."""

from quadrants_lab.frontend.values.compound import (
    PASSED,
    STATIC_VARIABLE,
    Container,
    Dict,
    List,
    Matrix,
    Struct,
    Tuple,
    View,
)
from quadrants_lab.frontend.values.constant import BoundMethod, Grouped, NdRange, Obj, Range
from quadrants_lab.frontend.values.memory import Element, Mem, Shape, StructMem
from quadrants_lab.frontend.values.number import ArgRef, Lit, Num, Number, Temp
from quadrants_lab.frontend.values.tile import Outer, Slab, Tile
from quadrants_lab.frontend.values.value import Value

__all__ = [
    "PASSED", "STATIC_VARIABLE", "ArgRef", "BoundMethod", "Container", "Dict", "Element", "Grouped", "List", "Lit",
    "Matrix", "Mem", "NdRange", "Num", "Number", "Obj", "Outer", "Range", "Shape", "Slab", "Struct", "StructMem",
    "Temp", "Tile", "Tuple", "Value", "View",
]  # fmt: skip
