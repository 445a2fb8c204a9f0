"""Something about a gradient that is probably not meant, and how it is said."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from quadrants_lab.errors import QuadrantsWarning
from quadrants_lab.ir.source import Span


@dataclass(frozen=True, slots=True)
class Doubt:
    """A whole diagnostic and the line that it is about."""

    text: str
    span: Span | None


def warn(doubts: Iterable[Doubt]) -> None:
    """Issues each doubt as a warning that is located where the user's line is; one that several copies of a statement
    raise is one."""
    for d in {(d.text, d.span): d for d in doubts}.values():
        file, line = (d.span.file, d.span.line) if d.span else ("<kernel>", 0)
        warnings.warn_explicit(d.text, QuadrantsWarning, file, line)
