"""Makes keys: values that are equal for two calls only if the same compiled code serves both.

A key represents an object of the program by its id, and a field or ndarray by its ``number``; it never refers to the
object itself. When such an object ends, its id may be used again, so a `Table` drops all values whose keys mention the
object. For this purpose the functions here append the objects that a key mentions to the list ``named``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import count
from types import FunctionType, MethodType
from typing import Any, Generic, TypeVar

import numpy as np

from quadrants_lab.ir.weak import Table, has_weak, weak

V = TypeVar("V")
Named = list[Any]
# attributes that were read: a weak reference to the object, and the attribute's name
Reads = tuple[tuple[Callable[[], Any], str], ...]
NUMBERS = count(-1, -1)  # numbers of fields and ndarrays: negative, so they differ from ids, and never used twice
_SEQUENCES = tuple, list, set, frozenset, deque
_MADE_BY_PROGRAMS = 1 << 9  # the flag that CPython sets for classes that Python code defines


class Kept:
    """The key of an object that cannot have weak references; it keeps the object alive, so that its id stays unique."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def identity(value: Any, named: Named | None = None) -> Any:
    """A key that is equal only for the same object, even if ``==`` of two objects is true."""
    if not has_weak(value):
        return None if value is None else Kept(value)
    if named is not None:
        named.append(value)
    return id(value)


def template_key(value: Any, named: Named | None = None) -> Any:
    """The key of a compile-time value. Fields, ndarrays and objects are equal only to themselves. Numbers, frozen
    dataclasses and containers, which may be new objects in each launch, are equal if type and content are."""
    kind = type(value)  # asked of the class: an object's own `__getattr__` may be slow
    if getattr(kind, "__qd_field__", False) or getattr(kind, "__qd_ndarray__", False):
        if named is not None:
            named.append(value)
        return value.number
    if getattr(kind, "__qd_data_oriented__", "") or value is None:
        return identity(value, named)
    if isinstance(value, (int, str)):
        return kind_key(kind, named), int(value) if isinstance(value, int) else str.__str__(value)
    if isinstance(value, (float, np.floating)):
        return kind_key(kind, named), float(value).hex()
    if isinstance(value, _SEQUENCES):
        return kind_key(kind, named), tuple([template_key(v, named) for v in value])
    if isinstance(value, np.ndarray):
        return kind_key(kind, named), *_contents(value, named)
    if isinstance(value, dict):
        return dict, tuple([(template_key(k, named), template_key(v, named)) for k, v in value.items()])
    ours = any(c.__module__.startswith("quadrants_lab.") for c in kind.__mro__)
    parts = _parts(value, kind, ours)
    if parts is not None:
        return kind_key(kind, named), tuple([template_key(part, named) for part in parts])
    if type(kind.__eq__) is FunctionType and not kind.__module__.startswith("quadrants_lab."):
        return identity(value, named)
    try:
        hash(value)
    except TypeError:
        return identity(value, named)
    own: Any = kind.__eq__
    return identity(value, named) if own is object.__eq__ else (kind_key(kind, named), value)


def _parts(value: Any, kind: type, ours: bool) -> tuple[Any, ...] | None:
    """The parts by which an object is compared, if an equal object may be made anew for each call, by Python, this
    package or the program; None for an object that is compared by identity. ``ours``: its class is of this package."""
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    if kind is MethodType:
        return value.__func__, value.__self__
    if not ours:
        frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
        by_content = frozen and type(kind.__eq__) is FunctionType
        return tuple([part for f in fields(value) for part in (f.name, getattr(value, f.name))]) if by_content else None
    if getattr(kind, "__qd_entry__", False):
        return value.field, value.at
    if getattr(kind, "__qd_struct_field__", False):
        return value.members, value.methods
    if getattr(kind, "__qd_type__", "") == "struct":
        return value.members, value.methods
    if hasattr(kind, "__qd_bound__"):
        return tuple(value.__qd_bound__)
    if getattr(value, "__qd_struct__", False):
        return value.entries, value.methods
    entries = getattr(value, "entries", None)
    return (getattr(value, "dtype", None), entries) if isinstance(entries, np.ndarray) else None


def kind_key(kind: type, named: Named | None = None) -> Any:
    return identity(kind, named) if kind.__flags__ & _MADE_BY_PROGRAMS else kind


def _contents(array: np.ndarray[Any, Any], named: Named | None) -> tuple[Any, ...]:
    """A key that is equal for two arrays only if dtype, shape and all elements are, masked ones included."""
    if isinstance(array, np.ma.MaskedArray):
        return *_contents(np.ma.getdata(array), named), np.ma.getmaskarray(array).tobytes()
    if array.dtype.hasobject:  # such an array's bytes are addresses
        return array.dtype, array.shape, template_key(array.tolist(), named)
    return array.dtype, array.shape, array.tobytes()


def state(reads: Reads, named: Named | None = None) -> tuple[Any, ...]:
    """A key for the current values of attributes: objects are equal only to themselves, numbers if their values are."""
    return tuple([template_key(getattr(owner(), name, None), named) for owner, name in reads])


def weak_reads(reads: Sequence[tuple[Any, str]]) -> Reads:
    """Replaces the objects in a list of attributes by weak references."""
    return tuple([(weak(owner), name) for owner, name in reads])


class Specialisations(Generic[V]):
    """Values made for calls, such as plans. They are found by a key of the arguments and, if making the value read
    attributes of objects, by the attributes' state. A value is dropped when an object that its key or state mentions
    ends; then ``gone(value)`` is called.

    ``plain``: key -> value, if making the value read no attributes. ``others``: key -> the attributes that were read,
    and state of the attributes -> value.
    """

    def __init__(self, gone: Callable[[V], None] | None = None) -> None:
        self._gone = gone
        self.plain: Table[Any, V] = Table(gone)
        self.others: Table[Any, list[tuple[Reads, Table[Any, V]]]] = Table(self._all_gone)

    def find(self, key: Any) -> V | None:
        """The value for this key and the current state of the attributes, or None."""
        found = self.plain.get(key)
        if found is None:
            for reads, made in self.others.get(key, ()):
                found = made.get(state(reads))
                if found is not None:
                    break
        return found

    def add(self, key: Any, named: Named, reads: Reads, value: V) -> None:
        """Adds a value for the key, which mentions the objects ``named``, and for the present state of ``reads``."""
        if not reads:
            self.plain.put(key, value, named)
            return
        owners: Named = [owner for of, _ in reads if has_weak(owner := of())]
        values = state(reads, owners)
        known = self.others.get(key, [])
        made: Table[Any, V] = next((made for their, made in known if _same(their, reads)), Table(self._gone))
        made.put(values, value, owners)
        rest = [group for group in known if group[1] and group[1] is not made]
        self.others.put(key, [(reads, made), *rest], named)

    def _all_gone(self, groups: list[tuple[Reads, Table[Any, V]]]) -> None:
        if self._gone is not None:
            for value in [value for _, made in groups for value in list(made.values())]:
                self._gone(value)
        for _, made in groups:
            made.clear()

    def __len__(self) -> int:
        return sum(1 for _ in self.values())

    def values(self) -> Iterator[V]:
        yield from list(self.plain.values())
        for groups in list(self.others.values()):
            for _, made in groups:
                yield from list(made.values())


def _same(a: Reads, b: Reads) -> bool:
    """Whether both lists name the same attributes of the same objects."""
    return len(a) == len(b) and all(x == y and of() is its() for (of, x), (its, y) in zip(a, b, strict=True))
