"""Imports of many modules, without Python's search for cycles between times."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """For a ``with`` around imports. What modules make stays, so a search among it finds nothing to free: what there is
    counts as old afterwards, else the next search would go through all of it. Where nothing is imported, all stays as
    it is: Python would put off its search among what is old each time."""
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
