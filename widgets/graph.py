"""Graphs as SVG: boxes whose text lines know their source line, edges, nested frames."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence

from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.html import esc, marks
from quadrants_lab.widgets.layout import Layout, Point, layout
from quadrants_lab.widgets.model import GraphView, Line, NodeView

_CHAR, _ROW, _PAD = 6.65, 15.0, 8.0  # of an 11 px monospace font
_LONGEST, _MOST = 56, 16  # characters a line, lines a box

STANDALONE = """
text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#222}
.hit{fill:none}.box>rect{fill:#fff;stroke:#8a94a6}.box .tt{font-weight:600}.box .nt{fill:#6b4500}
.box.push>rect{fill:#fff4dd;stroke:#c98a1a}.box.entry>rect,.box.exit>rect{fill:#eef1f6}
.edge path{fill:none;stroke:#6a7486;stroke-width:1.3}.edge polygon{fill:#6a7486}
.edge.back path{stroke:#b4530a;stroke-dasharray:5 3}.edge.back polygon{fill:#b4530a}
.edge text{font-size:10px;fill:#555}.frame rect{fill:#3b6fb6;fill-opacity:.06;stroke:#3b6fb6;stroke-opacity:.55}
.frame text{fill:#2a5596;font-weight:600;paint-order:stroke;stroke:#fbfbfc;stroke-width:4px}.bg{fill:#fbfbfc}
.hk{fill:#8250df}.ht{fill:#0a6b74}.hs{fill:#0a5c2b}.hn{fill:#9a4a00}.hf{fill:#0550ae}.hv{fill:#444}.hc{fill:#777}
"""


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _shown(node: NodeView) -> list[Line]:
    if len(node.lines) <= _MOST:
        return node.lines
    rest = len(node.lines) - _MOST + 1
    return [*node.lines[: _MOST - 1], Line(f"… {rest} more statements")]


def _size(node: NodeView) -> Point:
    texts = [node.title, node.note, *(_clip(x.text) for x in _shown(node))]
    rows = len(_shown(node)) + 1 + bool(node.note)
    return max(len(t) for t in texts) * _CHAR + 2 * _PAD, rows * _ROW + 2 * _PAD - 4


def _tspans(marked_up: str) -> str:
    return marked_up.replace("<span ", "<tspan ").replace("</span>", "</tspan>")


def _box(node: NodeView, centre: Point, size: Point) -> str:
    (cx, cy), (w, h) = centre, size
    x, y = cx - w / 2, cy - h / 2
    head = Line(node.title, node.line)
    rows = [f'<text class="tt" x="{x + _PAD:.1f}" y="{y + _PAD + 10:.1f}">{esc(node.title)}</text>']
    lines = _shown(node)
    for n, (line, text) in enumerate(
        zip(lines, highlight([_clip(x.text) for x in lines], "ir"), strict=True), 1
    ):
        at = y + _PAD + 10 + n * _ROW
        back = f'<rect class="hit" x="{x + 2:.1f}" y="{at - 11:.1f}" width="{w - 4:.1f}" height="{_ROW}"/>'
        rows.append(
            f'<g class="ln"{marks(line)}>{back}<text xml:space="preserve" x="{x + _PAD:.1f}" y="{at:.1f}">'
            f"{_tspans(text)}</text>"
            f"<title>{esc(line.text)}</title></g>"
        )
    if node.note:
        at = y + _PAD + 10 + (len(lines) + 1) * _ROW
        rows.append(f'<text class="nt" x="{x + _PAD:.1f}" y="{at:.1f}">{esc(node.note)}</text>')
    frame = f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="4"/>'
    own = marks(head) if not lines else ""
    return f'<g class="box {node.kind}"{own}>{frame}{"".join(rows)}</g>'


def _path(points: Sequence[Point], curved: bool) -> str:
    first, *rest = (f"{x:.1f},{y:.1f}" for x, y in points)
    return f"M{first}" + ("C" if curved else "L") + " ".join(rest)


def _arrow(points: Sequence[Point]) -> str:
    """A triangle at the end of a path, along its last stretch."""
    tip = points[-1]
    tail = next((p for p in reversed(points) if math.dist(p, tip) > 1), (tip[0], tip[1] - 1))
    d = math.dist(tail, tip)
    ux, uy = (tip[0] - tail[0]) / d, (tip[1] - tail[1]) / d
    bx, by = tip[0] - 8 * ux, tip[1] - 8 * uy
    corners = (tip, (bx - 4 * uy, by + 4 * ux), (bx + 4 * uy, by - 4 * ux))
    return '<polygon points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in corners) + '"/>'


def svg(graph: GraphView, standalone: bool = False, dot: str | None = None) -> str:
    """The graph as an svg element; ``standalone`` puts its own colours and background inside, for an image."""
    sizes = {node.id: _size(node) for node in graph.nodes}
    at = layout(graph, sizes, dot)
    parts: list[str] = []
    for _, x0, y0, x1, y1 in at.frames:
        box = f'x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}"'
        parts.append(f'<g class="frame"><rect {box} rx="8"/></g>')
    for edge, points, label in at.edges:
        text = (
            f'<text x="{label[0]:.1f}" y="{label[1] + 3:.1f}" text-anchor="middle">{esc(edge.label)}</text>'
            if edge.label
            else ""
        )
        parts.append(
            f'<g class="edge {edge.kind}"><path d="{_path(points, at.curved)}"/>{_arrow(points)}{text}</g>'
        )
    for c, x0, y0, _, _ in at.frames:
        parts.append(f'<g class="frame"><text x="{x0 + 8:.1f}" y="{y0 + 14:.1f}">{esc(c.label)}</text></g>')
    parts += [_box(node, at.nodes[node.id], sizes[node.id]) for node in graph.nodes]
    return _element(graph, at, "".join(parts), standalone)


def _element(graph: GraphView, at: Layout, body: str, standalone: bool) -> str:
    pad = 8
    w, h = at.width + 2 * pad, at.height + 2 * pad
    style = (
        f'<style>{STANDALONE}</style><rect class="bg" x="{-pad}" y="{-pad}" width="100%" height="100%"/>'
        if standalone
        else ""
    )
    roving = "" if standalone else ' data-roving="" role="listbox"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}"'
        f' viewBox="{-pad} {-pad} {w:.1f} {h:.1f}"'
        f'{roving} aria-label="{esc(graph.title)}">{style}{body}</svg>'
    )


def image(graph: GraphView) -> str:
    """The graph as an img with its SVG in a data URI: what survives where inline svg is stripped."""
    data = base64.b64encode(svg(graph, standalone=True).encode()).decode()
    uri = f"data:image/svg+xml;base64,{data}"
    return f'<img alt="{esc(graph.title)}" style="max-width:100%;border-radius:4px" src="{uri}">'
