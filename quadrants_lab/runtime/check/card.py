"""The gradient doctor's report as cards for a terminal: badge, cause with its line, what to do, and the step sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import Move

COLOURS = {"good": "green", "warning": "yellow", "bad": "red"}


def card(report: Any, steps: bool = False) -> RenderableType:
    """The cards of a `Report`, those that are not good first. ``steps``: with the table of step sizes instead of one
    line about it."""
    parts: list[RenderableType] = []
    if report.says:
        first = next(iter(report.causes), None)
        parts.append(_panel("bad", report.badge, "the program", _body(first, f"it cannot be checked: {report.says}")))
    for cause in report.causes[bool(report.says) :]:
        parts.append(_panel("bad", "wrong", "the program", _body(cause)))
    parts += [_verdict(v, steps) for v in (() if report.says else report.ordered)]
    parts += [Text(text) for text in report.other_warnings()]
    return Group(*parts, *([Text("stopped before everything was checked", "yellow")] if report.stopped else []))


def _verdict(v: Any, steps: bool) -> RenderableType:
    of = f"the gradient of {v.field}"
    if v.why is None and v.good:
        return Text.assemble((f" {v.badge} ", f"reverse {COLOURS[v.level]}"), f" {of} {v.says}")
    body = list(_body(v.why, f"it {v.says}" if v.why is not None else f"{of} {v.says}"))
    shown = v.table()
    if shown and steps:
        body += [_steps(v.moves), *(Text(line, "dim") for line in shown[len(v.moves) :])]
    elif shown:
        body.append(Text(_summary(v.moves), "dim"))
    return _panel(v.level, v.badge, of, body)


def _panel(level: str, badge: str, of: str, body: Sequence[RenderableType] | Iterator[RenderableType]) -> Panel:
    title = Text.assemble((f" {badge} ", f"reverse {COLOURS[level]}"), f" {of}")
    return Panel(Group(*body), title=title, title_align="left", border_style=COLOURS[level])


def _body(why: Cause | None, *says: str) -> Iterator[RenderableType]:
    """Cause with its line, what to do, source, operands, and what else is said."""
    if why is not None:
        place = f"{PurePath(why.file).name}, line {why.line}: " if why.at is not None else ""
        yield Text.assemble((place, "bold cyan"), (why.says, "bold"))
        if why.help:
            yield Text.assemble(("what to do: ", "green"), why.help)
        yield from (Text(line) for line in why.source()[1:])
        operands = why.operands and f"with {why.operands}"
        if more := ", ".join(filter(None, (why.where, operands))):
            yield Text(more, "dim")
    yield from map(Text, says)


def _steps(moves: Sequence[Move]) -> Table:
    table = Table("step", "the loss changes by", "by the gradient", "apart", box=None, style="dim", padding=(0, 2))
    for m in moves:
        table.add_row(f"{m.width:.0e}", f"{m.found:.6g}", f"{m.expected:.6g}", f"{m.error:.1e}")
    return table


def _summary(moves: Sequence[Move]) -> str:
    """The table of step sizes in one line."""
    if not moves:
        return "no step sizes"
    best = min(moves, key=lambda m: m.error)
    return f"{len(moves)} step sizes: at best {best.error:.1e} apart, at a step of {best.width:.0e}; --steps shows all"
