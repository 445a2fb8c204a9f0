"""Imports of many modules: without runs of Python's garbage collector, and by the first call of a function in them."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

_FEW = 5000  # frozen objects, at most, that are not the program's: Python 3.12 freezes some hundred when it starts


@contextmanager
def importing() -> Iterator[None]:
    """For a ``with`` around imports: the garbage collector does not run, because modules stay, and it would find
    nothing to free among their objects. Afterwards all objects count as old, so that the next collection does not go
    through them. If nothing was imported, nothing changes, since each call would put off the collection of old
    objects. Nor does anything change if the program froze objects."""
    collected, known = gc.isenabled(), len(sys.modules)
    try:
        gc.disable()
        yield
    finally:
        if collected:
            if len(sys.modules) != known and gc.get_freeze_count() <= _FEW:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def lazily(module: str, name: str) -> Callable[..., Any]:
    """The function ``name`` of a module of this package, such as "backends.cpu.jit", which its first call imports."""
    found: list[ModuleType] = []  # once it is imported

    def call(*args: Any, **named: Any) -> Any:
        if not found:
            with importing():
                found.append(import_module(f"quadrants_lab.{module}"))
        return getattr(found[0], name)(*args, **named)

    return call
