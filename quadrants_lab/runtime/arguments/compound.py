"""Compound arguments and results: vectors, matrices, structs and dataclasses.

A compound argument is flattened at the call. Plans, launches and records see only its leaves, which are scalars, arrays
and templates; only the front end knows the structure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from quadrants_lab.frontend.specs import MatrixSpec, Spec, StructSpec
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.arguments.signature import ArgumentError, ArraySlot, ScalarSlot, TemplateSlot


@dataclass(frozen=True, slots=True)
class MatrixSlot:
    """A vector or matrix, or nested sequences of its shape; its leaves are its elements, row by row."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    def leaves(self) -> list[Any]:
        return [ScalarSlot(f"{self.name}[{k}]", self.dtype) for k in range(prod(self.shape))]

    def flatten(self, value: Any, where: str) -> list[Any]:
        if getattr(value, "__qd_matrix__", False):
            shape, flat = tuple(value.shape), value.to_list()
            flat = flat if len(shape) == 1 else [v for row in flat for v in row]
        else:
            try:
                shape = np.shape(value) if isinstance(value, (list, tuple, np.ndarray)) else ()
            except ValueError:  # rows of several lengths
                shape = ()
            flat = np.array(value, object).reshape(-1).tolist() if shape else []  # each number keeps its type
        if shape != self.shape:
            what = f"has shape {shape}" if shape else f"is of type {type(value).__name__}"
            raise ArgumentError(
                f"argument {self.name!r} of {where} must have shape {self.shape}, it {what}", code="QL2050"
            )
        return list(flat)

    def spec(self, leaves: Iterator[Spec]) -> Spec:
        for _ in range(prod(self.shape)):
            next(leaves)
        return MatrixSpec(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class StructSlot:
    """A struct of the language, or an instance of a Python dataclass (``python``); its leaves are those of its members.
    ``type``: the struct type or class."""

    name: str
    type: Any
    members: tuple[tuple[str, AnySlot], ...]
    python: bool

    def leaves(self) -> list[Any]:
        return [leaf for _, slot in self.members for leaf in leaves(slot)]

    def flatten(self, value: Any, where: str) -> list[Any]:
        if not self._takes(value):
            raise ArgumentError(
                f"argument {self.name!r} of {where} must be a {_name(self.type)}, it is of type {type(value).__name__}",
                code="QL2051",
            )
        flat: list[Any] = []
        for name, slot in self.members:
            flat += flatten(slot, getattr(value, name), where)
        return flat

    def _takes(self, value: Any) -> bool:
        if self.python:
            return isinstance(value, self.type)
        if not getattr(value, "__qd_struct__", False):
            return False
        given: Any = value.struct_type
        return given is self.type or given.members == self.type.members

    def spec(self, leaves: Iterator[Spec]) -> Spec:
        return StructSpec(self.type, tuple((name, spec_of(slot, leaves)) for name, slot in self.members))


@dataclass(frozen=True, slots=True)
class TensorSlot:
    """A field, an array or None: `resolve_tensors` replaces it by the slot for the given argument. ``array``: the slot
    of an array; ``optional``: no field is taken."""

    name: str
    array: ArraySlot
    optional: bool


AnySlot = ScalarSlot | ArraySlot | TemplateSlot | MatrixSlot | StructSlot | TensorSlot


def resolve_tensors(slot: AnySlot, arrays: Iterator[bool]) -> AnySlot:
    """The slot with every `TensorSlot` in it replaced; ``arrays`` yields for each whether the argument is an array."""
    if isinstance(slot, TensorSlot):
        return slot.array if next(arrays) else TemplateSlot(slot.name)
    if isinstance(slot, StructSlot):
        return replace(slot, members=tuple((name, resolve_tensors(s, arrays)) for name, s in slot.members))
    return slot


def typed_slot(name: str, type: Any) -> AnySlot:
    """The slot of a dtype or a type of the language."""
    if isinstance(type, DType):
        return ScalarSlot(name, type)
    if type.__qd_type__ == "matrix":
        return MatrixSlot(name, type.dtype, tuple(type.shape))
    members = tuple((member, typed_slot(f"{name}.{member}", t)) for member, t in type.members.items())
    return StructSlot(name, type, members, False)


def leaves(slot: AnySlot) -> list[Any]:
    """The slots of the flattened argument."""
    return slot.leaves() if isinstance(slot, (MatrixSlot, StructSlot)) else [slot]


def flatten(slot: AnySlot, value: Any, where: str) -> list[Any]:
    """An argument for each leaf, not yet converted."""
    return slot.flatten(value, where) if isinstance(slot, (MatrixSlot, StructSlot)) else [value]


def spec_of(slot: AnySlot, leaves: Iterator[Spec]) -> Spec:
    """The spec of the compound argument, from those of its leaves."""
    return slot.spec(leaves) if isinstance(slot, (MatrixSlot, StructSlot)) else next(leaves)


def rebuilt(type: Any, flat: Iterator[Any]) -> Any:
    """The value of a dtype, type or tuple of them, from its flattened numbers."""
    if isinstance(type, tuple):
        return tuple(rebuilt(t, flat) for t in type)
    return next(flat) if isinstance(type, DType) else type.rebuild(list(islice(flat, leaf_count(type))))


def leaf_count(type: Any) -> int:
    """How many numbers a value of a dtype or type has."""
    if isinstance(type, DType):
        return 1
    return prod(type.shape) if type.__qd_type__ == "matrix" else sum(map(leaf_count, type.members.values()))


def _name(given: Any) -> str:
    return given.__name__ if isinstance(given, type) else repr(given)
