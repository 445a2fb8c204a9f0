"""Draws graphs of boxes, edges and nested frames, as data for the browser or as an image; and the CFG pane."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.dot import Edge, Frame, Node, digraph
from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.layout import Layout, Point, layout
from quadrants_lab.widgets.model import ClusterView, GraphView, KernelView, Line, NodeView, Part
from quadrants_lab.widgets.tree import Block, Graph, Tree, count, empty, head, ties

_CHAR, _ROW, _PAD = 7.25, 16.0, 8.0  # width, line height and padding of a 12 px monospace font
_LONGEST, _MOST = 56, 16  # characters per line, lines per box
BESIDE = ("use", "both", "kept")  # kinds of edges between a column and its side

STANDALONE = """
text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#222}
.hit{fill:none}.box>rect{fill:#fff;stroke:#8a94a6}.box .tt{font-weight:600}.box .nt{fill:#6b4500}
.box.push>rect{fill:#fff4dd;stroke:#c98a1a}.box.entry>rect,.box.exit>rect{fill:#eef1f6}
.edge path{fill:none;stroke:#6a7486;stroke-width:1.3}.edge .tip{fill:#6a7486;stroke:none}
.edge.back path{stroke:#b4530a;stroke-dasharray:5 3}.edge.back .tip{fill:#b4530a;stroke:none}
.edge.both path{stroke:#1f6fbf}.edge.both .tip{fill:#1f6fbf;stroke:none}.box.field>rect{fill:#eef6ef;stroke:#5b8a63}
.edge.kept path{stroke:#b4530a;stroke-width:2.2}.edge.kept .tip{fill:#b4530a;stroke:none}
.edge text{font-size:11px;fill:#555}.frame rect{fill:#3b6fb6;fill-opacity:.06;stroke:#3b6fb6;stroke-opacity:.55}
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


def _box(node: NodeView, size: Point, live: bool) -> str:
    """The SVG of a box, with its upper left corner at the origin. ``live``: with what ties its lines to statements."""
    w, h = size
    shown = _shown(node)
    words = (
        x.replace("<span", "<tspan").replace("</span", "</tspan")
        for x in highlight([_clip(x.text) for x in shown], node.language)
    )
    rows = [f'<text class="tt" x="{_PAD:g}" y="{_PAD + 11:g}">{escape(node.title)}</text>']
    for n, (line, text) in enumerate(zip(shown, words, strict=True), 1):
        at = _PAD + 11 + n * _ROW
        tip = f"<title>{escape(line.text)}</title>" if len(line.text) > _LONGEST else ""
        row = f'<text xml:space="preserve" x="{_PAD:g}" y="{at:g}">{text}{tip}</text>'
        hit = f'<rect class="hit" x="2" y="{at - 12:g}" width="{w - 4:.1f}" height="{_ROW:g}"/>'
        rows.append(f'<g class="ln"{_tied(line)}>{hit}{row}</g>' if live else row)
    if node.note:
        at = _PAD + 11 + (len(shown) + 1) * _ROW
        rows.append(f'<text class="nt" x="{_PAD:g}" y="{at:g}">{escape(node.note)}</text>')
    tied = "" if shown or not live else _tied(Line("", node.line))
    frame = f'<rect width="{w:.1f}" height="{h:.1f}" rx="4"/>'
    return f'<g class="box {node.kind}"{tied}>{frame}{"".join(rows)}</g>'.replace('"', "'")


def _tied(line: Line) -> str:
    return "".join(f' {name}="{n}"' for name, n in ties(line).items())


def _path(points: Sequence[Point], kind: str) -> str:
    """A path that is straight where x or y is constant, else a curve that begins and ends vertically, or, between a
    column and its side, horizontally."""
    out = [f"M{points[0][0]:.0f},{points[0][1]:.0f}"]
    if kind in BESIDE:
        (px, py), (x, y) = points
        middle = (px + x) / 2
        return f"{out[0]}C{middle:.0f},{py:.0f} {middle:.0f},{y:.0f} {x:.0f},{y:.0f}"
    for (px, py), (x, y) in pairwise(points):
        middle = (py + y) / 2
        straight = px == x or py == y
        out.append(
            f"L{x:.0f},{y:.0f}" if straight else f"C{px:.0f},{middle:.0f} {x:.0f},{middle:.0f} {x:.0f},{y:.0f}"
        )
    return "".join(out)


def _arrow(points: Sequence[Point], kind: str) -> str:
    """Draws the arrow at the end of a path, to the side if the path ends in that direction, else downwards. If a
    derivative flows back along the path, a hollow arrow points back at its begin."""
    (px, py), (x, y) = points[-2:]
    if kind in BESIDE:
        way = 1 if x > px else -1
        hollow = f"M{px:.0f},{py:.0f}l{10 * way},-5v10ZM{px + 3 * way:.0f},{py:.0f}l{5 * way},2.5v-5Z"
        return f"M{x:.0f},{y:.0f}l{-8 * way},-4v8Z" + (hollow if kind != "use" else "")
    return f"M{x:.0f},{y:.0f}" + ("l-8,-4v8Z" if py == y and px < x else "l-4,-8h8Z")


@deeply_recursive
def drawing(graph: GraphView, live: bool = True) -> dict[str, Any]:
    """The data for `graph.js`: ``nodes`` [x, y of the centre, width, height, title, SVG, source line, lines that the
    box leaves out], ``edges`` [kind, from, to, path, arrow, label, x, y], ``frames`` [label, x0, y0, x1, y1, all nodes
    in it, header first]. A line is "source line, statement, statement whose adjoint it computes, text"."""
    sizes, at = _placed(graph)
    number = {node.id: n for n, node in enumerate(graph.nodes)}
    nodes: list[list[object]] = []
    for n in graph.nodes:
        place = (round(v, 1) for v in (*at.nodes[n.id], *sizes[n.id]))
        left = n.lines[_MOST - 1 :] if len(n.lines) > _MOST else []
        rest = [f"{x.span_line} {x.stmt} {x.adjoint_of} {x.text}" for x in left]
        nodes.append([*place, n.title, _box(n, sizes[n.id], live), n.line, rest])
    edges = [
        [e.kind, number[e.src], number[e.dst], _path(p, e.kind), _arrow(p, e.kind), e.label, *map(round, label)]
        for e, p, label in at.edges
    ]
    frames = [[c.label, *(round(v, 1) for v in box), [number[n] for n in _inside(c.body)]] for c, *box in at.frames]
    size = {"w": at.width, "h": at.height}
    return {**size, "nodes": nodes, "edges": edges, "frames": frames, "title": graph.title}


def _inside(parts: Sequence[Part]) -> Iterator[str]:
    """All nodes of the given parts of a graph, in order."""
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
    """The graph as an SVG with its own colours and background: what `graph.js` saves of a graph without folds."""
    at = drawing(graph, live=False)
    parts: list[str] = []
    for _, x0, y0, x1, y1, _ in at["frames"]:
        parts.append(
            f'<g class="frame"><rect x="{x0}" y="{y0}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" rx="8"/></g>'
        )
    for kind, _, _, path, tip, label, x, y in at["edges"]:
        text = f'<text x="{x}" y="{y + 3}" text-anchor="middle">{escape(label)}</text>' if label else ""
        parts.append(f'<g class="edge {kind}"><path d="{path}"/><path class="tip" d="{tip}"/>{text}</g>')
    for label, x0, y0, *_ in at["frames"]:
        parts.append(f'<g class="frame"><text x="{x0 + 8:.1f}" y="{y0 + 14:.1f}">{escape(label)}</text></g>')
    for x, y, w, h, _, box, _, _ in at["nodes"]:
        parts.append(f'<g transform="translate({x - w / 2:.1f},{y - h / 2:.1f})">{box}</g>')
    pad = 8
    w, h = at["w"] + 2 * pad, at["h"] + 2 * pad
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" '
        f'viewBox="{-pad} {-pad} {w:.1f} {h:.1f}" aria-label="{escape(graph.title)}"><style>{STANDALONE}</style>'
        f'<rect class="bg" x="{-pad}" y="{-pad}" width="100%" height="100%"/>{"".join(parts)}</svg>'
    )


HINT = (
    "A task is a parallel loop of the gradient's kernel, or the statements between two. Its forward slice computes the "
    "values that the reverse needs again; boxes that push such a value on a stack have an orange border."
)


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The control flow graph of each task's forward slice."""
    if not view.graphs:
        return empty(view.no_gradient)
    if rest[1:] == ["dot"]:
        return as_file(view.graphs[int(rest[0])].cfg)
    drawn: Tree = [[head(t.title), Graph(t.cfg, f"{prefix}/{n}/dot")] for n, t in enumerate(view.graphs)]
    return [drawn, Block(HINT, "hint")]


def as_file(graph: GraphView) -> Block:
    """The DOT text of a graph."""
    return Block(dot([graph], graph.title), "file")


def dot(graphs: Sequence[GraphView], title: str) -> str:
    """Graphs of boxes as one DOT text; each is in a frame if there are several."""
    nodes, edges, frames = list[Node](), list[Edge](), list[Frame]()
    for k, g in enumerate(graphs):
        nodes += [Node(f"{k}.{n.id}", n.title, tuple(x.text for x in n.lines), n.kind, n.note) for n in g.nodes]
        edges += [Edge(f"{k}.{e.src}", f"{k}.{e.dst}", e.label, e.kind) for e in g.edges]
        body = tuple(_frames(g.body, f"{k}."))
        frames += [Frame(g.title, body)] if len(graphs) > 1 else [part for part in body if isinstance(part, Frame)]
    return digraph(title, nodes, edges, frames)


def _frames(parts: Sequence[Part], prefix: str) -> Iterator[str | Frame]:
    for part in parts:
        if isinstance(part, str):
            yield prefix + part
        elif isinstance(part, ClusterView):
            yield Frame(part.label, tuple(_frames(part.body, prefix)))
        else:
            for arm in part:
                yield from _frames(arm, prefix)


def answer(view: KernelView) -> str:
    """The pane in a sentence: how many blocks there are, and how many keep a value."""
    blocks = sum(len(t.cfg.nodes) for t in view.graphs)
    pushing = sum(node.kind == "push" for t in view.graphs for node in t.cfg.nodes)
    said = f"{count(len(view.graphs), 'task')} with {count(blocks, 'block')}, of which {pushing or 'none'} "
    return f"{said}{'keeps' if pushing == 1 else 'keep'} a value on a stack." if view.graphs else ""
