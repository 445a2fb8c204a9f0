"""`split_blocks`: loops whose blocks of iterations wait for each other become loops over blocks, without barriers.

    offload range_for block_dim 32 .. do (i) { A; barrier; B }    becomes

    offload range_for .. do (block) { for threads t { i = ..; A }  for threads t { i = ..; B } }

A block goes from phase to phase: what stands between two barriers runs for all of its threads, then the next. A loop or
an ``if`` around a barrier stays outside of the threads' loops, so all threads must agree on it. What a thread knows in
several phases is computed again where that takes operations alone; else it is put aside, in memory with one place a
thread. This is loop fission at barriers, as in Stratton, Stone and Hwu, "MCUDA" (LCPC 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count
from math import prod

from quadrants_lab.analysis.symbols import Symbols
from quadrants_lab.errors import Label, QuadrantsSyntaxError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import unused
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import tested_inside
from quadrants_lab.ir.sizeexpr import SizeConst, SizeExpr
from quadrants_lab.ir.types import DType, i32, i64
from quadrants_lab.ir.walk import end_of, free_values, rename, rewrite, substitute, types_of, walk
from quadrants_lab.passes.structure_exits import structure_exits

_MOST = 12  # operations that are rather done again than kept
_TOLD = ("thread", "number", "threads")
_FEW = 1 << 30  # iterations that an i32 counts, with room for a block


def split_blocks(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no task has blocks, and that there is no barrier and no buffer of kind "shared". A barrier that
    not all threads of a block may reach together is an error."""
    if not any(isinstance(s, N.Offload) and s.block_dim for s in kernel.body):
        return kernel
    b = Builder(kernel.next_id, types_of(kernel.body))

    def plain(s: N.Stmt) -> N.Stmt:
        return tested_inside(b, s) if isinstance(s, N.While) and not _simple(s.cond) else s

    kernel = structure_exits(replace(kernel, body=rewrite(kernel.body, plain), next_id=b.next_id))
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    with b.block() as body:
        for s in kernel.body:
            if isinstance(s, N.Offload) and s.block_dim:
                _Task(b, buffers, s).build()
            else:
                b.stmts.append(s)
    buffers = {name: x for name, x in buffers.items() if x.kind != "shared"}  # of calls that came to nothing
    return replace(kernel, body=tuple(body), buffers=buffers, next_id=b.next_id)


def _waits(s: N.Stmt) -> bool:
    """Whether there is a barrier in the statement."""
    return any(isinstance(x, N.Barrier) for x in walk((s,)))


def _simple(cond: N.Block) -> bool:
    """Whether a loop's test is made of values and ifs, which a block may compute once for all of its threads."""
    return not any(isinstance(s, (N.Effect, N.Loop)) for s in walk(cond))


def _narrowed(b: Builder, loop: N.For) -> None:
    """The loop over threads t; without the others, where all that it does is under ``t < n`` or ``t == 2``."""
    before, guard, last = loop.body[:-2], loop.body[-2], loop.body[-1]
    made = {s.id: s for s in before if isinstance(s, (N.Const, N.Op, N.Load))}
    test = made.get(guard.cond) if isinstance(guard, N.If) and not guard.results and len(guard.orelse) == 1 else None
    if not isinstance(test, N.Op) or len(made) < len(before) or test.args[0] != loop.index.id:
        b.add(loop)
        return
    apart = {loop.index.id}  # what differs between threads
    for s in before:
        apart |= {s.id} if isinstance(s, N.Load) or apart.intersection(s.operands()) else set()
    n, known = test.args[1], made.get(test.args[1])
    begin, end = loop.begin, loop.end
    exact = test.prim == "eq" and isinstance(known, N.Const) and known.value >= 0
    if n in apart or not (exact or test.prim == "lt"):
        b.add(loop)
        return
    b.span, ids = loop.span, dict[int, int]()
    for s in rename(tuple(s for s in before if s.id not in apart), b.fresh, ids):
        b.add(s)
    n = ids.get(n, n)
    if exact:
        begin, n = n, b.op("add", n, b.const(1, i32))
    end = b.op("min", end, n)
    assert isinstance(guard, N.If)
    b.add(replace(loop, begin=begin, end=end, body=(*before, *guard.then[:-1], last)))


class _Task:
    """One task."""

    def __init__(self, b: Builder, buffers: dict[str, N.Buffer], task: N.Offload) -> None:
        self.b, self.buffers, self.task = b, buffers, task
        self.differentiable = any(x.grad for x in buffers.values())
        self.defs = {i: s for s in walk(task.body) for i, _ in s.defs()}
        whiles = (w.cond for w in walk(task.body) if isinstance(w, N.While))
        self.tests = {i for cond in whiles for s in walk(cond) for i, _ in s.defs()}
        self.names = {p.id: p.name for s in walk(task.body) for p in (*s.params(), *getattr(s, "results", ()))}
        self.consts = {s.id: s.value for s in walk((*b.stmts, *task.bounds, *task.body)) if isinstance(s, N.Const)}
        self.known = self.agreed(loads=False)  # computed outside of the threads' loops, too
        self.same = self.agreed(loads=True)  # the same in all threads of a block
        self.cost = self.costs()
        self.slots: dict[int, N.Buffer] = {}
        self.ids: dict[int, int] = {}  # values in the phase that is being built
        self.phases: dict[int, tuple[set[int], int]] = {}  # loop over threads -> values it defines, its index
        used = {s.buffer for s in walk(task.body) if isinstance(s, N.Access)}
        self.shared = [x for n, x in buffers.items() if n in used and x.kind == "shared"]

    # --- the task -----------------------------------------------------------------------------------------------

    def build(self) -> None:
        b, task, size = self.b, self.task, self.task.block_dim
        b.span = task.span
        b.stmts += task.bounds[:-1]
        ends, k = end_of(task.bounds).values, len(task.indices)
        self.begins, t, extents, total = ends[:k], *self.box(ends[:k], ends[k:])
        self.extents, self.count = extents, t
        blocks = b.op("floordiv", b.op("add", total, b.const(size - 1, t)), b.const(size, t))
        self.places = self.size(blocks)
        with b.block() as bounds:
            b.yield_(b.const(0, t), blocks)
        self.block = b.param(t, "block")
        for x in self.shared:
            self.buffers[x.name] = self.memory(x.name, x.dtype, (x.shape or ()))
        with b.block() as body:
            self.base = b.op("mul", self.block.id, b.const(size, t))
            if self.full:
                self.threads = b.const(size, i32)
            else:
                left = b.op("sub", total, self.base)
                self.threads = b.cast(b.op("min", left, b.const(size, t)), i32)
            for x in self.shared:
                self.clear(x)
            self.region(task.body[:-1], [])
            b.span = task.span
            b.yield_()
        kept = rewrite(tuple(body), self.puts_aside)
        b.add(N.Offload(b.fresh(), "range_for", tuple(bounds), (self.block,), kept))
        b.span = None

    def box(self, begins: Sequence[int], ends: Sequence[int]) -> tuple[DType, list[int], int]:
        """The dtype that counts iterations, the extent of each axis, and how many iterations there are."""
        b = self.b
        consts = self.consts
        known = [consts[e] - consts[x] for x, e in zip(begins, ends, strict=True) if x in consts and e in consts]
        whole = prod(max(0, n) for n in known) if len(known) == len(ends) else None
        self.full = whole is not None and whole % self.task.block_dim == 0  # so is each block
        few = len(ends) == 1 if whole is None else whole < _FEW
        t = i32 if few and all(p.type is i32 for p in self.task.indices) else i64
        zero = b.const(0, t)
        extents = [
            b.op("max", b.op("sub", b.cast(e, t), b.cast(x, t)), zero) for x, e in zip(begins, ends, strict=True)
        ]
        total = extents[0]
        for extent in extents[1:]:
            total = b.op("mul", total, extent)
        return t, extents, total

    def size(self, blocks: int) -> SizeExpr:
        """How many blocks there are, as the host computes it before a launch."""
        bounds = (*(s for s in self.b.stmts if not isinstance(s, N.Offload)), N.Yield(N.NO_ID, ()))
        written = {s.buffer for s in walk(tuple(self.b.stmts)) if isinstance(s, N.Write)}
        size = Symbols(replace(self.task, bounds=bounds), self.buffers, written).size(blocks)
        if size is None:
            raise QuadrantsSyntaxError(
                "how many iterations this loop has is known on the device alone, but its blocks need memory",
                code="QL1711",
                labels=(Label(self.task.span, "its blocks share memory, or wait"),),
                help="let the end of the range be a number, an argument, a shape, or an element that the kernel "
                "does not write",
            )
        return size

    def memory(self, name: str, dtype: DType, shape: tuple[int, ...]) -> N.Buffer:
        """Memory of each block, with an adjoint where the kernel has any: it is 0 in front of each gradient, for that
        of a store leaves 0, and every element is stored to."""
        sizes = (self.places, *map(SizeConst, shape))
        made = N.Buffer(name, "scratch", dtype, len(sizes), None, role="block", extents=sizes)
        if not dtype.is_float or not self.differentiable:
            return made
        grad = f"{name}.grad"
        self.buffers[grad] = replace(made, name=grad)
        return replace(made, grad=grad)

    def clear(self, x: N.Buffer) -> None:
        """Zeros in shared memory, when a block begins; by its threads, as many as there are elements of an axis."""
        b = self.b

        def axis(index: tuple[int, ...], rest: Sequence[int]) -> None:
            if not rest:
                b.store(self.buffers[x.name], (self.block.id, *index), b.const(0, x.dtype))
                return
            zero, end, p = b.const(0, i32), b.const(rest[0], i32), b.param(i32, "k")
            with b.block() as loop:
                axis((*index, p.id), rest[1:])
                b.yield_()
            b.add(N.For(b.fresh(), p, zero, end, (), (), tuple(loop), (), threads=not index))

        axis((), x.shape or ())

    # --- what threads agree on ----------------------------------------------------------------------------------

    def agreed(self, loads: bool) -> set[int]:
        """Values that are the same in all threads of a block and are seen where a barrier could stand: the greatest
        solution of what follows from operands. ``loads``: also elements of memory, at the same place."""
        differ: set[int] = set()
        while True:
            held: set[int] = set()
            before = len(differ)
            self.agree(self.task.body, loads, held, differ)
            if len(differ) == before:
                return held

    def agree(self, block: N.Block, loads: bool, held: set[int], differ: set[int]) -> None:
        own = set(self.defs) | {p.id for p in self.task.indices} | set(self.names)
        axes = [p.id for p in self.task.indices]
        held |= {i for axis, i in enumerate(axes) if self.of_block(axis)}

        def holds(i: int) -> bool:
            return i in held or i not in own

        for s in block:
            if isinstance(s, N.Builtin):
                held |= {s.id} if s.what == "threads" else set()
            elif isinstance(s, (N.Uniform, N.Op)) or (loads and isinstance(s, N.Load)):
                if all(map(holds, s.operands())) or self.number_of_blocks(s):
                    held.add(s.id)
            elif isinstance(s, (N.If, N.Loop)) and (loads or _waits(s)):
                waits = _waits(s)
                carried = s.carried if isinstance(s, N.Loop) else ()
                held |= {p.id for p in carried if p.id not in differ}
                if isinstance(s, N.For) and (waits or (holds(s.begin) and holds(s.end))):
                    held.add(s.index.id)
                for inner in s.blocks():
                    self.agree(inner, loads, held, differ)
                if isinstance(s, N.If):
                    pairs = zip(end_of(s.then).values, end_of(s.orelse).values, strict=True)
                    ok = [holds(s.cond) and holds(x) and holds(y) for x, y in pairs]
                else:
                    decide = (s.begin, s.end) if isinstance(s, N.For) else end_of(s.blocks()[0]).values
                    ends = waits or all(map(holds, decide))
                    ok = [ends and holds(x) and holds(y) for x, y in zip(s.inits, end_of(s.body).values, strict=True)]
                for p, r, fine in zip(carried or s.results, s.results, ok, strict=True):
                    if not fine:
                        differ |= {p.id, r.id}
                        held.discard(p.id)
                    elif r.id not in differ:
                        held.add(r.id)

    def of_block(self, axis: int) -> bool:
        """Whether a block is a part of a row of the axes behind this one, so that its threads have the index."""
        sizes = [self.length(n) for n in range(axis + 1, len(self.task.indices))]
        return bool(sizes) and min(sizes) > 0 and prod(sizes) % self.task.block_dim == 0

    def length(self, axis: int) -> int:
        """How many indices the axis has; 0 where that is not known."""
        ends, k, known = end_of(self.task.bounds).values, len(self.task.indices), self.consts
        both = ends[axis] in known and ends[k + axis] in known
        return max(0, known[ends[k + axis]] - known[ends[axis]]) if both else 0

    def number_of_blocks(self, s: N.Stmt) -> bool:
        """Whether it is ``i // n`` of the number of the iteration, with n a multiple of the size of a block."""
        if not isinstance(s, N.Op) or s.prim != "floordiv":
            return False
        told, size = self.defs.get(s.args[0]), self.task.block_dim
        first = self.consts.get(end_of(self.task.bounds).values[0], 1)
        index = len(self.task.indices) == 1 and s.args[0] == self.task.indices[0].id and first % size == 0
        index = index or (isinstance(told, N.Builtin) and told.what == "number")
        by = self.consts.get(s.args[1], 0)
        return bool(index and by > 0 and by % size == 0)

    # --- phases -------------------------------------------------------------------------------------------------

    def region(self, block: Sequence[N.Stmt], tail: Sequence[tuple[int, int]]) -> None:
        """The statements as phases, with control between them; ``tail``: values (the second) to be put aside at the
        end, as others."""
        run: list[N.Stmt] = []
        for s in block:
            if isinstance(s, N.Barrier):
                self.phase(run)
                run = []
            elif isinstance(s, (N.If, N.Loop)) and _waits(s):
                self.control(s, run)
                run = []
            else:
                run.append(s)
        self.phase([*run, *self.kept(tail)])

    def kept(self, pairs: Sequence[tuple[int, int]]) -> list[N.Stmt]:
        """Stores of values into the slots of others; the indices are filled in by the phase."""
        return [N.Store(self.b.fresh(), self.slot(i).name, (), value, span=self.b.span) for i, value in pairs]

    def phase(self, run: Sequence[N.Stmt]) -> None:
        """The loop over threads that does these statements."""
        b = self.b
        if not run:
            return
        told = {s.id: s for s in walk(tuple(run)) if isinstance(s, N.Builtin) and s.what in _TOLD}
        span = b.span = next((s.span for s in run if s.span is not None), self.task.span)
        zero, t = b.const(0, i32), b.param(i32, "t")
        with b.block() as body:
            self.t, self.ids = t.id, {}
            need = free_values(tuple(run)) | set(told)
            for i in sorted(need):
                self.bring(i)

            def placed(s: N.Stmt) -> N.Stmt | tuple[()]:
                if s.id in told and isinstance(s, N.Builtin):
                    return ()
                if isinstance(s, N.Access) and self.buffers[s.buffer].role == "block":
                    index = s.index if s.index or s.buffer not in self.aside else (self.t,)
                    return replace(s, index=(self.block.id, *index))
                return s

            b.stmts += substitute(rewrite(tuple(run), placed), self.ids)
            b.span = span
            b.yield_()
        loop = N.For(b.fresh(), t, zero, self.threads, (), (), tuple(body), (), threads=True)
        self.phases[b.add(loop)] = {i for s in run for i, _ in s.defs()}, t.id

    @property
    def aside(self) -> set[str]:
        return {x.name for x in self.slots.values()}

    def slot(self, i: int) -> N.Buffer:
        """The memory that keeps a value of each thread."""
        if i not in self.slots:
            known = self.names.get(i) or str(getattr(self.defs.get(i), "name", ""))
            first = f"{N.buffer_name(known) or 'value'}.each"
            name = unused(chain((first,), (f"{first}{n}" for n in count(1))), self.buffers)
            self.slots[i] = self.buffers[name] = self.memory(name, self.b.types[i], (self.task.block_dim,))
        return self.slots[i]

    def puts_aside(self, s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        """The loop over threads with stores of what other phases read; where there are none, over the threads alone
        that do something."""
        defined, t = self.phases.get(s.id, (set(), 0)) if isinstance(s, N.For) else (set(), 0)
        stores = [
            N.Store(self.b.fresh(), self.slots[i].name, (self.block.id, t), i, span=s.span)
            for i in sorted(defined & set(self.slots))
        ]
        if not isinstance(s, N.For) or s.id not in self.phases:
            return s
        if stores:
            return replace(s, body=(*s.body[:-1], *stores, s.body[-1]))
        return self.b.made(_narrowed, self.b, s)

    # --- values -------------------------------------------------------------------------------------------------

    def costs(self) -> dict[int, int]:
        """How many operations make each value of a thread from what it knows in every phase; above `_MOST` for too
        many."""
        found = dict.fromkeys((i for i in self.names if i not in self.known), _MOST + 1)
        for s in walk(self.task.body):
            if isinstance(s, N.Op):
                found[s.id] = min(_MOST + 1, 1 + sum(found.get(o, 0) for o in s.args))
            elif not isinstance(s, (N.Uniform, N.Builtin)):
                found |= dict.fromkeys((i for i, _ in s.defs() if i not in self.known), _MOST + 1)
        return found

    def bring(self, i: int) -> int:
        """The id of the value in the phase that is being built."""
        if i not in self.ids:
            self.ids[i] = self.brought(i)
        return self.ids[i]

    def brought(self, i: int) -> int:
        b, s = self.b, self.defs.get(i)
        axes = [p.id for p in self.task.indices]
        if i in axes:
            return self.index(axes.index(i))
        if isinstance(s, N.Builtin) and s.what == "thread":
            return self.t
        if isinstance(s, N.Builtin) and s.what == "number":
            return b.cast(self.number(), i32)
        if isinstance(s, N.Builtin) and s.what == "threads":
            return self.threads
        if i in self.known and not isinstance(s, N.Value):
            return i  # an index, a carried value, or a result that stands outside of the threads' loops
        if i not in self.known and i not in self.names and s is None:
            return i  # from outside of the task
        if isinstance(s, N.Value) and (i in self.known or self.cost.get(i, 0) <= _MOST):
            operands = tuple(self.bring(o) for o in s.operands())
            return b.add(replace(s.with_operands(operands), id=b.fresh()))
        return b.load(self.slot(i), (self.block.id, self.t))

    def number(self) -> int:
        b = self.b
        return b.op("add", self.base, b.cast(self.t, self.count))

    def index(self, axis: int, number: int = N.NO_ID) -> int:
        """The task's index of that axis; of the thread, or of the one with that number."""
        b, last = self.b, len(self.extents) - 1
        if last and self.length(last) == self.task.block_dim:  # each block is a row
            last -= 1
            rest = self.block.id if axis <= last else b.cast(self.t, self.count)
        else:
            rest = self.number() if number == N.NO_ID else number
        for k in range(last, axis, -1):
            rest = b.op("floordiv", rest, self.extents[k])
        place = b.op("mod", rest, self.extents[axis]) if 0 < axis <= last else rest
        p = self.task.indices[axis]
        return b.op("add", b.cast(self.begins[axis], p.type), b.cast(place, p.type), name=p.name)

    def outside(self, i: int, at: N.Stmt, what: str) -> int:
        """The value outside of the threads' loops, where threads must agree on it."""
        b, s = self.b, self.defs.get(i)
        axes = [p.id for p in self.task.indices]
        if i in axes and i in self.known:
            return self.index(axes.index(i), self.base)
        if i in self.known and not isinstance(s, N.Value):
            return i
        if isinstance(s, N.Op) and self.number_of_blocks(s):
            first = self.index(0, self.base) if s.args[0] in axes else b.cast(self.base, i32)
            return b.op("floordiv", first, b.const(self.consts[s.args[1]], s.type))
        if i not in self.names and s is None and i not in {p.id for p in self.task.indices}:
            return i
        if i not in self.same:
            barrier = next(x for x in walk((at,)) if isinstance(x, N.Barrier))
            raise QuadrantsSyntaxError(
                "not all threads of a block may reach this barrier",
                code="QL1710",
                labels=(Label(barrier.span, "waits for all of them"),
                        Label(s.span if s is not None and s.span else at.span, f"{what} differs between threads")),
                help="let all threads reach it: put the barrier behind the if or loop, or decide on what the block "
                "shares: arguments, shapes, elements of fields at the same place",
            )
        if isinstance(s, N.Builtin):
            return self.threads
        if isinstance(s, N.Value) and (i in self.known or i in self.tests):
            operands = tuple(self.outside(o, at, what) for o in s.operands())
            return b.add(replace(s.with_operands(operands), id=b.fresh()))
        if isinstance(s, N.If) and i in self.tests:
            k, cond, r = [p.id for p in s.results].index(i), self.outside(s.cond, at, what), b.param(b.types[i])
            with b.block() as then:
                b.yield_(self.outside(end_of(s.then).values[k], at, what))
            with b.block() as orelse:
                b.yield_(self.outside(end_of(s.orelse).values[k], at, what))
            b.add(N.If(b.fresh(), cond, tuple(then), tuple(orelse), (r,)))
            return r.id
        return b.load(self.slot(i), (self.block.id, b.const(0, i32)))

    # --- control ------------------------------------------------------------------------------------------------

    def control(self, s: N.Control, run: list[N.Stmt]) -> None:
        """A loop or an ``if`` around barriers; ``run`` stands in front of it."""
        b, known = self.b, self.known
        out = [p.id in known for p in s.results]  # which results stay outside of the threads' loops

        def mine(values: Sequence[int], inside: bool) -> list[int]:
            return [v for v, o in zip(values, out, strict=True) if o is not inside]

        def params(ps: N.Params) -> N.Params:
            return tuple(p for p, o in zip(ps, out, strict=True) if o)

        def block(body: N.Block, into: Sequence[int]) -> N.Block:
            values = end_of(body).values
            with b.block() as made:
                self.region(body[:-1], list(zip(into, mine(values, True), strict=True)))
                b.span = s.span
                b.yield_(*(self.outside(v, s, "a value that the loop carries") for v in mine(values, False)))
            return tuple(made)

        if isinstance(s, N.If):
            self.phase(run)
            into = mine([r.id for r in s.results], True)
            b.span = s.span
            cond = self.outside(s.cond, s, "the condition")
            arms = block(s.then, into), block(s.orelse, into)
            b.add(replace(s, cond=cond, then=arms[0], orelse=arms[1], results=params(s.results)))
            return
        assert isinstance(s, (N.For, N.While))
        into = mine([p.id for p in s.carried], True)
        for p, r in zip(s.carried, s.results, strict=True):
            if r.id not in known:
                self.slots[r.id] = self.slot(p.id)
        self.phase([*run, *self.kept(list(zip(into, mine(s.inits, True), strict=True)))])
        b.span = s.span
        inits = tuple(self.outside(i, s, "a value that the loop carries") for i in mine(s.inits, False))
        loop = replace(s, carried=params(s.carried), inits=inits, results=params(s.results))
        if isinstance(loop, N.For):
            begin, end = (self.outside(i, s, "the range") for i in (loop.begin, loop.end))
            b.add(replace(loop, begin=begin, end=end, body=block(s.body, into)))
        else:
            with b.block() as test:
                b.yield_(self.outside(end_of(loop.cond).values[0], s, "the condition"))
            b.add(replace(loop, cond=tuple(test), body=block(s.body, into)))
