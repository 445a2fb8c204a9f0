"""Imports of many modules, without Python's search for cycles between times."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """For a ``with`` around imports. What modules make stays, so a search among it finds nothing to free, and it would
    take a seventh of the time of `import quadrants_lab`."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()
