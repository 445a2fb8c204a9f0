"""The History pane shows times and sizes of each run of the cell, as a table and plots, and the edit between two
runs."""

import math
from collections.abc import Callable, Sequence

from quadrants_lab.widgets.model import EditView, KernelView
from quadrants_lab.widgets.tree import (
    Control,
    Difference,
    Lines,
    Picture,
    Slot,
    Table,
    Tree,
    bold,
    button,
    empty,
    head,
    seconds,
    size,
)

_WIDTH, _HEIGHT = 150, 44  # of a plot, in pixels


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The part of the pane that a request asks for: ``""`` everything; ``n`` what run n changed in the source;
    ``n/source`` the source of run n."""
    edits = view.edits
    if not edits:
        return empty("no run of a %%qdkernel cell with this kernel was recorded")
    if rest and rest[0].isdigit() and (n := int(rest[0])) < len(edits):
        return _source(edits, n) if rest[1:] else _edit(edits, n, prefix)
    modes = list(dict.fromkeys(m for e in edits for m in e.launches))
    parts = list(dict.fromkeys(p for e in edits for p in e.parts))
    columns: list[tuple[str, list[float | None], Callable[[float], str]]] = [
        (f"launch: {m}", [e.launches.get(m) for e in edits], seconds) for m in modes
    ]
    columns += [(f"compile: {p}", [e.parts.get(p) for e in edits], seconds) for p in parts]
    columns.append(("code", [float(e.code) for e in edits], _bytes))
    columns.append(("stacks per thread", [float(e.stacks) for e in edits], _bytes))
    columns += [("gradient off by", [e.error for e in edits], _error)]
    titles = ["run", "source", *(name for name, _, _ in columns)]
    rows: list[list[Tree]] = []
    for n, e in enumerate(edits):
        same = bool(n) and edits[n - 1].digest == e.digest
        text = "not edited" if same else "edited" if n else "first"
        changed = button(text, f"{prefix}/{n}", "edit", f"what run {n + 1} changed")
        values = ("–" if v[n] is None else text(v[n] or 0.0) or "–" for _, v, text in columns)
        rows.append([str(n + 1), changed, *values])
    several = (c for c in columns if len({v for v in c[1] if v is not None}) > 1)  # not what stays the same
    plots = [plot(name, values, text) for name, values, text in several]
    return [
        Table(titles, rows, right=range(2, len(titles)), roving=True),
        Control("div", {"class": "plots"}, plots),
        Slot("edit", _edit(edits, len(edits) - 1, prefix)),
    ]


def answer(view: KernelView) -> str:
    """The pane in a sentence: how the last run compares with the one before it."""
    edits = view.edits
    if len(edits) < 2:
        once = "The cell has run once. Each further run adds a row, with its times, its sizes and what you edited."
        return once if edits else ""
    before, now = edits[-2:]
    ratios = [
        f"{mode} {ratio(now.launches[mode] / before.launches[mode])}"
        for mode in now.launches
        if before.launches.get(mode) and now.launches[mode]
    ]
    how = "with the same source" if before.digest == now.digest else "after an edit"
    told = f": {', '.join(ratios)} as in run {len(edits) - 1}" if ratios else ""
    return f"Run {len(edits)}, {how}{told}."


def ratio(times: float) -> str:
    """How long something takes, in words: as long, 1.5 times as long, 1.5 times as fast."""
    if 0.95 <= times <= 1.05:
        return "as long"
    return f"{times:.3g} times as long" if times > 1 else f"{1 / times:.3g} times as fast"


def _bytes(value: float) -> str:
    return size(int(value)) if value else ""


def _error(value: float) -> str:
    return (f"{value:.1e}" if math.isfinite(value) else "not finite") if value else "0"


def plot(name: str, values: Sequence[float | None], text: Callable[[float], str]) -> Picture:
    """A line plot over the runs, from 0 to the greatest value. Runs without a measurement, or with a value that is not
    finite, are left out."""
    known = [v for v in values if v is not None]
    step = _WIDTH / max(len(values) - 1, 1)
    finite = [(n, v) for n, v in enumerate(values) if v is not None and math.isfinite(v)]
    top = max([v for _, v in finite], default=0.0) or 1.0
    points = [(4 + n * step, 4 + _HEIGHT * (1 - v / top)) for n, v in finite]
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in points)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    last = text(known[-1])
    drawn = f'<polyline points="{line}"/>{dots}'
    return Picture.drawn(
        f"{name}, run by run; last {last}", _WIDTH + 8, _HEIGHT + 8, drawn, [f"{name} ", bold(last)]
    )


def _source(edits: Sequence[EditView], n: int) -> Lines:
    return Lines(edits[n].source, "python", f"Edit of run {n + 1}")


def _edit(edits: Sequence[EditView], n: int, prefix: str) -> Tree:
    """The difference between the source of run n and the last source before it that differs."""
    before = next((m for m in range(n - 1, -1, -1) if edits[m].digest != edits[n].digest), None)
    if before is None:
        return empty(f"Run {n + 1} has the first text of this cell: nothing was edited before it.")
    requests = f"{prefix}/{before}/source", f"{prefix}/{n}/source"
    return [
        head(f"What was edited between run {before + 1} and run {n + 1}"),
        Difference(_source(edits, before), _source(edits, n), requests),
    ]
