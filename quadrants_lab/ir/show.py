"""How a value of a running kernel appears in what it prints, and in the message of an assert."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_EXACT = r"\.\d|[eEfFgG%]$"


def show(value: Any, spec: str = "") -> str:
    """The numpy scalar as Python's format specification has it; without one, as numpy prints it.

    A float shows the digits that its own dtype needs, unless the specification asks for a number of them.
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
