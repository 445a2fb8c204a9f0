"""Defines the trees that panes make: what a pane shows, as data. A writer for each place draws them (`live.py` for
the widget, `static.py` for pages without scripts, `terminal.py` for rich).

A tree is a text, a node, or a sequence of trees. Texts are escaped by the writers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

from quadrants_lab.widgets.model import GraphView, Line, SizeView, TimelineView


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a line. ``kind``: "b", "code", "muted", "val", "add", "del", "same", "badge", ..., which writers map
    to an element and a colour. ``tip``: what a pointer over it shows."""

    body: Tree
    kind: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph. ``kind``: "p", "h4" (heading), "pre" (text with line ends), or a kind of paragraph: "answer" (what
    the pane says, in a sentence), "hint", "foot", "none" (why there is nothing), "ms" (measures), "chips", "bar"
    (controls), "kids" (indented). ``line``: the source line to which it is tied, 0 for none."""

    body: Tree
    kind: str = "p"
    line: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """A title with a body, which a click on the title opens and closes."""

    title: Tree
    body: Tree
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``right``: the columns with numbers. ``links``: the source line to which each row is tied.
    ``roving``: its rows, or the buttons in them, are a single tab stop."""

    head: Sequence[str]
    rows: Sequence[Sequence[Tree]]
    right: Sequence[int] = ()
    links: Sequence[Line] = ()
    roving: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """A listing. ``numbers``: "source" shows each line's source line, "count" counts from 1. ``notes``: source line ->
    words that stand in the gutter beside it. ``folds``: (begin, end, text) of lines that are shown as one until they
    are opened. ``top``: the line that is shown first."""

    lines: Sequence[Line]
    language: str
    label: str
    numbers: str = "source"
    notes: Mapping[int, Sequence[Word]] = field(default_factory=dict)
    folds: Sequence[tuple[int, int, str]] = ()
    top: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """How the second of two listings differs from the first. ``requests``: where a browser gets the two."""

    before: Lines
    after: Lines
    requests: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """``dot``: the request for its DOT text, if that can be asked for."""

    view: GraphView
    dot: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """``file``: the request for the text of its trace."""

    view: TimelineView
    file: str = ""


@dataclass(frozen=True, slots=True)
class SizeTree:
    """An expression of a stack's depth, with the values of its parts."""

    size: SizeView


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing (SVG, with the colours of `PICTURE` in static.py) or an image (``uri``), with a text that says the
    same. ``style``: of the image."""

    alt: str
    svg: str = ""
    uri: str = ""
    caption: Tree = ""
    style: str = ""

    @staticmethod
    def words(x: float, y: float, text: str, anchor: str = "start") -> str:
        """Text in a drawing, in the font that all drawings use; ``anchor``: "start", "middle" or "end"."""
        font = f'font-family="sans-serif" font-size="12" fill="{GREY}" text-anchor="{anchor}"'
        return f'<text x="{x:.1f}" y="{y:.1f}" {font}>{escape(text)}</text>'

    @staticmethod
    def polyline(points: Sequence[tuple[float, float]], stroke: str, more: str = "") -> str:
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        return f'<polyline fill="none" stroke="{stroke}" {more} points="{at}"/>'

    @staticmethod
    def drawn(alt: str, width: float, height: float, parts: str, caption: Tree = "", wide: bool = False) -> Picture:
        """A drawing of SVG elements; ``wide``: as wide as its place."""
        room = 'width="100%"' if wide else f'width="{width}" height="{height}"'
        about = f'role="img" aria-label="{escape(alt)}" viewBox="0 0 {width} {height}"'
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" {room} {about}>{parts}</svg>'
        return Picture(alt, svg, "", caption)


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of a pane into which the browser puts answers to requests. ``load``: the request that fills it at
    once."""

    name: str
    body: Tree = ()
    load: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """An element that only the live widget has, such as a button. Its attributes ``data-req`` and ``data-get`` are
    requests."""

    tag: str
    attributes: Mapping[str, str]
    body: Tree = ()


MOST_OFFERED = 16  # values of a slider whose answers an exported page has

Node: TypeAlias = (
    Word | Block | Fold | Table | Lines | Difference | Graph | Timeline | SizeTree | Picture | Slot | Control
)
Tree: TypeAlias = "str | Node | Sequence[Tree]"


# readable on white and on dark grey; in `COLOURS` what is counted, such as kernels, has its colour
GREY, BLUE, ORANGE = "#85888e", "#4a8fe0", "#c27a2b"
COLOURS = (BLUE, ORANGE, "#2f9e50", "#9a6ee8", "#2a94a3", "#e0525a")


def colour_of(n: int) -> str:
    """The kind of a word in the n-th colour."""
    return f"k{n % len(COLOURS)}"


# --- words and paragraphs ------------------------------------------------------------------------------------------


def bold(body: Tree) -> Word:
    return Word(body, "b")


def code(body: Tree) -> Word:
    return Word(body, "code")


def muted(body: Tree) -> Word:
    return Word(body, "muted")


def head(*body: Tree) -> Block:
    return Block(body, "h4")


def foot(*body: Tree) -> Block:
    return Block(body, "foot")


def empty(text: str) -> Block:
    """The text of an empty pane: why there is nothing."""
    return Block(text, "none")


def broken(lines: Iterable[str]) -> Tree:
    """Lines below each other in one cell of a table."""
    return [[Word((), "br") if n else (), line] for n, line in enumerate(lines)]


def chips(rows: Sequence[tuple[Tree, str]]) -> Tree:
    """A row of names with values; nothing if there are none."""
    return Block([Word([name, " ", bold(value)], "chip") for name, value in rows], "chips") if rows else ()


def size_head(e: SizeView) -> Tree:
    """A node of an expression, with its value."""
    value = "" if e.value is None else f"= {e.value:,}"
    role: Tree = [muted(e.role), " "] if e.role else ""
    return [role, code(e.text), " ", Word(value, "val"), [" ", muted(e.note)] if e.note else ""]


def ties(line: Line) -> dict[str, str]:
    """The attributes that tie an element to its source line and statement; none if it has no source line."""
    told = (("span-line", line.span_line, 1), ("stmt", line.stmt, 0), ("adj", line.adjoint_of, 0))
    return {f"data-{name}": str(n) for name, n, least in told if n >= least} if line.span_line > 0 else {}


# --- controls ------------------------------------------------------------------------------------------------------


def button(text: Tree, request: str, into: str = "", label: str = "") -> Control:
    """A button that loads the answer to the request into the slot ``into``, or, without one, opens its pane with it."""
    named = {"aria-label": label} if label else {}
    fills = {"class": "ch offer", "data-item": "", "data-req": request, "data-into": into}
    asks = fills if into else {"class": "ch", "data-get": request}
    return Control("button", {"type": "button", **asks, **named}, text)


def choices(label: str, items: Sequence[tuple[str, str]], into: str, chosen: int = 0) -> Control:
    """A row of (text, request) buttons, one of which is chosen. Choosing one loads its answer into the slot
    ``into``."""
    buttons = [
        Control("button", {
            "class": "ch", "type": "button", "role": "radio", "aria-checked": "true" if n == chosen else "false",
            "data-item": "", "tabindex": "0" if n == chosen else "-1", "data-req": request, "data-into": into,
        }, text)
        for n, (text, request) in enumerate(items)
    ]  # fmt: skip
    group = {"class": "chs", "role": "radiogroup", "aria-label": label, "data-roving": "", "data-follow": ""}
    return Control("div", group, buttons)


def menu(
    label: str, groups: Sequence[tuple[str, Sequence[tuple[str, str]]]], into: str, chosen: str = "",
    live: Container[str] = (),
) -> Control:  # fmt: skip
    """A menu of (text, request) in named groups, whose answers are loaded into the slot ``into``. The name of the
    chosen request's group stands beside the menu. ``live``: requests whose answers an exported page does not have."""
    out: list[Tree] = []
    for name, items in groups:
        options = []
        for text, request in items:
            more = {"selected": ""} if request == chosen else {"data-live": ""} if request in live else {}
            options.append(Control("option", {"data-req": request, **more}, text))
        out.append(Control("optgroup", {"label": name}, options) if name else options)
    group = next((name for name, items in groups if any(request == chosen for _, request in items)), "")
    shown = Control("span", {"class": "muted", "data-group": ""}, group)
    return Control("span", {}, [Control("select", {"aria-label": label, "data-into": into}, out), " ", shown])


def entry(label: str, before: str, value: str, ask: str, into: str, after: str = "", **more: str) -> Control:
    """A field whose text, behind the request ``ask``, is a request. ``more``: attributes, with _ for -."""
    given = {"class": "lane", "type": "text", "size": "8", "value": value, "data-ask": ask, "data-into": into}
    given |= {"aria-label": label} | {name.replace("_", "-"): text for name, text in more.items()}
    return Control("label", {"class": "tg"}, [f"{before} ", Control("input", given), f" {after}" if after else ""])


def bars(rows: Sequence[tuple[str, float, Tree, str]], title: Tree = ()) -> Control:
    """Bars below each other: the name of each, its share of the room, its value, and what the script calls it."""
    made = [
        Control("div", {"data-bar": kind}, [
            Control("span", {}, name), Control("u", {}, Control("i", {"style": f"width:{share:.1%}"})),
            Control("b", {}, value),
        ])
        for name, share, value, kind in rows
    ]  # fmt: skip
    return Control("div", {"class": "bars"}, [title, made])


# --- walks ---------------------------------------------------------------------------------------------------------


def nodes(tree: Tree) -> Iterator[Node]:
    """All nodes of the tree, in the order in which they are drawn."""
    if isinstance(tree, str):
        return
    if isinstance(tree, Sequence):
        for part in tree:
            yield from nodes(part)
        return
    yield tree
    match tree:
        case Fold(title, body):
            yield from nodes([title, body])
        case Table(_, rows):
            yield from nodes(rows)
        case Word(body) | Block(body) | Slot(_, body) | Control(_, _, body):
            yield from nodes(body)


def controls(tree: Tree) -> Iterator[Control]:
    """All controls of the tree."""
    return (node for node in nodes(tree) if isinstance(node, Control))


def requests(tree: Tree) -> tuple[list[str], list[str]]:
    """The requests that the tree makes at once, and those that it offers even where no kernel answers."""
    loaded: list[str] = []
    offered: list[str] = []
    for node in nodes(tree):
        match node:
            case Slot(_, _, load) if load:
                loaded.append(load)
            case Difference(_, _, both):
                offered += both
            case Graph(_, file) | Timeline(_, file) if file:
                offered.append(file)
            case Control(_, attributes):
                kept = "data-req" in attributes and "data-live" not in attributes
                offered += [attributes["data-req"]] if kept else []
                if attributes.get("type") == "range" and "data-ask" in attributes:
                    values = range(int(attributes["max"]) + 1)
                    offered += [f"{attributes['data-ask']}{n}" for n in values] if len(values) <= MOST_OFFERED else []
    return loaded, offered


# --- numbers as text -----------------------------------------------------------------------------------------------


def seconds(value: float) -> str:
    """A duration with a readable unit: 41 ns, 3.2 µs, 12 ms, 1.5 s; "" for 0, which means not measured."""
    if not value:
        return ""
    for scale, unit in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms")):
        if value < scale * 1000:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} s"


def size(value: int | None) -> str:
    """A readable number of bytes: 640 B, 12.5 KB, 3.2 MB."""
    if value is None:
        return "–"
    if value < 1024:
        return f"{value} B"
    return f"{value / 1024:.1f} KB" if value < 1 << 20 else f"{value / (1 << 20):.1f} MB"


def count(n: int, name: str) -> str:
    """A number with its noun: 1 stack, 2,000 stacks."""
    return f"{n:,} {name}{'s' * (n != 1)}"
