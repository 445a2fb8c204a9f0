"""Converts the objects that the command line prints to data for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.backend import Available
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.report import Report, Verdict
from quadrants_lab.runtime.record.inspect import Sizes

# class -> properties that are added to its fields
_MORE: dict[type, tuple[str, ...]] = {
    Available: ("runs",),
    Cause: ("file", "line", "statement"),
    Report: ("right",),
    Verdict: ("good",),
}


def plain(value: Any) -> Any:
    """The value as dicts, lists, strings, numbers, True, False and None. Dataclasses are dicts; NaN and infinities are
    the strings "nan", "inf" and "-inf", because JSON has no such numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Span):
        return {"file": value.file, "line": value.line, "column": value.col + 1}
    if is_dataclass(value) and not isinstance(value, type):
        named = {f.name: getattr(value, f.name) for f in fields(value)}
        named |= {name: getattr(value, name) for name in _MORE.get(type(value), ())}
        return {name: plain(v) for name, v in named.items()}
    if isinstance(value, Sizes):
        return {"stacks": plain(tuple(value)), **plain(vars(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
