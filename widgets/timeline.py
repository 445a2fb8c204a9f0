"""A Tape's report as a timeline: steps from left to right, what is kept above, how often each is made again below."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from quadrants_lab.widgets.html import esc, table
from quadrants_lab.widgets.static import inlined

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.report import Report, StepRow

WIDTH, HEIGHT = 880, 60  # of the bars, in pixels
_COLUMNS = 440  # bars at most; each stands for as many steps
MOST_ROWS = 200  # of the table: a notebook keeps it
_ROW = 14  # height of a row of stretches


def timeline(report: Report) -> str:
    """HTML. A column stands for one step, or for several where there are many."""
    steps = report.steps
    together = -(-len(steps) // _COLUMNS) or 1
    columns = [steps[n : n + together] for n in range(0, len(steps), together)]
    width = WIDTH / max(len(columns), 1)
    most = max([*(sum(s.bytes for s in c) for c in columns), *(s.bytes for s in report.stretches), 1])
    again = max((s.times for s in steps), default=0)
    parts: list[str] = []
    for n, column in enumerate(columns):
        kept = sum(s.bytes for s in column)
        if kept:
            parts.append(_bar(n * width, width, kept / most, f"{_named(column, n * together)}: {kept} bytes kept"))
    for number, stretch in enumerate(report.stretches):
        at, wide = stretch.first / len(steps) * WIDTH, stretch.steps / len(steps) * WIDTH
        times = max(s.times for s in steps[stretch.first : stretch.first + stretch.steps])
        kept_before = f"before stretch {number}: {stretch.bytes} bytes kept"
        parts.append(_bar(at, 2.0, stretch.bytes / most, kept_before, "#c05621"))
        said = f"stretch {number}: {stretch.steps} steps from number {stretch.first} on, made again up to {times} times"
        parts.append(
            f'<rect x="{at:.1f}" y="{HEIGHT + 4}" width="{max(wide - 1, 1):.1f}" height="{_ROW}" fill="#3182ce" '
            f'fill-opacity="{0.2 + 0.8 * times / max(again, 1):.2f}"><title>{esc(said)}</title></rect>'
        )
    title = f"{len(steps)} steps: at most {report.kept_bytes} bytes kept, {report.made_again} steps made again"
    budget = "" if report.budget is None else f", budget {report.budget} bytes"
    svg = (
        f'<svg class="ql-timeline" role="img" aria-label="{esc(title)}" width="100%" '
        f'viewBox="0 0 {WIDTH} {HEIGHT + _ROW + 8}"><line x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}" '
        f'stroke="currentColor" stroke-opacity="0.4"/>{"".join(parts)}</svg>'
    )
    legend = "Bars: bytes kept, those before a stretch in orange. Blue: steps made again, the darker the more often."
    said = f"<b>{esc(title + budget)}</b><br>{esc(report.why())}.{svg}<small>{legend}</small>"
    return inlined(f"<div>{said}{_rows(report)}</div>")


def _rows(report: Report) -> str:
    """A row for each launch, or for several in a row that are alike: what is kept of it, how often it was made again,
    and why."""
    rows, first = [], 0
    for (what, kept, stretch, times), alike in groupby(
        report.steps, lambda s: (s.what, s.bytes, s.stretch, s.times)
    ):
        n = len(list(alike))
        if stretch >= 0:
            by = "qd.ad.checkpoint" if report.stretches[stretch].by_hand else "the budget"
            why = f"in stretch {stretch}, which {by} lets begin again from {report.stretches[stretch].bytes} bytes"
        else:
            why = "its gradient reads what is overwritten" if kept else "its gradient needs nothing that is overwritten"
        number = str(first) if n == 1 else f"{first} to {first + n - 1}"
        rows.append((number, esc(what), f"{kept:,}" if kept else "", str(times or ""), esc(why)))
        first += n
    head = ("step", "launch", "bytes kept of each", "made again", "why")
    told = table(head, rows[:MOST_ROWS], right=(2, 3))
    more = f"<p>and {len(rows) - MOST_ROWS} rows more</p>" if len(rows) > MOST_ROWS else ""
    return f"<details><summary>each launch</summary>{told}{more}</details>" if rows else ""


def _bar(at: float, width: float, part: float, said: str, colour: str = "#718096") -> str:
    high = max(HEIGHT * part, 1.0)
    return (
        f'<rect x="{at:.1f}" y="{HEIGHT - high:.1f}" width="{max(width - 0.3, 0.7):.1f}" height="{high:.1f}" '
        f'fill="{colour}"><title>{esc(said)}</title></rect>'
    )


def _named(column: list[StepRow], first: int) -> str:
    names = ", ".join(name for name, _ in groupby(s.what for s in column))
    return f"step {first} ({names})" if len(column) == 1 else f"steps {first} to {first + len(column) - 1} ({names})"
