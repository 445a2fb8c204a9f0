"""Warnings about gradients: what is probably not meant, and where."""

from __future__ import annotations

from collections.abc import Iterable

from quadrants_lab.errors import Label, render, warn_at
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span


@dataclass(frozen=True, slots=True)
class GradientWarning:
    """A whole diagnostic and the line that it is about."""

    text: str
    span: Span | None


def warning(code: str, message: str, labels: tuple[Label, ...], help: str, span: Span | None) -> GradientWarning:
    return GradientWarning(render(code, message, labels, help, kind="warning"), span)


def warn(found: Iterable[GradientWarning]) -> None:
    """Issues each warning where the user's line is; one that several copies of a statement raise is one."""
    for w in dict.fromkeys(found):
        file, line = (w.span.file, w.span.line) if w.span else ("<kernel>", 0)
        warn_at(w.text, file, line)
