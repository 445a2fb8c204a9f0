"""A kernel's SPIR-V module: an entry point for each of its programs."""

from __future__ import annotations

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import GROUP, Program, programs
from quadrants_lab.backends._spirv import control, failures, memory
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import Function, Module
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.backends._spirv.frame import FrameReader
from quadrants_lab.backends._spirv.ops import lowering
from quadrants_lab.backends._spirv.outline import Plan
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import WORD
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.backends.reductions import reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import u32, u64

NOTHING = "nothing"  # the one program of a kernel that has none


def module(kernel: N.Kernel, options: CompileOptions, target: Target, lines: bool = False) -> Module:
    """``lines``: with the source line of every instruction."""
    kernel = lower(kernel, lowering(options), options)
    m = Module(kernel.functions, target, lines)
    layout, plan = L.gpu_layout(kernel), Plan(kernel)
    for program in programs(kernel):
        _Entry(m, kernel, options, layout, plan, program).emit()
    if not m.entries:  # a module has one at least
        fn = Function(m, m.void, (), NOTHING)
        m.entry(fn.id, NOTHING, 1)
        fn.put("Return")
        fn.close()
    return m


class _Entry:
    """Emits one program."""

    def __init__(
        self, m: Module, kernel: N.Kernel, options: CompileOptions, layout: L.GpuLayout, plan: Plan, program: Program
    ) -> None:  # fmt: skip
        self.m = m
        self.kernel = kernel
        self.layout = layout
        self.program = program
        self.fn = Function(m, m.void, (), program.name)
        self.fn.span = program.task.span
        self.frame = FrameReader(self.fn, kernel, layout)
        asserts = options.debug or options.asserts
        self.body = Body(self.fn, self.frame, plan, not options.fast_math, program.kind == "range", asserts)
        self.body.iteration = m.const(u64, 0)
        self.body.lane = m.const(u32, 0)

    def emit(self) -> None:
        m, fn, program = self.m, self.fn, self.program
        fn.stmt = program.task.id
        m.entry(fn.id, program.name, program.group)
        modes = (("SignedZeroInfNanPreserve", m.target.preserve), ("RoundingModeRTE", m.target.nearest))
        for mode, widths in (*modes, ("DenormFlushToZero", m.target.flush)):
            for bits in widths:
                m.need(mode)
                m.modes.append([C.OPS["ExecutionMode"][0], fn.id, C.MODES[mode], bits])
        end = self._stop_after_a_failure() if program.checked else 0
        getattr(self, "_" + program.kind)()
        if fn.cut:
            failures.report_cut(self.body, fn.let("Load", m.bool, fn.cut))
        if end:
            fn.jump(end)
            fn.start(end)
        fn.put("Return")
        fn.close()

    def _stop_after_a_failure(self) -> int:
        """Runs what follows only where no assert failed before; returns the label behind it."""
        fn, m = self.fn, self.m
        status = memory.read(self.body, u32, u32, self.frame.at(L.STATUS, u32))
        failed = fn.let("BitwiseAnd", m.type(u32), status, m.const(u32, Status.ASSERT))
        on, end = fn.label(), fn.label()
        fn.branch(fn.let("IEqual", m.bool, failed, m.const(u32, 0)), on, end, end)
        fn.start(on)
        return end

    def _serial(self) -> None:
        self.body.block(self.program.task.body)

    # --- the box of iterations ---------------------------------------------------------------------------------

    def _box(self) -> tuple[list[int], list[int]]:
        """Begin and extent of each axis, as u64, from the task's bounds block."""
        fn, m, b = self.fn, self.m, self.body
        task = self.program.task
        b.block(task.bounds)
        ids, k = task.bounds[-1].operands(), len(task.indices)
        begins, extents = [], []
        for axis in range(k):
            low, high = ids[axis], ids[k + axis]
            if low in b.known and high in b.known:
                begins.append(m.const(u64, b.known[low]))
                extents.append(m.const(u64, max(0, b.known[high] - b.known[low])))
                continue
            begin, end = (_wide(b, i) for i in (low, high))
            some = fn.let("SLessThan", m.bool, begin, end)
            begins.append(begin)
            size = fn.let("ISub", m.type(u64), end, begin)
            extents.append(fn.let("Select", m.type(u64), some, size, m.const(u64, 0)))
        return begins, extents

    def _total(self, extents: list[int]) -> int:
        total = extents[0]
        for n in extents[1:]:
            total = self.fn.let("IMul", self.m.type(u64), total, n)
        return total

    def _bounds(self) -> None:
        """Leaves the box in the frame, and the count of groups that the task needs."""
        fn, m, b = self.fn, self.m, self.body
        begins, extents = self._box()
        at = self.layout.frame.bounds[self.program.number]
        for axis, (begin, extent) in enumerate(zip(begins, extents, strict=True)):
            for n, value in enumerate((begin, extent)):
                memory.write(b, u64, u64, self.frame.at(at + (2 * axis + n) * WORD, u64), value)
        wide = m.type(u64)
        up = fn.let("IAdd", wide, self._total(extents), m.const(u64, GROUP - 1))
        groups = fn.let("UDiv", wide, up, m.const(u64, GROUP))
        stored = stores_slots(self.kernel, self.program.task.body)
        most = self.frame.word(L.THREADS if stored else L.LANES, u32)
        most = fn.let("UConvert", wide, fn.let("UDiv", m.type(u32), most, m.const(u32, GROUP)))
        fewer = fn.let("ULessThan", m.bool, groups, most)
        groups = fn.let("UConvert", m.type(u32), fn.let("Select", wide, fewer, groups, most))
        grid = self.layout.grid[self.program.number]
        memory.write(b, u32, u32, self.frame.at(grid, u32), groups)

    def _range(self) -> None:
        fn, m, b, task = self.fn, self.m, self.body, self.program.task
        if self.program.inline:
            begins, extents = self._box()
        else:
            at = self.layout.frame.bounds[self.program.number]
            places = [at + 2 * axis * WORD for axis in range(len(task.indices))]
            begins = [self.frame.word(p) for p in places]
            extents = [self.frame.word(p + WORD) for p in places]
        thread, count = (self._builtin(name) for name in ("GlobalInvocationId", "NumWorkgroups"))
        threads = fn.let("IMul", m.type(u32), count, m.const(u32, GROUP))
        b.lane = thread
        memory.open_partials(b, reductions(self.kernel, task.body))
        total = self._total(extents)
        first, step = (fn.let("UConvert", m.type(u64), x) for x in (thread, threads))

        def test(values: tuple[int, ...]) -> int:
            return fn.let("ULessThan", m.bool, values[0], total)

        def one(values: tuple[int, ...]) -> tuple[int, ...]:
            b.iteration = values[0]
            self._indices(values[0], begins, extents)
            b.block(task.body)
            return (fn.let("IAdd", m.type(u64), values[0], step),)

        def unfinished(values: tuple[int, ...]) -> int:
            return control.difference_is_negative(fn, u64, values[0], total)

        control.loop(fn, [(u64, first)], test, one, unfinished)
        memory.close_partials(b)

    def _builtin(self, name: str) -> int:
        """The first of three u32; read at the start."""
        m, fn = self.m, self.fn

        def make() -> int:
            vector = fn.let("Load", m.vector(m.type(u32), 3), m.builtin(name))
            return fn.let("CompositeExtract", m.type(u32), vector, 0)

        return self.frame.once(name, make)

    def _indices(self, number: int, begins: list[int], extents: list[int]) -> None:
        """Defines the task's indices for the iteration with that number, row by row."""
        fn, m, b = self.fn, self.m, self.body
        wide = m.type(u64)
        rest, places = number, []
        for extent in reversed(extents[1:]):
            places.append(fn.let("UMod", wide, rest, extent))
            rest = fn.let("UDiv", wide, rest, extent)
        places.append(rest)
        for p, begin, place in zip(self.program.task.indices, begins, reversed(places), strict=True):
            value = place if begin == m.const(u64, 0) else fn.let("IAdd", wide, begin, place)
            b.define(p.id, p.type, value if p.type.bits == 64 else fn.let("UConvert", m.type(p.type), value))


def _wide(b: Body, id: int) -> int:
    """An index as a 64-bit integer."""
    t, value = b.types[id], b.values[id]
    if t.bits == 64:
        return value
    return b.fn.let("SConvert" if t.kind == "i" else "UConvert", b.m.type(u64), value)
