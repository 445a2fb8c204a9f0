"""What a Python function reads besides its arguments' values: whether it would do again what it did.

`surroundings` goes from the function over its globals, closure and defaults to the functions that it calls, and into
lists, dicts and attributes that their code names. Not seen: what a generator or an iterator has left, what C code or
the standard library keeps for itself (random numbers, clocks), and attributes that `getattr` finds by a computed name.
"""

from __future__ import annotations

import sysconfig
from collections import deque
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from quadrants_lab.runtime.arguments.signature import Identity, template_key

_LIBRARIES = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
              str(Path(__file__).parents[1]))  # fmt: skip
_OURS = "__qd_field__", "__qd_ndarray__", "__qd_kernel__"  # whose attributes are no Python of the user's
_CONTAINERS = list, tuple, set, frozenset, dict, deque
_NUMBERS = frozenset({int, float, bool, complex, str, bytes, type(None)})


def surroundings(given: Any, names: set[str]) -> tuple[Any, ...]:
    """Equal for two calls between which nothing changed that they read. ``given``: a function and its arguments.
    ``names``: what code calls globals and attributes, as far as is known; new ones are added."""
    while True:
        look = _Look(names)
        look.at(given)
        if len(names) == look.count:
            return tuple(look.found)


class _Look:
    """``found``: what was found on the way. Of attributes only those are looked at whose ``names`` code has;
    ``count``: of names at the start."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.count = len(names)
        self.found: list[Any] = []
        self.seen: dict[int, Any] = {}  # which keeps them, so that no id comes twice

    def at(self, value: Any) -> None:
        kind = value.__class__
        if kind in _NUMBERS:
            self.found.append(template_key(value))
        elif id(value) in self.seen:
            self.found.append(Identity(value))
        elif isinstance(value, _CONTAINERS):
            self.seen[id(value)] = value
            self.found.append((kind, len(value)))
            for inner in value:
                self.at(inner)
                if isinstance(value, dict):
                    self.at(value[inner])
            self._attributes(value)
        elif isinstance(value, (np.ndarray, np.generic)) or _is_structured(value):
            self.found.append(template_key(value))
        else:
            self.seen[id(value)] = value
            self._object(value)

    def _object(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.at(value.__func__)
            self.at(value.__self__)
        elif isinstance(value, property):
            self.at(value.fget)
        elif isinstance(value, (staticmethod, classmethod)):
            self.at(value.__func__)
        elif isinstance(value, partial):
            self.at((value.func, value.args, value.keywords))
        else:
            self.found.append(Identity(value))
            if hasattr(value, "__qd_ndarray__"):
                self.found.append(Identity(value.grad))
            if not any(hasattr(value, mark) for mark in _OURS):
                self._attributes(value)

    def _function(self, fn: Any) -> None:
        inner = getattr(fn, "__wrapped__", None)
        if fn.__code__.co_filename.startswith(_LIBRARIES):
            self.found.append(Identity(fn) if inner is None else fn.__code__)
        else:
            self.found.append(fn.__code__)
            names = _names(fn.__code__)
            self.names |= names
            for name in sorted(names & fn.__globals__.keys()):
                self.at(fn.__globals__[name])
            self.at(fn.__defaults__)
            self.at(fn.__kwdefaults__)
            for cell in fn.__closure__ or ():
                try:
                    self.at(cell.cell_contents)
                except ValueError:  # not there yet
                    continue
        if inner is not None:
            self.at(inner)

    def _attributes(self, value: Any) -> None:
        if isinstance(value, ModuleType):
            if not (getattr(value, "__file__", None) or _LIBRARIES[0]).startswith(_LIBRARIES):
                self._named(vars(value))
            return
        self._named(getattr(value, "__dict__", {}))
        for owner in value.__mro__ if isinstance(value, type) else type(value).__mro__:
            if owner.__module__ != "builtins":
                self._named(vars(owner))
                for name in getattr(owner, "__slots__", ()) if not isinstance(value, type) else ():
                    if name in self.names and hasattr(value, name):
                        self.at(getattr(value, name))
        inner = getattr(value, "__wrapped__", None)
        if inner is not None:
            self.at(inner)

    def _named(self, attributes: Any) -> None:
        for name in sorted(self.names & attributes.keys()):
            self.found.append(name)
            self.at(attributes[name])


def _is_structured(value: Any) -> bool:
    """Whether it is a vector, matrix or struct of the language."""
    return value.__class__.__module__.startswith("quadrants_lab.") and hasattr(value, "entries")


def _names(code: CodeType) -> set[str]:
    """What the code, and functions within it, call globals and attributes."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found
