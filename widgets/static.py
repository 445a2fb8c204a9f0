"""Writes the static copy of the inspector, without kernel and scripts, for saved notebooks, nbconvert and web
viewers.

It only uses HTML that strict sanitizers keep: details, tables, inline style, images as data URIs. Colours are readable
on white and on dark grey, because the page's theme is unknown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.runtime.check import LEVELS
from quadrants_lab.widgets import code, graph, run, stacks, steps, timeline, verdict
from quadrants_lab.widgets.diff import ranges
from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.live import Html, esc
from quadrants_lab.widgets.model import CellView, KernelView, Line, PassView, view_lines
from quadrants_lab.widgets.panes import PANES
from quadrants_lab.widgets.passes import changed, delta
from quadrants_lab.widgets.program import program
from quadrants_lab.widgets.source import listing
from quadrants_lab.widgets.tree import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    Block,
    Control,
    Difference,
    Fold,
    Graph,
    Lines,
    Picture,
    SizeTree,
    Slot,
    Table,
    Timeline,
    Tree,
    Word,
    bold,
    colour_of,
    empty,
    muted,
    seconds,
)

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.report import Report

MOST_TEXT = 42_000  # characters of a cell's copy, which with the live widget takes less than 120 KB of a notebook


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a pane. ``code``: lines of a listing of code. ``change``: lines of one change by a pass. ``ir``: lines
    of a kernel's IR whose changes are shown at all. ``graph``: characters of an image. ``others``: whether to show
    code of backends that the cell did not run on, if it was made. ``pictures``: whether arrays are also shown as
    pictures. ``plain``: whether text is without colours."""

    code: int
    change: int
    ir: int
    graph: int
    others: bool = False
    pictures: bool = False
    plain: bool = False


LIMITS = (
    Limits(120, 24, 1500, 40_000, others=True, pictures=True),
    Limits(40, 12, 800, 20_000, others=True),  # graphs of a usual size come before pictures
    Limits(16, 4, 300, 10_000, True),
    Limits(16, 4, 300, 10_000),
    Limits(8, 0, 300, 0),
    Limits(0, 0, 0, 0, plain=True),
)
ELSEWHERE = "too large for the copy in the notebook: run the cell, or export the view"
# the order in which the panes that are not open get more room
_GROW = ("source", "stacks", "run", "tape", "sizes", "steps", "cfg", "code", "passes")
_FRAME = f"border:1px solid {GREY};border-radius:6px;padding:6px 10px;margin:6px 0"
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px"

STYLE = {
    "hk": "color:#9a6ee8", "ht": "color:#2a94a3", "hs": "color:#3f9c5a", "hn": f"color:{ORANGE}", "hv": "",
    "hf": f"color:{BLUE}", "add": "color:#2f9e50", "del": "color:#e0525a", "none": f"color:{GREY};font-style:italic",
    **dict.fromkeys(("hc", "same", "muted", "foot", "hint", "cure", "badge", "grey", "ms"), f"color:{GREY}"),
    "answer": "font-weight:600", "val": f"color:{BLUE};font-weight:bold",
    "badge push": f"color:{ORANGE}", "lost": "color:#6e6e6e", "num": "text-align:right",
    **{f"verdict {level}": f"background:{colour};color:#fff;border-radius:4px;padding:0 8px;font-weight:600"
       for level, (_, colour) in LEVELS.items()},
    **{f"card {level}": f"border-left:4px solid {colour};padding:2px 10px;margin:6px 0"
       for level, (_, colour) in LEVELS.items()},
    **{colour_of(n): f"color:{colour}" for n, colour in enumerate(COLOURS)},
    "kids": "margin-left:20px", "leaf": "margin-left:14px", "sub": "margin-left:14px", "tree": _MONO,
    "chip": "margin-right:12px", "pre": f"{_MONO};white-space:pre-wrap;background:none;color:inherit",
}  # fmt: skip
PICTURE = (  # in images
    f"<style>polyline:not([stroke]){{fill:none;stroke:{BLUE};stroke-width:1.5}}"
    f"circle:not([fill]){{fill:{BLUE}}}</style>"
)


def _colour(kind: str) -> str:
    return f'style="{STYLE[kind]}"' if STYLE[kind] else ""


class Static(Html):
    """Writes HTML with inline styles instead of classes; listings are text, graphs are images, and of
    controls only what they enclose is left."""

    def __init__(self, limits: Limits = LIMITS[0]) -> None:
        self.limits = limits

    def look(self, kind: str) -> dict[str, str]:
        return {"style": STYLE[kind]} if kind in STYLE and not self.limits.plain else {}

    def word(self, x: Word) -> str:
        if x.kind == "chip" and self.limits.plain:
            return f"· {self.write(x.body)} "  # no margin keeps it apart from the next one
        if x.kind not in ("br", "b", "code", *STYLE) or (self.limits.plain and x.kind != "br"):
            return self.write(x.body)
        return super().word(Word(x.body, x.kind))

    def block(self, x: Block) -> str:
        return " " + self.write(x.body) if self.limits.plain and x.kind == "h4" else super().block(x)

    def tied(self, line: Line) -> dict[str, str]:
        return {}

    def path(self, path: str) -> dict[str, str]:
        return {}

    def table(self, x: Table) -> str:
        def cells(tag: str, row: Sequence[Tree]) -> str:
            left = "" if tag == "td" else " align=left"  # GitHub removes styles; Jupyter aligns to the right by a rule
            left += " style=text-align:left"
            sides = (" align=right" if n in x.right else left for n in range(len(row)))
            return "".join(f"<{tag}{side}>{self.write(c)}</{tag}>" for side, c in zip(sides, row, strict=True))

        rows = "".join(f"<tr valign=top>{cells('td', row)}</tr>" for row in x.rows)
        return f"<table cellpadding=4><thead><tr>{cells('th', x.head)}</tr></thead><tbody>{rows}</tbody></table>"

    def fold(self, x: Fold) -> str:
        return self.folded(self.write(x.title), self.write(x.body), x.opened)

    def folded(self, title: str, body: str, opened: bool) -> str:
        head = f'<details{" open" if opened else ""} style="margin:2px 0"><summary>{title}</summary>'
        return f'{head}<div style="margin:4px 0 10px 14px">{body}</div></details>'

    def lines(self, x: Lines) -> str:
        """A listing with as many lines as the limits allow; if not all fit, it begins shortly before the first
        statement."""
        rows = [esc(line.text) for line in x.lines]
        if x.numbers == "source":
            notes = {n: self.write(words) for n, words in x.notes.items()}
            texts = highlight([line.text for line in x.lines], "" if self.limits.plain else x.language, _colour)
            numbered = zip(x.lines, texts, strict=True)
            rows = [f"{line.span_line:>4}  {t}  {notes.get(line.span_line, '')}".rstrip() for line, t in numbered]
        begin, end = 0, len(rows)
        if x.numbers == "count" and end > self.limits.code:
            begin = max(next((n for n, line in enumerate(x.lines) if line.stmt >= 0), 0) - 3, 0)
            end = min(begin + self.limits.code, end)
        left = [(begin, "… {} lines before"), (len(rows) - end, "… {} more lines")]
        before, after = ([self.write(muted(text.format(n)))] if n else [] for n, text in left)
        return self.pre([*before, *rows[begin:end], *after])

    def pre(self, rows: Sequence[str]) -> str:
        return f'<pre style="{STYLE["pre"]}">' + "\n".join(rows) + "</pre>"

    def difference(self, x: Difference) -> str:
        """The difference of two listings in one column."""
        return self.pre([self.write(row) for row in unified(x.before.lines, x.after.lines, self.limits.change)])

    def graph(self, x: Graph) -> str:
        drawn = "" if len(x.view.nodes) > self.limits.graph // 100 else self.image(x.view.title, graph.svg(x.view))
        return drawn if 0 < len(drawn) <= self.limits.graph else self.write(Block(muted(ELSEWHERE)))

    def timeline(self, x: Timeline) -> str:
        html = self.picture(timeline.drawn(x.view)) if self.limits.graph else ""
        return html if len(html) <= self.limits.graph else ""

    def picture(self, x: Picture) -> str:
        if x.uri:
            return super().picture(x) if self.limits.pictures else ""
        begin = x.svg.index(">") + 1
        caption = f'<figcaption style="color:{GREY};font-size:12px">{self.write(x.caption)}</figcaption>'
        image = self.image(x.alt, x.svg[:begin] + PICTURE + x.svg[begin:])
        return f'<figure style="margin:4px 0">{image}{caption if x.caption else ""}</figure>'

    def image(self, alt: str, drawing: str) -> str:
        """An img element with an SVG in a data URI, for pages that strip inline SVG."""
        uri = f"data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()}"
        return f'<img alt="{esc(alt)}" style="max-width:100%;border-radius:4px" src="{uri}">'

    def slot(self, x: Slot) -> str:
        return self.write(x.body)

    def control(self, x: Control) -> str:
        """The picture that a control encloses, with its text; other controls are there for the user's hand alone."""
        return self.write(x.body) if x.tag == "div" and self.limits.pictures else ""


def static(tree: Tree) -> str:
    """The HTML of a tree without scripts and style sheet."""
    return Static().write(tree)


def static_html(view: CellView, uid: str = "") -> str:
    """The whole inspector as nested details, of which only the run is open; only the steps for a view that opens
    there. It shows as much as `MOST_TEXT` allows: first every pane with the least limits, then one pane after the
    other with wider limits, as long as they fit."""
    shown = ["steps"] if view.open == "steps" else list(DRAWN)
    opened = view.open if view.open in DRAWN and view.open != "source" else "run"

    def folded(n: int, pane: str, limits: Limits) -> str:
        pen, kernel = Static(limits), view.kernels[n]
        if n and pane == "tape":  # of the whole cell
            return ""
        try:
            html = pen.write(DRAWN[pane](kernel, limits))
        except Exception as e:  # the other panes can still be shown
            html = pen.write(empty(f"this pane failed: {type(e).__name__}: {e}"))
        said = "" if pane == "source" else PANES[pane].answer(kernel)
        title: Tree = [bold("Source" if pane == "source" else PANES[pane].title), f" – {said}" if said else ""]
        return pen.folded(Static().write(title), html, pane == opened) if html else ""

    checked = next((k.check for k in view.kernels if k.check), None)
    body = Static().write(verdict.verdict(checked[0])) if checked and view.open != "steps" else ""
    parts = {(n, p): folded(n, p, LIMITS[-1]) for n in range(len(view.kernels)) for p in shown}
    left = MOST_TEXT - len(body) - sum(map(len, parts.values()))
    order = sorted(shown, key=lambda pane: (pane != opened, _GROW.index(pane)))
    growing = [(n, p) for p in order for n in range(len(view.kernels))]
    for limits in reversed(LIMITS[:-1]):
        for n, p in list(growing):
            html = folded(n, p, limits)
            more = len(html) - len(parts[n, p])
            if more <= left:
                parts[n, p] = html
                left -= more
            else:
                growing.remove((n, p))
    for n, k in enumerate(view.kernels):
        body += f'<div style="{_FRAME}"><b>{esc(k.name)}</b>{"".join(parts[n, p] for p in shown)}</div>'
    return f'<div data-qd-static="{esc(uid)}" style="font-size:14px">{body}</div>'


# --- the panes, which show everything at once ----------------------------------------------------------------------


def passes(view: KernelView, limits: Limits) -> Tree:
    """The changes by each pass."""
    parts: list[Tree] = []
    for trace, made in view.traces.items():
        changes = [f"{s.name} {seconds(s.seconds)}" for s in made if s.after is not s.before]
        parts += [Block(bold(trace)), [_pass(view, s, limits) for s in made] if limits.ir else ", ".join(changes)]
    return parts


def _pass(view: KernelView, step: PassView, limits: Limits) -> Tree:
    took = muted(seconds(step.seconds))
    if step.after.next_id > 2 * limits.ir or len(view_lines(view, step.after)) > limits.ir:
        return Block([step.name, " ", took], "leaf")
    change = changed(view, step)
    head = [step.name, " ", delta(change), " ", took]
    if change is None or not limits.change:
        return Block(head, "noop" if change is None else "leaf")
    before, after = (Lines(view_lines(view, kernel), "ir", "") for kernel in (step.before, step.after))
    return Fold(head, Difference(before, after, ("", "")))


def unified(before: Sequence[Line], after: Sequence[Line], most: int, context: int = 2) -> Iterator[Tree]:
    """The rows of a difference in one column: at most ``most`` changes and lines of each, with some lines between."""
    cut = ranges(before, after)
    changes = [n for n, (tag, *_) in enumerate(cut) if tag == "change"]
    for n, (tag, a, b, c, d) in enumerate(cut[: changes[most] if len(changes) > most else None]):
        left, right = before[a:b], after[c:d]
        if tag == "change":
            yield from (Word(f"- {x.text}", "del") for x in left[:most])
            yield from (Word(f"+ {x.text}", "add") for x in right[:most])
            if more := sum(max(0, len(lines) - most) for lines in (left, right)):
                yield muted(f"  … {more} more changed")
            continue
        head = [] if n == 0 else left[:context]
        tail = [] if n == len(cut) - 1 else left[max(len(head), len(left) - context) :]
        yield from (f"  {x.text}" for x in head)
        if hidden := len(left) - len(head) - len(tail):
            yield muted(f"  … {hidden} unchanged")
        yield from (f"  {x.text}" for x in tail)
    if len(changes) > most:
        yield muted(f"  … {len(changes) - most} more places")


def sizes_of(view: KernelView) -> Tree:
    """The depths of the stacks as trees."""
    return [[Block(f"{s.name}, line {s.line}"), SizeTree(s.size)] for s in view.stacks if s.size is not None]


def steps_of(view: KernelView, limits: Limits) -> Tree:
    """The steps of one iteration; the first and last steps of a long one."""
    if isinstance(view.steps, str):
        return empty(view.steps or steps.NONE)
    if limits is LIMITS[-1]:
        return Block(muted(ELSEWHERE))
    try:
        trace = view.steps.trace()
    except QuadrantsError as e:
        return empty(str(e))
    what = f"{view.steps.shown.mode} of {view.name}, iteration {trace.lane}: step, line, statement, value"
    rows: Tree = [[f"{n:>4} {line:>4}  {text}  ", bold(value), "\n"] for n, line, text, value in steps.rows(trace)]
    return [Block(what), Block(rows, "pre")]


def _code(view: KernelView, limits: Limits) -> Tree:
    parts: list[Tree] = []
    for mode, stages in view.code.items():
        known = [s for s in stages if s.known is not None]
        parts += [Block(mode), code.sizes(known) if known else ()]
        for title, stage in zip(code.titles(known), known, strict=True):
            if limits.code and (limits.others or stage.backend == stages[0].backend):
                parts.append(Fold(f"{mode}, {title}", code.stage_code(stage)))
    if not limits.others or any(s.known is None for stages in view.code.values() for s in stages):
        parts.append(empty("other code is made when somebody looks at it in the live view"))
    return parts


def _tape(report: Report, limits: Limits) -> Tree:
    drawn = Graph(program(report)) if limits.graph else ()
    return [timeline.timeline(report), timeline.launches(report, limits.code or 4), drawn]


DRAWN: dict[str, Callable[[KernelView, Limits], Tree]] = {
    "source": lambda v, _: listing(v),
    "passes": passes,
    "cfg": lambda v, limits: () if not v.graphs else graph.pane(v, "", ()) if limits.graph else Block(muted(ELSEWHERE)),
    "stacks": lambda v, _: stacks.pane(v, "", ()),
    "sizes": lambda v, _: sizes_of(v),
    "steps": steps_of,
    "code": _code,
    "run": lambda v, _: run.pane(v, "", ()),
    "tape": lambda v, limits: [_tape(r, limits) for r in v.tapes],
}
