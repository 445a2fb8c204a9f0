"""Writes trees (`tree`) as HTML for the live widget, with classes for the style sheet and data for the scripts.

Each block, row, option and line of a listing begins on a line of its own. `pack.py` stores each line once.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence

from quadrants_lab.widgets import diff, graph
from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.model import Line, SizeView
from quadrants_lab.widgets.tree import (
    COLOURS,
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
    size_head,
    ties,
)

# first word of a kind -> element; others are paragraphs
BLOCKS = {"h4": "h4", **dict.fromkeys(("pre", "file"), "pre"), **dict.fromkeys(("bar", "kids", "div", "card"), "div")}
WORDS = {"b": "b", "code": "code", "br": "br"}  # others are spans


def esc(text: object) -> str:
    return html.escape(str(text), quote=True)


def data(value: object) -> str:
    """JSON for an attribute in double quotes."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "&amp;").replace('"', "&quot;")


def spread(value: Mapping[str, object], name: str, rows: Iterable[object]) -> str:
    """JSON like that of `data`, with one more list of the given name, whose rows stand on lines of their own."""
    lines = ",\n".join(map(data, rows))
    return f"{data(value)[:-1]},&quot;{name}&quot;:[\n{lines}\n]}}"


def element(tag: str, attributes: Mapping[str, str], inner: str = "") -> str:
    told = "".join(f' {name}="{esc(value)}"' if value else f" {name}" for name, value in attributes.items())
    return f"<{tag}{told}>" if tag in ("input", "br", "img") else f"<{tag}{told}>{inner}</{tag}>"


class Html:
    """Writes trees as HTML. A subclass changes `look`, and the methods for what it shows in another way."""

    def look(self, kind: str) -> dict[str, str]:
        """The attributes of an element of that kind."""
        return {} if kind in ("p", "h4", "b", "code", "br", "div") else {"class": kind}

    def write(self, tree: Tree) -> str:
        if isinstance(tree, str):
            return html.escape(tree, quote=False)
        if isinstance(tree, Sequence):
            return "".join(map(self.write, tree))
        made: str = getattr(self, type(tree).__name__.lower())(tree)
        return made

    def word(self, x: Word) -> str:
        tip = {"title": x.tip} if x.tip else {}
        return element(WORDS.get(x.kind, "span"), self.look(x.kind) | tip, self.write(x.body))

    def block(self, x: Block) -> str:
        inner, tied = self.write(x.body), self.tied(Line("", x.line))
        return "\n" + element(BLOCKS.get(x.kind.split()[0], "p"), self.look(x.kind) | tied, inner) if inner else ""

    def tied(self, line: Line) -> dict[str, str]:
        return ties(line)

    def fold(self, x: Fold) -> str:
        opened = " open" if x.opened else ""
        return f"\n<details{opened}><summary>{self.write(x.title)}</summary>{self.write(x.body)}\n</details>"

    def table(self, x: Table) -> str:
        def cells(tag: str, row: Sequence[Tree], more: Mapping[str, str]) -> str:
            looks = (self.look("num") if n in x.right else {} for n in range(len(row)))
            return "".join(element(tag, {**look, **more}, self.write(c)) for look, c in zip(looks, row, strict=True))

        rows = []
        for n, row in enumerate(x.rows):
            tied = self.tied(x.links[n]) if x.links else {}
            tied |= {"data-item": "", "tabindex": "-1"} if tied else {}
            rows.append("\n" + element("tr", tied, cells("td", row, {})))
        roving = {"data-roving": ""} if x.links or x.roving else {}
        head = element("thead", {}, element("tr", {}, cells("th", x.head, {"scope": "col"})))
        return "\n" + element("table", self.look("tb"), head + element("tbody", roving, "".join(rows)))

    def lines(self, x: Lines) -> str:
        """A listing as data, of which the browser (`lines.js`) only draws the visible rows. Each entry of t is "source
        line, statement, statement whose adjoint it computes, HTML"; 0, -1 and -1 mean none."""
        told = {line: self.write(words).replace('"', "'") for line, words in x.notes.items()}
        lines = spread({"n": x.numbers, "notes": told, "folds": x.folds, "top": x.top}, "t", listed(x))
        attributes = f'role="listbox" tabindex="0" aria-label="{esc(x.label)}"'
        return f'\n<div class="code lines" {attributes} data-lines="{lines}"></div>'

    def difference(self, x: Difference) -> str:
        """An element that tells the browser the requests for the two listings, the hunks that differ, and the marked
        words of their lines."""
        hunks = diff.ranges(x.before.lines, x.after.lines)
        rows = listed(x.before), listed(x.after)
        told = {"h": hunks, "m": diff.marked(x.before.lines, x.after.lines, hunks, *rows)}
        both = {"data-from": x.requests[0], "data-to": x.requests[1]}
        return "\n" + element("div", both | {"data-told": json.dumps(told, separators=(",", ":"))})

    def graph(self, x: Graph) -> str:
        if not x.view.drawn:
            drawing = graph.drawing(x.view)
            x.view.drawn = spread(drawing, "nodes", drawing.pop("nodes"))
        dot = f' data-dot="{x.dot}"' if x.dot else ""
        return f'\n<div class="graph"{dot} data-graph="{x.view.drawn}"></div>'

    def timeline(self, x: Timeline) -> str:
        v = x.view
        bars = ([t, *(float(f"{w:.7g}") for w in (a, b)), *rest] for t, a, b, *rest in v.bars)
        told = {"title": v.title, "tracks": v.tracks, "names": v.names, "timed": v.timed, "cuts": v.cuts}
        told |= {"colours": [COLOURS[n % len(COLOURS)] for n in range(len(v.names))], "file": x.file}
        return f'\n<div class="graph time" data-timeline="{spread(told, "bars", bars)}"></div>'

    def sizetree(self, x: SizeTree) -> str:
        return "\n" + element("div", self.look("tree"), self.size(x.size, "0"))

    def size(self, e: SizeView, path: str) -> str:
        """A node of an expression; if it has operands it folds."""
        told, place = self.write(size_head(e)), self.path(path)
        if not e.children:
            return "\n" + element("div", self.look("leaf") | place, told)
        kids = "".join(self.size(child, f"{path}.{n}") for n, child in enumerate(e.children))
        inner = element("div", self.look("kids"), kids)
        return f"\n<details open>{element('summary', place, told)}{inner}</details>"

    def path(self, path: str) -> dict[str, str]:
        return {"data-path": path}

    def picture(self, x: Picture) -> str:
        if x.uri:
            return element("img", {"alt": x.alt, "title": x.alt, "style": x.style, "src": x.uri})
        caption = f"<figcaption>{self.write(x.caption)}</figcaption>" if x.caption else ""
        return f"\n<figure>{x.svg}{caption}</figure>"

    def slot(self, x: Slot) -> str:
        load = {"data-load": x.load} if x.load else {}
        return "\n" + element("div", {"class": "slot", "data-slot": x.name, **load}, self.write(x.body))

    def control(self, x: Control) -> str:
        begin = "\n" if x.tag in ("div", "section", "optgroup", "option") else ""
        return begin + element(x.tag, x.attributes, self.write(x.body))


MOST_LISTED = 64
# by the id of the lines, which an entry keeps alive so that no other lines get the id, and by language
_listed: dict[tuple[int, str], tuple[Sequence[Line], list[str]]] = {}


def listed(x: Lines) -> list[str]:
    """The lines as entries of a listing. HTML in them has single quotes, which JSON in an attribute need not escape.
    The entries of the last listings are cached, because differences show the same listing many times."""
    key = id(x.lines), x.language
    if key not in _listed:
        texts = highlight([line.text for line in x.lines], x.language)
        rows = [
            f"{line.span_line} {line.stmt} {line.adjoint_of} {t}".replace('"', "'")
            for line, t in zip(x.lines, texts, strict=True)
        ]
        while len(_listed) >= MOST_LISTED:
            _listed.pop(next(iter(_listed)), None)
        _listed[key] = x.lines, rows
    return _listed[key][1]


def write(tree: Tree) -> str:
    """The HTML of a tree."""
    return Html().write(tree)
