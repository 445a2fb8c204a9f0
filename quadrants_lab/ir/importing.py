"""Imports of many modules without runs of Python's garbage collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """For a ``with`` around imports. Modules stay, so a collection among their objects finds nothing to free.
    Afterwards all objects count as old, otherwise the next collection would go through them. If nothing was imported,
    nothing changes, since each call would put off the collection of old objects."""
    collected, known = gc.isenabled(), len(sys.modules)
    try:
        gc.disable()
        yield
    finally:
        if collected:
            if len(sys.modules) != known and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
