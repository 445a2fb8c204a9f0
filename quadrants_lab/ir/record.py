"""Defines a `dataclass` like Python's own that takes less time to import: methods are compiled when they are first
called, `__init__` after some calls.

Python compiles three to six functions for each data class while its module is imported, and searches annotations
with regular expressions. This package has many data classes, of which a process uses few, so this took most of the
time of its import.
"""

import dataclasses
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from types import CodeType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar

__all__ = ["compiling", "dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True
    ) -> Any:
        """Decorates a data class. `dataclasses.fields` and `replace` accept the result. A subclass of a frozen
        class must be decorated with this, too, because Python's own decorator does not take the base for frozen."""
        if cls is None:
            return partial(dataclass, frozen=frozen, slots=slots, eq=eq, repr=repr)
        home: list[type] = []  # the class that is made, which methods need when they are first called
        fields = _fields(cls)
        attributes: dict[str, Any] = {
            "__doc__": cls.__doc__ or cls.__name__,  # otherwise Python computes a signature for it
            "__dataclass_fields__": fields, "__dataclass_params__": _PLAIN.__dataclass_params__,
            "__match_args__": tuple(f.name for f in fields.values() if f.init and not f.kw_only),
        }  # fmt: skip
        methods: dict[str, Any] = {"__repr__": _repr} if repr else {}
        if eq:
            hashing = compiling("__hash__", _hash, home) if frozen else None
            methods |= {"__eq__": compiling("__eq__", _eq, home), "__hash__": hashing}
        if frozen and slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
        attributes |= {name: method for name, method in methods.items() if vars(cls).get(name) is None}
        attributes["__init__"] = _first_init(frozen, home)
        if frozen:
            attributes |= {"__setattr__": _keep, "__delattr__": _keep}
        home.append(_with_slots(cls, fields, attributes) if slots else _with(cls, attributes))
        return home[0]


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Plain:
    """A data class made by Python's own decorator, from which this module copies the attributes that all data classes
    have."""

    field: int


_PLAIN: Any = _Plain
_NONE = dataclasses.MISSING
_FIRST = 12  # instances that are made without a compiled `__init__`: as many as take less time than compiling it
_OF_BASES = (MemberDescriptorType, property)  # no defaults, though a base has them under a field's name
_FIELD = _PLAIN.__dataclass_fields__["field"]._field_type  # the mark by which `dataclasses.fields` knows a field


def _fields(cls: Any) -> dict[str, Any]:
    """The fields of the class and of its bases, as `dataclasses.fields` and `replace` need them. Defaults stay as
    attributes of the class."""
    found: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        found |= vars(base).get("__dataclass_fields__", {})
    for name, kind in cls.__annotations__.items():
        default = getattr(cls, name, dataclasses.MISSING)
        if getattr(kind, "__origin__", None) is ClassVar or (type(kind) is str and kind.startswith("ClassVar[")):
            continue
        f: Any
        if isinstance(default, dataclasses.Field):
            f = default
            if f.default is not dataclasses.MISSING:
                setattr(cls, name, f.default)
            elif name in vars(cls):
                delattr(cls, name)
        else:
            f = dataclasses.field(default=dataclasses.MISSING if type(default) in _OF_BASES else default)
        f.name, f.type, f._field_type = name, kind, _FIELD
        f.kw_only = f.kw_only is True
        found[name] = f
    return found


def _with(cls: Any, attributes: dict[str, Any]) -> Any:
    for name, value in attributes.items():
        setattr(cls, name, value)
    return cls


def _with_slots(cls: Any, fields: Iterable[str], attributes: dict[str, Any]) -> Any:
    """A copy of the class with these attributes, and a slot for each field for which its bases have none. Python takes
    longer to change a class than to make it."""
    replaced = {*fields, "__dict__", "__weakref__"}
    body = {name: value for name, value in vars(cls).items() if name not in replaced}
    taken = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    body |= attributes
    body["__slots__"] = tuple(name for name in fields if name not in taken)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


Source = Callable[[tuple[Any, ...], dict[str, Any]], str]  # fields, globals -> a method's source


@lru_cache(256)
def _code(source: str) -> CodeType:
    """The source as compiled code, cached by its text: functions with equal texts are made often (for plans of equal
    signatures), and compilation is slow."""
    return compile(source, "<made by quadrants_lab>", "exec")


def function(name: str, source: str, space: dict[str, Any]) -> Callable[..., Any]:
    """The function of that name which the source defines, with ``space`` as its globals."""
    exec(_code(source), space)
    made: Callable[..., Any] = space[name]
    return made


def _first_init(frozen: bool, home: list[type]) -> Callable[..., Any]:
    """An `__init__` of the class in ``home`` that is not compiled, because a process makes only a few instances of most
    classes. After `_FIRST` instances, or given arguments that are wrong, it replaces itself by the compiled one."""
    compiled = compiling("__init__", _frozen_init if frozen else _init, home)
    put: Callable[[Any, str, Any], None] = object.__setattr__ if frozen else setattr
    fields: list[tuple[Any, ...]] = []
    names: set[str] = set()
    positional: list[str] = []
    calls = 0

    def method(self: Any, /, *args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if not fields:
            found = [f for f in dataclasses.fields(home[0]) if f.init or f.default_factory is not _NONE]
            fields.extend((f.name, f.init, f.default, f.default_factory) for f in found)
            names.update(f.name for f in found if f.init)
            positional.extend(f.name for f in found if f.init and not f.kw_only)
        given = {**dict(zip(positional, args, strict=False)), **named}
        if calls > _FIRST or len(given) < len(args) + len(named) or not given.keys() <= names:
            return compiled(self, *args, **named)
        for name, is_given, default, factory in fields:
            if is_given and name in given:
                put(self, name, given[name])
            elif factory is not _NONE:
                put(self, name, factory())
            elif default is _NONE:
                return compiled(self, *args, **named)
            else:
                put(self, name, default)
        if hasattr(home[0], "__post_init__"):
            self.__post_init__()
        return None

    return method


def compiling(name: str, source: Source, home: list[type]) -> Callable[..., Any]:
    """A method of the class in ``home`` that, at its first call, replaces itself by a method compiled from its source.
    In `_init` names that are no fields begin with two underscores."""

    def method(self: Any, *args: Any, **named: Any) -> Any:
        (cls,) = home
        space: dict[str, Any] = {"cls": cls}
        made = function("method", source(dataclasses.fields(cls), space), space)
        made.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, made)
        return made(self, *args, **named)

    return method


def _frozen_init(fields: tuple[Any, ...], space: dict[str, Any]) -> str:
    space["__put"] = object.__setattr__
    return _init(fields, space, "__put(__self, {0!r}, {1})")


def _init(fields: tuple[Any, ...], space: dict[str, Any], put: str = "__self.{0} = {1}") -> str:
    params, body = ["__self"], []
    for f in sorted(fields, key=lambda f: bool(f.kw_only)):
        value, given = f.name, f.name
        if f.default is not dataclasses.MISSING:
            space[f"__{f.name}__default"] = f.default
            given += f"=__{f.name}__default"
        elif f.default_factory is not dataclasses.MISSING:
            space |= {f"__{f.name}__default": f.default_factory, "__missing": dataclasses.MISSING}
            given += "=__missing"
            made = f"__{f.name}__default()"
            value = f"{made} if {f.name} is __missing else {f.name}" if f.init else made
        if f.init:
            params += ["*"] if f.kw_only and "*" not in params else []
            params.append(given)
        if f.init or f.default_factory is not dataclasses.MISSING:
            body.append(put.format(f.name, value))
    if hasattr(space["cls"], "__post_init__"):
        body.append("__self.__post_init__()")
    return f"def method({', '.join(params)}):\n " + "\n ".join(body or ["pass"])


def _values(fields: Iterable[Any], of: str) -> str:
    return "(" + "".join(f"{of}.{f.name}," for f in fields if f.compare) + ")"


def _eq(fields: tuple[Any, ...], space: dict[str, Any]) -> str:
    both = f"{_values(fields, 'self')} == {_values(fields, 'other')}"
    return f"def method(self, other):\n return {both} if other.__class__ is self.__class__ else NotImplemented"


def _hash(fields: tuple[Any, ...], space: dict[str, Any]) -> str:
    return f"def method(self):\n return hash({_values((f for f in fields if f.hash is not False), 'self')})"


def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _keep(self: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
