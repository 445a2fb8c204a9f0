"""The static copy of the inspector, without kernel and scripts, for saved notebooks, nbconvert and web viewers.

It only uses HTML that strict sanitizers keep: details, tables, inline style, images as data URIs. Colours are readable
on white and on dark grey, because the page's theme is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.widgets import code, run, sizes, stacks, steps, timeline
from quadrants_lab.widgets.diff import ranges
from quadrants_lab.widgets.graph import image
from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.html import empty, esc, seconds
from quadrants_lab.widgets.model import CellView, GraphView, KernelView, Line, PassView, view_lines
from quadrants_lab.widgets.passes import changed, delta
from quadrants_lab.widgets.source import margin

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.report import Report

MOST_TEXT = 33_000  # characters of a cell's copy, which with the live widget takes less than 100 KB of a notebook


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a pane. ``code``: lines of a stage's code. ``change``: lines of one change by a pass. ``ir``: lines of
    a kernel's IR whose changes are shown at all. ``graph``: characters of an image. ``others``: whether to show code of
    backends that the cell did not run on, if it was made. ``pictures``: whether arrays are also shown as pictures."""

    code: int
    change: int
    ir: int
    graph: int
    others: bool = False
    pictures: bool = True


LIMITS = (
    Limits(120, 24, 1500, 40_000, True),
    Limits(40, 12, 800, 20_000, True),
    Limits(16, 4, 300, 10_000, True),
    Limits(16, 4, 300, 10_000),
    Limits(8, 0, 300, 0),
    Limits(0, 0, 0, 0, pictures=False),
)
_GROW = ("Source", "Tape", "SizeExpr", "Steps", "Stacks", "CFG", "Run", "Code", "Passes")  # the most useful panes first
_ELSEWHERE = '<p style="color:#85888e">too large for the copy in the notebook: run the cell, or export the view</p>'
_GREY = "#85888e"
_FRAME = f"border:1px solid {_GREY};border-radius:6px;padding:6px 10px;margin:6px 0"
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px"

STYLE = {
    "hk": "color:#9a6ee8", "ht": "color:#2a94a3", "hs": "color:#3f9c5a", "hn": "color:#c27a2b", "hf": "color:#4a8fe0",
    "hc": f"color:{_GREY}", "add": "color:#2f9e50", "del": "color:#e0525a", "same": f"color:{_GREY}",
    "none": f"color:{_GREY};font-style:italic", "muted": f"color:{_GREY}", "foot": f"color:{_GREY}",
    "hint": f"color:{_GREY}", "val": "color:#4a8fe0;font-weight:bold", "badge": f"color:{_GREY};font-size:11px",
    "badge push": "color:#c27a2b;font-size:11px", "num": "text-align:right", "kids": "margin-left:20px",
    "leaf": "margin-left:14px", "tree": _MONO, "chip": "margin-right:12px",
    "sub": "margin-left:14px", "pre": f"{_MONO};white-space:pre-wrap",
}  # fmt: skip

_TABLE = {
    ' scope="col"': "", ' style="text-align:right"': ' align="right"',
    "<table": '<table cellpadding="4"', "<th>": '<th align="left">', "<tr>": '<tr valign="top">',
}  # fmt: skip
Render = Callable[[KernelView, Limits], str]
_CLASS = re.compile(r' class="([^"]*)"')
_LIVE = re.compile(r' (?:data-[\w-]+|tabindex|role|aria-selected)(?:="[^"]*")?')


def inlined(html: str) -> str:
    """Replaces classes by the inline style in `STYLE`, and drops buttons and attributes for the live widget."""

    def style(m: re.Match[str]) -> str:
        rule = STYLE.get(m.group(1))
        return f' style="{rule}"' if rule else ""

    html = re.sub(r"<button.*?</button>", "", html)
    html = re.sub(r"<[^>]+>", lambda tag: _CLASS.sub(style, _LIVE.sub("", tag.group())), html)
    for tag, short in _TABLE.items():
        html = html.replace(tag, short)
    return html


def static_html(view: CellView, uid: str = "") -> str:
    """The whole inspector as nested details, of which only the run is open; only the steps for a view that opens
    there. It shows as much as `MOST_TEXT` allows: first every pane with the least limits, then one pane after the
    other with wider limits, as long as they fit."""
    shown = [p for p in _PANES if view.open != "steps" or p[0] == "Steps"]
    opened = "Run" if view.open != "steps" else "Steps"

    def folded(n: int, pane: tuple[str, Render], limits: Limits) -> str:
        html = _pane(view.kernels[n], pane[1], limits)
        return _fold(pane[0], html, pane[0] == opened) if html else ""

    parts = {(n, p): folded(n, p, LIMITS[-1]) for n in range(len(view.kernels)) for p in shown}
    left = MOST_TEXT - sum(map(len, parts.values()))
    growing = [(n, p) for p in sorted(shown, key=lambda p: _GROW.index(p[0])) for n in range(len(view.kernels))]
    for limits in reversed(LIMITS[:-1]):
        for n, p in list(growing):
            html = folded(n, p, limits)
            more = len(html) - len(parts[n, p])
            if more <= left:
                parts[n, p] = html
                left -= more
            else:
                growing.remove((n, p))
    body = ""
    for n, k in enumerate(view.kernels):
        body += f'<div style="{_FRAME}"><b>{esc(k.name)}</b>{"".join(parts[n, p] for p in shown)}</div>'
    return f'<div data-qd-static="{esc(uid)}" style="font-size:13px">{body}</div>'


def _pane(view: KernelView, make: Render, limits: Limits) -> str:
    try:
        html = make(view, limits)
    except Exception as e:  # the other panes can still be shown
        html = empty(f"this pane failed: {type(e).__name__}: {e}")
    if not limits.pictures:
        html = re.sub(r"<img [^>]*>", "", html)
    if limits is LIMITS[-1]:
        html = re.sub(r"</?(?:span|code|h4)[^>]*>", " ", html)
    return inlined(html)


def _fold(title: str, html: str, opened: bool = False) -> str:
    head = f'<details{" open" if opened else ""} style="margin:2px 0"><summary>{title}</summary>'
    return f'{head}<div style="margin:4px 0 10px 14px">{html}</div></details>'


def _pre(text: str) -> str:
    return f'<pre style="{_MONO};white-space:pre-wrap;background:none;color:inherit">{text}</pre>'


def _source(view: KernelView, limits: Limits) -> str:
    notes = margin(view)
    rows = zip(view.source, highlight([x.text for x in view.source], "python"), strict=True)
    return _pre(
        "\n".join(f"{x.span_line:>4}  {text}  {notes.get(x.span_line, '')}".rstrip() for x, text in rows)
    )


def passes(view: KernelView, limits: Limits) -> str:
    """The changes by each pass."""
    parts = []
    for trace, made in view.traces.items():
        if limits.ir:
            shown = "".join(_pass(view, step, limits) for step in made)
        else:
            shown = ", ".join(f"{esc(s.name)} {seconds(s.seconds)}" for s in made if s.after is not s.before)
        parts.append(f"<p><b>{esc(trace)}</b></p>{shown}")
    return "".join(parts)


def _pass(view: KernelView, step: PassView, limits: Limits) -> str:
    took = f'<span class="muted">{seconds(step.seconds)}</span>'
    if step.after.next_id > 2 * limits.ir or len(view_lines(view, step.after)) > limits.ir:
        return f'<div style="margin-left:14px">{esc(step.name)} {took}</div>'
    change = changed(view, step)
    head = f"{esc(step.name)} {delta(change)} {took}"
    if change is None or not limits.change:
        kind = "noop" if change is None else ""
        return f'<div class="{kind}" style="margin-left:14px">{head}</div>'
    return _fold(head, _unified(view, step, limits.change))


def _unified(view: KernelView, step: PassView, most: int, context: int = 2) -> str:
    out: list[str] = []
    before, after = view_lines(view, step.before), view_lines(view, step.after)
    cut = ranges(before, after)
    changes = [n for n, (tag, *_) in enumerate(cut) if tag == "change"]
    for n, (tag, a, b, c, d) in enumerate(cut[: changes[most] if len(changes) > most else None]):
        left, right = before[a:b], after[c:d]
        if tag == "change":
            out += [f'<span class="del">- {esc(x.text)}</span>' for x in left[:most]]
            out += [f'<span class="add">+ {esc(x.text)}</span>' for x in right[:most]]
            more = sum(max(0, len(lines) - most) for lines in (left, right))
            out += [f'<span class="muted">  … {more} more changed</span>'] if more else []
            continue
        head = [] if n == 0 else left[:context]
        tail = [] if n == len(cut) - 1 else left[max(len(head), len(left) - context) :]
        out += [f"  {esc(x.text)}" for x in head]
        hidden = len(left) - len(head) - len(tail)
        if hidden:
            out.append(f'<span class="muted">  … {hidden} unchanged</span>')
        out += [f"  {esc(x.text)}" for x in tail]
    if len(changes) > most:
        out.append(f'<span class="muted">  … {len(changes) - most} more places</span>')
    return _pre("\n".join(out))


def _graphs(graphs: Sequence[tuple[str, GraphView]], limits: Limits) -> str:
    parts = []
    for title, graph in graphs:
        drawn = "" if len(graph.nodes) > limits.graph // 100 else image(graph)
        parts.append(f"<p>{esc(title)}</p>{drawn if 0 < len(drawn) <= limits.graph else _ELSEWHERE}")
    return "".join(parts)


def _stacks(view: KernelView, limits: Limits) -> str:
    return stacks.tables(view) + _graphs([(t.title, t.scc) for t in view.graphs if t.scc is not None], limits)


def sizes_of(view: KernelView) -> str:
    """The depths of the stacks as trees."""
    trees = [(s.name, s.line, s.size) for s in view.stacks if s.size is not None]
    return "".join(f"<p>{esc(name)}, line {line}</p>{sizes.tree(e)}" for name, line, e in trees)


def steps_of(view: KernelView, limits: Limits) -> str:
    """The steps of one iteration; the first and last steps of a long one."""
    if isinstance(view.steps, str):
        return empty(view.steps or steps.NONE)
    if limits is LIMITS[-1]:
        return _ELSEWHERE
    try:
        trace = view.steps.trace()
    except QuadrantsError as e:
        return empty(str(e))
    what = f"{view.steps.shown.mode} of {view.name}, iteration {trace.lane}"
    head = f"<p>{esc(what)}: step, line, statement, value</p>"
    lines = (f"{n:>4} {line:>4}  {esc(text)}  <b>{esc(value)}</b>" for n, line, text, value in steps.rows(trace))
    return head + _pre("\n".join(lines))


def _code(view: KernelView, limits: Limits) -> str:
    parts = []
    for mode, stages in view.code.items():
        known = [s for s in stages if s.known is not None]
        parts.append(f"<p>{esc(mode)}</p>{code.sizes(known) if known else ''}")
        for title, stage in zip(code.titles(known), known, strict=True):
            if limits.code and stage.known is not None and (limits.others or stage.backend == stages[0].backend):
                body = _pre(esc(stage.known.problem) or "\n".join(_cut(stage.known.lines, limits.code)))
                parts.append(_fold(f"{esc(mode)}, {esc(title)}", code.measures(stage) + body))
    if not limits.others or any(s.known is None for stages in view.code.values() for s in stages):
        parts.append(empty("other code is made when somebody looks at it in the live view"))
    return "".join(parts)


def _tape(report: Report, limits: Limits) -> str:
    return f"<p>{esc(report.title())}</p>{timeline.launches(report, limits.code or 4)}"


def _cut(lines: Sequence[Line], most: int) -> list[str]:
    """At most ``most`` lines; if not all fit, from shortly before the first statement."""
    if len(lines) <= most:
        return [esc(x.text) for x in lines]
    begin = max(next((n for n, x in enumerate(lines) if x.stmt >= 0), 0) - 3, 0)
    shown = [esc(x.text) for x in lines[begin : begin + most]]
    end = len(lines) - begin - len(shown)
    head = [f'<span class="muted">… {begin} lines before</span>'] if begin else []
    return [*head, *shown, *([f'<span class="muted">… {end} more lines</span>'] if end else [])]


_PANES: tuple[tuple[str, Render], ...] = (
    ("Source", _source),
    ("Passes", passes),
    ("CFG", lambda v, limits: _graphs([(t.title, t.cfg) for t in v.graphs], limits)),
    ("Stacks", _stacks),
    ("SizeExpr", lambda v, _: sizes_of(v)),
    ("Steps", steps_of),
    ("Code", _code),
    ("Run", lambda v, _: run.pane(v, "", ())),
    ("Tape", lambda v, limits: "".join(_tape(r, limits) for r in v.tapes)),
)
