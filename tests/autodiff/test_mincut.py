"""The minimum vertex cut against all cuts of small graphs."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from quadrants_lab.autodiff.mincut import min_vertex_cut


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[int, int], list[tuple[int, int]], list[int], list[int]]:
    n = draw(st.integers(1, 7))
    capacity = {v: draw(st.integers(1, 9)) for v in range(n)}
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    some = st.lists(st.integers(0, n - 1), min_size=1, unique=True)
    return capacity, edges, draw(some), draw(some)


def separates(cut: set[int], edges: list[tuple[int, int]], sources: list[int], sinks: list[int]) -> bool:
    seen: set[int] = set()
    todo = [s for s in sources if s not in cut]
    while todo:
        v = todo.pop()
        seen.add(v)
        todo += [b for a, b in edges if a == v and b not in cut and b not in seen]
    return not seen & set(sinks)


@given(problems())
def test_cut_is_valid_and_minimal(p: tuple[dict[int, int], list[tuple[int, int]], list[int], list[int]]) -> None:
    capacity, edges, sources, sinks = p
    cut = min_vertex_cut(capacity, edges, sources, sinks)
    assert separates(cut, edges, sources, sinks)
    best = min(
        sum(capacity[v] for v in c)
        for k in range(len(capacity) + 1)
        for c in combinations(capacity, k)
        if separates(set(c), edges, sources, sinks)
    )
    assert sum(capacity[v] for v in cut) == best
