"""Stores of several iterations to one element.

They do not race where all store the same value, and the element then holds the value of one of them. So just one of
them may take its adjoint: the first one, which reads it and leaves 0 behind in one atomic exchange.
"""

from __future__ import annotations

from quadrants_lab.analysis.accesses import Access, accesses_of
from quadrants_lab.analysis.dependence import other_iterations
from quadrants_lab.ir import nodes as N

_MOST_PAIRS = 400  # pairs of stores that are compared; where there are more, all of them are taken to collide


def colliding_stores(kernel: N.Kernel) -> frozenset[int]:
    """Ids of the stores to buffers with a gradient whose element another iteration of the task may store to, too."""
    found: set[int] = set()
    info = accesses_of(kernel)
    groups: dict[tuple[int, str], list[Access]] = {}
    for a in info.of.values():
        parallel = a.in_body and a.task.kind != "serial"
        if parallel and isinstance(a.stmt, N.Store) and kernel.buffers[a.stmt.buffer].grad:
            groups.setdefault((a.number, a.stmt.buffer), []).append(a)
    for stores in groups.values():
        for n, a in enumerate(stores):
            for b in stores[n:]:
                if len(stores) ** 2 > _MOST_PAIRS or other_iterations(info, a, b):
                    found |= {a.stmt.id, b.stmt.id}
    return frozenset(found)
