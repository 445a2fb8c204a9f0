"""The Tape pane shows when launches and gradients ran and how much was saved meanwhile, a row for each kernel, and
the graph of the program."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from quadrants_lab.runtime.tape.timeline import AGAIN, COMPILE, FORWARD, GRADIENT, TRACKS, Ran, as_json, pairs
from quadrants_lab.widgets.graph import as_file
from quadrants_lab.widgets.model import Bar, KernelView, TimelineView
from quadrants_lab.widgets.program import program, seconds_of
from quadrants_lab.widgets.tree import (
    COLOURS,
    GREY,
    Block,
    Fold,
    Graph,
    Picture,
    Table,
    Timeline,
    Tree,
    Word,
    bold,
    colour_of,
    count,
    empty,
    foot,
    head,
    seconds,
    size,
)

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.report import Report

MOST_BARS = 8_000  # of a timeline; of a longer program, several launches of a kernel are one bar
LONG, SHORT = 0.1, 0.02  # of the time of all launches: a pause or compile that is cut, and what is left of it
WIDTH, COLUMNS, TRACK, KEPT, LABELS = 880, 220, 22, 44, 84  # of the drawing without scripts
HINT = (
    "A filled arrow head at a launch marks a read of a field, at a field a write. A hollow head marks where a gradient "
    "flows back. Orange: the Tape kept so many bytes, because the launch overwrites them. A frame is a sequence of "
    "launches that repeats."
)
UNTIMED = "each launch is as wide as every other: without trace=True, launches are timed in cells on the CPU alone."


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The pane for the Tapes of the cell, including the Tape of --grad. The requests ``n/dot`` and ``n/json`` ask
    for files of the n-th Tape."""
    match rest:
        case [n, "dot"]:
            return as_file(program(view.tapes[int(n)], view.file))
        case [n, "json"]:
            report = view.tapes[int(n)]
            return Block(as_json(report.ran, {"report": report.title()}), "file")
    if not view.tapes:
        return empty("the cell recorded nothing with qd.ad.Tape or --grad")
    shown = [whole(report, f"{prefix}/{n}", view.file) for n, report in enumerate(view.tapes)]
    if len(shown) == 1:
        return shown[0]
    return [Fold(said(r), tree, n == 0) for n, (r, tree) in enumerate(zip(view.tapes, shown, strict=True))]


def answer(view: KernelView) -> str:
    """The pane in a sentence."""
    if len(view.tapes) < 2:
        return "".join(map(said, view.tapes))
    return f"The cell has {len(view.tapes)} programs under Tapes, one for each loss."


def said(report: Report) -> str:
    """A sentence about the program: what was kept and how long the program took."""
    kept = f"at most {size(report.kept_bytes)} kept" if report.kept_bytes else "nothing kept"
    again = f"{count(report.made_again, 'step')} run again" if report.made_again else ""
    budget = "" if report.budget is None else f"of a budget of {size(report.budget)}"
    took = [seconds(sum(x.end - x.begin for x in report.ran if x.track == track)) for track in (FORWARD, GRADIENT)]
    times = f"; launches took {took[0]}, gradients {took[1] or 'no time'}" if took[0] else ""
    what = ", ".join(filter(None, (" ".join(filter(None, (kept, budget))), again)))
    return f"{count(len(report.steps), 'step')}: {what}{times}."


def whole(report: Report, request: str, file: str) -> Tree:
    """The timeline, the table and the graph of one program. ``request``: prefix of those for its files."""
    graph = program(report, file)
    return [
        timeline(report, f"{request}/json" if report.ran else ""),
        launches(report),
        head("The program"),
        Block(HINT, "hint"),
        Graph(graph, f"{request}/dot"),
    ]


def shown(report: Report) -> Tree:
    """A report by itself."""
    each = [Fold("each kernel", launches(report)), Fold("the program", Graph(program(report)))]
    return [Block(bold(said(report))), timeline(report), each if report.steps else ()]


def timeline(report: Report, file: str = "") -> Tree:
    """The timeline, its legend, and a sentence about why so much was kept."""
    why = Block(f"{report.why()[0].upper() + report.why()[1:]}.")
    if not report.steps:
        return why
    view = timeline_view(report)
    names: list[Tree] = [[Word("■", colour_of(n)), f" {name}; "] for n, name in enumerate(view.names)]
    cut = f" In all {seconds(sum(s for _, s in view.cuts))} without launches are cut out, at dashed lines."
    kept: Tree = [Word("■", "grey"), " bytes kept; "] if report.kept_bytes else ""
    legend = foot(*names, kept, "" if report.ran else UNTIMED, cut if view.cuts else "")
    return [Timeline(view, file), legend, why if report.kept_bytes or report.stretches else ()]


def timeline_view(report: Report) -> TimelineView:
    """The data of the timeline."""
    ran = sorted(report.ran or untimed(report), key=lambda x: (x.track == COMPILE, x.begin))
    tracks = sorted({FORWARD, GRADIENT, *(x.track for x in ran)})
    rows = {track: n for n, track in enumerate(tracks)}
    names = list(dict.fromkeys(x.kernel for x in ran))
    numbers = {name: n for n, name in enumerate(names)}
    of = pairs(ran)
    pause = LONG * sum(x.end - x.begin for x in ran if x.track != COMPILE) if report.ran else float("inf")
    left = pause * SHORT / LONG
    made: dict[int, Bar] = {}
    cuts: list[tuple[float, float]] = []
    ended = less = min(x.begin for x in ran)
    for n, x in sorted(enumerate(ran), key=lambda both: both[1].begin):
        if x.begin - ended > pause:
            cuts.append((ended - less + left / 2, x.begin - ended - left))
            less += cuts[-1][1]
        begin = x.begin - less
        if x.track == COMPILE and x.begin >= ended and x.end - x.begin > pause:
            cuts.append((begin + left / 2, x.end - x.begin - left))
            less += cuts[-1][1]
        ended = max(ended, x.end)
        made[n] = rows[x.track], begin, x.end - less, numbers[x.kernel], x.kept, of.get(n, -1)
    bars = [made[n] for n in range(len(ran))]
    if len(bars) > MOST_BARS:
        bars = _merged(bars, -(-len(bars) // MOST_BARS))
    return TimelineView(report.title(), [TRACKS[t] for t in tracks], names, bars, bool(report.ran), cuts)


def _merged(bars: list[Bar], together: int) -> list[Bar]:
    """Merges bars: on each track, ``together`` neighbouring bars become one, with the name of the first."""
    found = []
    for track in sorted({bar[0] for bar in bars}):
        own = [bar for bar in bars if bar[0] == track]
        for n in range(0, len(own), together):
            part = own[n : n + together]
            found.append((track, part[0][1], part[-1][2], part[0][3], max(bar[4] for bar in part), -1))
    return sorted(found, key=lambda bar: bar[1])


def untimed(report: Report) -> list[Ran]:
    """Places launches without times: each is one unit long, first the launches in order, then the gradients
    backwards. Steps that ran again stand where the gradients of their stretch stand."""
    steps, kept, found = report.steps, 0, list[Ran]()
    begins = {s.first: s.bytes for s in report.stretches}
    end = 2 * len(steps)
    for n, step in enumerate(steps):
        kept += step.bytes + begins.get(n, 0)
        found.append(Ran(step.what, FORWARD, n, n + 1, kept, n, ""))
        if any(use.differentiable for use in step.uses):
            found.append(Ran(step.what, GRADIENT, end - n - 1, end - n, kept, n, ""))
    for number, s in enumerate(report.stretches, 1):
        times = max(step.times for step in steps[s.first : s.first + s.steps])
        name = f"stretch {number}: {count(s.steps, 'step')}, up to {count(times, 'time')}"
        held = next(x.kept for x in found if x.of == s.first)
        found.append(Ran(name, AGAIN, end - s.first - s.steps, end - s.first, held, None, ""))
    return found


def drawn(view: TimelineView) -> Picture:
    """Draws the timeline for pages without scripts: each column of a track shows the kernel that took most of its
    time."""
    end = max(end for _, _, end, *_ in view.bars) or 1.0
    width, step = WIDTH - LABELS, end / COLUMNS
    x = width / COLUMNS
    parts = []
    for track, name in enumerate(view.tracks):
        columns: list[dict[int, float]] = [{} for _ in range(COLUMNS)]
        for at, begin, till, kernel, *_ in view.bars:
            if at == track:
                for n in range(int(begin / step), min(int(till / step) + 1, COLUMNS)):
                    part = min(till, (n + 1) * step) - max(begin, n * step)
                    columns[n][kernel] = columns[n].get(kernel, 0.0) + part
        chosen = [max(c, key=lambda k: c[k]) if c else -1 for c in columns]
        parts.append(Picture.words(0, TRACK * track + 15, name))
        at = 0
        for kernel, alike in groupby(chosen):
            n = len(list(alike))
            if kernel >= 0:
                place = f'x="{LABELS + at * x:.0f}" y="{TRACK * track + 2}" width="{n * x:.1f}"'
                parts.append(f'<rect {place} height="{TRACK - 4}" fill="{COLOURS[kernel % len(COLOURS)]}"/>')
            at += n
    floor, most = TRACK * len(view.tracks) + KEPT, max(1, *(bar[4] for bar in view.bars))
    path, now = f"M{LABELS},{floor}", -1
    for _, _, till, _, kept, _ in sorted(view.bars, key=lambda bar: bar[2]):
        high = floor - round((KEPT - 8) * kept / most)
        if high != now:
            path, now = f"{path}H{LABELS + width * till / end:.0f}V{high}", high
    words = Picture.words(0, floor - 6, f"kept, {size(most)}")
    parts.append(f'<path fill="{GREY}" d="{path}H{WIDTH}V{floor}Z"/>{words}')
    return Picture.drawn(view.title, WIDTH, floor + 4, "".join(parts), wide=True)


def launches(report: Report, most: int = 100) -> Tree:
    """A table with a row for each kernel, and for each stretch of it: how often, how long, what was kept and why."""
    took = seconds_of(report)
    groups: dict[tuple[str, int], list[int]] = {}
    for n, step in enumerate(report.steps):
        groups.setdefault((step.what, step.stretch), []).append(n)
    rows = []
    for (what, stretch), own in groups.items():
        steps = [report.steps[n] for n in own]
        reasons = list(dict.fromkeys(step.why for step in steps))
        why = reasons[0] + (f"; and {count(len(reasons) - 1, 'further reason')}" if len(reasons) > 1 else "")
        kept = sum(step.bytes for step in steps) or (report.stretches[stretch].bytes if stretch >= 0 else 0)
        again = sum(step.times for step in steps)
        span = f"{own[0] + 1}" if len(own) == 1 else f"{own[0] + 1} to {own[-1] + 1}"
        times = (seconds(sum(took[n][track] for n in own if n in took)) for track in (FORWARD, GRADIENT))
        numbers = (f"{n:,}" if n else "" for n in (kept, again))
        rows.append((what, f"{len(own):,}", span, *times, *numbers, why))
    titles = ("kernel", "launches", "steps", "forward", "gradients", "bytes kept", "run again", "why")
    alike = len({row[7] for row in rows}) == 1  # then it is no reason, and stands once
    shown = [n for n in range(len(titles)) if n < 3 or (any(row[n] for row in rows) and not (n == 7 and alike))]
    more = Block(f"and {len(rows) - most} rows more") if len(rows) > most else ()
    picked = [[row[n] for n in shown] for row in rows[:most]]
    right = [k for k, n in enumerate(shown) if n not in (0, 7)]
    note = foot(f"Each step: {rows[0][7]}.") if rows and alike and rows[0][7] else ()
    return [Table([titles[n] for n in shown], picked, right=right), note, more]
