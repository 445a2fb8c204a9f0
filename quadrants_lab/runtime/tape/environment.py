"""Makes a key of everything that a Python function reads: two calls with equal keys do the same.

`environment_key` visits the globals, closure and defaults of the function and of the functions that it calls, and those
lists, dicts and attributes whose names occur in their code, also within strings. If the code may read attributes by any
name (`getattr`, `vars`), all attributes of objects are visited. Not seen are what a generator or an iterator has left,
and the internal state of C code and of libraries (random numbers, clocks).
"""

import sysconfig
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set, ValuesView
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ReferenceType

import numpy as np

from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.runtime.arguments.keys import Named, identity, kind_key, template_key
from quadrants_lab.runtime.interop.tensors import torch_tensor

_LIBRARIES = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
              str(Path(__file__).parents[1]))  # fmt: skip
# marks of classes whose objects have attributes that need not be visited
_OURS = "__qd_field__", "__qd_ndarray__", "__qd_kernel__"
_CONTAINERS = Sequence, Set, Mapping, ValuesView, deque
_BUFFERS = bytearray, memoryview, array
_ANY_NAME = frozenset({"getattr", "vars", "__dict__"})  # code that contains one of these may read any attribute
# the attributes in which a torch module stores its parameters and submodules
_TORCH = frozenset({"_parameters", "_buffers", "_modules"})
# class of an object that consists of others -> these
_PARTS: dict[type, Callable[[Any], Any]] = {
    MethodType: lambda method: (method.__func__, method.__self__), property: lambda of: of.fget,
    staticmethod: lambda of: of.__func__, classmethod: lambda of: of.__func__,
    partial: lambda of: (of.func, of.args, of.keywords), ReferenceType: lambda of: of(),
}  # fmt: skip
_EVERYWHERE = frozenset(vars(object))
_NUMBERS = frozenset({int, float, bool, complex, str, bytes, type(None)})


def _of_a_library(file: str) -> bool:
    """Whether the file belongs to Python, to a package installed in any environment, or to this package."""
    return file.startswith(_LIBRARIES) or "/site-packages/" in file or "/dist-packages/" in file


@deeply_recursive
def environment_key(given: Any, names: set[str], named: Named | None = None) -> tuple[Any, ...]:
    """A key that is equal for two calls if nothing that they read has changed between them. ``given``: a function and
    its arguments. ``names``: names of globals and attributes that occur in code; new ones are added to it. ``named``:
    the objects that the key mentions are appended to it."""
    names |= _TORCH
    while True:
        count = len(names)
        visitor = _Visitor(names, [])
        visitor.visit(given)
        if len(names) == count:
            if named is not None:
                named += visitor.named
            return tuple(visitor.found)


class _Visitor:
    """Visits objects and collects the key in ``found``; the objects that the key mentions are appended to ``named``.
    Only attributes whose name is in ``names`` are visited."""

    def __init__(self, names: set[str], named: Named) -> None:
        self.names = names
        self.named = named
        self.found: list[Any] = []
        # id of an object that was visited -> the object, kept alive so that the id is not used again
        self.seen: dict[int, Any] = {}

    def visit(self, value: Any) -> None:
        kind = value.__class__
        if kind in _NUMBERS:
            self.found.append(template_key(value, self.named))
        elif id(value) in self.seen:
            self.found.append(identity(value, self.named))
        elif isinstance(value, _CONTAINERS) and not isinstance(value, _BUFFERS):
            self.seen[id(value)] = value
            self.found.append((kind_key(kind, self.named), len(value)))
            for inner in value:
                self.visit(inner)
                if isinstance(value, Mapping):
                    self.visit(value[inner])
            self._attributes(value)
        elif isinstance(value, torch_tensor()):
            self.found.append((identity(value, self.named), template_key(value.detach().cpu().numpy(), self.named)))
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            self.visit((value.shape, value.tolist()))
        elif isinstance(value, (np.ndarray, np.generic)) or _is_structured(value):
            self.found.append(template_key(value, self.named))
        else:
            self.seen[id(value)] = value
            self._object(value)

    def _object(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif (parts := next((parts for kind, parts in _PARTS.items() if isinstance(value, kind)), None)) is not None:
            self.visit(parts(value))
        else:
            self.found.append(identity(value, self.named))
            with suppress(TypeError):  # a ctypes array, one of `_BUFFERS`, raises TypeError
                self.found.append(memoryview(value).tobytes())
            # asked of the class, since the object may raise anything when it is asked for an attribute
            kind = value.__class__
            if hasattr(kind, "__qd_ndarray__"):
                self.found.append(identity(value.grad, self.named))
            if not any(hasattr(kind, mark) for mark in _OURS):
                self._attributes(value)

    def _function(self, fn: Any) -> None:
        inner = getattr(fn, "__wrapped__", None)
        if _of_a_library(fn.__code__.co_filename):
            self.found.append(identity(fn, self.named) if inner is None else fn.__code__)
        else:
            self.found.append(fn.__code__)
            names = _names(fn.__code__)
            self.names |= names
            for name in sorted(names & fn.__globals__.keys()):
                self.visit(fn.__globals__[name])
            self._named(fn.__dict__)
            self.visit(fn.__defaults__)
            self.visit(fn.__kwdefaults__)
            for cell in fn.__closure__ or ():
                try:
                    self.visit(cell.cell_contents)
                except ValueError:  # the cell is empty
                    continue
        if inner is not None:
            self.visit(inner)

    def _attributes(self, value: Any) -> None:
        if isinstance(value, ModuleType):
            if not _of_a_library(getattr(value, "__file__", None) or _LIBRARIES[0]):
                self._named(vars(value))
            return
        own = getattr(value, "__dict__", {})
        self._named(own, own.keys() if _ANY_NAME & self.names and not isinstance(value, type) else self.names)
        for owner in value.__mro__ if isinstance(value, type) else type(value).__mro__:
            if owner.__module__ != "builtins":
                self._named(vars(owner))
                self._operators(owner, made=owner is value)
                for name in getattr(owner, "__slots__", ()) if not isinstance(value, type) else ():
                    if name in self.names and hasattr(value, name):
                        self.visit(getattr(value, name))
        if own.get("__wrapped__") is not None:
            self.visit(own["__wrapped__"])

    def _operators(self, owner: type, made: bool) -> None:
        """Visits the methods that Python calls without naming them, as for ``a()`` and ``a[i]``. Methods that every
        class has are visited only if instances may be ``made``."""
        for name, value in vars(owner).items():
            if name[:2] == "__" and value.__class__ is FunctionType and (made or name not in _EVERYWHERE):
                self.visit(value)

    def _named(self, attributes: Any, names: Any = None) -> None:
        for name in sorted((self.names if names is None else names) & attributes.keys()):
            self.found.append(name)
            self.visit(attributes[name])


def _is_structured(value: Any) -> bool:
    """Whether the value is a vector, matrix or struct of the language."""
    return value.__class__.__module__.startswith("quadrants_lab.") and hasattr(value, "entries")


def _names(code: CodeType) -> set[str]:
    """Names of globals and attributes in the code and in functions within it, and strings that may be such names."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            found.add(constant)
    return found
