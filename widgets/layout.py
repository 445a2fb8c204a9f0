"""Where the boxes of a graph go: layers from top to bottom, inside each loop's frame on their own.

Every frame is laid out for itself, inner ones first, and is a box of the frame around it: nothing else lies inside it,
and 2,000 boxes take a fraction of a second. Source: Sugiyama, Tagawa, Toda 1981, with long edges as chains of points;
the places in a layer by isotonic regression (pool adjacent violators).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from quadrants_lab.widgets.model import ClusterView, EdgeView, GraphView

Point = tuple[float, float]
_GAP, _LAYER, _PAD, _LANE = 26.0, 34.0, 12.0, 20.0  # between boxes, between layers, inside a frame, beside its boxes
_TITLE = 16.0  # height of a frame's name
_LONGEST = 12  # layers that an edge crosses in a chain of points; a longer one takes the lane at the right
_SWEEPS = 4


@dataclass(slots=True)
class Layout:
    """In pixels, y downwards, the origin at the top left. ``nodes``: centres. ``edges``: the points of a path, which
    runs straight where x or y stays and else in a curve, and where its label goes. ``frames``: (cluster, x0, y0, x1,
    y1), outer before inner."""

    width: float
    height: float
    nodes: dict[str, Point]
    edges: list[tuple[EdgeView, list[Point], Point]] = field(default_factory=list)
    frames: list[tuple[ClusterView, float, float, float, float]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Region:
    """A frame (or the whole) with its items: nodes by name, and regions. ``path``: what is around it, and itself."""

    cluster: ClusterView | None
    path: tuple[_Region, ...] = ()
    items: list[_Item] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)  # those whose ends lie in different items of it
    back: bool = False  # an edge goes upwards inside: there is a lane at the left
    leave: bool = False  # an edge leaves it: there is one at the right
    width: float = 0.0
    height: float = 0.0
    at: dict[_Item, Point] = field(default_factory=dict)  # centres of the items, from the corner of the region
    bends: dict[int, list[Point]] = field(default_factory=dict)
    corner: Point = (0.0, 0.0)


_Item = str | _Region


def layout(graph: GraphView, sizes: Mapping[str, Point]) -> Layout:
    """Lays the graph out; ``sizes``: of its boxes."""
    whole = _Region(None)
    whole.path = (whole,)
    regions = [whole]
    home: dict[str, _Region] = {}

    def enter(cluster: ClusterView, around: _Region) -> None:
        own = _Region(cluster)
        own.path = (*around.path, own)
        regions.append(own)
        around.items.append(own)
        home.update(dict.fromkeys(cluster.nodes, own))
        for child in cluster.children:
            enter(child, own)

    for cluster in graph.clusters:
        enter(cluster, whole)
    for node in graph.nodes:
        home.setdefault(node.id, whole).items.append(node.id)
    rank: dict[_Item, int] = {node.id: n for n, node in enumerate(graph.nodes)}
    for region in reversed(regions):  # an item's rank is that of its first node
        region.items.sort(key=lambda i: rank.get(i, 0))
        if region.items:
            rank[region] = rank[region.items[0]]

    ends = [_lifted(home[e.src].path, home[e.dst].path, e) for e in graph.edges]
    for n, (edge, (place, a, b)) in enumerate(zip(graph.edges, ends, strict=True)):
        place.edges.append(n)
        place.back |= edge.kind == "back" or (a == b)
        for r in home[edge.src].path:
            r.leave |= r not in home[edge.dst].path
    for region in reversed(regions):
        boxes = {i: sizes[i] if isinstance(i, str) else (i.width, i.height) for i in region.items}
        links = [(n, ends[n][1], ends[n][2]) for n in region.edges if graph.edges[n].kind != "back"]
        _arrange(region, boxes, [x for x in links if x[1] != x[2]])

    out = Layout(whole.width, whole.height, {})
    for region in regions:
        x, y = region.corner
        for item, (cx, cy) in region.at.items():
            if isinstance(item, str):
                out.nodes[item] = (x + cx, y + cy)
            else:
                item.corner = (x + cx - item.width / 2, y + cy - item.height / 2)
        if region.cluster is not None:
            out.frames.append((region.cluster, x, y, x + region.width, y + region.height))
    for n, edge in enumerate(graph.edges):
        points = _route(edge, ends[n], out.nodes, sizes, n)
        middle = len(points) // 2
        (px, py), (qx, qy) = points[middle - 1], points[middle]
        out.edges.append((edge, points, ((px + qx) / 2, (py + qy) / 2)))
    return out


def _lifted(
    src: tuple[_Region, ...], dst: tuple[_Region, ...], edge: EdgeView
) -> tuple[_Region, _Item, _Item]:
    """The innermost region around both ends, and the items of it in which they lie."""
    depth = 0
    while depth < min(len(src), len(dst)) and src[depth] == dst[depth]:
        depth += 1
    a = src[depth] if depth < len(src) else edge.src
    b = dst[depth] if depth < len(dst) else edge.dst
    return src[depth - 1], a, b


# --- one region -----------------------------------------------------------------------------------------------------


def _arrange(
    region: _Region, boxes: Mapping[_Item, Point], links: Sequence[tuple[int, _Item, _Item]]
) -> None:
    """Fills in where the items are, how edges bend between them, and how large the region is."""
    layer = _layers(list(boxes), [(a, b) for _, a, b in links])
    rows: list[list[_Item]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for item in boxes:
        rows[layer[item]].append(item)
    wide = {i: w for i, (w, _) in boxes.items()}
    near: dict[_Item, tuple[list[_Item], list[_Item]]] = {i: ([], []) for i in boxes}  # above, below
    chains: dict[int, list[_Item]] = {}
    far = 0
    for n, a, b in links:
        if layer[b] - layer[a] > _LONGEST:
            far += 1
            continue
        chain = [a]
        for k in range(layer[a] + 1, layer[b]):
            point = f"{n}\0{k}"
            wide[point] = 8.0
            near[point] = ([], [])
            rows[k].append(point)
            chain.append(point)
        chain.append(b)
        chains[n] = chain[1:-1]
        for p, q in pairwise(chain):
            near[p][1].append(q)
            near[q][0].append(p)
    for sweep in range(_SWEEPS):
        _order(rows if sweep % 2 == 0 else rows[::-1], near, sweep % 2)
    x = _places(rows, near, wide)

    left = min((x[i] - wide[i] / 2 for i in x), default=0.0)
    framed = region.cluster is not None
    shift = (_PAD if framed else 4.0) + _LANE * region.back - left
    top = _PAD + _TITLE if framed else 4.0
    heights = [max((boxes[i][1] for i in row if i in boxes), default=0.0) for row in rows]
    tops: list[float] = []
    for height in heights:
        tops.append(top)
        top += height + _LAYER
    for k, row in enumerate(rows):
        for i in row:
            if i in boxes:
                region.at[i] = (x[i] + shift, tops[k] + boxes[i][1] / 2)
    right = max((x[i] + wide[i] / 2 for i in x), default=0.0) + shift
    named = len(region.cluster.label) * 6.7 + 40 if region.cluster is not None else 0.0
    region.width = max(right + _LANE * (region.leave or far > 0) + (_PAD if framed else 4.0), named)
    region.height = max(top - _LAYER + (_PAD + _LANE / 2 * region.back if framed else 4.0 + _LANE * region.back), 1.0)
    for n, a, _ in links:
        if n not in chains:
            region.bends[n] = [(right + _LANE / 2, 0.0)]
            continue
        for k, bend in enumerate(chains[n], layer[a] + 1):
            at = x[bend] + shift
            region.bends.setdefault(n, []).extend(((at, tops[k] - 4), (at, tops[k] + heights[k] + 4)))


def _layers(items: Sequence[_Item], links: Sequence[tuple[_Item, _Item]]) -> dict[_Item, int]:
    """The longest way to each item from one that nothing leads to; circles are cut at their first item."""
    below: dict[_Item, list[_Item]] = {i: [] for i in items}
    waiting = dict.fromkeys(items, 0)
    for a, b in links:
        below[a].append(b)
        waiting[b] += 1
    layer = dict.fromkeys(items, 0)
    ready = [i for i in items if not waiting[i]]
    left = iter(items)
    done: set[_Item] = set()
    while len(done) < len(layer):
        i = ready.pop() if ready else next(i for i in left if i not in done)
        if i in done:
            continue
        done.add(i)
        for j in below[i]:
            if j not in done:
                layer[j] = max(layer[j], layer[i] + 1)
                waiting[j] -= 1
                if not waiting[j]:
                    ready.append(j)
    return layer


def _order(
    rows: Sequence[list[_Item]], near: Mapping[_Item, tuple[list[_Item], list[_Item]]], side: int
) -> None:
    """Each row by the mean place of its neighbours in the row before."""
    place: dict[_Item, int] = {}
    for row in rows:
        own = {i: n for n, i in enumerate(row)}

        def mean(i: _Item, own: Mapping[_Item, int] = own) -> float:
            known = [place[j] for j in near[i][side] if j in place]
            return sum(known) / len(known) if known else own[i]

        row.sort(key=mean)
        place = {i: n for n, i in enumerate(row)}


def _places(
    rows: Sequence[Sequence[_Item]], near: Mapping[_Item, tuple[list[_Item], list[_Item]]],
    wide: Mapping[_Item, float],
) -> dict[_Item, float]:  # fmt: skip
    """x of each centre: in its row's order, apart, and as close to its neighbours' as that allows."""
    x: dict[_Item, float] = {}
    both = {i: above + below for i, (above, below) in near.items()}
    placed = []
    for row in rows:
        offset, at = 0.0, []
        for n, i in enumerate(row):
            offset += (wide[row[n - 1]] + wide[i]) / 2 + _GAP if n else 0.0
            at.append(offset)
        placed.append((row, at))
    for sweep in range(2 * _SWEEPS + 1):
        for row, at in placed if sweep % 2 == 0 else placed[::-1]:
            wanted = []
            for i, o in zip(row, at, strict=True):
                known = [x[j] for j in both[i] if j in x]
                wanted.append((sum(known) / len(known) if known else x.get(i, o)) - o)
            for i, y, o in zip(row, wanted if len(row) == 1 else _ascending(wanted), at, strict=True):
                x[i] = y + o
    return x


def _ascending(wanted: Sequence[float]) -> list[float]:
    """The ascending numbers with the least squares of distances."""
    pools: list[tuple[float, int]] = []
    for value in wanted:
        pool = (value, 1)
        while pools and pools[-1][0] > pool[0]:
            (v, n), (w, m) = pools.pop(), pool
            pool = ((v * n + w * m) / (n + m), n + m)
        pools.append(pool)
    return [v for v, n in pools for _ in range(n)]


# --- edges ----------------------------------------------------------------------------------------------------------


def _route(
    edge: EdgeView, ends: tuple[_Region, _Item, _Item], nodes: Mapping[str, Point], sizes: Mapping[str, Point], n: int
) -> list[Point]:
    region, a, b = ends
    (sx, sy), (dx, dy) = nodes[edge.src], nodes[edge.dst]
    (sw, sh), (dw, dh) = sizes[edge.src], sizes[edge.dst]
    ox, oy = region.corner
    if edge.kind == "back" or dy <= sy:
        lane = ox + (_PAD if region.cluster is not None else 0.0) + _LANE / 2
        low = sy + sh / 2 + 8
        return [(sx, sy + sh / 2), (sx, low), (lane, low), (lane, dy), (dx - dw / 2, dy)]
    points: list[Point] = [(sx, sy + sh / 2)]
    if isinstance(a, _Region):  # out of a frame: beside its boxes, down and through its floor
        lane = a.corner[0] + a.width - _LANE / 2
        points = [(sx + sw / 2, sy), (lane, sy), (lane, a.corner[1] + a.height + 4)]
    bends = region.bends.get(n, [])
    if len(bends) == 1:
        lane = ox + bends[0][0]
        points += [(points[-1][0], points[-1][1] + 8), (lane, points[-1][1] + 8), (lane, dy - dh / 2 - 12)]
        points += [(dx, dy - dh / 2 - 12)]
    else:
        points += [(ox + x, oy + y) for x, y in bends]
    if isinstance(b, _Region):
        points.append((dx, b.corner[1] - 2))
    return [*points, (dx, dy - dh / 2)]
