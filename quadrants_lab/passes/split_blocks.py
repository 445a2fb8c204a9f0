"""The pass `split_blocks` turns loops whose blocks of iterations have barriers into loops over blocks without
barriers.

offload range_for block_dim 32 .. do (i) { A; barrier; B } becomes

offload range_for .. do (block) { for threads t { i = ..; A } for threads t { i = ..; B } }

The code between two barriers is a phase: it runs for all threads of a block before the next phase begins. A loop or an
``if`` around a barrier stays outside of the loops over threads, so it must be uniform: the same for all threads of a
block. If several phases need a value of a thread, it is computed again in each if a few operations are enough. Other
values are spilled to memory with one element for each thread. This is loop fission at barriers, as in Stratton, Stone
and Hwu, "MCUDA" (LCPC 2008).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count
from math import prod

from quadrants_lab.analysis.symbols import Symbols
from quadrants_lab.errors import Label, QuadrantsSyntaxError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import unused
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import merges, tested_inside
from quadrants_lab.ir.sizeexpr import SizeConst, SizeExpr
from quadrants_lab.ir.types import DType, i32, i64
from quadrants_lab.ir.walk import constants, end_of, find, free_values, rewrite, substitute, types_of, walk
from quadrants_lab.passes.host_loops import narrowed
from quadrants_lab.passes.structure_exits import structure_exits

_MOST = 12  # a value that needs more operations is spilled instead of being computed again
_OF_THREADS = ("thread", "number", "threads")  # the builtins that this pass replaces
_FEW = 1 << 30  # the most iterations that an i32 counts, with room for a block


def split_blocks(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no task has blocks, and that there is no barrier and no buffer of kind "shared". Raises
    QuadrantsSyntaxError for a barrier that some threads of a block might reach without the others."""
    b = Builder(kernel.next_id, types_of(kernel.body))

    def plain(s: N.Stmt) -> N.Stmt:
        if not isinstance(s, N.While) or not any(find(s.cond, (N.Effect, N.Loop))):
            return s  # the test consists of values and ifs only, so it can run once for all threads of a block
        return tested_inside(b, s)

    kernel = structure_exits(replace(kernel, body=rewrite(kernel.body, plain), next_id=b.next_id))
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    with b.block() as body:
        for s in kernel.body:
            if isinstance(s, N.Offload) and s.block_dim:
                _Task(b, buffers, s).build()
            else:
                b.stmts.append(s)
    buffers = {name: x for name, x in buffers.items() if x.kind != "shared"}  # no task uses them any more
    return replace(kernel, body=tuple(body), buffers=buffers, next_id=b.next_id)


def _has_barrier(s: N.Stmt) -> bool:
    """Whether the statement contains a barrier."""
    return any(find((s,), N.Barrier))


class _Task:
    """Splits one task. ``uniform``: ids of values that are the same in all threads of a block and can be computed
    outside the loops over threads; ``uniform_loads``: also of values that are the same as long as no thread changes
    memory."""

    def __init__(self, b: Builder, buffers: dict[str, N.Buffer], task: N.Offload) -> None:
        self.b, self.buffers, self.task = b, buffers, task
        self.differentiable = any(x.grad for x in buffers.values())
        self.defs = {i: s for s in walk(task.body) for i, _ in s.defs()}
        whiles = (w.cond for w in find(task.body, N.While))
        self.tests = {i for cond in whiles for s in walk(cond) for i, _ in s.defs()}
        self.names = {p.id: p.name for s in walk(task.body) for p in (*s.params(), *getattr(s, "results", ()))}
        self.consts = constants(walk((*b.stmts, *task.bounds, *task.body)))
        self.uniform = self.uniform_values(loads=False)
        self.uniform_loads = self.uniform_values(loads=True)
        self.cost = self.costs()
        self.slots: dict[int, N.Buffer] = {}
        self.ids: dict[int, int] = {}  # id of a value -> its id in the phase under construction
        # id of a loop over threads -> (ids of the values that it defines, id of its index)
        self.phases: dict[int, tuple[set[int], int]] = {}
        used = {s.buffer for s in find(task.body, N.Access)}
        self.shared = [x for n, x in buffers.items() if n in used and x.kind == "shared"]

    # --- the task -----------------------------------------------------------------------------------------------

    def build(self) -> None:
        b, task, size = self.b, self.task, self.task.block_dim
        b.span = task.span
        b.stmts += task.bounds[:-1]
        ends, k = end_of(task.bounds).values, len(task.indices)
        self.begins, t, extents, total = ends[:k], *self.box(ends[:k], ends[k:])
        self.extents, self.number_type = extents, t
        blocks = b.op("floordiv", b.op("add", total, b.const(size - 1, t)), b.const(size, t))
        self.block_count = self.size(blocks)
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
                self.threads = b.cast(b.op("min", b.op("sub", total, self.base), b.const(size, t)), i32)
            for x in self.shared:
                self.clear(x)
            self.region(task.body[:-1], [])
            b.span = task.span
            b.yield_()
        spilling = rewrite(tuple(body), self.with_spills)
        b.add(N.Offload(b.fresh(), "range_for", tuple(bounds), (self.block,), spilling))
        b.span = None

    def box(self, begins: Sequence[int], ends: Sequence[int]) -> tuple[DType, list[int], int]:
        """Emits the extent of each axis and the number of iterations. Returns the dtype that counts iterations, the
        extents and the number."""
        consts, b = self.consts, self.b
        known = [consts[e] - consts[x] for x, e in zip(begins, ends, strict=True) if x in consts and e in consts]
        whole = prod(max(0, n) for n in known) if len(known) == len(ends) else None
        self.full = whole is not None and whole % self.task.block_dim == 0  # whether each block has all its threads
        few = len(ends) == 1 if whole is None else whole < _FEW
        t = i32 if few and all(p.type is i32 for p in self.task.indices) else i64
        zero = b.const(0, t)
        extents = [
            b.op("max", b.op("sub", b.cast(e, t), b.cast(x, t)), zero) for x, e in zip(begins, ends, strict=True)
        ]
        return t, extents, b.reduced("mul", extents)

    def size(self, blocks: int) -> SizeExpr:
        """The number of blocks as an expression that the host evaluates before a launch."""
        bounds = (*(s for s in self.b.stmts if not isinstance(s, N.Offload)), N.Yield(N.NO_ID, ()))
        written = {s.buffer for s in find(tuple(self.b.stmts), N.Write)}
        size = Symbols(replace(self.task, bounds=bounds), self.buffers, written).size(blocks)
        if size is None:
            raise QuadrantsSyntaxError(
                "the number of iterations of this loop is only known on the device, but its blocks need memory",
                code="QL1716",
                labels=(Label(self.task.span, "its blocks share memory, or wait"),),
                help="let the end of the range be a number, an argument, a shape, or an element that the kernel "
                "does not write",
            )
        return size

    def memory(self, name: str, dtype: DType, shape: tuple[int, ...]) -> N.Buffer:
        """Adds a buffer with a part for each block, and an adjoint buffer if the kernel has adjoints. Nothing has to
        set the adjoint to 0 before a gradient: the kernel stores to every element, and the adjoint of a store leaves 0.
        """
        sizes = (self.block_count, *map(SizeConst, shape))
        made = N.Buffer(name, "scratch", dtype, len(sizes), None, role="block", extents=sizes)
        if not dtype.is_float or not self.differentiable:
            return made
        grad = f"{name}.grad"
        self.buffers[grad] = replace(made, name=grad)
        return replace(made, grad=grad)

    def clear(self, x: N.Buffer) -> None:
        """Emits stores of zeros to all elements of shared memory. Each thread clears the elements with one first index;
        if there are more first indices than threads, a thread clears several, one after the other."""
        b, size = self.b, self.task.block_dim
        first, *rest = x.shape or ()

        def element(*index: int) -> None:
            if len(index) > len(rest):
                b.store(self.buffers[x.name], (self.block.id, *index), b.const(0, x.dtype))
            else:
                self.loop(b.const(rest[len(index) - 1], i32), lambda p: element(*index, p))

        def some(n: int) -> None:
            before = b.op("mul", n, b.const(size, i32))
            left = b.op("min", b.op("sub", b.const(first, i32), before), b.const(size, i32))
            self.loop(left, lambda p: element(b.op("add", before, p)), threads=True)

        if first <= size:
            self.loop(b.const(first, i32), element, threads=True)
        else:
            self.loop(b.const(-(-first // size), i32), some)

    def loop(self, end: int, body: Callable[[int], None], threads: bool = False) -> None:
        b, zero, p = self.b, self.b.const(0, i32), self.b.param(i32, "k")
        made = (*b.made(body, p.id), *b.nothing())
        b.add(N.For(b.fresh(), p, zero, end, (), (), made, (), threads=threads))

    # --- uniform values -----------------------------------------------------------------------------------------

    def uniform_values(self, loads: bool) -> set[int]:
        """The ids of the values that are the same in all threads of a block and visible where a barrier may be. A
        carried value is uniform unless one of its operands is not (a greatest fixed point). With ``loads``, a load at a
        uniform index is uniform, too."""
        divergent: set[int] = set()
        while True:
            uniform: set[int] = set()
            before = len(divergent)
            self.collect_uniform(self.task.body, loads, uniform, divergent)
            if len(divergent) == before:
                return uniform

    def collect_uniform(self, block: N.Block, loads: bool, uniform: set[int], divergent: set[int]) -> None:
        own = set(self.defs) | {p.id for p in self.task.indices} | set(self.names)
        axes = [p.id for p in self.task.indices]
        uniform |= {i for axis, i in enumerate(axes) if self.same_in_block(axis)}

        def is_uniform(i: int) -> bool:
            return i in uniform or i not in own

        for s in block:
            if isinstance(s, N.Builtin):
                uniform |= {s.id} if s.what == "threads" else set()
            elif isinstance(s, (N.Uniform, N.Op, N.Element)) or (loads and s.loads):
                if all(map(is_uniform, s.operands())) or self.is_block_number(s):
                    uniform.add(s.id)
            elif isinstance(s, (N.If, N.Loop)) and (loads or _has_barrier(s)):
                waits = _has_barrier(s)
                carried = s.carried if isinstance(s, N.Loop) else ()
                uniform |= {p.id for p in carried if p.id not in divergent}
                if isinstance(s, N.For) and (waits or all(map(is_uniform, s.deciding()))):
                    uniform.add(s.index.id)
                for inner in s.blocks():
                    self.collect_uniform(inner, loads, uniform, divergent)
                agreed = (waits and isinstance(s, N.Loop)) or all(map(is_uniform, s.deciding()))
                sources = merges(s)
                for p, r in zip(carried or s.results, s.results, strict=True):
                    if not agreed or not all(is_uniform(v) for v, to in sources if to == r.id):
                        divergent |= {p.id, r.id}
                        uniform.discard(p.id)
                    elif r.id not in divergent:
                        uniform.add(r.id)

    def same_in_block(self, axis: int) -> bool:
        """Whether all threads of a block have the same index along this axis, because the extents of the later axes are
        a multiple of the block."""
        sizes = [self.length(n) for n in range(axis + 1, len(self.task.indices))]
        return bool(sizes) and min(sizes) > 0 and prod(sizes) % self.task.block_dim == 0

    def length(self, axis: int) -> int:
        """How many indices the axis has; 0 if this is not known."""
        ends, k, known = end_of(self.task.bounds).values, len(self.task.indices), self.consts
        both = ends[axis] in known and ends[k + axis] in known
        return max(0, known[ends[k + axis]] - known[ends[axis]]) if both else 0

    def is_block_number(self, s: N.Stmt) -> bool:
        """Whether the value is ``i // n``, where i is the index of the iteration and n a multiple of the size of a
        block."""
        if s.prim != "floordiv":
            return False
        (of, divisor), size = s.operands(), self.task.block_dim
        made, by = self.defs.get(of), self.consts.get(divisor, 0)
        first = self.consts.get(self.task.deciding()[0], 1)
        index = [p.id for p in self.task.indices] == [of] and first % size == 0
        index = index or (isinstance(made, N.Builtin) and made.what == "number")
        return bool(index and by > 0 and by % size == 0)

    # --- phases -------------------------------------------------------------------------------------------------

    def region(self, block: Sequence[N.Stmt], tail: Sequence[tuple[int, int]]) -> None:
        """Emits the statements as phases, with control flow between these. ``tail``: pairs (a, b): the last phase
        stores value b to the memory of value a."""
        run: list[N.Stmt] = []
        for s in block:
            if isinstance(s, N.Barrier):
                self.phase(run)
                run = []
            elif isinstance(s, (N.If, N.Loop)) and _has_barrier(s):
                self.control(s, run)
                run = []
            else:
                run.append(s)
        self.phase([*run, *self.spills(tail)])

    def spills(self, pairs: Sequence[tuple[int, int]]) -> list[N.Stmt]:
        """Stores of the second value of each pair to the memory of the first; `phase` adds the index."""
        return [N.Store(self.b.fresh(), self.slot(i).name, (), value, span=self.b.span) for i, value in pairs]

    def phase(self, run: Sequence[N.Stmt]) -> None:
        """Emits the loop over threads that runs these statements."""
        b = self.b
        if not run:
            return
        builtins = {s.id for s in find(tuple(run), N.Builtin) if s.what in _OF_THREADS}
        span = b.span = next((s.span for s in run if s.span is not None), self.task.span)
        zero, t = b.const(0, i32), b.param(i32, "t")
        with b.block() as body:
            self.t, self.ids = t.id, {}
            for i in sorted(free_values(tuple(run)) | builtins):
                self.value(i)
            spilled = {x.name for x in self.slots.values()}

            def placed(s: N.Stmt) -> N.Stmt | tuple[()]:
                if s.id in builtins:
                    return ()
                if isinstance(s, N.Access) and self.buffers[s.buffer].role == "block":
                    index = s.index if s.index or s.buffer not in spilled else (self.t,)
                    return replace(s, index=(self.block.id, *index))
                return s

            b.stmts += substitute(rewrite(tuple(run), placed), self.ids)
            b.span = span
            b.yield_()
        loop = N.For(b.fresh(), t, zero, self.threads, (), (), tuple(body), (), threads=True)
        self.phases[b.add(loop)] = {i for s in run for i, _ in s.defs()}, t.id

    def slot(self, i: int) -> N.Buffer:
        """The memory that holds a value of each thread between phases."""
        if i not in self.slots:
            known = self.names.get(i) or str(getattr(self.defs.get(i), "name", ""))
            first = f"{N.buffer_name(known) or 'value'}.each"
            name = unused(chain((first,), (f"{first}{n}" for n in count(1))), self.buffers)
            self.slots[i] = self.buffers[name] = self.memory(name, self.b.types[i], (self.task.block_dim,))
        return self.slots[i]

    def with_spills(self, s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        """The loop over threads with added stores of the values that other phases read. If there are no such values,
        the loop runs only over the threads that do something (`_narrowed`)."""
        if not isinstance(s, N.For) or s.id not in self.phases:
            return s
        defined, t = self.phases[s.id]
        stores = [
            N.Store(self.b.fresh(), self.slots[i].name, (self.block.id, t), i, span=s.span)
            for i in sorted(defined & set(self.slots))
        ]
        spilling = replace(s, body=(*s.body[:-1], *stores, s.body[-1]))
        return spilling if stores else self.b.made(narrowed, self.b, s)

    # --- values -------------------------------------------------------------------------------------------------

    def costs(self) -> dict[int, int]:
        """Maps each value to the number of operations that compute it from values that every phase has. A number above
        `_MOST` means that the value is spilled."""
        found = dict.fromkeys((i for i in self.names if i not in self.uniform), _MOST + 1)
        for s in walk(self.task.body):
            if isinstance(s, N.Op):
                found[s.id] = min(_MOST + 1, 1 + sum(found.get(o, 0) for o in s.args))
            elif not isinstance(s, (N.Uniform, N.Builtin)):
                found |= dict.fromkeys((i for i, _ in s.defs() if i not in self.uniform), _MOST + 1)
        return found

    def value(self, i: int) -> int:
        """The id of the value ``i`` in the phase under construction."""
        if i not in self.ids:
            self.ids[i] = self.made_in_phase(i)
        return self.ids[i]

    def made_in_phase(self, i: int) -> int:
        """Emits the value at the top of the phase: by computing it again, or by loading it."""
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
        if i in self.uniform and not isinstance(s, N.Value):
            return i  # it is an index, a carried value, or a result outside of the loops over threads
        if i not in self.uniform and i not in self.names and s is None:
            return i  # it is a value from outside of the task
        if isinstance(s, N.Value) and (i in self.uniform or self.cost.get(i, 0) <= _MOST):
            operands = tuple(self.value(o) for o in s.operands())
            return b.add(replace(s.with_operands(operands), id=b.fresh()))
        return b.load(self.slot(i), (self.block.id, self.t))

    def number(self) -> int:
        return self.b.op("add", self.base, self.b.cast(self.t, self.number_type))

    def index(self, axis: int, number: int = N.NO_ID) -> int:
        """Emits the task's index along that axis, for this thread or for the iteration with index ``number``."""
        b, last = self.b, len(self.extents) - 1
        if last and self.length(last) == self.task.block_dim:  # each block is a row
            last -= 1
            rest = self.block.id if axis <= last else b.cast(self.t, self.number_type)
        else:
            rest = self.number() if number == N.NO_ID else number
        for k in range(last, axis, -1):
            rest = b.op("floordiv", rest, self.extents[k])
        place = b.op("mod", rest, self.extents[axis]) if 0 < axis <= last else rest
        p = self.task.indices[axis]
        return b.op("add", b.cast(self.begins[axis], p.type), b.cast(place, p.type), name=p.name)

    def outside(self, i: int, at: N.Stmt, what: str) -> int:
        """Emits the value outside the loops over threads. Raises QuadrantsSyntaxError if it differs between threads."""
        b, s = self.b, self.defs.get(i)
        axes = [p.id for p in self.task.indices]
        if i in axes and i in self.uniform:
            return self.index(axes.index(i), self.base)
        if i in self.uniform and not isinstance(s, N.Value):
            return i
        if s is not None and self.is_block_number(s):
            (of, divisor), t = s.operands(), b.types[i]
            first = self.index(0, self.base) if of in axes else b.cast(self.base, i32)
            return b.op("floordiv", first, b.const(self.consts[divisor], t))
        if i not in self.names and s is None and i not in {p.id for p in self.task.indices}:
            return i
        if i not in self.uniform_loads:
            barrier = next(x for x in find((at,), N.Barrier))
            raise QuadrantsSyntaxError(
                "not all threads of a block may reach this barrier",
                code="QL1715",
                labels=(Label(barrier.span, "waits for all of them"),
                        Label(s.span if s is not None and s.span else at.span, f"{what} differs between threads")),
                help="let all threads reach it: put the barrier behind the if or loop, or decide on what the block "
                "shares: arguments, shapes, elements of fields at the same place",
            )
        if isinstance(s, N.Builtin):
            return self.threads
        if isinstance(s, N.Value) and (i in self.uniform or i in self.tests):
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
        """Emits a loop or an ``if`` around barriers, after the phase with the statements ``run``."""
        b, known = self.b, self.uniform
        out = [p.id in known for p in s.results]  # which results stay outside of the loops over threads

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
        self.phase([*run, *self.spills(list(zip(into, mine(s.inits, True), strict=True)))])
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
