"""The oracle's structs: named members, copied by assignments; in memory a view of the fields of their members."""

import types
from collections.abc import Callable, Mapping

from oracle.vectors import Vec, copied as copied_vector, of_shape


class Rec:
    """A struct value over ``store``: name -> number, vector or struct. ``methods``: functions of its type."""

    def __init__(self, store, methods: Mapping[str, Callable] | None = None) -> None:
        object.__setattr__(self, "store", store)
        object.__setattr__(self, "methods", methods or {})

    def __getattr__(self, name: str):
        if name in self.methods:
            return types.MethodType(self.methods[name], self)
        if name not in self.store:
            raise AttributeError(name)
        return self.store[name]

    def __setattr__(self, name: str, value) -> None:
        assert name in self.store, name
        self.store[name] = copied(value)


class Records:
    """A field of structs: ``members`` are the fields of its members."""

    __qd_oracle__ = True

    def __init__(self, members: dict, methods: Mapping[str, Callable] | None = None) -> None:
        self.members, self.methods = members, methods or {}

    def __getattr__(self, name: str):
        if name not in self.__dict__["members"]:
            raise AttributeError(name)
        return self.members[name]

    @property
    def shape(self):
        return next(iter(self.members.values())).shape

    def __getitem__(self, index) -> Rec:
        return Rec(_Live(self, index), self.methods)

    def __setitem__(self, index, value) -> None:
        for name in self.members:
            self.members[name][index] = value.store[name]

    def __iter__(self):
        return iter(next(iter(self.members.values())))


class _Live:
    """The members of one element in memory."""

    def __init__(self, of: Records, index) -> None:
        self.of, self.index = of, index

    def __contains__(self, name: str) -> bool:
        return name in self.of.members

    def __iter__(self):
        return iter(self.of.members)

    def __getitem__(self, name: str):
        return self.of.members[name][self.index]

    def __setitem__(self, name: str, value) -> None:
        self.of.members[name][self.index] = value


def copied(value):
    """A copy of a struct or vector; any other value unchanged."""
    if isinstance(value, Rec):
        return Rec({name: copied(value.store[name]) for name in value.store}, value.methods)
    return copied_vector(value)


def struct_type(methods: Mapping[str, Callable] | None = None, **members: Callable) -> Callable:
    """``qd.types.struct``: called with members by position or name; those left out are zeros."""

    def make(*args, **given) -> Rec:
        if len(args) == 1 and isinstance(args[0], Rec):
            return copied(args[0])
        given.update(zip(members, args, strict=False))
        assert set(given) <= set(members)
        return Rec({name: declared(given.get(name, 0)) for name, declared in members.items()}, make.methods)

    make.methods = methods or {}
    return make


def record_class(cls: type) -> Callable:
    """``qd.dataclass``: annotations are members, functions methods."""
    methods = {name: fn for name, fn in vars(cls).items() if isinstance(fn, types.FunctionType)}
    return struct_type(methods, **cls.__annotations__)


def struct(**members) -> Rec:
    """``qd.Struct``: the values fix the members."""
    return Rec({name: copied(Vec.of(value)) for name, value in members.items()})


def vector_type(n: int, dtype: Callable) -> Callable:
    return of_shape((n,), dtype)


def matrix_type(n: int, m: int, dtype: Callable) -> Callable:
    return of_shape((n, m), dtype)
