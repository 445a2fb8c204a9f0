"""Implements fields of structs, which have a field for each member, and their elements outside of kernels."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from quadrants_lab.errors import QuadrantsKeyError, QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import DType
from quadrants_lab.lang.dense import Field
from quadrants_lab.lang.derivatives import NoDerivative
from quadrants_lab.lang.dtypes import Shape
from quadrants_lab.lang.exchange import from_torch
from quadrants_lab.lang.fields import field
from quadrants_lab.lang.struct import MemberError, Struct, StructType, as_mapping, as_member, make_struct


def _of_first(name: str, doc: str) -> Any:
    """A property of a field of structs that returns the attribute of the same name of its first member."""
    return property(lambda self: getattr(self._first(), name), doc=doc)


class StructField:
    """A field of structs; made by ``S.field`` of a struct type S, or `qd.Struct.field`.

    ``members`` are fields, or fields of structs, which all have the same shape; each member is also an attribute.
    ``x[i]`` is a `Struct` over the memory: writing to its members writes to ``x``. ``x[i] = value`` takes a struct or a
    dict.
    """

    __qd_struct_field__ = True

    def __init__(self, struct_type: StructType, members: dict[str, Field | StructField], name: str = "") -> None:
        self.struct_type = struct_type
        self.members = members
        self.name = name

    def _first(self) -> Field | StructField:
        return next(iter(self.members.values()))

    def leaf_fields(self) -> Iterator[Field]:
        """The fields of numbers, vectors and matrices of which this field consists."""
        for member in self.members.values():
            yield from member.leaf_fields()

    shape = _of_first("shape", "The shape of all members.")
    offset = _of_first("offset", "The offset of all members.")
    dtype = _of_first("dtype", "The dtype of the first member, as in Quadrants; each member has its own.")
    layout = _of_first("layout", "None: memory is row-major, a field for each member.")
    snode = _of_first("snode", "The node in which the field is placed.")
    keys = property(lambda self: list(self.members), doc="The names of the members.")
    methods = property(lambda self: self.struct_type.methods)
    placed = property(lambda self: all(m.placed for m in self.members.values()))
    grad = property(lambda self: self._companions("grad"), doc="The gradients of the members; false if none has one.")
    dual = property(lambda self: self._companions("dual"), doc="The duals of the members; false if none has one.")

    def to_dlpack(self, versioned: bool = False) -> NoReturn:
        """Raises an error: each member has memory of its own, and therefore a capsule of its own."""
        raise NotImplementedError("a field of structs has no single capsule: call to_dlpack() of its members")

    def parent(self, n: int = 1) -> Any:
        """The node that it is placed in, or one n - 1 levels above it."""
        return self._first().parent(n)

    def _companions(self, which: str) -> Any:
        found = {name: getattr(member, which) for name, member in self.members.items()}
        kept = {name: made for name, made in found.items() if made}
        if not kept:
            return NoDerivative(self, which) if any(made is not None for made in found.values()) else None
        declared = self.struct_type.members
        kind = StructType({name: declared[name] for name in kept}, {})
        return StructField(kind, kept, self.name and f"{self.name}.{which}")

    def has_grad(self) -> bool:
        """Whether every member that can have a gradient has one."""
        return self._all_have("grad")

    def has_dual(self) -> bool:
        """Whether every member that can have a dual has one."""
        return self._all_have("dual")

    def _all_have(self, which: str) -> bool:
        reals = [m for m in self.members.values() if getattr(m, which) is not None]
        return bool(reals) and all(getattr(m, f"has_{which}")() for m in reals)

    def get_member_field(self, key: str) -> Field | StructField:
        """The field of a member; KeyError if there is none."""
        return self.members[key]

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("members", {})
        if name in members:
            return members[name]
        raise AttributeError(f"field of structs with members {', '.join(members)} has no {name!r}")

    def __getitem__(self, key: Any) -> Struct:
        self._first()[key]  # raises the error for a wrong index at once
        return make_struct(self.struct_type, _Entries(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        given = as_mapping(value)
        if given is None or set(given) != set(self.members):
            what = f"{self!r} takes a struct or dict of {', '.join(self.members)}, not {value!r}"
            raise QuadrantsRuntimeTypeError(what, code="QL2016")
        made = self.struct_type(**given)  # errors for wrong values come before anything is written
        for name, member in self.members.items():
            member[key] = made[name]

    def fill(self, val: Any) -> None:
        """Writes a number to every entry, or a struct or dict to every element."""
        given = as_mapping(val)
        whole = val if given is None else {name: given[name] for name in self.members}
        made = as_member(self.struct_type, whole, self.name)
        for name, member in self.members.items():
            member.fill(made[name])

    def to_numpy(self, *, copy: bool | None = True) -> dict[str, Any]:
        """The data of each member, by name; ``copy`` as for fields."""
        return {name: member.to_numpy(copy=copy) for name, member in self.members.items()}

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> dict[str, Any]:
        """The data of each member as a torch tensor, by name."""
        return {name: member.to_torch(device, copy=copy) for name, member in self.members.items()}

    def from_torch(self, array_dict: Mapping[str, Any]) -> None:
        """Copies a dict as `to_torch` returns it."""
        self._copy(array_dict, from_torch)

    def from_numpy(self, array_dict: Mapping[str, Any]) -> None:
        """Copies a dict as `to_numpy` returns it."""
        self._copy(array_dict)

    def _copy(self, arrays: Mapping[str, Any], convert: Callable[[Any], Any] = lambda array: array) -> None:
        """Copies arrays, after ``convert``, into the members; writes nothing if one of them does not fit."""
        fitting = [(target, target._checked_array(convert(array))) for target, array in self._pairs(arrays)]
        with np.errstate(over="ignore"):
            for target, array in fitting:
                target._assign(array)

    def _pairs(self, arrays: Mapping[str, Any]) -> Iterator[tuple[Field, Any]]:
        """The pairs (field of numbers, vectors or matrices; its array), also for members of nested structs."""
        given = as_mapping(arrays)
        if given is None or not set(self.members) <= set(given):
            shown = f"an object of type {type(arrays).__name__}" if given is None else list(given)
            what = f"{self!r} takes a dict with an array for each of {', '.join(self.members)}, not {shown}"
            raise QuadrantsKeyError(what, code="QL2012")
        for name, member in self.members.items():
            yield from member._pairs(given[name])

    def copy_from(self, other: StructField) -> None:
        """Copies the data of a field of structs with the same members and shape."""
        if not isinstance(other, StructField) or set(other.members) != set(self.members):
            raise QuadrantsRuntimeTypeError(f"{self!r} cannot copy from {other!r}", code="QL2012")
        for name, member in self.members.items():
            member.copy_from(other.members[name])  # type: ignore[arg-type]  # both are of one kind

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        shape = self.shape if self.placed else "not placed"
        return f"<qd.Struct.field{name}: {', '.join(self.members)} {shape}>"


class _Entries(UserDict[str, Any]):
    """A mapping from the names of members to their values in one element. Values are read from and written to memory;
    ``data`` has the fields by name."""

    def __init__(self, field: StructField, key: Any) -> None:
        self.data = field.members
        self.key = key

    def __getitem__(self, name: str) -> Any:
        return self.data[name][self.key]

    def __setitem__(self, name: str, value: Any) -> None:
        self.data[name][self.key] = value


def _has_reals(declared: Any) -> bool:
    """Whether a value of this type contains a floating-point number."""
    if isinstance(declared, StructType):
        return any(map(_has_reals, declared.members.values()))
    return (declared if isinstance(declared, DType) else declared.value_dtype()).is_float


def make_struct_field(
    struct_type: StructType, shape: Shape | None = None, name: str = "", **options: Any
) -> StructField:
    """``S.field(shape)``: a field of structs of type S; arguments as of `qd.field`. MemberError without members.
    Members that are integers get no gradient and no dual, unless all are."""
    if not struct_type.members:
        raise MemberError("a struct without members has no field", code="QL2029", help="give it a member")
    constant = {k: v for k, v in options.items() if k not in ("needs_grad", "needs_dual")}
    reals = _has_reals(struct_type)
    members: dict[str, Field | StructField] = {}
    for member, declared in struct_type.members.items():
        make: Any = partial(field, declared) if isinstance(declared, DType) else declared.field
        given = options if _has_reals(declared) or not reals else constant
        members[member] = make(shape=shape, name=name and f"{name}.{member}", **given)
    return StructField(struct_type, members, name)


def struct_field(
    members: Mapping[str, Any], methods: Any = None, *args: Any, **options: Any
) -> StructField:
    """``qd.Struct.field({"a": qd.f32}, shape=n)``: a field of structs with these members and methods."""
    if not isinstance(methods, (Mapping, NoneType)):
        what = f"{methods!r} is not a dict of methods, the second argument of qd.Struct.field"
        raise QuadrantsRuntimeTypeError(what, code="QL2012", help=f"a shape is given by name: shape={methods!r}")
    return make_struct_field(StructType(members, methods or {}), *args, **options)


StructType.field = make_struct_field
Struct.field = staticmethod(struct_field)
