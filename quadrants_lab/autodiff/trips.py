"""Which memory decides how often the loops of a kernel run."""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.autodiff.activity import links
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk


@dataclass(frozen=True, slots=True)
class TripCount:
    """``buffer`` is read at ``read``, and what was read steers the loop at ``loop``."""

    buffer: str
    read: Span | None
    loop: Span | None


def trip_counts(kernel: N.Kernel) -> list[TripCount]:
    """One for each field and ndarray of integers that a trip count depends on and the kernel itself does not write, by
    the first such read. Trip counts are the bounds of tasks and loops, and the conditions of whiles."""
    written = {s.buffer for s in walk(kernel.body) if isinstance(s, (N.Store, N.Atomic))}
    sources: dict[int, list[int]] = {}
    loads: dict[int, N.Load] = {}
    steered: list[tuple[int, N.Stmt]] = []
    for s in walk(kernel.body):
        if isinstance(s, N.Value):
            sources.setdefault(s.id, []).extend(s.operands())
        for a, b in links(s):
            sources.setdefault(b, []).append(a)
        if isinstance(s, N.Load):
            loads[s.id] = s
        elif isinstance(s, N.For):
            steered += [(s.begin, s), (s.end, s)]
        elif isinstance(s, (N.While, N.Offload)):
            end = s.blocks()[0][-1]
            assert isinstance(end, N.Yield)
            steered += [(v, s) for v in end.values]
    found: dict[str, TripCount] = {}
    for value, loop in steered:
        seen: set[int] = set()
        todo = [value]
        while todo:
            v = todo.pop()
            if v in seen:
                continue
            seen.add(v)
            todo += sources.get(v, ())
            load = loads.get(v)
            if load is None or not load.type.is_int or load.buffer in written:
                continue
            if kernel.buffers[load.buffer].kind in ("field", "ndarray"):
                found.setdefault(load.buffer, TripCount(load.buffer, load.span, loop.span))
    return list(found.values())
