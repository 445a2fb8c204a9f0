"""Warnings about gradients that are probably not what the user means."""

from collections.abc import Iterable

from quadrants_lab.errors import Label, render, warn_at
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span


@dataclass(frozen=True, slots=True)
class GradientWarning:
    """The text of a warning and the line that it is about."""

    text: str
    span: Span | None


def warning(code: str, message: str, labels: tuple[Label, ...], help: str, span: Span | None) -> GradientWarning:
    return GradientWarning(render(code, message, labels, help, kind="warning"), span)


def warn(found: Iterable[GradientWarning]) -> None:
    """Issues each warning at the user's line. A warning that several copies of a statement cause is issued once."""
    for w in dict.fromkeys(found):
        file, line = (w.span.file, w.span.line) if w.span else ("<kernel>", 0)
        warn_at(w.text, file, line)
