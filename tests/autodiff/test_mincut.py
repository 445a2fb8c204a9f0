"""The minimum vertex cut against all cuts of small graphs."""

import random
from itertools import combinations

import pytest

import quadrants_lab as qd
from quadrants_lab.autodiff.mincut import min_vertex_cut


def problem(seed: int) -> tuple[dict[int, int], list[tuple[int, int]], list[int], list[int]]:
    """Capacities, edges, sources and sinks. Dense enough that some need flow to be pushed back."""
    r = random.Random(seed)
    n = r.randint(1, 9)
    capacity = {v: r.randint(1, 9) for v in range(n)}
    edges = [pair for pair in combinations(range(n), 2) if r.random() < 0.35]
    some = [v for v in capacity if r.random() < 0.3] or [0]
    return capacity, edges, some, [v for v in capacity if r.random() < 0.3] or [n - 1]


def separates(cut: set[int], edges: list[tuple[int, int]], sources: list[int], sinks: list[int]) -> bool:
    seen: set[int] = set()
    todo = [s for s in sources if s not in cut]
    while todo:
        v = todo.pop()
        seen.add(v)
        todo += [b for a, b in edges if a == v and b not in cut and b not in seen]
    return not seen & set(sinks)


@pytest.mark.parametrize("hundred", range(4))
def test_cut_is_valid_and_minimal(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        check(*problem(seed))


def check(capacity: dict[int, int], edges: list[tuple[int, int]], sources: list[int], sinks: list[int]) -> None:
    cut = min_vertex_cut(capacity, edges, sources, sinks)
    assert separates(cut, edges, sources, sinks)
    best = min(
        sum(capacity[v] for v in c)
        for k in range(len(capacity) + 1)
        for c in combinations(capacity, k)
        if separates(set(c), edges, sources, sinks)
    )
    assert sum(capacity[v] for v in cut) == best


def test_a_value_outside_of_a_loop_is_kept_rather_than_a_shorter_one_in_it() -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    x = qd.field(qd.f64, (3,), needs_grad=True)
    y = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def waves():
        for i in x:
            w = x[i]
            for t in range(3):
                w = 0.5 * w + 0.1 * t
                for j in range(4):
                    y[None] += qd.cos(qd.cast(w * j, qd.f32))

    y.grad[None] = 1.0
    waves()
    waves.grad()
    (row,) = waves.grad.dispatcher.last.report()
    assert (row.name, row.depth) == ("w", 3)
