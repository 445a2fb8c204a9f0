"""Lowers loops over sparse layouts on the host. `over_cells` makes such a loop test cells, the widest first, and
run over the elements of active cells only. `spare_pages` makes a store of zero test whether the element is zero
already, because a write to memory in pages allocates a page."""

from dataclasses import field, replace
from math import prod

from quadrants_lab.analysis.effects import touched
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import SizeConst
from quadrants_lab.ir.types import UNSIGNED, i32, u1
from quadrants_lab.ir.walk import (
    all_are,
    constants,
    emit_copy,
    end_of,
    find,
    map_blocks,
    of_kind,
    rewrite_in,
    rewritten,
    rules,
    substitute,
    types_of,
    uses,
    walk,
)
from quadrants_lab.passes.cse import without_repetitions

FEWEST = 64  # a task should have at least so many iterations, so that all threads of the host have work
ENOUGH = 1024  # with so many iterations, the threads all have work even if only cells side by side are active
SMALL = 4096  # an iteration over so few elements need not be divided any further
_PLAIN = (N.Const, N.Op, N.Load)
_IDLE = (N.Const, N.Yield)
_PER_ITERATION = (N.AdStackAlloca, N.Random, N.Builtin)  # what these do depends on what one iteration is


def over_cells(kernel: N.Kernel) -> N.Kernel:
    """Rewrites parallel tasks whose iterations do nothing unless a cell of a sparse layout is active. Guarantees that
    such a task runs over the cells, with serial loops inside over the cells within an active cell, and over their
    elements. But if the task has adstacks, which belong to one element, or elementary functions, which are faster in
    lanes, it runs over the elements of the active cells, which tasks before it collect in a list."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    body: list[N.Stmt] = []
    for task in kernel.body:
        made: list[N.Stmt] = [task]
        if isinstance(task, N.Offload) and task.kind == "struct_for":
            made = [*_listed(kernel, task, b, buffers)] or [_task(kernel, task, b)]
        body += made
    if len(body) == len(kernel.body) and all(x is y for x, y in zip(body, kernel.body, strict=True)):
        return kernel
    return replace(kernel, body=tuple(body), buffers=buffers, next_id=b.next_id)


@dataclass(slots=True)
class _Level:
    """A block that does nothing unless a cell is active. ``test``: the statements that compute the condition;
    ``guard``: the branch; its arm with index ``arm`` does everything else; ``rest``: statements before the branch that
    are not part of the test. ``sizes``: for each axis how many elements a cell has, 1 if the test reads the index
    itself, 0 if it does not read the index. ``ids``: for each axis the values in the test that are the index of the
    cell along it. ``what``: the test as an expression that can be compared."""

    test: tuple[N.Stmt, ...]
    guard: N.If
    arm: int
    rest: tuple[N.Stmt, ...]
    sizes: list[int]
    ids: dict[int, int]
    what: object

    @property
    def inner(self) -> N.Block:
        return (*self.rest, *(self.guard.then, self.guard.orelse)[self.arm])


@dataclass(slots=True)
class _Nest:
    """Makes the loops of one task. ``begins``: the first index along each axis (indices of the new loops count from 0);
    ``same``: id in the body -> the id that replaces it."""

    kernel: N.Kernel
    task: N.Offload
    b: Builder
    begins: list[int]
    same: dict[int, int] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)  # axes whose indices have a value

    def level(self, block: N.Block) -> _Level | None:
        """The block as a level; None if it does something even for inactive cells."""
        *before, guard, _ = block if len(block) > 1 else (None, None)
        if not isinstance(guard, N.If) or guard.results or not all_are(before, _PLAIN):
            return None
        return self.guarded(tuple(before), guard)

    def guarded(self, before: N.Block, guard: N.If) -> _Level | None:
        """A branch, and the statements before it, as a level; None if it does not test whether a cell is active."""
        idle = [n for n, arm in enumerate((guard.then, guard.orelse)) if all_are(arm, _IDLE)]
        made = {s.id: s for s in of_kind(before, _PLAIN)}
        if len(idle) != 1:
            return None
        test, divided, direct = self._test(guard.cond, made)
        loads = [s for s in before if s.id in test and isinstance(s, N.Load)]
        if not loads or not all(self.kernel.buffers[s.buffer].counts_cells for s in loads):
            return None
        sizes, ids = [], {}
        for p in self.task.indices:
            n, found = divided.get(p.id, (0, ()))
            sizes.append(1 if p.id in direct else n)
            ids.update(dict.fromkeys(found if sizes[-1] > 1 else (), len(sizes) - 1))
        return _Level(
            tuple(s for s in before if s.id in test and s.id not in ids), guard, 1 - idle[0],
            tuple(s for s in before if s.id not in test and s.id not in ids), sizes, ids, _expression(guard.cond, made),
        )  # fmt: skip

    def _test(
        self, cond: int, made: dict[int, N.Value]
    ) -> tuple[set[int], dict[int, tuple[int, tuple[int, ...]]], set[int]]:
        """Returns the ids of the statements that compute the condition; a dict from each index that the condition only
        divides by one constant to that constant and the ids of the divisions; and the indices that the condition reads
        in another way."""
        axes, known = {p.id: p.id for p in self.task.indices}, constants(made.values())
        for p, begin in zip(self.task.indices, self.begins, strict=True):
            for s in made.values():
                if begin and s.prim == "sub" and s.operands()[0] == p.id and known.get(s.operands()[1]) == begin:
                    axes[s.id] = p.id
        test, direct, divided = set[int](), set[int](), dict[int, tuple[int, tuple[int, ...]]]()
        todo = [cond]
        while todo:
            if (id := todo.pop()) not in made or id in test:
                continue
            s = made[id]
            test.add(id)
            first, second, *_ = *s.operands(), -1, -1
            by, axis = known.get(second, 0) if s.prim == "floordiv" else 0, axes.get(first, -1)
            if axis >= 0 and (first != axis or not self._begin(axis)) and by > 1:
                n, same = divided.get(axis, (by, ()))
                divided[axis] = n, (*same, s.id)
                direct.update({axis} if n != by else ())
                test.add(second)
                continue
            direct.update(axes[i] for i in s.operands() if i in axes)
            todo += s.operands()
        return test, divided, direct

    def _begin(self, index: int) -> int:
        return next(n for p, n in zip(self.task.indices, self.begins, strict=True) if p.id == index)

    def inside(self, block: N.Block, sizes: list[int], cells: list[int]) -> N.Block:
        """Emits the block for all elements of a cell. ``sizes``: how many elements the cell has along each axis;
        ``cells``: the cell's indices."""
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
        body = (*self.own(level.sizes, narrow), *self.tested(level, narrow, level.sizes, narrow))
        counts = [m // n for m, n in zip(sizes, level.sizes, strict=True)]
        return self._loops(indices, cells, counts, (*body, block[-1]))

    def tested(self, level: _Level, tested: list[int], sizes: list[int], cells: list[int]) -> N.Block:
        """Emits the test of the cell ``tested``, and within its branch the code for the cell with the ``sizes`` and the
        indices ``cells``."""
        self.same.update((i, tested[axis]) for i, axis in level.ids.items())
        arms = [level.guard.then, level.guard.orelse]
        arms[level.arm] = self.inside(level.inner, sizes, cells)
        return *level.test, replace(level.guard, then=arms[0], orelse=arms[1])

    def own(self, sizes: list[int], cells: list[int]) -> N.Block:
        """Emits the indices along the axes where a cell has one element, unless they are known already."""
        moved: list[N.Stmt] = []
        for axis, (p, n, cell, begin) in enumerate(zip(self.task.indices, sizes, cells, self.begins, strict=True)):
            if n > 1 or axis in self.known:
                continue
            self.known.add(axis)
            if begin:
                by = N.Const(self.b.fresh(), p.type, begin, span=self.task.span)
                moved += [by, N.Op(p.id, p.type, "add", (cell, by.id), name=p.name, span=self.task.span)]
            else:
                self.same[p.id] = cell
        return tuple(moved)

    def _elements(self, block: N.Block, sizes: list[int], cells: list[int]) -> N.Block:
        indices = [
            None if n == 1 else self.b.param(p.type, p.name) if begin else p
            for p, n, begin in zip(self.task.indices, sizes, self.begins, strict=True)
        ]
        places = [cell if index is None else index.id for index, cell in zip(indices, cells, strict=True)]
        self.known |= {axis for axis, index in enumerate(indices) if index is self.task.indices[axis]}
        return self._loops(indices, cells, sizes, (*self.own([1] * len(sizes), places), *block))

    def _loops(self, indices: list[N.Param | None], cells: list[int], counts: list[int], body: N.Block) -> N.Block:
        """Emits loops over the axes that have an index. Each loop makes ``counts`` trips; the index is the cell's index
        times ``counts`` plus the trip's index. From this sum the CPU gets the digits of the index without a division
        (`backends.lower.cells`)."""
        b = self.b
        for index, cell, n in reversed(list(zip(indices, cells, counts, strict=True))):
            if index is not None:
                trip = b.param(index.type)
                with b.block() as loop:
                    end = b.const(n, index.type)
                    begin = b.op("mul", cell, end)
                    own = N.Op(index.id, index.type, "add", (begin, trip.id), name=index.name, span=self.task.span)
                    b.add(N.For(b.fresh(), trip, b.const(0, index.type), end, (), (), (own, *body), ()))
                    b.yield_()
                body = tuple(loop)
        return body


def _task(kernel: N.Kernel, task: N.Offload, b: Builder) -> N.Offload:
    ends = _ends(task)
    if task.kind != "struct_for" or ends is None or any(find(task.body, _PER_ITERATION)):
        return task
    in_pages = any(kernel.buffers[s.buffer].order for s in find(task.body, N.Access))
    if in_pages:  # then only active cells make sums, but several threads make them at a time, in any order
        task = rewrite_in(task, _by_any)
    elif any(_by_rows(s) for s in walk(task.body)):
        return task
    extents = [high - low for low, high in ends]
    b.span = task.span
    nest = _Nest(kernel, task, b, [low for low, _ in ends])
    level = nest.level(_merged(kernel, task.body))
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
    own = [p.id for p in indices]
    body = (*nest.own(shared, own), *nest.tested(level, tested, shared, own))
    with b.block() as bounds:
        counts = [extent // n for extent, n in zip(extents, shared, strict=True)]
        b.yield_(*(b.const(0, p.type) for p in indices),
                 *(b.const(n, p.type) for n, p in zip(counts, indices, strict=True)))  # fmt: skip
    whole = (*first, *body, task.body[-1])
    return replace(task, bounds=tuple(bounds), indices=indices, body=substitute(whole, nest.same))


def _listed(kernel: N.Kernel, task: N.Offload, b: Builder, buffers: dict[str, N.Buffer]) -> list[N.Stmt]:
    """The tasks that collect the active cells in a list, and the task that runs over the elements of the listed cells;
    nothing if the cells cannot be listed. The list's buffers are added to ``buffers``."""
    ends = _ends(task)
    kinds = {type(s) for s in find(task.body, _PER_ITERATION)}
    if ends is None or any(p.type is not i32 for p in task.indices):
        return []
    if kinds != {N.AdStackAlloca} and (kinds or not _in_vectors(task)):
        return []
    b.span, b.adjoint_of = task.span, N.NO_ID
    nest = _Nest(kernel, task, b, [low for low, _ in ends])
    levels = _levels(nest, task.body)
    if not _behind(nest, task.body, levels, touched(task.body, N.Write), [], {}):
        return []
    extents = [high - low for low, high in ends]
    while levels and any(extent % (n or extent) for extent, n in zip(extents, levels[-1].sizes, strict=True)):
        levels.pop()
    if not levels:
        return []
    sizes = [n or extent for n, extent in zip(levels[-1].sizes, extents, strict=True)]
    counts = [extent // n for extent, n in zip(extents, sizes, strict=True)]
    name = f"cells{b.fresh()}"
    count = N.Buffer(f"{name}.count", "scratch", i32, 0, None, role="work")
    extent = SizeConst(prod(counts)), SizeConst(len(counts))
    found = N.Buffer(name, "scratch", i32, 2, None, role="work", extents=extent)
    buffers.update({count.name: count, found.name: found})
    tasks: list[N.Stmt] = []
    with b.block() as none:
        b.store(count, (), b.const(0, i32))
        b.yield_()
    tasks.append(N.Offload(b.fresh(), "serial", b.nothing(), (), tuple(none), span=task.span))
    tasks.append(_task(replace(kernel, buffers=buffers), _listing(nest, levels, sizes, counts, count, found), b))
    inside = [k for k, n in enumerate(sizes) if n > 1]
    place, within = b.param(i32), {k: b.param(i32, task.indices[k].name) for k in inside}
    with b.block() as bounds:
        zero = b.const(0, i32)
        b.yield_(*[zero] * (1 + len(inside)), b.load(count, ()), *(b.const(sizes[k], i32) for k in inside))
    with b.block() as indices:
        for k, p in enumerate(task.indices):
            at, more = b.load(found, (place.id, b.const(k, i32))), b.const(nest.begins[k], i32)
            if k in within:
                at = b.op("mul", at, b.const(sizes[k], i32))
                at, more = (b.op("add", at, more), within[k].id) if nest.begins[k] else (at, within[k].id)
            b.add(N.Op(p.id, i32, "add", (at, more), name=p.name))
    task = rewrite_in(task, _by_any)
    stacks = list(of_kind(task.body, N.AdStackAlloca))
    body = (*stacks, *indices, *(s for s in task.body if not isinstance(s, N.AdStackAlloca)))
    tasks.append(replace(task, bounds=tuple(bounds), indices=(place, *within.values()), body=body))
    return tasks


def _in_vectors(task: N.Offload) -> bool:
    """Whether running iterations side by side in lanes gains more than serial loops: if they compute elementary
    functions, and no sums, whose order would change in each launch."""
    sums = any(not s.private for s in find(task.body, N.Atomic))
    return not sums and any(s.type.is_float and "@math" in PRIMS[s.prim].llvm for s in find(task.body, N.Op))


def _levels(nest: _Nest, block: N.Block, outer: N.Block = ()) -> list[_Level]:
    """The tests in a branch of the block as levels, the widest cells first. ``outer``: the statements around the block.
    """
    for n, s in enumerate(block):
        before = (*outer, *block[:n])
        if isinstance(s, N.If) and (level := nest.guarded(before, s)) is not None:
            return [level, *_levels(nest, (s.then, s.orelse)[level.arm], before)]
    return []


def _behind(
    nest: _Nest, block: N.Block, levels: list[_Level], changed: set[str], seen: list[N.Stmt], same: dict[int, int]
) -> bool:
    """Whether everything that the block does happens only if the tests of these levels succeed, and the tests read no
    buffer in ``changed``. ``seen`` is filled with the block's arithmetic and loads, ``same`` with result of a branch ->
    the value that it has if the tests succeed."""
    for s in block if levels else ():
        if isinstance(s, N.If):
            level = nest.guarded(tuple(seen), replace(s, cond=same.get(s.cond, s.cond)))
            if level is None or (level.what, level.arm) != (levels[0].what, levels[0].arm):
                return False
            if any(load.buffer in changed for load in of_kind(level.test, N.Load)):
                return False
            arm = (s.then, s.orelse)[level.arm]
            if not _behind(nest, arm, levels[1:], changed, seen, same):
                return False
            same.update((p.id, same.get(v, v)) for p, v in zip(s.results, arm[-1].operands(), strict=True))
        elif isinstance(s, N.AdStackGuard):
            if not _behind(nest, s.body, levels, changed, seen, same):
                return False
        elif isinstance(s, _PLAIN):
            seen.append(s)
        elif not isinstance(s, (N.AdStackAlloca, N.Yield)):
            return False
    return True


def _listing(
    nest: _Nest, levels: list[_Level], sizes: list[int], counts: list[int], count: N.Buffer, found: N.Buffer
) -> N.Offload:
    """The task that puts the active cells of the last level into the list ``found`` and counts them in ``count``."""
    b = nest.b
    cells = tuple(b.param(p.type, p.name) for p in nest.task.indices)
    with b.block() as body:
        place = b.atomic("add", count, (), b.const(1, i32))
        for k, p in enumerate(cells):
            b.store(found, (place, b.const(k, i32)), p.id)
        b.yield_()
    inner = tuple(body)
    for level in reversed(levels):
        with b.block() as outer:
            ids = {p.id: cell.id for p, cell in zip(nest.task.indices, cells, strict=True)}
            for i, axis in level.ids.items():
                n = level.sizes[axis] // sizes[axis]
                ids[i] = cells[axis].id if n == 1 else b.op("floordiv", cells[axis].id, b.const(n, i32))
            cond = emit_copy(b, (*level.test, N.Yield(N.NO_ID, (level.guard.cond,))), ids)[0]
            arms = (b.nothing(), inner) if level.arm else (inner, b.nothing())
            b.add(N.If(b.fresh(), cond, *arms, ()))
            b.yield_()
        inner = tuple(outer)
    with b.block() as bounds:
        b.yield_(*(b.const(0, i32) for _ in counts), *(b.const(n, i32) for n in counts))
    return N.Offload(b.fresh(), "struct_for", tuple(bounds), cells, inner, span=nest.task.span)


def _shared(extents: list[int], sizes: list[int]) -> list[int]:
    """How many elements an iteration has along each axis: as many as a cell, or fewer if there are few cells."""
    shared = list(sizes)
    while prod(shared) > 1:
        count = prod(extents) // prod(shared)
        if count >= ENOUGH or (count >= FEWEST and prod(shared) <= SMALL):
            break
        widest = max(range(len(shared)), key=lambda k: shared[k])
        shared[widest] //= next(k for k in range(2, shared[widest] + 1) if shared[widest] % k == 0)
    return shared


def _expression(id: int, made: dict[int, N.Value]) -> object:
    """The expression that computes a value from values that are not in ``made``."""
    match made.get(id):
        case N.Const(value=value):
            return "const", value
        case N.Op(prim=prim, args=args):
            return prim, *(_expression(i, made) for i in args)
        case N.Load(buffer=buffer, index=index):
            return buffer, *(_expression(i, made) for i in index)
    return id


def _by_rows(s: N.Stmt) -> bool:
    """Whether the statement is a sum whose order must be that of rows of iterations."""
    return isinstance(s, N.Atomic) and (s.distance >= 0 or s.fission != 0)


def _by_any(s: N.Stmt) -> N.Stmt:
    return replace(s, distance=-1, fission=0) if isinstance(s, N.Atomic) and _by_rows(s) else s


def _ends(task: N.Offload) -> list[tuple[int, int]] | None:
    """(begin, end) of each axis; None if some of these are not constants."""
    known = constants(task.bounds)
    ends = task.bounds[-1].operands() if task.bounds else ()
    k = len(task.indices)
    if not all(i in known for i in ends):
        return None
    return [(int(known[low]), int(known[high])) for low, high in zip(ends[:k], ends[k:], strict=True)]


# --- two branches on one condition: in an adjoint, the first may compute forward values that the second uses --------


def _merged(kernel: N.Kernel, block: N.Block) -> N.Block:
    """Merges a branch with results and a later branch without results, if both have the same condition and only the
    second branch uses the results."""
    block = without_repetitions(kernel, block)
    for n, first in enumerate(block):
        if not isinstance(first, N.If):
            continue
        between, second = _next_branch(block[n + 1 :])
        if second is None or second.cond != first.cond or second.results or not _own(block, first, second):
            continue
        arms = []
        for a, b in zip((first.then, first.orelse), (second.then, second.orelse), strict=True):
            values = dict(zip((p.id for p in first.results), end_of(a).operands(), strict=True))
            arms.append(_idle((*a[:-1], *substitute(b, values))))
        one = replace(first, then=arms[0], orelse=arms[1], results=())
        return _merged(kernel, (*block[:n], *between, one, *block[n + 2 + len(between) :]))
    return tuple(map_blocks(s, lambda inner: _merged(kernel, inner)) if isinstance(s, N.If) else s for s in block)


def _next_branch(block: N.Block) -> tuple[N.Block, N.If | None]:
    """The statements before the next branch, and the branch; None if they are not only arithmetic."""
    for n, s in enumerate(block):
        if isinstance(s, N.If):
            return block[:n], s
        if not isinstance(s, (N.Const, N.Op)):
            break
    return (), None


def _own(block: N.Block, first: N.If, second: N.If) -> bool:
    """Whether only the second branch uses the results of the first, and each arm ends in a Yield."""
    counts, inside = uses(block), uses((second,))
    only = all(counts.get(p.id, 0) == inside.get(p.id, 0) for p in first.results)
    return only and all(isinstance(arm[-1], N.Yield) for arm in (*first.blocks(), *second.blocks()))


def _idle(block: N.Block) -> N.Block:
    """The block; only its terminator if all other statements compute values that are not used."""
    return block[-1:] if all_are(block[:-1], _PLAIN) else block


# --- zeros in pages ---------------------------------------------------------------------------------------------


def spare_pages(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that a store of the constant 0, to an element of a buffer ordered by cells, is made only if the
    element has a set bit, unless the kernel reads the element, too. The deactivation of a cell, and its adjoint, write
    zeros to the whole cell, whose pages may never have been written to."""
    if not any(buffer.order for buffer in kernel.buffers.values()):
        return kernel
    zeros = {s.id for s in find(kernel.body, N.Const) if not s.value}
    read = {(s.buffer, s.index) for s in find(kernel.body, N.Load)}
    b = Builder(kernel.next_id, types_of(kernel.body))

    def guarded(s: N.Store) -> N.Stmt | list[N.Stmt]:
        buffer = kernel.buffers[s.buffer]
        if s.value not in zeros or not buffer.order or (s.buffer, s.index) in read:
            return s
        return b.made(_where_needed, b, buffer, s)

    return rewritten(kernel, rules({N.Store: guarded}), b)


def _where_needed(b: Builder, buffer: N.Buffer, s: N.Store) -> None:
    b.span, b.adjoint_of = s.span, s.adjoint_of
    there = b.load(buffer, s.index)
    if buffer.dtype is not u1:
        bits = UNSIGNED[buffer.dtype.bits]
        there = b.op("ne", b.op("bitcast", there, type=bits), b.const(0, bits))
    with b.when(there):
        b.add(s)
