"""Where the boxes of a graph go: Graphviz's `dot` where it is installed and the graph is not large, else grandalf's
Sugiyama layout.

Both get the sizes of the boxes and give back centres in pixels, y downwards, with the origin at the top left.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quadrants_lab.widgets.model import ClusterView, EdgeView, GraphView

Point = tuple[float, float]
MOST_BOXES = 120  # of a graph for `dot`, which takes half a second for 90 boxes of an `elif` chain and minutes for 150


@dataclass(slots=True)
class Layout:
    """``nodes``: centres. ``edges``: one path an edge, points of cubic Bezier pieces (1 + 3n of them) or of a
    polyline (``curved`` False), and where its label goes. ``frames``: (cluster, x0, y0, x1, y1), outer before inner."""

    width: float
    height: float
    nodes: dict[str, Point]
    edges: list[tuple[EdgeView, list[Point], Point]] = field(default_factory=list)
    frames: list[tuple[ClusterView, float, float, float, float]] = field(default_factory=list)
    curved: bool = True


def layout(graph: GraphView, sizes: Mapping[str, Point], dot: str | None = None) -> Layout:
    """Lays the graph out; ``dot`` is the program to ask ("" for none, None: whatever is on the path)."""
    program = shutil.which("dot") if dot is None else dot
    if program and len(graph.nodes) <= MOST_BOXES:
        try:
            return _dot(program, graph, sizes)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError):
            pass  # a broken Graphviz is as good as none
    return _grandalf(graph, sizes)


# --- Graphviz -----------------------------------------------------------------------------------------------------


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _dot(program: str, graph: GraphView, sizes: Mapping[str, Point]) -> Layout:
    names = {node.id: f"n{i}" for i, node in enumerate(graph.nodes)}
    lines = [
        "digraph g {",
        'rankdir=TB; nodesep=0.35; ranksep=0.4; node [shape=box fixedsize=true label=""];',
    ]
    for node in graph.nodes:
        w, h = sizes[node.id]
        lines.append(f"{names[node.id]} [width={w / 72:.4f} height={h / 72:.4f}];")
    clusters: list[ClusterView] = []

    def cluster(c: ClusterView) -> None:
        lines.append(
            f"subgraph cluster_{len(clusters)} {{ margin=14; label={_quote(c.label)};"
            " fontsize=11; fontname=Courier; labeljust=l;"
        )
        clusters.append(c)
        lines.extend(f"{names[n]};" for n in c.nodes)
        for child in c.children:
            cluster(child)
        lines.append("}")

    for c in graph.clusters:
        cluster(c)
    for i, edge in enumerate(graph.edges):
        label = f" label={_quote(edge.label)} fontsize=10" if edge.label else ""
        back = " constraint=false" if edge.kind == "back" else ""
        lines.append(f"{names[edge.src]} -> {names[edge.dst]} [id={i}{label}{back}];")
    lines.append("}")
    done = subprocess.run(
        [program, "-Tjson0"], input="\n".join(lines), capture_output=True, text=True, timeout=20, check=True
    )
    data: dict[str, Any] = json.loads(done.stdout)
    height = float(data["bb"].split(",")[3])
    width = float(data["bb"].split(",")[2])
    back_names = {v: k for k, v in names.items()}

    def point(text: str) -> Point:
        x, y = text.split(",")[-2:]
        return float(x), height - float(y)

    out = Layout(width, height, {})
    for obj in data.get("objects", []):
        if obj["name"] in back_names:
            out.nodes[back_names[obj["name"]]] = point(obj["pos"])
        elif obj["name"].startswith("cluster_"):
            x0, y0, x1, y1 = (float(v) for v in obj["bb"].split(","))
            out.frames.append((clusters[int(obj["name"][8:])], x0, height - y1, x1, height - y0))
    out.frames.sort(key=lambda f: -(f[3] - f[1]) * (f[4] - f[2]))
    for item in data.get("edges", []):
        parts = item["pos"].split()
        arrow = point(parts.pop(0)[2:]) if parts[0].startswith("e,") else None
        points = [point(p) for p in parts]
        if arrow is not None:
            points += [points[-1], arrow, arrow]
        edge = graph.edges[int(item["id"])]
        out.edges.append((edge, points, point(item["lp"]) if "lp" in item else points[len(points) // 2]))
    return out


# --- grandalf -----------------------------------------------------------------------------------------------------


class _Box:
    """What grandalf asks of a vertex: a size, and a place to write its centre."""

    def __init__(self, w: float, h: float) -> None:
        self.w, self.h = w, h
        self.xy: Point = (0.0, 0.0)


def _grandalf(graph: GraphView, sizes: Mapping[str, Point]) -> Layout:
    from grandalf.graphs import Edge, Graph, Vertex
    from grandalf.layouts import SugiyamaLayout

    vertices = {node.id: Vertex(node.id) for node in graph.nodes}
    for name, vertex in vertices.items():
        vertex.view = _Box(*sizes[name])
    forward = [e for e in graph.edges if e.kind != "back" and e.src != e.dst]
    g = Graph(list(vertices.values()), [Edge(vertices[e.src], vertices[e.dst]) for e in forward])
    left = 0.0
    centres: dict[str, Point] = {}
    for component in g.C:
        sugiyama = SugiyamaLayout(component)
        sugiyama.xspace, sugiyama.yspace = 30, 36
        sugiyama.init_all()
        sugiyama.draw(3)
        boxes = [(v.data, v.view) for v in component.sV]
        x0 = min(b.xy[0] - b.w / 2 for _, b in boxes)
        y0 = min(b.xy[1] - b.h / 2 for _, b in boxes)
        for name, b in boxes:
            centres[name] = (left + b.xy[0] - x0, b.xy[1] - y0)
        left += max(b.xy[0] + b.w / 2 for _, b in boxes) - x0 + 30
    out = Layout(0, 0, {name: (x + 40, y + 24) for name, (x, y) in centres.items()}, curved=False)
    for c in graph.clusters:
        _frame(c, out, sizes)
    out.frames.sort(key=lambda f: -(f[3] - f[1]) * (f[4] - f[2]))
    for edge in graph.edges:
        out.edges.append(_straight(edge, out.nodes, sizes))
    out.width = (
        max([n[0] + sizes[k][0] / 2 for k, n in out.nodes.items()] + [f[3] for f in out.frames] + [0]) + 40
    )
    out.height = (
        max([n[1] + sizes[k][1] / 2 for k, n in out.nodes.items()] + [f[4] for f in out.frames] + [0]) + 24
    )
    return out


def _frame(c: ClusterView, out: Layout, sizes: Mapping[str, Point]) -> tuple[float, float, float, float]:
    boxes = [_frame(child, out, sizes) for child in c.children]
    for n in c.nodes:
        (x, y), (w, h) = out.nodes[n], sizes[n]
        boxes.append((x - w / 2, y - h / 2, x + w / 2, y + h / 2))
    pad = 12
    x0, y0 = min(b[0] for b in boxes) - pad, min(b[1] for b in boxes) - pad - 8
    x1, y1 = max(b[2] for b in boxes) + pad, max(b[3] for b in boxes) + pad
    out.frames.append((c, x0, y0, x1, y1))
    return x0, y0, x1, y1


def _straight(
    edge: EdgeView, nodes: Mapping[str, Point], sizes: Mapping[str, Point]
) -> tuple[EdgeView, list[Point], Point]:
    (sx, sy), (dx, dy) = nodes[edge.src], nodes[edge.dst]
    (sw, sh), (dw, dh) = sizes[edge.src], sizes[edge.dst]
    if edge.kind == "back" or dy <= sy:
        side = max(sx + sw / 2, dx + dw / 2) + 18
        points: Sequence[Point] = ((sx + sw / 2, sy), (side, sy), (side, dy), (dx + dw / 2, dy))
    else:
        points = ((sx, sy + sh / 2), (dx, dy - dh / 2))
    mid = len(points) // 2
    return (
        edge,
        list(points),
        ((points[mid - 1][0] + points[mid][0]) / 2, (points[mid - 1][1] + points[mid][1]) / 2),
    )
