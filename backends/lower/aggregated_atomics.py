"""Makes atomics warp-aggregated: if all threads of a warp change the same element, they first combine their values,
and then one of them changes the element. Otherwise each thread changes its own element.

    atomic add @y[%i], %v    becomes    %total, %one = if group_same %i {
                                          yield group_reduce add %v, is this the first thread
                                        } else { yield %v, true }
                                        if %one { atomic add @y[%i], %total }

This pays where many threads change one element: a hot cell, or, in a gradient, the element that the loops of all
threads read in the same trip. Atomics of a block whose indices differ only by constants share the comparison, for
instance when a particle adds to the nine cells around it.
"""

from dataclasses import replace

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends.lower.expression import X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, u1, u32
from quadrants_lab.ir.walk import of_kind, rewrite, types_of, uses

_WARP = 32  # threads in a warp on most devices
_MOST = 8  # the most comparisons of data-dependent indices in a block: more of them cost more than they save
_MOST_LONG = 32  # the most atomics of a block that share a comparison: each makes the code longer


_Key = tuple[int, N.Ids]  # the index of a block, and the ids of the index that the threads of a warp compare in it


@dataclass(frozen=True, slots=True)
class AggregateAtomics(Parametrised):
    """Aggregates atomics for which this pays: many threads run them, their old value is unused, and their index is
    data-dependent or the same for all threads (an index computed from the thread's own index differs within a warp).
    ``types``, ``ops``: the dtypes and operations that the threads of a warp can combine. ``bits``: the width of the
    widest value that they can compare. ``warp``: how many threads a warp has; 0 if only the device knows."""

    types: tuple[DType, ...] = ()
    ops: tuple[str, ...] = ()
    bits: int = 64
    warp: int = 0

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        found = _Search(self, kernel).found
        if not found:
            return kernel
        b, known = Builder(kernel.next_id, types_of(kernel.body)), dict[_Key, int]()

        def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
            return b.made(self._aggregate, b, s, found[s.id], known) if s.id in found else s

        return replace(kernel, body=rewrite(kernel.body, one), next_id=b.next_id)

    def _aggregate(self, b: Builder, s: N.Atomic, key: _Key, known: dict[_Key, int]) -> None:
        """Emits an atomic in aggregated form. ``known``: the results of comparisons that earlier statements of the
        block made."""
        b.span, b.adjoint_of = s.span, s.adjoint_of
        total, one = b.param(s.type), b.param(u1)
        if key not in known:
            known[key] = self._same(b, key[1])
        same = known[key]
        with b.block() as together:
            op = "add" if s.op == "sub" else s.op
            whole = b.add(N.GroupReduce(b.fresh(), s.type, op, s.value, threads=self.warp))
            b.yield_(whole, self._first(b))
        with b.block() as separate:
            b.yield_(s.value, b.const(True, u1))
        b.add(N.If(b.fresh(), same, tuple(together), tuple(separate), (total, one)))
        with b.when(one.id):
            b.add(replace(s, value=total.id))
        b.span, b.adjoint_of = None, N.NO_ID

    def _same(self, b: Builder, index: N.Ids) -> int:
        """Emits a flag that is true if all threads of the warp are active here and their indices are equal."""
        parts = [X(b, i) for i in index or (b.const(0, u32),)]
        if any(x.type.bits > self.bits for x in parts):
            parts = [part.cast(u32) for x in parts for part in ((x, x.lshr(32)) if x.type.bits > self.bits else (x,))]
        same = (b.add(N.GroupSame(b.fresh(), u1, x.id, threads=self.warp)) for x in parts)
        return b.reduced("and", same)

    def _first(self, b: Builder) -> int:
        if not self.warp:
            return b.add(N.Builtin(b.fresh(), u1, "elected"))
        return ((X(b, b.add(N.Builtin(b.fresh(), u32, "place"))) & (self.warp - 1)) == 0).id


class _Search:
    """Finds the atomics for which aggregation pays; for each, by its id, what the threads compare."""

    def __init__(self, how: AggregateAtomics, kernel: N.Kernel) -> None:
        self.how = how
        self.kernel = kernel
        self.ranges = Ranges(kernel)
        self.uses = uses(kernel.body)
        self._known: dict[int, frozenset[str]] = {}
        self.found: dict[int, _Key] = {}
        self.blocks = 0
        for task in kernel.tasks:
            if task.kind == "threads":
                self._find(task.body)

    def _find(self, block: N.Block) -> None:
        self.blocks += 1
        atomics = filter(self._may_aggregate, of_kind(block, N.Atomic))
        found = {s.id: (self.blocks, tuple(map(self._moved, s.index))) for s in atomics}
        by_data = {i: key for i, key in found.items() if any("data" in self._sources(v) for v in key[1])}
        if len(set(by_data.values())) <= _MOST and len(by_data) <= _MOST_LONG:
            self.found |= found
        else:
            self.found |= {i: key for i, key in found.items() if i not in by_data}
        for s in block:
            for inner in s.blocks():
                self._find(inner)

    def _may_aggregate(self, s: N.Atomic) -> bool:
        if s.private or s.op not in self.how.ops or s.type not in self.how.types or self.uses.get(s.id):
            return False
        made = (s.value, *self.ranges.merged.get(s.value, ()))
        # the value is already combined over the warp
        if any(isinstance(self.ranges.defs.get(v), N.GroupReduce) for v in made):
            return False
        own = self.kernel.buffers[s.buffer].kind in ("local", "frame", "words")
        return not own and not any("thread" in self._sources(i) for i in s.index)

    def _moved(self, v: int) -> int:
        """The value that ``v`` is computed from by adding a constant; ``v`` itself if there is none."""
        d = self.ranges.defs.get(v)
        while d is not None and d.prim in ("add", "sub"):
            first, second = d.operands()
            by = self.ranges.defs.get(second)
            if by is None or by.constant is None:
                break
            v = first
            d = self.ranges.defs.get(v)
        return v

    def _sources(self, v: int) -> frozenset[str]:
        """What the value is computed from: "data" in memory, the index of the "thread", both or neither."""
        if v not in self._known:
            self._known[v] = frozenset()  # set first, since a loop-carried value may depend on itself
            d, first = self.ranges.defs.get(v), self._first(v)
            own = {"data"} if isinstance(d, N.Load) else set()
            own |= {"thread"} if isinstance(d, N.Lane) or first == N.NO_ID else set()
            self._known[v] = frozenset(own).union(*map(self._sources, self._operands(v)))
        return self._known[v]

    def _first(self, v: int) -> int | None:
        """If ``v`` is the index of a loop, the id of the loop's begin; NO_ID for the loop over a thread's iterations.
        Otherwise None."""
        return self.ranges.indices[v][0] if v in self.ranges.indices else None

    def _operands(self, v: int) -> tuple[int, ...]:
        if (begin := self._first(v)) is not None:
            return (begin,)
        if v in self.ranges.merged:
            return tuple(m for m in self.ranges.merged[v] if m != v)
        d = self.ranges.defs.get(v)
        return () if d is None or d.loads or self._is_row(d) else d.operands()

    def _is_row(self, d: N.Stmt) -> bool:
        """Whether ``d`` computes the row of an iteration in a box with long rows, so that neighbouring threads have the
        same row."""
        if d.prim != "quot":
            return False
        size = self.ranges.range(d.operands()[1])
        return size is None or size[1] >= _WARP
