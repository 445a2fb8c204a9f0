"""A Tape's report as a timeline: steps from left to right, saved bytes as bars, recomputed stretches below them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from quadrants_lab.widgets.html import empty, esc, table
from quadrants_lab.widgets.model import KernelView

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.report import Report, StepRow

WIDTH, HEIGHT = 880, 60  # of the bars, in pixels
_COLUMNS = 440  # most bars; each stands for the same number of steps
MOST_ROWS = 200  # of the table, which is stored in the notebook
_ROW = 14  # height of the row of stretches


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """The Tapes of the cell, including the Tape of --grad."""
    shown = "".join(f"<h4>{esc(r.title())}</h4>{bars(r)}{launches(r)}" for r in view.tapes)
    return shown or empty("the cell recorded nothing with qd.ad.Tape or --grad")


def timeline(report: Report) -> str:
    """The timeline of one report as HTML of its own."""
    details = f"<details><summary>each launch</summary>{launches(report)}</details>" if report.steps else ""
    return f"<div><b>{esc(report.title())}</b><br>{bars(report)}{details}</div>"


def bars(report: Report) -> str:
    """The bars, if anything was kept, and a sentence about why. A bar stands for one step, or for several if there are
    many."""
    steps, why = report.steps, f"{esc(report.why()[0].upper() + report.why()[1:])}."
    if not report.kept_bytes and not report.stretches:
        return f"<p>{why}</p>"
    together = -(-len(steps) // _COLUMNS) or 1
    columns = [steps[n : n + together] for n in range(0, len(steps), together)]
    width = WIDTH / max(len(columns), 1)
    most = max([*(sum(s.bytes for s in c) for c in columns), *(s.bytes for s in report.stretches), 1])
    again = max((s.times for s in steps), default=0)
    parts: list[str] = []
    n = 0
    for (kept, _), equal in groupby(columns, lambda c: (sum(s.bytes for s in c), [s.what for s in c])):
        alike = list(equal)  # e.g. a simulation, whose steps are alike: one shape for all of them
        if kept:
            whole = [s for column in alike for s in column]
            tip = f"{_named(whole, n * together)}: {sum(s.bytes for s in whole):,} bytes kept"
            parts.append(_bar(n * width, width * len(alike), kept / most, tip))
        n += len(alike)
    for number, stretch in enumerate(report.stretches, 1):
        at, wide = stretch.first / len(steps) * WIDTH, stretch.steps / len(steps) * WIDTH
        times = max(s.times for s in steps[stretch.first : stretch.first + stretch.steps])
        kept_before = f"before stretch {number}: {stretch.bytes:,} bytes kept"
        parts.append(_bar(at, 2.0, stretch.bytes / most, kept_before, "#c05621"))
        again_to = f"made again up to {times} times"
        tip = f"stretch {number}: {stretch.steps} steps from number {stretch.first + 1} on, {again_to}"
        parts.append(
            f'<rect x="{at:.1f}" y="{HEIGHT + 4}" width="{max(wide - 1, 1):.1f}" height="{_ROW}" fill="#3182ce" '
            f'fill-opacity="{0.2 + 0.8 * times / max(again, 1):.2f}"><title>{esc(tip)}</title></rect>'
        )
    svg = (
        f'<svg class="ql-timeline" role="img" aria-label="{esc(report.title())}" width="100%" '
        f'viewBox="0 0 {WIDTH} {HEIGHT + _ROW + 8}"><line x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}" '
        f'stroke="currentColor" stroke-opacity="0.4"/>{"".join(parts)}</svg>'
    )
    legend = "Bars: the bytes that are kept"
    if report.stretches:
        legend += "; orange bars: before a stretch. Blue: repeated steps, the darker the more often"
    return f"{why}{svg}<small>{legend}.</small>"


def launches(report: Report, most: int = MOST_ROWS) -> str:
    """A table with a row for each launch, or for a sequence of equal ones: saved bytes, times recomputed, and why."""
    rows, first = [], 1
    for (what, kept, times, why), alike in groupby(report.steps, lambda s: (s.what, s.bytes, s.times, s.why)):
        n = len(list(alike))
        number = str(first) if n == 1 else f"{first} to {first + n - 1}"
        rows.append((number, esc(what), f"{kept:,}" if kept else "", str(times or ""), esc(why)))
        first += n
    head = ("step", "launch", "bytes kept of each", "made again", "why")
    more = f"<p>and {len(rows) - most} rows more</p>" if len(rows) > most else ""
    return table(head, rows[:most], right=(2, 3)) + more


def _bar(at: float, width: float, part: float, tip: str, colour: str = "#718096") -> str:
    high = max(HEIGHT * part, 1.0)
    return (
        f'<rect x="{at:.1f}" y="{HEIGHT - high:.1f}" width="{max(width - 0.3, 0.7):.1f}" height="{high:.1f}" '
        f'fill="{colour}"><title>{esc(tip)}</title></rect>'
    )


def _named(column: list[StepRow], first: int) -> str:
    names = ", ".join(dict.fromkeys(s.what for s in column))
    which = f"step {first + 1}" if len(column) == 1 else f"steps {first + 1} to {first + len(column)}"
    return f"{which} ({names})"
