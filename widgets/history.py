"""The History pane: times and sizes of each run of the cell, as a table and plots; the edit between two runs."""

import math
from collections.abc import Callable, Sequence

from quadrants_lab.widgets.html import difference, empty, esc, listing, seconds, size, slot, table
from quadrants_lab.widgets.model import EditView, KernelView

_WIDTH, _HEIGHT = 150, 44  # of a plot, in pixels


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``n``: what run n changed in the source; ``n/source``: the source of run n."""
    edits = view.edits
    if not edits:
        return empty("no run of a %%qdkernel cell with this kernel was recorded")
    if rest and rest[0].isdigit() and (n := int(rest[0])) < len(edits):
        return listing(edits[n].source, "python", f"Edit of run {n + 1}") if rest[1:] else _edit(edits, n, prefix)
    modes = list(dict.fromkeys(m for e in edits for m in e.launches))
    parts = list(dict.fromkeys(p for e in edits for p in e.parts))
    columns: list[tuple[str, list[float | None], Callable[[float], str]]] = [
        (f"compile: {p}", [e.parts.get(p) for e in edits], seconds) for p in parts
    ]
    columns += [(f"launch: {m}", [e.launches.get(m) for e in edits], seconds) for m in modes]
    columns.append(("code", [float(e.code) for e in edits], _bytes))
    columns.append(("stacks of an iteration", [float(e.stacks) for e in edits], _bytes))
    columns += [("gradient off by", [e.error for e in edits], _error)]
    head = ["run", "source", *(name for name, _, _ in columns)]
    rows = []
    for n, e in enumerate(edits):
        same = " (as before)" if n and edits[n - 1].digest == e.digest else ""
        offer = (
            f'<button type="button" class="ch" data-item data-req="{prefix}/{n}" data-into="edit" '
            f'aria-label="what run {n + 1} changed"><code>{e.digest}</code></button>{same}'
        )
        values = ("–" if v[n] is None else text(v[n] or 0.0) or "–" for _, v, text in columns)
        rows.append([str(n + 1), offer, *values])
    several = (c for c in columns if sum(v is not None for v in c[1]) > 1 and any(c[1]))
    plots = "".join(plot(name, values, text) for name, values, text in several)
    body = table(head, rows, right=range(2, len(head))).replace("<tbody>", '<tbody data-roving="">')
    return f'{body}<div class="plots">{plots}</div>{slot("edit", _edit(edits, len(edits) - 1, prefix))}'


def _bytes(value: float) -> str:
    return size(int(value)) if value else ""


def _error(value: float) -> str:
    return (f"{value:.1e}" if math.isfinite(value) else "not finite") if value else "0"


def plot(name: str, values: Sequence[float | None], text: Callable[[float], str]) -> str:
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
    say = f"{name}, run by run; last {last}"
    return (
        f'<figure><svg role="img" aria-label="{esc(say)}" width="{_WIDTH + 8}" height="{_HEIGHT + 8}">'
        f'<polyline points="{line}"/>{dots}</svg><figcaption>{esc(name)} <b>{esc(last)}</b></figcaption></figure>'
    )


def _edit(edits: Sequence[EditView], n: int, prefix: str) -> str:
    """The difference between the source of run n and the last source before it that differs."""
    before = next((m for m in range(n - 1, -1, -1) if edits[m].digest != edits[n].digest), None)
    if before is None:
        return f'<p class="none">Run {n + 1} ran the text that was there from the beginning.</p>'
    head = f"<h4>From run {before + 1} to run {n + 1}</h4>"
    return head + difference("text", f"{prefix}/{before}/source", f"{prefix}/{n}/source")
