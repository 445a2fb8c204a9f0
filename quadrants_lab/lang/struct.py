"""Implements struct types, `@qd.dataclass`, and structs outside of kernels."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, ItemsView, Mapping, MutableMapping, Sequence
from copy import copy
from types import MethodType
from typing import Any, ClassVar

import numpy as np

from quadrants_lab.errors import QuadrantsNameError, QuadrantsSyntaxError, QuadrantsTypeError
from quadrants_lab.frontend.source import value_of
from quadrants_lab.ir.types import DType, from_numpy
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.elsewhere import name_of_qd as __getattr__  # noqa: F401
from quadrants_lab.lang.matrix import Matrix, Named
from quadrants_lab.lang.matrix_types import MatrixType, matrix, type_name, vector
from quadrants_lab.runtime.arguments.slots import leaf_count
from quadrants_lab.runtime.memory.fitting import fitted


class StructType:
    """A type with named members, each a dtype, a vector or matrix type, or another struct type, and with ``methods``.

    A call makes a `Struct` from members by position or name; members that are left out are zeros. Types with the same
    members and methods are equal.
    """

    __qd_type__ = "struct"
    field: Callable[..., Any]  # set by the module `struct_field`

    def __init__(self, given: Mapping[str, Any], methods: Mapping[str, Any], name: str = "") -> None:
        if not isinstance(given, Mapping) or not all(isinstance(member, str) for member in given):
            what, cure = f"{given!r} is not a dict of members", "for instance {'pos': qd.math.vec3, 'mass': qd.f32}"
            raise MemberError(what, code="QL2029", help=cure)
        for member, declared in given.items():
            scalar = declared in (int, float, bool) or isinstance(declared, (DType, StructType))
            if not scalar and getattr(declared, "__qd_type__", "") != "matrix":
                raise MemberError(
                    f"{member}: {declared!r} cannot be a member of a struct",
                    code="QL2029",
                    help="members are dtypes, vector, matrix and struct types",
                )
        self._given = dict(given)
        self.methods = dict(methods)
        self.name = name

    @property
    def members(self) -> dict[str, Any]:
        """The type of each member; int and float mean the session's default dtypes."""
        return {
            name: as_dtype(t) if t in (int, float, bool) else t  # int and float mean the session's dtypes
            for name, t in self._given.items()
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Struct:
        names = list(self._given)
        unknown = [k for k in kwargs if k not in names or k in names[: len(args)]]
        if len(args) > len(names) or unknown:
            what = f"no member {unknown[0]!r} left to give" if unknown else f"{len(args)} values were given"
            raise QuadrantsTypeError(f"{self!r}: {what}", code="QL2029", help=f"it has {', '.join(names)}")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return make_struct(self, {name: as_member(t, given.get(name, 0), name) for name, t in self.members.items()})

    def rebuild(self, flat: Sequence[Any]) -> Struct:
        """The struct with these numbers, member by member."""
        members = {}
        for name, t in self.members.items():
            count = leaf_count(t)
            members[name] = flat[0] if isinstance(t, DType) else t.rebuild(flat[:count])
            flat = flat[count:]
        return make_struct(self, members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructType) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return tuple(self._given.items()), tuple(self.methods.items())

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={type_name(t)}" for k, t in self._given.items())
        return self.name or f"qd.types.struct({inner})"


class MemberError(QuadrantsTypeError, ValueError):
    """An object that cannot be a member of a struct."""


class Struct(metaclass=Named):
    """Named values: ``qd.Struct(a=1, b=[1.0, 2.0])``, or a value of a struct type.

    Members are attributes and items. They keep their types: values that are written to them are converted.
    """

    field: ClassVar[Callable[..., Any]]  # set by the module `struct_field`
    struct_type: StructType
    _entries: MutableMapping[str, Any]

    def __new__(cls, entries: Mapping[str, Any] | None = None, /, **members: Any) -> Struct:
        given = {**(entries or {}), **members}
        values = {name: _member_value(value, name) for name, value in given.items()}
        return make_struct(StructType({name: type_of(value) for name, value in values.items()}, {}), values)

    @property
    def members(self) -> dict[str, Any]:
        """The values by name."""
        return dict(self._entries)

    entries = members  # Quadrants' name for it

    @property
    def keys(self) -> list[str]:
        return list(self._entries)

    @property
    def items(self) -> ItemsView[str, Any]:
        return self.members.items()

    @property
    def methods(self) -> dict[str, Any]:
        return self.struct_type.methods

    def to_dict(self) -> dict[str, Any]:
        """The members as numbers, nested lists and dicts."""
        return {name: _plain(value) for name, value in self.members.items()}

    def __getattr__(self, name: str) -> Any:
        entries = self.__dict__.get("_entries", {})
        if name in entries:
            return entries[name]
        methods = self.struct_type.methods if entries else {}
        if name in methods:
            return MethodType(methods[name], self)
        raise AttributeError(f"struct with members {', '.join(entries)} has no {name!r}")

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._entries:
            raise AttributeError(f"struct with members {', '.join(self._entries)} has no {name!r}")
        self._entries[name] = as_member(self.struct_type.members[name], value, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __repr__(self) -> str:
        return str(self.to_dict())

    def __reduce__(self) -> tuple[Any, ...]:
        return make_struct, (self.struct_type, {name: copy(value) for name, value in self._entries.items()})


def make_struct(type: StructType, entries: MutableMapping[str, Any]) -> Struct:
    """A struct of the given type, whose members are in the mapping ``entries``, which is not copied."""
    made: Struct = object.__new__(Struct)
    made.__dict__.update(__qd_struct__=True, struct_type=type, _entries=entries)
    return made


def struct(**members: Any) -> StructType:
    """``qd.types.struct(pos=vec3, mass=qd.f32)``: a struct type. ``__struct_methods``: a dict of methods."""
    methods = members.pop("__struct_methods", {})
    return StructType(members, methods)


def dataclass(cls: type) -> StructType:
    """Makes a struct type from a class: its annotations are the members, its functions the methods."""
    frame = sys._getframe(1)
    members = {}
    for name, given in inspect.get_annotations(cls).items():
        if isinstance(given, str):
            module = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
            try:
                given = value_of(given, module, frame.f_globals, frame.f_locals)
            except Exception as e:
                what = f"the annotation of {cls.__name__}.{name} cannot be evaluated: {e}"
                raise QuadrantsNameError(what, code="QL2029") from None
        members[name] = given
    methods = {}
    for name, value in vars(cls).items():
        if name in members:
            what = f"{cls.__name__}.{name}: members have no default values"
            raise QuadrantsSyntaxError(what, code="QL2029", help="they are zeros")
        if callable(value) and not (name.startswith("__") and name.endswith("__")):
            methods[name] = value
    return StructType(members, methods, cls.__name__)


def as_member(type: Any, value: Any, name: str) -> Any:
    """``value`` converted to the type of a member. A number is broadcast to all elements of a vector, matrix or struct.
    ``name`` is the name of the member, for errors."""
    match type, value:
        case DType(), bool() | int() | float() | np.generic():
            return fitted(value, type, f"member '{name}'", whole=True)
        case StructType(), bool() | int() | float() | np.generic():
            return make_struct(type, {n: as_member(t, value, n) for n, t in type.members.items()})
        case StructType(), _ if (given := as_mapping(value)) is not None:
            return type(**given)
        case MatrixType(), _:
            return type(value)
    raise QuadrantsTypeError(f"{name} is {type}, not an object of type {value.__class__.__name__}", code="QL2029")


def as_mapping(value: Any) -> Mapping[Any, Any] | None:
    """The members by name of a struct, or a dict itself; None for any other object."""
    match value:
        case Struct():
            return value.members
        case Mapping():
            return value
    return None


def _member_value(value: Any, name: str) -> Any:
    """The value of a member of a `Struct` that is made without a type."""
    match value:
        case Mapping():
            return Struct(value)
        case list() | tuple() | np.ndarray():
            return Matrix(value)
        case bool() | int() | float() | np.generic() | Matrix() | Struct():
            return value
    what = f"{name}: a struct cannot hold an object of type {type(value).__name__}"
    raise QuadrantsTypeError(what, code="QL2029")


def type_of(value: Any) -> Any:
    """The type of a number, vector, matrix or struct; Python's numbers get the session's default dtypes."""
    match value:
        case Matrix():
            kinds: dict[str, type] = {"f": float, "b": bool}
            given: Any = value.dtype or kinds.get(value.entries.dtype.kind, int)
            return vector(value.n, given) if value.ndim == 1 else matrix(value.n, value.m, given)
        case Struct():
            return value.struct_type
        case np.generic():
            return from_numpy(value.dtype)
    return type(value)


def _plain(value: Any) -> Any:
    match value:
        case Matrix():
            return value.to_list()
        case Struct():
            return value.to_dict()
    return value
