"""Writes graphs in the DOT language (https://graphviz.org/doc/info/lang.html), and shows them in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.record import dataclass

_HEAD = (
    "rankdir=TB",
    'node [shape=box, fontname="monospace", fontsize=10, color="#8a94a6", style=filled, fillcolor=white]',
    'edge [fontname="monospace", fontsize=9, color="#6a7486"]',
)
_BOXES = {  # kind of a node -> its attributes
    "push": 'color="#c98a1a", fillcolor="#fff4dd"',
    "entry": 'fillcolor="#eef1f6"',
    "exit": 'fillcolor="#eef1f6"',
    "field": 'shape=ellipse, fillcolor="#eef6ef"',
}
_ARROWS = {  # kind of an edge -> its attributes
    "back": 'style=dashed, color="#b4530a"',
    "kept": 'dir=both, arrowtail=empty, color="#c98a1a", penwidth=2',
    "both": "dir=both, arrowtail=empty",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A box of a graph, with its ``title``, then ``lines`` of code, then a ``note``. ``kind``: a key of the table
    of boxes, or ""."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    kind: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between the ids of two nodes. ``kind``: a key of the table of arrows, or ""."""

    src: str
    dst: str
    label: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A labelled frame around nodes, by their ids, and further frames."""

    label: str
    body: tuple[str | Frame, ...]


def digraph(title: str, nodes: Sequence[Node], edges: Sequence[Edge], frames: Iterable[Frame] = ()) -> str:
    """The graph as DOT text."""
    numbers = (f"cluster_{n}" for n in range(10**9))
    lines = [f"label={_quoted(title)}", "labelloc=t", 'fontname="sans-serif"', "fontsize=11", *_HEAD]
    lines += [line for frame in frames for line in _frame(frame, numbers)]
    for n in nodes:
        attributes = ", ".join(filter(None, (f"label={_label(n)}", _BOXES.get(n.kind, ""))))
        lines.append(f"{_quoted(n.id)} [{attributes}]")
    for e in edges:
        attributes = ", ".join(filter(None, (e.label and f"label={_quoted(e.label)}", _ARROWS.get(e.kind, ""))))
        lines.append(f"{_quoted(e.src)} -> {_quoted(e.dst)}" + (f" [{attributes}]" if attributes else ""))
    return "\n".join([f"digraph {_quoted(title)} {{", *(f"  {line}" for line in lines), "}"]) + "\n"


def _frame(frame: Frame, numbers: Iterator[str]) -> Iterator[str]:
    yield f"subgraph {next(numbers)} {{"
    yield f"  label={_quoted(frame.label)}"
    yield '  color="#3b6fb6"'
    for part in frame.body:
        if isinstance(part, Frame):
            yield from (f"  {line}" for line in _frame(part, numbers))
        else:
            yield f"  {_quoted(part)}"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _label(node: Node) -> str:
    """The title in the middle, lines of code from the left."""
    rows = [_quoted(node.title)[1:-1] + "\\n"]
    rows += [_quoted(line)[1:-1] + "\\l" for line in node.lines]
    rows += [_quoted(node.note)[1:-1] + "\\n"] if node.note else []
    text = "".join(rows)
    return f'"{text if node.lines else text.removesuffix(chr(92) + "n")}"'


class Drawing:
    """A graph: ``source`` is its DOT text. With the package `graphviz` (``pip install quadrants-lab[graphviz]``) it is
    a `graphviz.Source` too, which the program ``dot`` renders: ``k.graph("cfg").render("cfg", format="pdf")``."""

    source: str
    _own: Callable[[], dict[str, str]] | None = None  # draws the graph without Graphviz: MIME type -> data

    def save(self, filename: Any = "graph.gv", directory: Any = None, **_: Any) -> str:
        """Writes the DOT text to a file and returns its path."""
        path = Path(directory or "") / filename
        path.write_text(self.source, encoding="utf-8")
        return str(path)

    def render(self, *_: Any, **__: Any) -> Any:
        raise QuadrantsRuntimeError(
            "the Python package graphviz is not installed, which renders graphs",
            code="QL0719",
            help="pip install graphviz, and install Graphviz's program dot; or save() writes the DOT text",
        )

    pipe = view = render

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> dict[str, Any]:
        """What a notebook shows: Graphviz's picture, else our own, else the text."""
        try:
            return dict(super()._repr_mimebundle_(include, exclude))  # type: ignore[misc]  # of graphviz.Source
        except Exception:  # no package, no program, or an error of the program: the text remains
            return ({} if self._own is None else self._own()) | {"text/plain": self.source}

    def __repr__(self) -> str:
        return self.source

    __str__ = __repr__


class _Text(Drawing):
    """A graph as text, for use where the package `graphviz` is not installed."""

    def __init__(self, source: str) -> None:
        self.source = source


@cache
def _class() -> type[Any]:
    try:
        from graphviz import Source  # type: ignore[import-not-found,unused-ignore]  # an optional package
    except ImportError:
        return _Text
    hidden = {name: getattr(Source, name) for name in ("save", "render", "pipe", "view")}
    return type("Drawing", (Drawing, Source), hidden)


def drawing(source: str, own: Callable[[], dict[str, str]] | None = None) -> Drawing:
    """The graph with this DOT text. ``own``: draws it for notebooks without Graphviz, as data by MIME type."""
    made: Drawing = _class()(source)
    made._own = own
    return made
