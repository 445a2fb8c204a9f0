"""`over_cells`: a loop over a sparse layout tests cells, the widest first, and runs over elements of active cells."""

from dataclasses import replace
from math import prod

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import map_offloads, of_kind, rewrite_in, substitute, types_of, walk
from quadrants_lab.passes.merged_branches import merged, written

FEWEST = 64  # fewest iterations of a task, so that all threads of the host have work
ENOUGH = 1024  # iterations of a task whose active cells may all lie side by side
SMALL = 4096  # elements of an iteration that need not be shared any further
_PER_ITERATION = (N.AdStackAlloca, N.Random, N.Builtin)  # depend on what one iteration is


def over_cells(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that a parallel task whose iterations do nothing unless a cell of a sparse layout is active runs
    over the cells, with serial loops over the cells in an active cell, and over the elements of these."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    made = map_offloads(kernel, lambda task: _task(kernel, task, b))
    return kernel if made is kernel else replace(made, next_id=b.next_id)


def counts_cells(buffer: N.Buffer) -> bool:
    """Whether the buffer says which cells of a sparse layout are active, now or at an earlier launch that kept a
    copy."""
    return buffer.role == "activity" or (buffer.role == "kept" and buffer.name.endswith(".before"))


@dataclass(slots=True)
class _Level:
    """A block that does nothing unless a cell is active. ``test``: the statements that find out; ``guard``: the branch,
    whose arm number ``arm`` does all the rest; ``rest``: statements in front of the branch that are not for the test.
    ``sizes``: along each axis the elements of a cell, 1 where the test reads the index itself, 0 where it does not read
    it. ``ids``: the values in the test that are the number of the cell along an axis."""

    test: tuple[N.Stmt, ...]
    guard: N.If
    arm: int
    rest: tuple[N.Stmt, ...]
    sizes: list[int]
    ids: dict[int, int]

    @property
    def inner(self) -> N.Block:
        return (*self.rest, *(self.guard.then, self.guard.orelse)[self.arm])


@dataclass(slots=True)
class _Nest:
    """Makes the loops of one task. ``begins``: the first index of each axis, whose other values count from 0;
    ``same``: what becomes what in the body."""

    kernel: N.Kernel
    task: N.Offload
    b: Builder
    begins: list[int]
    same: dict[int, int]

    def level(self, block: N.Block) -> _Level | None:
        """The block as a level; None if it does something for every element."""
        *before, guard, _ = block if len(block) > 1 else (None, None)
        if not isinstance(guard, N.If) or guard.results:
            return None
        arms = [guard.then, guard.orelse]
        idle = [n for n, arm in enumerate(arms) if len(arm) == 1]
        made = {s.id: s for s in before if isinstance(s, (N.Const, N.Op, N.Load))}
        if len(idle) != 1 or len(made) < len(before):
            return None
        test, divided, direct = self._test(guard.cond, made)
        loads = [s for s in before if s.id in test and isinstance(s, N.Load)]
        if not loads or not all(counts_cells(self.kernel.buffers[s.buffer]) for s in loads):
            return None
        sizes, ids = [], {}
        for p in self.task.indices:
            n, found = divided.get(p.id, (0, ()))
            sizes.append(1 if p.id in direct else n)
            ids.update(dict.fromkeys(found if sizes[-1] > 1 else (), len(sizes) - 1))
        return _Level(
            tuple(s for s in before if s.id in test and s.id not in ids), guard, 1 - idle[0],
            tuple(s for s in before if s.id not in test and s.id not in ids), sizes, ids,
        )  # fmt: skip

    def _test(
        self, cond: int, made: dict[int, N.Const | N.Op | N.Load]
    ) -> tuple[set[int], dict[int, tuple[int, tuple[int, ...]]], set[int]]:
        """The ids of the statements that compute the condition; for each index that is divided by one constant n there,
        n and the ids of these divisions; and the indices that are read in another way."""
        axes = {p.id: p.id for p in self.task.indices}
        for p, begin in zip(self.task.indices, self.begins, strict=True):
            for s in made.values():
                by = made.get(s.args[1]) if isinstance(s, N.Op) and s.prim == "sub" and s.args[0] == p.id else None
                if begin and isinstance(by, N.Const) and by.value == begin:
                    axes[s.id] = p.id
        test, direct, divided = set[int](), set[int](), dict[int, tuple[int, tuple[int, ...]]]()
        todo = [cond]
        while todo:
            if (id := todo.pop()) not in made or id in test:
                continue
            s = made[id]
            test.add(id)
            first = s.operands()[0] if s.operands() else -1
            by = made.get(s.operands()[1]) if isinstance(s, N.Op) and s.prim == "floordiv" else None
            axis = axes.get(first, -1)
            if axis >= 0 and (first != axis or not self._begin(axis)) and isinstance(by, N.Const) and by.value > 1:
                n, same = divided.get(axis, (by.value, ()))
                divided[axis] = n, (*same, s.id)
                direct.update({axis} if n != by.value else ())
                test.add(by.id)
                continue
            direct.update(axes[i] for i in s.operands() if i in axes)
            todo += s.operands()
        return test, divided, direct

    def _begin(self, index: int) -> int:
        return next(n for p, n in zip(self.task.indices, self.begins, strict=True) if p.id == index)

    def inside(self, block: N.Block, sizes: list[int], cells: list[int]) -> N.Block:
        """The block for all elements of a cell, which has ``sizes`` elements and the numbers ``cells``."""
        level = self.level(block)
        if level is not None:
            level.sizes = [n or size for n, size in zip(level.sizes, sizes, strict=True)]
        if level is None or prod(level.sizes) == 1 or any(m % n for m, n in zip(sizes, level.sizes, strict=True)):
            return self._elements(block, sizes, cells)
        indices = [
            self.b.param(p.type, p.name) if n < size else None
            for p, n, size in zip(self.task.indices, level.sizes, sizes, strict=True)
        ]
        narrow = [cell if index is None else index.id for index, cell in zip(indices, cells, strict=True)]
        body = self.tested(level, narrow, level.sizes, narrow)
        counts = [m // n for m, n in zip(sizes, level.sizes, strict=True)]
        return self._loops(indices, cells, counts, (*body, block[-1]))

    def tested(self, level: _Level, tested: list[int], sizes: list[int], cells: list[int]) -> N.Block:
        """The test of the cell ``tested``, and what comes inside of it: for a cell of ``sizes``, with the numbers
        ``cells``."""
        self.same.update((i, tested[axis]) for i, axis in level.ids.items())
        arms = [level.guard.then, level.guard.orelse]
        arms[level.arm] = self.inside(level.inner, sizes, cells)
        return *level.test, replace(level.guard, then=arms[0], orelse=arms[1])

    def _elements(self, block: N.Block, sizes: list[int], cells: list[int]) -> N.Block:
        indices: list[N.Param | None] = []
        moved: list[N.Stmt] = []
        for p, n, cell, begin in zip(self.task.indices, sizes, cells, self.begins, strict=True):
            if not begin:
                indices.append(p if n > 1 else None)
                self.same.update({} if n > 1 else {p.id: cell})
                continue
            own = self.b.param(p.type, p.name) if n > 1 else None
            indices.append(own)
            by = N.Const(self.b.fresh(), p.type, begin, span=self.task.span)
            index = cell if own is None else own.id
            moved += [by, N.Op(p.id, p.type, "add", (index, by.id), name=p.name, span=self.task.span)]
        return self._loops(indices, cells, sizes, (*moved, *block))

    def _loops(self, indices: list[N.Param | None], cells: list[int], counts: list[int], body: N.Block) -> N.Block:
        """Loops over the axes that have an index: ``counts`` trips, from that number times the cell's on."""
        b = self.b
        for index, cell, n in reversed(list(zip(indices, cells, counts, strict=True))):
            if index is not None:
                with b.block() as loop:
                    begin = b.op("mul", cell, b.const(n, index.type))
                    end = b.op("add", begin, b.const(n, index.type))
                    b.add(N.For(b.fresh(), index, begin, end, (), (), body, ()))
                    b.yield_()
                body = tuple(loop)
        return body


def _task(kernel: N.Kernel, task: N.Offload, b: Builder) -> N.Offload:
    ends = _ends(task)
    if task.kind != "struct_for" or ends is None or any(isinstance(s, _PER_ITERATION) for s in walk(task.body)):
        return task
    in_pages = any(kernel.buffers[s.buffer].order for s in walk(task.body) if isinstance(s, N.Access))
    if in_pages:  # far fewer sums, but by several threads at a time
        task = rewrite_in(task, _by_any)
    elif any(_by_rows(s) for s in walk(task.body)):
        return task
    extents = [high - low for low, high in ends]
    b.span = task.span
    nest = _Nest(kernel, task, b, [low for low, _ in ends], {})
    level = nest.level(merged(task.body, written(task.body)))
    if level is None:
        return task
    sizes = [n or extent for n, extent in zip(level.sizes, extents, strict=True)]
    if any(extent % n for n, extent in zip(sizes, extents, strict=True)):
        return task
    shared = _shared(extents, sizes)
    if prod(shared) == 1:
        return task
    indices = tuple(b.param(p.type, p.name) for p in task.indices)
    with b.block() as first:
        tested = [
            p.id if n == part else b.op("floordiv", p.id, b.const(n // part, p.type))
            for p, n, part in zip(indices, sizes, shared, strict=True)
        ]
    body = nest.tested(level, tested, shared, [p.id for p in indices])
    with b.block() as bounds:
        counts = [extent // n for extent, n in zip(extents, shared, strict=True)]
        b.yield_(*(b.const(0, p.type) for p in indices),
                 *(b.const(n, p.type) for n, p in zip(counts, indices, strict=True)))  # fmt: skip
    whole = (*first, *body, task.body[-1])
    return replace(task, bounds=tuple(bounds), indices=indices, body=substitute(whole, nest.same))


def _shared(extents: list[int], sizes: list[int]) -> list[int]:
    """The elements of an iteration along each axis: a cell's, or fewer if there are few cells."""
    shared = list(sizes)
    while prod(shared) > 1:
        count = prod(extents) // prod(shared)
        if count >= ENOUGH or (count >= FEWEST and prod(shared) <= SMALL):
            break
        widest = max(range(len(shared)), key=lambda k: shared[k])
        shared[widest] //= next(k for k in range(2, shared[widest] + 1) if shared[widest] % k == 0)
    return shared


def _by_rows(s: N.Stmt) -> bool:
    """Whether it is a sum that rows of iterations may make in a certain order."""
    return isinstance(s, N.Atomic) and (s.distance >= 0 or s.fission != 0)


def _by_any(s: N.Stmt) -> N.Stmt:
    return replace(s, distance=-1, fission=0) if isinstance(s, N.Atomic) and _by_rows(s) else s


def _ends(task: N.Offload) -> list[tuple[int, int]] | None:
    """Where each axis begins and ends; None unless these are constants."""
    known = {s.id: s.value for s in of_kind(task.bounds, N.Const)}
    ends = task.bounds[-1].operands() if task.bounds else ()
    k = len(task.indices)
    if not all(i in known for i in ends):
        return None
    return [(int(known[low]), int(known[high])) for low, high in zip(ends[:k], ends[k:], strict=True)]
