"""A kernel's LLVM module: a function for each of its programs (`_gpu.programs`)."""

from __future__ import annotations

from math import prod

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._llvm import cost, memory
from quadrants_lab.backends._llvm.body import HANDLERS
from quadrants_lab.backends._llvm.ranges import Range, full
from quadrants_lab.backends._llvm.text import Module, ty
from quadrants_lab.backends._simt import host_flag
from quadrants_lab.backends._simt.body import SimtBody
from quadrants_lab.backends._simt.reduce import close_partials
from quadrants_lab.backends._simt.state import State
from quadrants_lab.backends._simt.target import Target
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import WORD
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.backends.reductions import reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

_SMALL = 1 << 30  # iterations that 32 bits count, with room for a few more rounds of all threads
TOGETHER = 4  # iterations of a small body that a thread runs in step
_CHEAP = 60  # cycles of a small body
_PLAIN = (N.Const, N.Op, N.ArgLoad, N.ShapeOf, N.Load, N.Store, N.Atomic)


def together(block: N.Block) -> bool:
    """Whether iterations run in step: they are short and straight, and wait for memory."""
    plain = all(isinstance(s, _PLAIN) for s in block[:-1])
    loads = sum(isinstance(s, (N.Load, N.Atomic)) for s in block)
    return plain and 0 < loads <= 8 and cost.estimate(block)[0] <= _CHEAP


def module(kernel: N.Kernel, options: CompileOptions, target: Target) -> Module:
    """The module of an offloaded kernel without exits."""
    in_step = [isinstance(t, N.Offload) and together(t.body) for t in kernel.body]
    signals = target.shape.signals and host_flag.signals(kernel, options)
    kernel = lower(kernel, target.lowering(options), options)
    mod = Module(target.triple, target.layout)
    mod.own = target.own
    mod.private_space = target.private_space
    mod.atomic_scope, mod.atomic_notes = target.atomic_scope, target.atomic_notes
    state = State(kernel)
    scopes = memory.Scopes(kernel)
    made = programs(kernel)
    for program in made:
        entry = _Entry(mod, kernel, options, state, scopes, target, program, in_step[program.number])
        entry.emit(signals and program is made[-1])
    mod.metadata = scopes.lines()
    target.finish(mod, kernel)
    return mod


class _Entry:
    """Emits one program."""

    def __init__(
        self, mod: Module, kernel: N.Kernel, options: CompileOptions, state: State, scopes: memory.Scopes,
        target: Target, program: Program, in_step: bool,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.program = program
        self.in_step = in_step
        self.target = target
        self.group = target.shape.group_of(program, stores_slots(kernel, program.task.body))
        head = target.head(program, self.group, state.layout.size)
        self.fn = mod.function(program.name, head)
        for line in target.prologue:
            self.fn.put(line)
        self.fn.stmt = program.task.id
        self.body = SimtBody(self.fn, kernel, options, state, program.kind == "range", scopes, target)

    def emit(self, signals: bool) -> None:
        """``signals``: its end is the launch's, and sets the flag of `host_flag`."""
        fn, body = self.fn, self.body
        getattr(self, "_" + self.program.kind)()
        fn.start("leave")
        if self.program.kind == "range":
            close_partials(body, self.group)
        if signals:
            host_flag.signal(body)
        fn.put("ret void")
        fn.close()

    def _failed_before(self) -> str:
        """Whether an assert failed before, "" where none can have."""
        if not self.program.checked:
            return ""
        fn = self.fn
        status = fn.let(f"load i32, ptr {self.body.state_at(L.STATUS)}")
        return fn.let(f"icmp ne i32 {fn.let(f'and i32 {status}, {Status.ASSERT}')}, 0")

    def _unless_failed(self) -> None:
        failed = self._failed_before()
        if failed:
            on = self.fn.label("on")
            self.fn.branch(failed, "leave", on)
            self.fn.start(on)

    def _serial(self) -> None:
        body, block = self.body, self.program.task.body
        body.open(block)
        self._unless_failed()
        body.block(block)
        self.fn.jump("leave")

    # --- the box of iterations ----------------------------------------------------------------------------------

    def _box(self) -> tuple[list[str], list[str], list[Range]]:
        """Begin and extent of each axis, i64s (numbers where they are known), from the task's bounds block, and the
        range of each index."""
        fn, body, task = self.fn, self.body, self.program.task
        body.block(task.bounds)
        ids, k = task.bounds[-1].operands(), len(task.indices)
        begins, extents, known = [], [], []
        for axis in range(k):
            low, high = body.range_of(ids[axis]), body.range_of(ids[k + axis])
            known.append((low[0], max(low[0], high[1] - 1)))
            if low[0] == low[1] and high[0] == high[1]:
                begins.append(str(low[0]))
                extents.append(str(max(0, high[0] - low[0])))
                continue
            begin, end = (memory.widen(body, ids[n]) for n in (axis, k + axis))
            size = end if begin == "0" else fn.let(f"sub nsw i64 {end}, {begin}")
            begins.append(begin)
            extents.append(fn.call("i64", "llvm.smax.i64", ("i64", size), ("i64", "0")))
        return begins, extents, known

    def _bounds(self) -> None:
        """Leaves the box in the state."""
        fn, body = self.fn, self.body
        body.open(self.program.task.bounds)
        self._unless_failed()
        begins, extents, _ = self._box()
        at = self.body.layout.frame.bounds[self.program.number]
        for axis, pair in enumerate(zip(begins, extents, strict=True)):
            for n, value in enumerate(pair):
                fn.put(f"store i64 {value}, ptr {body.state_at(at + (2 * axis + n) * WORD)}")
        fn.jump("leave")

    def _range(self) -> None:
        fn, body, task = self.fn, self.body, self.program.task
        body.thread = self.target.thread(fn)
        threads = self.target.threads(fn)
        body.open(task.body)
        if self.program.inline:
            body.open(task.bounds)
            begins, extents, known = self._box()
        else:
            at = body.layout.frame.bounds[self.program.number]
            words = [
                fn.let(f"load i64, ptr {body.state_at(at + n * WORD)}") for n in range(2 * len(task.indices))
            ]
            begins, extents = words[::2], words[1::2]
            known = [full(p.type) for p in task.indices]
        memory.open_partials(body, reductions(self.kernel, task.body))
        self._iterate(threads, begins, extents, known)

    def _iterate(self, threads: str, begins: list[str], extents: list[str], known: list[Range]) -> None:
        """The grid-stride loop: this thread's iterations, one after the other."""
        fn, body, task = self.fn, self.body, self.program.task
        sizes = [int(e) if e[0] != "%" else None for e in extents]
        fixed = prod(n for n in sizes if n is not None) if None not in sizes else None
        t = "i32" if fixed is not None and fixed < _SMALL else "i64"
        total = extents[0]
        if fixed is not None:
            total = str(fixed)
        else:
            for e in extents[1:]:
                total = fn.let(f"mul i64 {total}, {e}")
        failed = self._failed_before()
        if failed:
            total = fn.let(f"select i1 {failed}, {t} 0, {t} {total}")
        first, step = body.thread, threads
        if t == "i64":
            first, step = (fn.let(f"zext i32 {x} to i64") for x in (first, step))
        if self.in_step:
            first = self._several(first, step, total, t, begins, extents, known)
        loop, before = fn.label("iteration"), fn.block
        fn.branch(fn.let(f"icmp ult {t} {first}, {total}"), loop, "leave")
        fn.start(loop)
        number, at = fn.hole()
        body.iteration = number if t == "i64" else fn.let(f"zext i32 {number} to i64")
        self._indices(number, t, begins, extents, known)
        body.block(task.body)
        after = fn.let(f"add nuw {t} {number}, {step}")
        fn.patch(at, f"{number} = phi {t} [{first}, %{before}], [{after}, %{fn.block}]")
        fn.branch(fn.let(f"icmp ult {t} {after}, {total}"), loop, "leave")

    def _several(
        self, first: str, step: str, total: str, t: str, begins: list[str], extents: list[str], known: list[Range]
    ) -> str:
        """A loop that runs `TOGETHER` of this thread's iterations in step, each statement for one after the other, so
        that their loads are under way at the same time. Returns the first iteration that is left."""
        fn, body = self.fn, self.body
        ahead = fn.let(f"mul nuw {t} {step}, {TOGETHER - 1}")
        stride = fn.let(f"add nuw {t} {ahead}, {step}")
        loop, rest, before = fn.label("several"), fn.label("rest"), fn.block
        last = fn.let(f"add nuw {t} {first}, {ahead}")
        fn.branch(fn.let(f"icmp ult {t} {last}, {total}"), loop, rest)
        fn.start(loop)
        number, at = fn.hole()
        outer = body.values, body.ranges, body.offsets
        copies = []
        here = number
        for _ in range(TOGETHER):
            body.values, body.ranges, body.offsets = dict(outer[0]), dict(outer[1]), dict(outer[2])
            self._indices(here, t, begins, extents, known)
            copies.append((body.values, body.ranges, body.offsets))
            here = fn.let(f"add nuw {t} {here}, {step}")
        owner = fn.stmt
        for stmt in self.program.task.body[:-1]:
            fn.stmt = stmt.id
            for body.values, body.ranges, body.offsets in copies:
                HANDLERS[type(stmt)](body, stmt)
        fn.stmt = owner
        body.values, body.ranges, body.offsets = outer
        after = fn.let(f"add nuw {t} {number}, {stride}")
        end = fn.let(f"add nuw {t} {after}, {ahead}")
        fn.patch(at, f"{number} = phi {t} [{first}, %{before}], [{after}, %{fn.block}]")
        more, last_block = fn.let(f"icmp ult {t} {end}, {total}"), fn.block
        fn.branch(more, loop, rest)
        fn.start(rest)
        return fn.phi(t, (first, before), (after, last_block))

    def _indices(self, number: str, t: str, begins: list[str], extents: list[str], known: list[Range]) -> None:
        """Defines the task's indices for the iteration with that number, row by row."""
        fn, body = self.fn, self.body
        rest, places = number, []
        for extent in reversed(extents[1:]):
            size = extent if extent != "0" else "1"
            places.append(fn.let(f"urem {t} {rest}, {size}"))
            rest = fn.let(f"udiv {t} {rest}, {size}")
        places.append(rest)
        for p, begin, place, r in zip(
            self.program.task.indices, begins, reversed(places), known, strict=True
        ):
            index = ty(p.type).text
            if index != t:
                shorter = p.type.bits < int(t[1:])
                place = fn.let(f"{'trunc' if shorter else 'zext'} {t} {place} to {index}")
            if begin != "0":
                start = begin
                if begin[0] == "%" and p.type.bits < 64:
                    start = fn.let(f"trunc i64 {begin} to {index}")
                place = fn.let(f"add {index} {place}, {start}")
            body.define(p.id, p.type, place, r)
