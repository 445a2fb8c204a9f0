"""Defines slots: a slot says what a kernel's parameter accepts, checks and converts an argument, and gives the
argument's part of a specialisation's key.

A compound argument (a vector, matrix, struct or dataclass) is flattened at the call into its leaves, which are scalars,
arrays and templates. Plans, launches and records see only leaves; only the front end knows the structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Any, ClassVar, Literal, cast

import numpy as np

from quadrants_lab.frontend.specs import MatrixSpec, NdarraySpec, ScalarSpec, Spec, StructSpec, TemplateSpec
from quadrants_lab.ir import types as T
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.arguments.keys import Named, template_key
from quadrants_lab.runtime.memory.fitting import fitting
from quadrants_lab.runtime.memory.refusals import COPY, cure, no_dtype, refusal, shown


class _Slot:
    """A slot that is its own only leaf. Slots of compound arguments override these methods."""

    __slots__ = ()

    def leaves(self) -> list[Any]:
        """The slots of the flattened argument."""
        return [self]

    def flatten(self, value: Any, where: str) -> list[Any]:
        """The leaves of an argument, before they are converted. ``where``: the argument in words, for errors."""
        return [value]

    def whole(self, leaves: Iterator[Spec]) -> Spec:
        """The spec (description for the front end) of the whole argument, made from the specs of its leaves."""
        return next(leaves)

    def resolved(self, arrays: Iterator[bool]) -> AnySlot:
        """This slot, in which every `TensorSlot` is replaced by the slot for the given kind of argument. ``arrays``
        says for each of them whether the argument is an array."""
        return cast("AnySlot", self)


@dataclass(frozen=True, slots=True)
class ScalarSlot(_Slot):
    """A scalar: a number of Python or numpy; an integer in range for an integer dtype, any real number for a float."""

    kind: ClassVar[Literal["scalar"]] = "scalar"
    name: str
    dtype: DType

    def convert(self, value: Any, where: str) -> Any:
        try:
            return fitting(value, self.dtype)
        except (TypeError, OverflowError) as e:
            given, what = f", {shown(value)} is given" if shown(value) else "", f"argument {self.name!r} of {where}"
            raise refusal("QL2040", what, cure(value, self.dtype), dtype=self.dtype, given=given, why=e) from None

    def spec(self, value: Any, named: Named | None = None) -> tuple[Any, Spec]:
        return None, ScalarSpec(self.dtype)


@dataclass(frozen=True, slots=True)
class ArraySlot(_Slot):
    """A numpy array, or an ndarray of the language. ``dtype``, ``ndim`` and ``grad`` are None if the annotation allows
    any.

    ``element``: the shape of the elements, with None for extents that may be any; () for numbers or, if ``dtype`` is
    None, for elements of any shape. In a numpy array the last axes are those of the elements. ``clamp``: an index that
    is out of bounds stands for the nearest element.
    """

    kind: ClassVar[Literal["array"]] = "array"
    name: str
    dtype: DType | None
    ndim: int | None
    grad: bool | None
    element: tuple[int | None, ...] = ()
    clamp: bool = False

    def convert(self, value: Any, where: str) -> Any:
        what, foreign = f"argument {self.name!r} of {where}", isinstance(value, np.ndarray)
        if getattr(value, "__qd_ndarray__", False):
            if value.grad is None and self.grad:
                raise refusal("QL2041", what)
            given: DType | None = value.dtype
        elif foreign:
            given = T.from_numpy(value.dtype)
            if given is None:
                raise no_dtype(what, value.dtype)
            if isinstance(value, np.ma.MaskedArray):
                flaw = "a masked array, and kernels do not see its mask"
                raise refusal("QL2043", what, "x.filled(...), or x.data, and x.mask beside it", flaw=flaw)
            if not value.flags.c_contiguous or not value.flags.aligned:
                flaw, copy = "aligned", "x.copy()"  # np.ascontiguousarray would not copy an unaligned array
                if not value.flags.c_contiguous:
                    flaw, copy = "C-contiguous", "np.ascontiguousarray(...)"
                raise refusal("QL2043", what, copy + COPY, flaw=f"a numpy array that is not {flaw}")
        else:
            kind, hint = f"of type {type(value).__name__}", "np.asarray(...) makes one"
            if getattr(value, "__qd_field__", False):
                kind, hint = "a field", "pass a field as a qd.template() argument"
            raise refusal("QL2044", what, hint, given=kind)
        if self.dtype is not None and given is not self.dtype:
            hint = f"pass x.astype(np.{np.dtype(self.dtype.numpy).name})" if foreign else ""
            raise refusal("QL2045", what, hint, wanted=self.dtype, given=given)
        ndim = len(value.shape)
        wanted = ndim if self.ndim is None else self.ndim + len(self.element) * foreign
        if ndim != wanted:
            axes = f"{wanted} ax{'i' if wanted == 1 else 'e'}s"
            raise refusal("QL2046", what, wanted=axes, given=value.shape)
        element = value.shape[ndim - len(self.element) :] if foreign else value.element_shape
        if (self.element or self.dtype) and not self._fits(element):
            raise refusal("QL2047", what, wanted=self.element, given=element)
        return value

    def _fits(self, element: tuple[int, ...]) -> bool:
        pairs = zip(self.element, element, strict=False)
        return len(element) == len(self.element) and all(wanted in (None, n) for wanted, n in pairs)

    def spec(self, value: Any, named: Named | None = None) -> tuple[Any, Spec]:
        foreign = isinstance(value, np.ndarray)
        dtype: Any = T.from_numpy(value.dtype) if foreign else value.dtype
        grad = not foreign and value.grad is not None and self.grad is not False
        ndim = len(value.shape) - len(self.element) * foreign
        element = value.shape[ndim:] if foreign else value.element_shape
        wide = is_wide(value.shape)
        return (dtype, ndim, grad, element, wide), NdarraySpec(dtype, ndim, grad, element, wide, self.clamp)


@dataclass(frozen=True, slots=True)
class TemplateSlot(_Slot):
    """A compile-time argument: a field, a function of the language, or a value."""

    kind: ClassVar[Literal["template"]] = "template"
    name: str

    def convert(self, value: Any, where: str) -> Any:
        return value

    def spec(self, value: Any, named: Named | None = None) -> tuple[Any, Spec]:
        return template_key(value, named), TemplateSpec(value)


Slot = ScalarSlot | ArraySlot | TemplateSlot


def specialise(slots: Sequence[Slot], args: Sequence[Any], named: Named) -> tuple[tuple[Any, ...], tuple[Spec, ...]]:
    """The key and the specs of the specialisation that serves ``args``. ``named`` gets the objects that the key
    mentions."""
    pairs = [slot.spec(arg, named) for slot, arg in zip(slots, args, strict=True)]
    return tuple(k for k, _ in pairs), tuple(s for _, s in pairs)


def is_wide(shape: Sequence[int]) -> bool:
    """Whether an index may exceed i32; such arrays need code of their own."""
    return any(n >> 31 for n in shape)


@dataclass(frozen=True, slots=True)
class MatrixSlot(_Slot):
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
            except ValueError:  # rows of different lengths
                shape = ()
            flat = np.array(value, object).reshape(-1).tolist() if shape else []  # each number keeps its type
        if shape != self.shape:
            given = f"has shape {shape}" if shape else f"is of type {type(value).__name__}"
            raise refusal("QL2050", f"argument {self.name!r} of {where}", wanted=self.shape, given=given)
        return list(flat)

    def whole(self, leaves: Iterator[Spec]) -> Spec:
        for _ in range(prod(self.shape)):
            next(leaves)
        return MatrixSpec(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class StructSlot(_Slot):
    """A struct of the language, or a Python dataclass (``python``), of class ``type``; its leaves are its members'
    leaves."""

    name: str
    type: Any
    members: tuple[tuple[str, AnySlot], ...]
    python: bool

    def leaves(self) -> list[Any]:
        return [leaf for _, slot in self.members for leaf in slot.leaves()]

    def flatten(self, value: Any, where: str) -> list[Any]:
        if not self._takes(value):
            wanted = self.type.__name__ if isinstance(self.type, type) else repr(self.type)
            raise refusal("QL2051", f"argument {self.name!r} of {where}", wanted=wanted, given=type(value).__name__)
        flat: list[Any] = []
        for name, slot in self.members:
            flat += slot.flatten(getattr(value, name), where)
        return flat

    def _takes(self, value: Any) -> bool:
        if self.python:
            return isinstance(value, self.type)
        if not getattr(value, "__qd_struct__", False):
            return False
        given: Any = value.struct_type
        return given is self.type or given.members == self.type.members

    def whole(self, leaves: Iterator[Spec]) -> Spec:
        return StructSpec(self.type, tuple((name, slot.whole(leaves)) for name, slot in self.members))

    def resolved(self, arrays: Iterator[bool]) -> AnySlot:
        return replace(self, members=tuple((name, slot.resolved(arrays)) for name, slot in self.members))


@dataclass(frozen=True, slots=True)
class TensorSlot(_Slot):
    """A field, an array or None: `resolved` replaces this slot by one for the given argument. ``array``: the slot for
    an array; ``optional``: the argument is an array or None."""

    name: str
    array: ArraySlot
    optional: bool

    def resolved(self, arrays: Iterator[bool]) -> AnySlot:
        return self.array if next(arrays) else TemplateSlot(self.name)


AnySlot = ScalarSlot | ArraySlot | TemplateSlot | MatrixSlot | StructSlot | TensorSlot


def typed_slot(name: str, type: Any) -> AnySlot:
    """The slot of the parameter ``name`` that is annotated with a dtype or a type of the language."""
    if isinstance(type, DType):
        return ScalarSlot(name, type)
    if type.__qd_type__ == "matrix":
        return MatrixSlot(name, type.dtype, tuple(type.shape))
    members = tuple((member, typed_slot(f"{name}.{member}", t)) for member, t in type.members.items())
    return StructSlot(name, type, members, False)


def rebuilt(type: Any, flat: Iterator[Any]) -> Any:
    """A value of a dtype, type or tuple of types, made from its flattened numbers."""
    if isinstance(type, tuple):
        return tuple(rebuilt(t, flat) for t in type)
    return next(flat) if isinstance(type, DType) else type.rebuild(list(islice(flat, leaf_count(type))))


def leaf_count(type: Any) -> int:
    """How many numbers a value of a dtype or type has."""
    if isinstance(type, DType):
        return 1
    return prod(type.shape) if type.__qd_type__ == "matrix" else sum(map(leaf_count, type.members.values()))
