"""What an expression can be while it is lowered: a value of the running kernel, or something known already."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Union

from quadrants_lab.ir.nodes import Buffer
from quadrants_lab.ir.types import DType

# ``fixed`` says in words what a name stands for that cannot be assigned ("" for a local variable).


@dataclass(slots=True, eq=False)
class Num:
    """An SSA value."""

    id: int
    type: DType
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Lit:
    """A number known at compile time; it takes its dtype only where it meets the running kernel."""

    value: Any  # bool, int or float
    node: ast.AST | None = None
    fixed: str = ""


@dataclass(slots=True, eq=False)
class ArgRef:
    """A scalar argument of the kernel."""

    name: str
    type: DType


@dataclass(slots=True, eq=False)
class Matrix:
    """A vector, of ``shape`` (n,), or a matrix, of shape (n, m): its elements row by row, all of one dtype or all
    literals. It is a value: changing an element of a local makes a new one."""

    shape: tuple[int, ...]
    elements: tuple[Num | Lit, ...]
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Struct:
    """A value with named members, in order; ``type`` is the object that describes it (`quadrants_lab.lang`)."""

    type: Any
    members: dict[str, Value]
    fixed: str = ""


@dataclass(slots=True, eq=False)
class Mem:
    """A field or ndarray; ``text`` is how the program calls it. The last ``len(element_shape)`` axes of the buffer are
    those of one element; ``offset`` is the first index of each of the others (() for zeros)."""

    buffer: Buffer
    text: str
    element_shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Temp:
    """A local of the kernel inside a parallel loop that accumulates into it; ``init`` is its value before the loop."""

    buffer: Buffer
    name: str


@dataclass(slots=True, eq=False)
class Shape:
    """The shape of an ndarray: its axes are read at launch."""

    buffer: Buffer


@dataclass(slots=True, eq=False)
class Obj:
    """Any other Python object: dtype, function, module, string, None, container of constants."""

    value: Any
    text: str = ""


@dataclass(slots=True, eq=False)
class Range:
    """``range(begin, end, step)``, with ``step`` None where it is 1."""

    begin: Value
    end: Value
    step: Value | None


@dataclass(slots=True, eq=False)
class NdRange:
    """``qd.ndrange``: begin and end an axis."""

    axes: tuple[tuple[Value, Value], ...]


Value = Union[Num, Lit, Matrix, Struct, ArgRef, Mem, Temp, Shape, Obj, Range, NdRange, "tuple[Any, ...]"]


def name_of(node: ast.AST) -> str:
    """The dotted name that an expression spells, or its source."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return ast.unparse(node)
