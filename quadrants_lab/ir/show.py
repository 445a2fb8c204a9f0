"""Formats values of a running kernel for its prints and for messages of asserts."""

import re
from collections.abc import Sequence
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
