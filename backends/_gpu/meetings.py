"""Changes of memory where many threads come to one place: a hot cell, or in a gradient the element that each thread's
loop reads in the same trip. Where all threads that run together have the same place, they bring their values together,
and one of them changes the element once. Else, each does.
"""

from __future__ import annotations

from collections.abc import Collection

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import uses

_WARP = 32  # threads that run together, on most devices
_MOST = 8  # of places from data in one block: a look makes code long, and stencils of particles rarely meet


class Meetings:
    """The atomic operations of a lowered kernel whose threads should look whether they meet: what was there is not
    asked for, and their places come from data or are the same for all threads, since neighbours in a field differ.
    ``types``: of values that threads can bring together; ``ops``: operations by which."""

    def __init__(self, kernel: N.Kernel, ranges: Ranges, types: Collection[DType], ops: Collection[str]) -> None:
        self.kernel = kernel
        self.ranges = ranges
        self.types = types
        self.ops = ops
        self.read = uses(kernel.body)
        self._roots: dict[int, frozenset[str]] = {}
        self._ids: set[int] = set()
        for task in kernel.tasks:
            for block in task.blocks():
                self._find(block)

    def __contains__(self, s: N.Atomic) -> bool:
        return s.id in self._ids

    def _find(self, block: N.Block) -> None:
        found = [s for s in block if isinstance(s, N.Atomic) and self._may_meet(s)]
        by_data = {s.id for s in found if any("data" in self._from(i) for i in s.index)}
        self._ids |= {s.id for s in found} - (by_data if len(by_data) > _MOST else set())
        for s in block:
            for inner in s.blocks():
                self._find(inner)

    def _may_meet(self, s: N.Atomic) -> bool:
        if s.private or s.op not in self.ops or s.type not in self.types or self.read.get(s.id):
            return False
        if isinstance(self.ranges.defs.get(s.value), N.Together):  # one thread changes it already
            return False
        own = self.kernel.buffers[s.buffer].kind in ("local", "frame", "words")
        return not own and not any("thread" in self._from(i) for i in s.index)

    def _from(self, v: int) -> frozenset[str]:
        """What the value is computed from: "data" in memory, the number of the "thread", both or neither."""
        if v not in self._roots:
            self._roots[v] = frozenset()  # of what a loop carries, while it is being found out
            d, first = self.ranges.defs.get(v), self._first(v)
            own = {"data"} if isinstance(d, N.Load) else set()
            own |= {"thread"} if isinstance(d, N.Lane) or first == N.NO_ID else set()
            self._roots[v] = frozenset(own).union(*map(self._from, self._sources(v)))
        return self._roots[v]

    def _first(self, v: int) -> int | None:
        """What the index of a loop begins with, NO_ID for loops over a thread's iterations."""
        return self.ranges.indices[v][0] if v in self.ranges.indices else None

    def _sources(self, v: int) -> tuple[int, ...]:
        if (begin := self._first(v)) is not None:
            return (begin,)
        if v in self.ranges.merged:
            return tuple(m for m in self.ranges.merged[v] if m != v)
        d = self.ranges.defs.get(v)
        return () if d is None or isinstance(d, N.Load) or self._is_row(d) else d.operands()

    def _is_row(self, d: N.Stmt) -> bool:
        """Whether neighbours may have the same: the row of a box of iterations, which has many."""
        if not isinstance(d, N.Op) or d.prim != "quot":
            return False
        size = self.ranges.range(d.args[1])
        return size is None or size[1] >= _WARP
