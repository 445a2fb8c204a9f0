"""Stores of several iterations to one element.

They do not race where all store the same value, and what is there afterwards came from one of them. So one of
them takes the adjoint, too, and leaves 0 behind, in one atomic step.
"""

from __future__ import annotations

from quadrants_lab.analysis.accesses import Access, accesses_of
from quadrants_lab.analysis.dependence import other_iterations
from quadrants_lab.analysis.effects import places
from quadrants_lab.ir import nodes as N

_MOST_PAIRS = 400  # of stores that are looked at; beyond, all of them count


def colliding_stores(kernel: N.Kernel) -> frozenset[int]:
    """The stores to buffers with a gradient whose element another iteration of the parallel task may store to."""
    if not any(_quick(kernel, t) for t in kernel.body if isinstance(t, N.Offload)):
        return frozenset()
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


def _quick(kernel: N.Kernel, task: N.Offload) -> bool:
    """Whether some store names its element by other things than the task's own indices, or two differ."""
    if task.kind == "serial":
        return False
    own = {p.id for p in task.indices}
    stores = places(task.body, N.Store).items()
    return any(len(at) > 1 or not own <= {*next(iter(at))} for buffer, at in stores if kernel.buffers[buffer].grad)
