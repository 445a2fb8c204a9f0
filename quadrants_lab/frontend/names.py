"""What names and attributes of Python meant when a kernel was first compiled: its other modes mean the same."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from copy import copy
from typing import Any
from weakref import ref

import numpy as np

_GONE = object()  # a name that was not read, or whose object has ended since


class Names:
    """What the front end has read. It keeps numbers, and copies of lists, arrays, vectors and matrices, which the
    program may change in place; it keeps no other object of the program alive."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], tuple[Callable[[], Any], Callable[[], Any]]] = {}

    def recall(self, owner: Any, name: str, read: Callable[[], Any]) -> Any:
        """What the free name of a function, or the attribute of anything else, meant at its first read, for which
        ``read`` is called."""
        whose, what = self.known.get((id(owner), name), (None, None))
        value = what() if whose is not None and what is not None and whose() is owner else _GONE
        if value is _GONE:
            value = read()
            if not hasattr(value, "__qd_bound__"):  # each read makes another
                self.known[id(owner), name] = _kept(owner), _kept(_copied(value))
        return value


NAMES: ContextVar[Names | None] = ContextVar("quadrants_lab_names", default=None)  # of the kernel being compiled


def recall(owner: Any, name: str, read: Callable[[], Any]) -> Any:
    """`Names.recall` for the kernel that is being compiled."""
    names = NAMES.get()
    return read() if names is None else names.recall(owner, name, read)


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_copied(v) for v in value]
    if kind is dict:
        return {k: _copied(v) for k, v in value.items()}
    if hasattr(value, "__qd_matrix__"):
        made = copy(value)
        object.__setattr__(made, "entries", value.entries.copy())  # its own __setattr__ writes to elements
        return made
    return value.copy() if kind is np.ndarray else value


def _kept(value: Any) -> Callable[[], Any]:
    if not isinstance(value, np.ndarray) and not hasattr(value, "__qd_matrix__") and type(value).__weakrefoffset__:
        weak = ref(value)
        return lambda: _GONE if (found := weak()) is None else found
    return lambda: value
