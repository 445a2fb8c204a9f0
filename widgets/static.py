"""The inspector without a kernel and without scripts: what a saved notebook, nbconvert or a web viewer shows.

Only what a strict sanitizer lets pass: details, tables, inline style, images as data URIs. Colours are chosen to be
read on white and on dark grey, because the page's theme is out of reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.widgets import code, run, sizes, stacks, steps
from quadrants_lab.widgets.diff import hunks
from quadrants_lab.widgets.graph import image
from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.html import empty, esc, seconds
from quadrants_lab.widgets.model import CellView, KernelView, Line, PassView, kernel_lines
from quadrants_lab.widgets.passes import changed, delta
from quadrants_lab.widgets.source import margin

MOST_CODE_LINES, MOST_OTHER_LINES = 120, 36  # of a stage of the home backend, of another
_GREY = "#85888e"
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

_CLASS = re.compile(r' class="([^"]*)"')
_LIVE = re.compile(r' (?:data-[\w-]+|tabindex|role|aria-selected)(?:="[^"]*")?')


def inlined(html: str) -> str:
    """Classes turned into inline style where `STYLE` knows them, live attributes dropped."""

    def style(m: re.Match[str]) -> str:
        rule = STYLE.get(m.group(1))
        return f' style="{rule}"' if rule else ""

    html = re.sub(r"<[^>]+>", lambda tag: _CLASS.sub(style, _LIVE.sub("", tag.group())), html)
    return re.sub(r"<(td|th)(?: style=\"([^\"]*)\")?", _cell, html)


def _cell(m: re.Match[str]) -> str:
    align = "" if m.group(2) else "text-align:left;"
    return f'<{m.group(1)} style="{align}padding:2px 14px 2px 0;vertical-align:top;{m.group(2) or ""}"'


def static_html(view: CellView, uid: str = "") -> str:
    """The whole inspector as nested details, closed but for the run; of a view that opens at the steps these alone."""
    shown = [p for p in _PANES if view.open != "steps" or p[0] == "Steps"]
    body = "".join(_kernel(k, shown, "Run" if view.open != "steps" else "Steps") for k in view.kernels)
    return f'<div data-qd-static="{esc(uid)}" style="font-size:13px">{body}</div>'


def _kernel(view: KernelView, panes: Sequence[tuple[str, Callable[[KernelView], str]]], opened: str) -> str:
    parts = []
    for title, make in panes:
        try:
            html = make(view)
        except Exception as e:  # one broken pane must not take the others with it
            html = empty(f"this pane failed: {type(e).__name__}: {e}")
        parts.append(_fold(title, inlined(html), opened=title == opened))
    frame = f"border:1px solid {_GREY};border-radius:6px;padding:6px 10px;margin:6px 0"
    return f'<div style="{frame}"><b>{esc(view.name)}</b>{"".join(parts)}</div>'


def _fold(title: str, html: str, opened: bool = False) -> str:
    head = f'<details{" open" if opened else ""} style="margin:2px 0"><summary>{title}</summary>'
    return f'{head}<div style="margin:4px 0 10px 14px">{html}</div></details>'


def _pre(text: str) -> str:
    return f'<pre style="{_MONO};white-space:pre-wrap;background:none;color:inherit">{text}</pre>'


def _source(view: KernelView) -> str:
    notes = margin(view)
    rows = zip(view.source, highlight([x.text for x in view.source], "python"), strict=True)
    return _pre(
        "\n".join(f"{x.span_line:>4}  {text}  {notes.get(x.span_line, '')}".rstrip() for x, text in rows)
    )


def _passes(view: KernelView) -> str:
    parts = []
    lowered = [trace for trace in view.traces if trace.startswith("gradient on ")]
    for trace, made in view.traces.items():
        if trace in lowered[1:]:
            continue  # other backends than the session's
        rows = []
        for step in made:
            change = changed(view, step)
            head = f'{esc(step.name)} {delta(change)} <span class="muted">{seconds(step.seconds)}</span>'
            if change is None:
                rows.append(f'<div style="margin-left:14px">{head}</div>')
            else:
                rows.append(_fold(head, _unified(view, step)))
        parts.append(f"<p><b>{esc(trace)}</b></p>{''.join(rows)}")
    return "".join(parts)


_MOST_CHANGED = 24  # lines of one change: a copy that a notebook keeps is to stay small


def _unified(view: KernelView, step: PassView, context: int = 2) -> str:
    out: list[str] = []
    cut = hunks(kernel_lines(step.before, view.file), kernel_lines(step.after, view.file))
    for n, (tag, left, right) in enumerate(cut):
        if tag == "change":
            out += [f'<span class="del">- {esc(x.text)}</span>' for x in left[:_MOST_CHANGED]]
            out += [f'<span class="add">+ {esc(x.text)}</span>' for x in right[:_MOST_CHANGED]]
            more = sum(max(0, len(lines) - _MOST_CHANGED) for lines in (left, right))
            out += [f'<span class="muted">  … {more} more changed</span>'] if more else []
            continue
        head = [] if n == 0 else left[:context]
        tail = [] if n == len(cut) - 1 else left[max(len(head), len(left) - context) :]
        out += [f"  {esc(x.text)}" for x in head]
        hidden = len(left) - len(head) - len(tail)
        if hidden:
            out.append(f'<span class="muted">  … {hidden} unchanged</span>')
        out += [f"  {esc(x.text)}" for x in tail]
    return _pre("\n".join(out))


def _stacks(view: KernelView) -> str:
    parts = [stacks.report(view), stacks.backends(view)]
    if view.free:
        parts.append(f"<p>Values without a stack</p>{stacks.free(view)}")
    parts += [f"<p>{esc(t.title)}</p>{image(t.scc)}" for t in view.graphs if t.scc is not None]
    return "".join(parts)


def _steps(view: KernelView) -> str:
    if isinstance(view.steps, str):
        return empty(view.steps or steps.NONE)
    try:
        trace = view.steps.make(view.steps.task, view.steps.lane)
    except QuadrantsError as e:
        return empty(str(e))
    head = f"<p>{esc(view.steps.launch)}, iteration {esc(trace.lane)}: step, line, statement, value</p>"
    lines = (f"{n:>4} {line:>4}  {esc(text)}  <b>{esc(value)}</b>" for n, line, text, value in steps.rows(trace))
    return head + _pre("\n".join(lines))


def _code(view: KernelView) -> str:
    parts = []
    for mode, stages in view.code.items():
        parts.append(f"<p>{esc(mode)}</p>{code.sizes(stages)}")
        for title, stage in zip(code.titles(stages), stages, strict=True):
            most = MOST_CODE_LINES if stage.backend == stages[0].backend else MOST_OTHER_LINES
            body = _pre(esc(stage.make().problem) or "\n".join(_cut(stage.make().lines, most)))
            parts.append(_fold(f"{esc(mode)}, {esc(title)}", code.measures(stage) + body))
    return "".join(parts)


def _cut(lines: Sequence[Line], most: int) -> list[str]:
    """At most so many lines, from where the statements begin when not all fit."""
    if len(lines) <= most:
        return [esc(x.text) for x in lines]
    begin = max(next((n for n, x in enumerate(lines) if x.stmt >= 0), 0) - 3, 0)
    shown = [esc(x.text) for x in lines[begin : begin + most]]
    end = len(lines) - begin - len(shown)
    head = [f'<span class="muted">… {begin} lines before</span>'] if begin else []
    return [*head, *shown, *([f'<span class="muted">… {end} more lines</span>'] if end else [])]


_PANES: tuple[tuple[str, Callable[[KernelView], str]], ...] = (
    ("Source", _source),
    ("Passes", _passes),
    ("CFG", lambda v: "".join(f"<p>{esc(t.title)}</p>{image(t.cfg)}" for t in v.graphs)),
    ("Stacks", _stacks),
    ("SizeExpr", lambda v: sizes.pane(v, "", ())),
    ("Steps", _steps),
    ("Code", _code),
    ("Run", lambda v: run.pane(v, "", ())),
)
