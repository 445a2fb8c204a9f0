"""Graphs of boxes, edges and nested frames, as data for the browser or as an image; and the CFG pane."""

import base64
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import add

from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.html import data, empty, esc
from quadrants_lab.widgets.layout import Layout, Point, layout
from quadrants_lab.widgets.model import ClusterView, GraphView, KernelView, Line, NodeView, Part

_CHAR, _ROW, _PAD = 6.65, 15.0, 8.0  # width, line height and padding of an 11 px monospace font
_LONGEST, _MOST = 56, 16  # characters per line, lines per box

STANDALONE = """
text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#222}
.hit{fill:none}.box>rect{fill:#fff;stroke:#8a94a6}.box .tt{font-weight:600}.box .nt{fill:#6b4500}
.box.push>rect{fill:#fff4dd;stroke:#c98a1a}.box.entry>rect,.box.exit>rect{fill:#eef1f6}
.edge path{fill:none;stroke:#6a7486;stroke-width:1.3}.edge .tip{fill:#6a7486;stroke:none}
.edge.back path{stroke:#b4530a;stroke-dasharray:5 3}.edge.back .tip{fill:#b4530a;stroke:none}
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


def _coloured(lines: Sequence[Line]) -> list[str]:
    """Each line as coloured SVG, cut to the width of a box."""
    html = highlight([_clip(x.text) for x in lines], "ir")
    return [x.replace("<span ", "<tspan ").replace("</span>", "</tspan>").replace('"', "'") for x in html]


def _box(node: NodeView, centre: Point, size: Point) -> str:
    """A box as `box` in graph.js draws it."""
    (cx, cy), (w, h) = centre, size
    lines = _shown(node)
    rows = [f'<text class="tt" x="{_PAD:g}" y="{_PAD + 10:g}">{esc(node.title)}</text>']
    for n, words in enumerate(_coloured(lines), 1):
        rows.append(f'<text xml:space="preserve" x="{_PAD:g}" y="{_PAD + 10 + n * _ROW:g}">{words}</text>')
    if node.note:
        at = _PAD + 10 + (len(lines) + 1) * _ROW
        rows.append(f'<text class="nt" x="{_PAD:g}" y="{at:g}">{esc(node.note)}</text>')
    frame = f'<rect width="{w:.1f}" height="{h:.1f}" rx="4"/>'
    place = f'transform="translate({cx - w / 2:.1f},{cy - h / 2:.1f})"'
    return f'<g class="box {node.kind}" {place}>{frame}{"".join(rows)}</g>'


def _path(points: Sequence[Point]) -> str:
    """A path that is straight where x or y is constant, else a curve that begins and ends vertically."""
    out = [f"M{points[0][0]:.0f},{points[0][1]:.0f}"]
    for (px, py), (x, y) in pairwise(points):
        middle = (py + y) / 2
        straight = px == x or py == y
        out.append(f"L{x:.0f},{y:.0f}" if straight else f"C{px:.0f},{middle:.0f} {x:.0f},{middle:.0f} {x:.0f},{y:.0f}")
    return "".join(out)


def _arrow(points: Sequence[Point]) -> str:
    """The arrow at the end of a path: to the right if the path ends in that direction, else downwards."""
    (px, py), (x, y) = points[-2:]
    return f"M{x:.0f},{y:.0f}" + ("l-8,-4v8Z" if py == y and px < x else "l-4,-8h8Z")


@deeply_recursive
def drawing(graph: GraphView) -> dict[str, object]:
    """The data for `graph.js`: ``nodes`` [x, y, width, height, kind, title, note, source line, lines, number of shown
    lines], ``edges`` [kind, from, to, path, arrow, label, x, y], ``frames`` [label, x0, y0, x1, y1, all nodes in it,
    header first]."""
    sizes, at = _placed(graph)
    number = {node.id: n for n, node in enumerate(graph.nodes)}
    nodes: list[list[object]] = []
    for n in graph.nodes:
        shown = _shown(n)
        rest = n.lines[len(shown) - 1 :] if len(shown) < len(n.lines) else []
        tips = (f"<title>{esc(x.text)}</title>" if len(x.text) > _LONGEST else "" for x in shown)
        texts = [*map(add, _coloured(shown), tips), *(esc(x.text) for x in rest)]
        tied = zip((*shown, *rest), texts, strict=True)
        lines = [f"{x.span_line} {x.stmt} {x.adjoint_of} {text}" for x, text in tied]
        place = (round(v, 1) for v in (*at.nodes[n.id], *sizes[n.id]))
        nodes.append([*place, n.kind, n.title, n.note, n.line, lines, len(shown)])
    edges = [
        [e.kind, number[e.src], number[e.dst], _path(points), _arrow(points), e.label, *(round(v) for v in label)]
        for e, points, label in at.edges
    ]
    frames = [[c.label, *(round(v, 1) for v in box), [number[n] for n in _inside(c.body)]] for c, *box in at.frames]
    return {"w": at.width, "h": at.height, "nodes": nodes, "edges": edges, "frames": frames, "title": graph.title,
            "css": STANDALONE}  # fmt: skip


def _inside(parts: Sequence[Part]) -> Iterator[str]:
    """All nodes in the parts, in order."""
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            for inner in (part.body,) if isinstance(part, ClusterView) else part:
                yield from _inside(inner)


def _placed(graph: GraphView) -> tuple[dict[str, Point], Layout]:
    sizes = {node.id: _size(node) for node in graph.nodes}
    return sizes, layout(graph, sizes)


def svg(graph: GraphView) -> str:
    """The graph as an SVG with its own colours and background."""
    sizes, at = _placed(graph)
    parts: list[str] = []
    for _, x0, y0, x1, y1 in at.frames:
        box = f'x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}"'
        parts.append(f'<g class="frame"><rect {box} rx="8"/></g>')
    for edge, points, (x, y) in at.edges:
        text = f'<text x="{x:.1f}" y="{y + 3:.1f}" text-anchor="middle">{esc(edge.label)}</text>' if edge.label else ""
        line = f'<path d="{_path(points)}"/><path class="tip" d="{_arrow(points)}"/>'
        parts.append(f'<g class="edge {edge.kind}">{line}{text}</g>')
    for c, x0, y0, _, _ in at.frames:
        parts.append(f'<g class="frame"><text x="{x0 + 8:.1f}" y="{y0 + 14:.1f}">{esc(c.label)}</text></g>')
    parts += [_box(node, at.nodes[node.id], sizes[node.id]) for node in graph.nodes]
    pad = 8
    w, h = at.width + 2 * pad, at.height + 2 * pad
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" '
        f'viewBox="{-pad} {-pad} {w:.1f} {h:.1f}" aria-label="{esc(graph.title)}"><style>{STANDALONE}</style>'
        f'<rect class="bg" x="{-pad}" y="{-pad}" width="100%" height="100%"/>{"".join(parts)}</svg>'
    )


def image(graph: GraphView) -> str:
    """The graph as an img element with its SVG in a data URI, for pages that strip inline SVG."""
    encoded = base64.b64encode(svg(graph).encode()).decode()
    uri = f"data:image/svg+xml;base64,{encoded}"
    return f'<img alt="{esc(graph.title)}" style="max-width:100%;border-radius:4px" src="{uri}">'


def figure(graph: GraphView) -> str:
    """The place where the browser draws the graph."""
    if not graph.drawn:
        graph.drawn = f'<div class="graph" data-graph="{data(drawing(graph))}"></div>'
    return graph.drawn


HINT = (
    "A task is a parallel loop of the gradient's kernel, or the statements between two. Its forward slice computes the "
    "values that the way back needs again; boxes that push such a value on a stack have an orange border."
)


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """The control flow graph of each task's forward slice."""
    drawn = "".join(f"<h4>{esc(t.title)}</h4>{figure(t.cfg)}" for t in view.graphs)
    return f'<p class="hint">{HINT}</p>{drawn}' if drawn else empty(
        "there is no gradient yet, so there is no forward slice to draw: call .grad() or give --grad LOSS"
    )
