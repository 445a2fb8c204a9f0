"""Draws the gradient doctor's report as cards for a terminal: badge, cause with its source line, what to do, and the
step sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from quadrants_lab.runtime.check import LEVELS
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import Move

if TYPE_CHECKING:
    from quadrants_lab.runtime.check.report import Card, Report


def drawn(report: Report, steps: bool = False) -> RenderableType:
    """The cards of a report. ``steps``: with the table of step sizes instead of one line about it."""
    parts = [*(_card(c, steps) for c in report.cards), *(Text(text) for text in report.other_warnings())]
    return Group(*parts, *([Text("stopped before everything was checked", "yellow")] if report.stopped else []))


def _card(c: Card, steps: bool) -> RenderableType:
    colour, _ = LEVELS[c.level]
    badge = f" {c.badge} ", f"reverse {colour}"
    if c.why is None and c.level == "good":
        return Text.assemble(badge, f" {c.sentence}")
    body = [*(_cause(c.why) if c.why is not None else ()), *([Text(c.sentence)] if c.says else [])]
    shown = c.verdict.table() if c.verdict else []
    if shown and steps:
        moves = c.verdict.moves if c.verdict else ()
        body += [_steps(moves), *(Text(line, "dim") for line in shown[len(moves) :])]
    elif shown:
        body.append(Text(f"{c.summary()}; --steps shows all", "dim"))
    return Panel(Group(*body), title=Text.assemble(badge, f" {c.of}"), title_align="left", border_style=colour)


def _cause(why: Cause) -> Iterator[RenderableType]:
    """A cause with its source line, what to do, source, and operands."""
    yield Text.assemble((why.place, "bold cyan"), (": " if why.place else ""), (why.says, "bold"))
    if why.help:
        yield Text.assemble(("what to do: ", "green"), why.help)
    yield from (Text(line) for line in why.source()[1:])
    if why.ran:
        yield Text(why.ran, "dim")


def _steps(moves: Sequence[Move]) -> Table:
    table = Table("step", "the loss changes by", "by the gradient", "apart", box=None, style="dim", padding=(0, 2))
    for m in moves:
        table.add_row(f"{m.width:.0e}", f"{m.found:.6g}", f"{m.expected:.6g}", f"{m.error:.1e}")
    return table
