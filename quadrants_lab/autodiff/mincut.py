"""Computes the minimum vertex cut that chooses the values to stash, by Dinitz's algorithm (1970) on the
vertex-split graph."""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise

from quadrants_lab.ir.walk import reached

_SOURCE, _SINK = -1, -2


def min_vertex_cut(
    capacity: Mapping[int, int], edges: Iterable[tuple[int, int]], sources: Iterable[int], sinks: Iterable[int]
) -> set[int]:
    """The vertices of least total capacity whose removal separates ``sources`` from ``sinks``.

    The cut may contain sources and sinks. Of all minimum cuts it is the one nearest to the sinks. ``capacity`` has
    every vertex and its weight, a positive integer. The result is deterministic for the same order of the input.
    """
    residual: dict[int, dict[int, int]] = {}
    infinite = sum(capacity.values()) + 1

    def arc(a: int, b: int, cap: int) -> None:
        residual.setdefault(a, {})
        residual.setdefault(b, {})
        residual[a][b] = residual[a].get(b, 0) + cap
        residual[b].setdefault(a, 0)

    # vertex v is split into 2v (in) and 2v+1 (out); ids are non-negative, so the terminals are free
    for v, cap in capacity.items():
        arc(2 * v, 2 * v + 1, cap)
    for a, b in edges:
        arc(2 * a + 1, 2 * b, infinite)
    for s in sources:
        arc(_SOURCE, 2 * s, infinite)
    for t in sinks:
        arc(2 * t + 1, _SINK, infinite)

    while _SINK in (level := _levels(residual)):
        _block(residual, level)
    # the nodes with a path to the sink in the residual graph: they are behind the minimum cut nearest to the sink
    behind = {*reached([_SINK], lambda b: [a for a in residual.get(b, ()) if residual[a].get(b, 0) > 0])}
    return {v for v in capacity if 2 * v + 1 in behind and 2 * v not in behind}


def _levels(residual: dict[int, dict[int, int]]) -> dict[int, int]:
    """The distance in arcs from the source to each node that can be reached."""
    level = {_SOURCE: 0}
    todo = deque([_SOURCE])
    while todo:
        a = todo.popleft()
        for b, cap in residual.get(a, {}).items():
            if cap > 0 and b not in level:
                level[b] = level[a] + 1
                todo.append(b)
    return level


def _block(residual: dict[int, dict[int, int]], level: dict[int, int]) -> None:
    """Adds flow along shortest paths until each of them has an edge without capacity left (a blocking flow)."""
    arcs = {a: [b for b, cap in residual[a].items() if cap > 0 and level[b] == at + 1] for a, at in level.items()}
    path = [_SOURCE]
    while path:
        a = path[-1]
        if a == _SINK:
            flow = min(residual[a][b] for a, b in pairwise(path))
            for a, b in pairwise(path):
                residual[a][b] -= flow
                residual[b][a] += flow
            path = [_SOURCE]
        elif not arcs[a]:
            path.pop()
            if path:
                arcs[path[-1]].pop()
        elif residual[a][arcs[a][-1]] > 0:
            path.append(arcs[a][-1])
        else:
            arcs[a].pop()
