"""A Tape's report as a timeline: steps from left to right, saved bytes as bars, recomputed stretches below them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from quadrants_lab.widgets.model import KernelView
from quadrants_lab.widgets.tree import Block, Fold, Picture, Table, Tree, Word, bold, empty, foot

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.report import Report
    from quadrants_lab.runtime.tape.step import StepRow

WIDTH, HEIGHT = 880, 60  # of the bars, in pixels
_COLUMNS = 440  # most bars; each stands for the same number of steps
MOST_ROWS = 200  # of the table, which is stored in the notebook
_ROW = 14  # height of the row of stretches


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The Tapes of the cell, including the Tape of --grad."""
    shown = [[Block(r.title(), "answer"), bars(r), launches(r)] for r in view.tapes]
    return shown or empty("the cell recorded nothing with qd.ad.Tape or --grad")


def timeline(report: Report) -> Tree:
    """The timeline of one report by itself."""
    each = Fold("each launch", launches(report)) if report.steps else ()
    return [Block(bold(report.title())), bars(report), each]


def bars(report: Report) -> Tree:
    """The bars, if anything was kept, and a sentence about why. A bar stands for one step, or for several if there are
    many."""
    steps, why = report.steps, f"{report.why()[0].upper() + report.why()[1:]}."
    if not report.kept_bytes and not report.stretches:
        return Block(why)
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
        again_to = f"run again up to {times} times"
        tip = f"stretch {number}: {stretch.steps} steps from number {stretch.first + 1} on, {again_to}"
        parts.append(
            f'<rect x="{at:.1f}" y="{HEIGHT + 4}" width="{max(wide - 1, 1):.1f}" height="{_ROW}" fill="#3182ce" '
            f'fill-opacity="{0.2 + 0.8 * times / max(again, 1):.2f}"><title>{escape(tip)}</title></rect>'
        )
    floor = f'<line x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}" stroke="#85888e"/>'
    legend: list[Tree] = [Word("■", "grey"), " bytes that are kept"]
    if report.stretches:
        legend += ["; ", Word("■", "orange"), " kept before a stretch; ", Word("■", "blue")]
        legend.append(" steps that run again, the darker the more often")
    drawn = Picture.drawn(report.title(), WIDTH, HEIGHT + _ROW + 8, floor + "".join(parts), wide=True)
    return [drawn, foot([*legend, "."]), Block(why)]


def launches(report: Report, most: int = MOST_ROWS) -> Tree:
    """A table with a row for each launch, or for a sequence of equal ones: saved bytes, times recomputed, and why."""
    rows, first = [], 1
    for (what, kept, times, why), alike in groupby(report.steps, lambda s: (s.what, s.bytes, s.times, s.why)):
        n = len(list(alike))
        number = str(first) if n == 1 else f"{first} to {first + n - 1}"
        rows.append((number, what, f"{kept:,}" if kept else "", str(times or ""), why))
        first += n
    titles = ("step", "launch", "bytes kept of each", "run again", "why")
    more = Block(f"and {len(rows) - most} rows more") if len(rows) > most else ()
    return [Table(titles, rows[:most], right=(2, 3)), more]


def _bar(at: float, width: float, part: float, tip: str, colour: str = "#718096") -> str:
    high = max(HEIGHT * part, 1.0)
    return (
        f'<rect x="{at:.1f}" y="{HEIGHT - high:.1f}" width="{max(width - 0.3, 0.7):.1f}" height="{high:.1f}" '
        f'fill="{colour}"><title>{escape(tip)}</title></rect>'
    )


def _named(column: list[StepRow], first: int) -> str:
    names = ", ".join(dict.fromkeys(s.what for s in column))
    which = f"step {first + 1}" if len(column) == 1 else f"steps {first + 1} to {first + len(column)}"
    return f"{which} ({names})"
