"""Defines source locations: spans of the user's source, which statements keep through every pass."""

from __future__ import annotations

from quadrants_lab.ir.record import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source: 1-based lines, 0-based columns, the end column exclusive.

    ``file`` is a path, or the name under which `linecache` knows a notebook cell. ``call`` is the span of the
    call that inlined this code, or None.
    """

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    call: Span | None = None

    def __str__(self) -> str:
        return f"{self.line}:{self.col}-{self.end_line}:{self.end_col}"
