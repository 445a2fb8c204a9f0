"""Makes cheap tasks that look for races: they miss no race, but may suspect one where there is none.

Every store of a watched task sets a mark, one byte, for its element and adds 1 to a counter. If several iterations
stored to one element, there are fewer marked elements than there were stores. An iteration that reads an element, or
that stores to an element to which others add, tests whether the element has a mark. Marks of one byte often fit in a
processor's caches when marks that name iterations do not. Several iterations may set a mark at the same time, because
all marks of a task are the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from quadrants_lab.analysis.accesses import Access
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import emit_copy, find, renamed, walk

READ, WRITTEN, CHANGED = "read", "written", "changed"
# if the buffers have more elements than this for each iteration, counting the marked elements would take too long
_SPARSE = 64
Place = N.Access
Slice = Callable[[Callable[[Place, "Watched"], None]], N.Offload]


@dataclass(frozen=True, slots=True)
class Watched:
    """An access; the kinds of marks that mean a race if another iteration set them; and the accesses that set such
    marks."""

    access: Access
    against: tuple[str, ...]
    others: tuple[Access, ...]


class Suspecting:
    """Makes the tasks that suspect races of one task.

    ``marks(buffer, kind)`` returns the buffer of marks of that kind, and ``mark()`` emits the byte that stands for this
    launch and task. ``slice(add)`` is the watched task without its side effects, where ``add`` emits something before
    each watched access.
    """

    def __init__(
        self, b: Builder, kernel: N.Kernel, task: N.Offload, found: Sequence[Watched], counter: N.Buffer,
        marks: Callable[[str, str], N.Buffer], mark: Callable[[], int], slice: Slice,
    ) -> None:  # fmt: skip
        self.b = b
        self.kernel = kernel
        self.task = task
        self.counter = counter
        self.marks, self.mark, self.slice = marks, mark, slice
        stores = [w for w in found if w.access.stmt.stores and WRITTEN in w.against]
        self.counted = tuple(dict.fromkeys(w.access.stmt.buffer for w in stores))
        self.covered = covered(task.body, {w.access.stmt.id for w in stores})

    def tasks(self) -> list[N.Stmt]:
        """Makes the tasks. They leave 0 in the counter, a launch temporary, unless they suspect a race."""
        marking, looking = self.slice(self._leave), self.slice(self._look)
        scans = [self._scan(self.kernel.buffers[name]) for name in self.counted]
        found = (t for t in (marking, looking, *scans) if any(find(t.body, N.Write)))
        return [self.bounded(t, self._is_dense) for t in found]

    def bounded(self, task: N.Offload, cond: Callable[[], int | None]) -> N.Offload:
        """A copy of the task with new ids that runs no iterations unless the condition holds."""
        b, k = self.b, len(task.indices)
        with b.block() as bounds:
            holds, ends = cond(), self._ends(task)
            if holds is not None:
                ends = (*ends[:k], *(b.op("select", holds, e, a) for a, e in zip(ends[:k], ends[k:], strict=True)))
            b.yield_(*ends)
        return replace(renamed(replace(task, bounds=()), b.fresh), bounds=tuple(bounds))

    def suspected(self) -> int:
        """Emits whether the full check must run: a race is suspected, or the buffers were too large to look for marks.
        """
        b = self.b
        some, dense = b.op("ne", b.load(self.counter, ()), b.const(0, i32)), self._is_dense()
        return some if dense is None else b.op("or", some, b.op("not", dense))

    def _leave(self, s: Place, w: Watched) -> None:
        if s.loads or s.id in self.covered:
            return
        stores = s.stores
        self.b.store(self.marks(s.buffer, WRITTEN if stores else CHANGED), s.index, self.mark())
        if stores and s.buffer in self.counted:
            self.b.atomic("add", self.counter, (), self.b.const(1, i32))

    def _look(self, s: Place, w: Watched) -> None:
        """Emits, for an access, that it is counted if its element has a mark of another kind. Two stores to one element
        need no test, since the number of marks shows them. If a store and an atomic access one element, the store makes
        the test."""
        for what in w.against:
            if what == CHANGED or (what == WRITTEN and s.loads and s.id not in self.covered):
                self._add("add", self.marks(s.buffer, what), s.index)

    def _add(self, op: str, marks: N.Buffer, index: tuple[int, ...]) -> None:
        """Emits an addition of 1 to the counter (``op`` may also subtract it) if the element has the mark."""
        b = self.b
        b.atomic(op, self.counter, (), b.cast(b.op("eq", b.load(marks, index), self.mark()), i32))

    def _scan(self, of: N.Buffer) -> N.Offload:
        """A task that subtracts the number of marked elements from the counter."""
        b = self.b
        indices = tuple(b.param(of.extent_type) for _ in range(of.ndim)) or (b.param(i32),)
        with b.block() as bounds:
            b.yield_(*[b.const(0, p.type) for p in indices], *(self._extents(of) or [b.const(1, i32)]))
        with b.block() as body:
            self._add("sub", self.marks(of.name, WRITTEN), tuple(p.id for p in indices[: of.ndim]))
            b.yield_()
        return N.Offload(b.fresh(), "range_for", tuple(bounds), indices, tuple(body), span=self.task.span)

    def _extents(self, of: N.Buffer) -> list[int]:
        b, t = self.b, of.extent_type
        if of.shape is not None:
            return [b.const(n, t) for n in of.shape]
        return [b.add(N.ShapeOf(b.fresh(), t, of.name, axis)) for axis in range(of.ndim)]

    def _ends(self, task: N.Offload) -> tuple[int, ...]:
        """Emits the bounds of the task; returns the ids that they yield."""
        return emit_copy(self.b, task.bounds, {})

    def _is_dense(self) -> int | None:
        """Emits whether the task has so many iterations that counting the marked elements takes little time in
        comparison. None if the task counts no marked elements."""
        b = self.b
        if not self.counted:
            return None

        def product(values: Iterable[int]) -> int:
            found = b.const(1, i64)
            for v in values:
                found = b.op("mul", found, b.op("max", b.cast(v, i64), b.const(0, i64)))
            return found

        ends, k = self._ends(self.task), len(self.task.indices)
        trips = product(b.op("sub", b.cast(e, i64), b.cast(a, i64)) for a, e in zip(ends[:k], ends[k:], strict=True))
        elements = b.const(0, i64)
        for name in self.counted:
            elements = b.op("add", elements, product(self._extents(self.kernel.buffers[name])))
        return b.op("le", elements, b.op("mul", trips, b.const(_SPARSE, i64)))


def covered(body: N.Block, stores: set[int]) -> set[int]:
    """The ids of the loads that run only if the same iteration also makes one of the ``stores`` to the same element,
    and of the stores that repeat an earlier store. An If that only keeps an index in bounds does not count as a
    condition: if its arm does not run, the launch fails."""
    defs = {i: s for s in walk(body) for i, _ in s.defs()}
    inside = {s.cond for s in find(body, N.Assert) if s.kind == "bounds"}
    loads: list[tuple[N.Load, tuple[int, ...]]] = []
    stored: dict[tuple[str, tuple[int, ...]], set[int]] = {}  # (buffer, index) -> the blocks that always store there
    again: set[int] = set()

    def sure(cond: int) -> bool:
        s = defs.get(cond)
        return cond in inside or (s is not None and s.prim == "and" and all(map(sure, s.operands())))

    def place(s: N.Load | N.Store) -> tuple[str, tuple[int, ...]]:
        found = []
        for i in s.index:
            d = defs.get(i)
            found.append(d.args[1] if isinstance(d, N.Op) and d.prim == "select" and sure(d.args[0]) else i)
        return s.buffer, tuple(found)

    def visit(block: N.Block, path: tuple[int, ...]) -> None:
        for s in block:
            if isinstance(s, N.Load):
                loads.append((s, path))
            elif isinstance(s, N.Store) and s.id in stores:
                blocks = stored.setdefault(place(s), set())
                if not blocks.isdisjoint(path):
                    again.add(s.id)
                blocks.add(path[-1])
            for inner in s.blocks():
                same = isinstance(s, N.If) and inner is s.then and sure(s.cond)
                visit(inner, path if same else (*path, id(inner)))

    visit(body, (id(body),))
    return again | {s.id for s, path in loads if not stored.get(place(s), set()).isdisjoint(path)}
