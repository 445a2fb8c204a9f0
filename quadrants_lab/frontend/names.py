"""Remembers the values that names and attributes of Python had when a kernel was first compiled. The kernel's other
modes (gradient, forward mode) are compiled with the same values."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from types import FunctionType
from typing import Any

import numpy as np

from quadrants_lab.ir.temporary import holding
from quadrants_lab.ir.weak import has_weak, weak

MOST_BYTES = 1 << 20  # the largest array, in bytes, that is copied
_NUMBERS = (bool, int, float)
_GONE = object()  # a name that was not read, or whose object has ended since
_Key = tuple[int, str]  # the id of a function or another object, and the free name or attribute


class Names:
    """The values that the front end has read. It keeps numbers and functions alive, and copies of what the program may
    change in place: lists, dicts, vectors, matrices, structs, and arrays that are not large. It keeps no other object
    of the program alive, so it forgets a list that holds one. It does not keep functions and fields that are attributes
    of data-oriented objects, either, because launches compare these attributes."""

    def __init__(self) -> None:
        self.known: dict[_Key, tuple[Callable[[], Any], Callable[[], Any]]] = {}
        # during one compilation: each value that was read, with its owner; and, by the id of an object, the object with
        # its copy
        self.read: dict[_Key, tuple[Any, Any]] = {}
        self.copies: dict[int, tuple[Any, Any]] = {}

    def recall(self, owner: Any, name: str, read: Callable[[], Any]) -> Any:
        """The value that the free name of a function, or the attribute of another object, had when it was first read;
        ``read`` reads it now. Within one compilation the result is always the same object."""
        key = id(owner), name
        if key in self.read:
            return self.read[key][1]
        whose, what = self.known.get(key, (None, None))
        value = what() if whose is not None and what is not None and whose() is owner else _GONE
        if value is _GONE:
            value = read()
            if _has(value, "__qd_bound__"):  # a bound func: each read makes another object
                return value
            compared = hasattr(type(owner), "__qd_data_oriented__")
            entries = _entries(value)
            seen = {id(value)}
            if entries is None or all(_lasts(v, compared, seen) for v in entries):
                self.known[key] = weak(owner), _kept(self._copied(value), compared)
        self.read[key] = owner, value
        return value

    def end_compile(self) -> None:
        self.read.clear()
        self.copies.clear()

    def _copied(self, value: Any) -> Any:
        """A deep copy of a value that may change in place, and any other value itself. A list that occurs twice, or in
        itself, is copied once."""
        kind = type(value)
        if kind in _NUMBERS:
            return value
        if id(value) in self.copies:
            return self.copies[id(value)][1]
        made: Any = kind() if kind in (list, dict) else copy(value) if _is_value(value) else value
        self.copies[id(value)] = value, made
        if kind is list:
            made += map(self._copied, value)
        elif kind is dict:
            made.update((key, self._copied(v)) for key, v in value.items())
        elif kind is tuple:
            made = tuple(map(self._copied, value))
        return made


NAMES: ContextVar[Names | None] = ContextVar("quadrants_lab_names", default=None)  # of the kernel being compiled


@contextmanager
def recalling(names: Names) -> Iterator[None]:
    """Makes a context for the compilation of one kernel, in which each name has the value that ``names`` read
    first."""
    try:
        with holding(NAMES, names):
            yield
    finally:
        names.end_compile()


def recall(owner: Any, name: str, read: Callable[[], Any]) -> Any:
    """`Names.recall` for the kernel that is being compiled."""
    names = NAMES.get()
    return read() if names is None else names.recall(owner, name, read)


def _has_class_of_package(value: Any) -> bool:
    """Whether this package, its kernels/ included, defines the class of the object."""
    return type(value).__module__.partition(".")[0] == "quadrants_lab"


def _has(value: Any, mark: str) -> bool:
    return _has_class_of_package(value) and hasattr(value, mark)  # other objects may run code when asked


def _entries(value: Any) -> Iterable[Any] | None:
    """The entries of a list or tuple, or the values of a dict; None for anything else."""
    match value:
        case dict():
            return value.values()
        case list() | tuple():
            return value
    return None


def _is_value(value: Any) -> bool:
    """Whether the value is an array (not too large), vector, matrix or struct, which is remembered as a copy."""
    if type(value) is np.ndarray:
        return bool(value.nbytes <= MOST_BYTES)
    return _has(value, "__qd_matrix__") or _has(value, "__qd_struct__")


def _lasts(value: Any, compared: bool, seen: set[int]) -> bool:
    """Whether `Names` may keep an entry of a list, tuple or dict alive, together with everything that the entry
    holds."""
    if type(value) in _NUMBERS or id(value) in seen:
        return True
    entries = _entries(value)
    if entries is None:
        return (_has_class_of_package(value) and not compared) or not _is_weak(value, compared)
    seen.add(id(value))
    return all(_lasts(v, compared, seen) for v in entries)


def _is_weak(value: Any, compared: bool) -> bool:
    return has_weak(value) and not _is_value(value) and (compared or not isinstance(value, FunctionType))


def _kept(value: Any, compared: bool) -> Callable[[], Any]:
    return weak(value, _GONE) if _is_weak(value, compared) else lambda: value
