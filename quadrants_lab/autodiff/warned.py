"""Warnings about gradients that are probably not what the user means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from quadrants_lab.errors import Label, render, warn_at
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span

if TYPE_CHECKING:
    from quadrants_lab.analysis.trips import TripCount


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


def other_trips(kernel: str, changed: Sequence[TripCount]) -> GradientWarning:
    """The warning that trip counts have changed."""
    names = ", ".join(c.buffer for c in changed)
    verb = "was" if len(changed) == 1 else "were"
    labels = []
    for c in changed:
        labels.append(Label(c.read, f"the trip count of a loop is read from {c.buffer} here"))
        if c.loop is not None and c.read is not None and c.loop.line != c.read.line:
            labels.append(Label(c.loop, f"the trip count of this loop depends on {c.buffer}"))
    return warning(
        "QL0410",
        f"the gradient of kernel {kernel} has other trip counts than its launch: {names} {verb} written in between",
        tuple(labels),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        changed[0].read,
    )


def stale(kernel: str, count: TripCount, writer: str) -> GradientWarning:
    """The warning that other values that the gradient reads have changed."""
    return warning(
        "QL0417",
        f"the gradient of kernel {kernel} reads {count.buffer}, which {writer} wrote after {kernel} was launched: it "
        "is the derivative at other values than the launch had",
        (Label(count.read, "read here, and again for the gradient"),),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        count.read,
    )


def no_seed(kernel: str, buffers: Sequence[str], span: Span | None) -> GradientWarning:
    """The warning that the gradients of all these buffers, which the kernel's gradient starts from, are 0."""
    names = [f"{name}.grad" for name in buffers]
    verb = "is" if len(names) == 1 else "are"
    return warning(
        "QL0409",
        f"the gradient of kernel {kernel} adds nothing: {', '.join(names)} {verb} 0 everywhere",
        (Label(span, f"the derivative starts here, from {names[0]}"),),
        f"set it first, for instance {names[0]}.fill(1), or launch the kernel under qd.ad.Tape(loss)",
        span,
    )
