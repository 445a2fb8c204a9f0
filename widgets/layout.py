"""Lays out a control-flow graph: from top to bottom, the arms of a branch beside each other, a loop in a frame.

Control flow is structured, so no search is needed: each part lies below the one before it, and edges run where there
are no boxes. 2,000 boxes take a few hundredths of a second.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.widgets.model import ClusterView, EdgeView, GraphView, Part

Point = tuple[float, float]
_GAP, _LAYER, _PAD, _LANE = 26.0, 34.0, 12.0, 20.0  # between arms, between layers, inside a frame, beside its boxes
_TITLE = 16.0  # height of a frame's name
_BESIDE = 190.0  # between a column and its side


@dataclass(slots=True)
class Layout:
    """The places of a graph's parts, in pixels, y downwards, with the origin at the top left. ``nodes``: centres.
    ``edges``: the points of a path (straight where x or y is constant, else curved) and the place of the label.
    ``frames``: (cluster, x0, y0, x1, y1), outer ones before inner ones."""

    width: float
    height: float
    nodes: dict[str, Point] = field(default_factory=dict)
    edges: list[tuple[EdgeView, list[Point], Point]] = field(default_factory=list)
    frames: list[tuple[ClusterView, float, float, float, float]] = field(default_factory=list)


@deeply_recursive
def layout(graph: GraphView, sizes: Mapping[str, Point]) -> Layout:
    """The layout of a graph; ``sizes``: width and height of each box."""
    return _Placer(graph, sizes).out


class _Placer:
    """Places the parts of a graph. ``known``: id of a loop or branch -> its size. ``lanes``: box that is an arm by
    itself -> the x at which its edge passes the other arm. ``headed``: header of a loop -> its frame."""

    def __init__(self, graph: GraphView, sizes: Mapping[str, Point]) -> None:
        self.sizes = sizes
        self.known: dict[int, Point] = {}
        self.lanes: dict[str, float] = {}
        self.headed: dict[str, tuple[float, float, float, float]] = {}
        width, height = self.column(graph.body)
        self.out = Layout(width + 8.0, height + 8.0)
        self.put_column(graph.body, self.out.width / 2, 4.0)
        self.put_side(graph)
        ports = self.ports(graph)
        for edge in graph.edges:
            points = ports[id(edge)] if id(edge) in ports else self.route(edge)
            (px, py), (qx, qy) = points[len(points) // 2 - 1], points[len(points) // 2]
            middle = (px + qx) / 2 - (_LANE if edge.kind == "exit" else 0.0), (py + qy) / 2  # within its frame
            beside = id(edge) in ports  # then the label stands on its begin, where edges lie apart
            self.out.edges.append((edge, points, (px + 66, py - 7) if beside else middle))

    # --- sizes ------------------------------------------------------------------------------------------------------

    def size(self, part: Part) -> Point:
        if isinstance(part, str):
            return self.sizes[part]
        if id(part) not in self.known:
            self.known[id(part)] = self.frame(part) if isinstance(part, ClusterView) else self.branch(part)[0]
        return self.known[id(part)]

    def column(self, parts: Sequence[Part], second: float = 0.0) -> Point:
        """The size of parts below each other, with the second one at least ``second`` below the top."""
        rows = list(self.rows(parts, second))
        return max((w for _, _, (w, _) in rows), default=0.0), max((y + h for _, y, (_, h) in rows), default=0.0)

    def rows(self, parts: Sequence[Part], second: float) -> Iterator[tuple[Part, float, Point]]:
        """The parts of a column, each with its top and its size."""
        y = 0.0
        for n, part in enumerate(parts):
            y = max(y, second) if n == 1 else y
            yield part, y, self.size(part)
            y += self.size(part)[1] + _LAYER

    def frame(self, loop: ClusterView) -> Point:
        """The size of a loop's frame, with a lane at the left for the back edge and one at the right for the exit."""
        width, height = self.column(loop.body)
        named = len(loop.label) * 7.3 + 40
        return max(width + 2 * (_PAD + _LANE), named), _TITLE + height + 2 * _PAD + _LANE / 2

    def branch(self, arms: tuple[list[Part], list[Part]]) -> tuple[Point, list[tuple[list[Part], float, float]]]:
        """The size of a branch, and each arm with its centre (from the left) and the place of its second part (from the
        top). If one arm is a single box, the other arm except its first part goes below that box, beside a lane: so a
        chain of `elif`s stays narrow."""
        short, tall = sorted(arms, key=lambda arm: self.column(arm)[1])
        (w, h), (wide, high) = self.column(short), self.column(tall)
        if len(short) > 1 or len(tall) == 1:
            left, right = (self.column(arm)[0] for arm in arms)
            places = [(arms[0], left / 2, 0.0), (arms[1], left + _GAP + right / 2, 0.0)]
            return (left + _GAP + right, max(h, high)), places
        head, below = self.size(tall[0])[0], h + _LAYER
        centre = max(w + _GAP + head / 2, _LANE + wide / 2)
        return (centre + wide / 2, self.column(tall, below)[1]), [(short, w / 2, 0.0), (tall, centre, below)]

    # --- places -----------------------------------------------------------------------------------------------------

    def put_column(self, parts: Sequence[Part], x: float, y: float, second: float = 0.0) -> None:
        """Places a column; ``x``: its centre, ``y``: its top."""
        for part, top, size in self.rows(parts, second):
            self.put(part, x, y + top, *size)

    def put(self, part: Part, x: float, y: float, width: float, height: float) -> None:
        left = x - width / 2
        if isinstance(part, str):
            self.out.nodes[part] = x, y + height / 2
        elif isinstance(part, ClusterView):
            box = left, y, left + width, y + height
            self.out.frames.append((part, *box))
            self.headed[str(part.body[0])] = box
            self.put_column(part.body, x, y + _PAD + _TITLE)
        else:
            places = self.branch(part)[1]
            if places[1][2]:
                self.lanes[str(places[0][0][0])] = left + _LANE / 2
            for arm, centre, second in places:
                self.put_column(arm, left + centre, y, second)

    def put_side(self, graph: GraphView) -> None:
        """Places the nodes beside the column: each near the middle of what it is tied to, none over another."""
        if not graph.side:
            return
        ties: dict[str, list[float]] = {name: [] for name in graph.side}
        for edge in graph.edges:
            for own, other in ((edge.src, edge.dst), (edge.dst, edge.src)):
                if own in ties:
                    ties[own].append(self.out.nodes[other][1])
        x, y = self.out.width + _BESIDE, 4.0
        wanted = {name: sum(at) / max(len(at), 1) for name, at in ties.items()}
        for name in sorted(graph.side, key=lambda n: wanted[n]):
            width, height = self.sizes[name]
            y = max(y, wanted[name] - height / 2)
            self.out.nodes[name] = x + width / 2, y + height / 2
            y += height + _LAYER / 2
        self.out.width = x + max(self.sizes[name][0] for name in graph.side) + 8.0
        self.out.height = max(self.out.height, y)

    def ports(self, graph: GraphView) -> dict[int, list[Point]]:
        """The ends of each edge between the column and its side, by the edge's id: beside each other on a box, in the
        order of their other ends."""
        side, at = set(graph.side), self.out.nodes
        edges = [e for e in graph.edges if e.src in side or e.dst in side]
        tied: dict[str, list[tuple[float, int, EdgeView]]] = {}
        for n, e in enumerate(edges):
            tied.setdefault(e.src, []).append((at[e.dst][1], n, e))
            tied.setdefault(e.dst, []).append((at[e.src][1], n, e))
        found: dict[int, list[Point]] = {id(e): [(0.0, 0.0)] * 2 for e in edges}
        for name, ends in tied.items():
            (x, y), (width, height) = at[name], self.sizes[name]
            x += width / 2 * (-1 if name in side else 1)
            for n, (_, _, e) in enumerate(sorted(ends, key=lambda end: end[:2]), 1):
                found[id(e)][name == e.dst] = x, y + height * (n / (len(ends) + 1) - 0.5)
        return found

    # --- edges ------------------------------------------------------------------------------------------------------

    def route(self, edge: EdgeView) -> list[Point]:
        (sx, sy), (dx, dy) = self.out.nodes[edge.src], self.out.nodes[edge.dst]
        (_, sh), (dw, dh) = self.sizes[edge.src], self.sizes[edge.dst]
        if edge.kind == "back":
            lane, low = self.headed[edge.dst][0] + _PAD + _LANE / 2, sy + sh / 2 + 8
            return [(sx, sy + sh / 2), (sx, low), (lane, low), (lane, dy), (dx - dw / 2, dy)]
        points: list[Point] = [(sx, sy + sh / 2)]
        end = (dx, dy - dh / 2)
        if edge.kind == "exit":  # beside the boxes, down, and out through the bottom of the loop's frame
            _, _, right, floor = self.headed[edge.src]
            lane = right - _LANE / 2
            return [(sx + self.sizes[edge.src][0] / 2, sy), (lane, sy), (lane, floor + 4), end]
        top = self.headed[edge.dst][1] if edge.dst in self.headed else end[1]
        lane, low = self.lanes.get(edge.src, sx), top - _LAYER
        if low > points[0][1]:
            points += [(lane, points[0][1] + _LAYER), (lane, low)] if lane != sx else [(lane, low)]
        return [*points, end]
