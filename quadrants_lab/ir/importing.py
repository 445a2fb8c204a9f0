"""Helpers that make imports of this package fast: importing many modules at once, functions that import their module at
the first call, and a hash function that loads no OpenSSL."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # hashlib loads OpenSSL, which takes 3 ms
    except ImportError:  # a Python that was built without it takes OpenSSL's
        from hashlib import blake2b

__all__ = ["blake2b", "importing", "lazily"]
_FEW = 5000  # more frozen objects: the program froze them, since Python 3.12 itself freezes only some hundred


@contextmanager
def importing() -> Iterator[None]:
    """Makes a context for imports in which the garbage collector does not run: modules stay, so it would find
    nothing to free among their objects. Afterwards all objects count as old, so that the next collection does not
    go through them. If nothing was imported, nothing changes, since each call would put off the collection of old
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

    call.__name__ = name
    return call
