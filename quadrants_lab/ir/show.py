"""Formats values of a running kernel for prints and for messages of asserts; and hides what one thread prints."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import numpy as np

_EXACT = r"\.\d|[eEfFgG%]$"


def show(value: Any, spec: str = "") -> str:
    """The numpy scalar formatted by Python's format specification, or without one as numpy prints it.

    A float shows the digits that its own dtype needs, unless the specification asks for a number of digits.
    """
    if not spec:
        return str(value)
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not re.search(_EXACT, spec):
        plain = float(str(value))
    return format(plain, spec)


def fill(message: str, values: Sequence[Any]) -> str:
    """The message with its ``{}`` and ``{:spec}`` filled in order; with ? where there are fewer values."""
    from string import Formatter

    out, rest = "", iter(values)
    for text, name, spec, _ in Formatter().parse(message):
        out += text
        if name is not None:
            value = next(rest, None)
            out += "?" if value is None else show(value, spec or "")
    return out


class _Shown:
    """A replacement for sys.stdout that drops what one thread prints."""

    def __init__(self, out: Any, without: int) -> None:
        self._out, self._without = out, without

    def write(self, text: str) -> int:
        return len(text) if get_ident() == self._without else int(self._out.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


@contextmanager
def unprinted() -> Iterator[None]:
    """Makes a context in which nothing that this thread prints is shown. The caller holds a session's lock, so only
    one thread does this at a time."""
    before = sys.stdout
    sys.stdout = _Shown(before, get_ident())
    try:
        yield
    finally:
        sys.stdout = before
