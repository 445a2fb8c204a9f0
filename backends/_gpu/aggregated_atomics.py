"""Warp-aggregated atomics: where all threads of a warp change the same element, they combine their values first, and
one of them changes the element once. Otherwise each thread does.

This pays where many threads change one element: a hot cell, or, in a gradient, the element that the loops of all
threads read in the same trip.
"""

from dataclasses import replace

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import rewrite, types_of, uses

_WARP = 32  # threads of a warp on most devices
# of the atomics of a block whose indices come from data: aggregating makes code long, and in a block with more of them,
# such as a scatter of particles to a grid, neighbours rarely have the same element
_MOST = 8


@dataclass(frozen=True, slots=True)
class AggregateAtomics(Parametrised):
    """Marks the atomic operations of a lowered kernel that are worth aggregating: many threads run them, their old
    value is unused, and their index comes from data or is the same for all threads (an index made of the thread's
    number differs within a warp). ``types``, ``ops``: the dtypes and operations that threads of a warp can combine.
    ``bits``: the most bits of an index."""

    types: tuple[DType, ...] = ()
    ops: tuple[str, ...] = ()
    bits: int = 64

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        found = _Search(self, kernel).ids
        if not found:
            return kernel

        def mark(s: N.Stmt) -> N.Stmt:
            return replace(s, aggregated=True) if isinstance(s, N.Atomic) and s.id in found else s

        return replace(kernel, body=rewrite(kernel.body, mark))


class _Search:
    """Finds the ``ids`` of the atomic operations that `AggregateAtomics` marks."""

    def __init__(self, how: AggregateAtomics, kernel: N.Kernel) -> None:
        self.how = how
        self.kernel = kernel
        self.ranges = Ranges(kernel)
        self.uses = uses(kernel.body)
        self.types = types_of(kernel.body)
        self._known: dict[int, frozenset[str]] = {}
        self.ids: set[int] = set()
        for task in kernel.tasks:
            if task.kind == "threads":
                self._find(task.body)

    def _find(self, block: N.Block) -> None:
        found = [s for s in block if isinstance(s, N.Atomic) and self._may_aggregate(s)]
        by_data = {s.id for s in found if any("data" in self._sources(i) for i in s.index)}
        self.ids |= {s.id for s in found} - (by_data if len(by_data) > _MOST else set())
        for s in block:
            for inner in s.blocks():
                self._find(inner)

    def _may_aggregate(self, s: N.Atomic) -> bool:
        if s.private or s.op not in self.how.ops or s.type not in self.how.types or self.uses.get(s.id):
            return False
        if isinstance(self.ranges.defs.get(s.value), N.GroupReduce):  # it is aggregated already
            return False
        own = self.kernel.buffers[s.buffer].kind in ("local", "frame", "words")
        if any(self.types[i].bits > self.how.bits for i in s.index):
            return False
        return not own and not any("thread" in self._sources(i) for i in s.index)

    def _sources(self, v: int) -> frozenset[str]:
        """What the value is computed from: "data" in memory, the number of the "thread", both or neither."""
        if v not in self._known:
            self._known[v] = frozenset()  # a loop-carried value may depend on itself
            d, first = self.ranges.defs.get(v), self._first(v)
            own = {"data"} if isinstance(d, N.Load) else set()
            own |= {"thread"} if isinstance(d, N.Lane) or first == N.NO_ID else set()
            self._known[v] = frozenset(own).union(*map(self._sources, self._operands(v)))
        return self._known[v]

    def _first(self, v: int) -> int | None:
        """The begin of the loop whose index the value is, NO_ID for a loop over a thread's iterations, else None."""
        return self.ranges.indices[v][0] if v in self.ranges.indices else None

    def _operands(self, v: int) -> tuple[int, ...]:
        if (begin := self._first(v)) is not None:
            return (begin,)
        if v in self.ranges.merged:
            return tuple(m for m in self.ranges.merged[v] if m != v)
        d = self.ranges.defs.get(v)
        return () if d is None or isinstance(d, N.Load) or self._is_row(d) else d.operands()

    def _is_row(self, d: N.Stmt) -> bool:
        """Whether it is the row of a box of iterations with long rows, which neighbouring threads have in common."""
        if not isinstance(d, N.Op) or d.prim != "quot":
            return False
        size = self.ranges.range(d.args[1])
        return size is None or size[1] >= _WARP
