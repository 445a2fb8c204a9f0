"""A kernel's SPIR-V module: an entry point for each of its programs."""

from __future__ import annotations

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import GROUP, Program, programs
from quadrants_lab.backends._spirv import memory
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import Function, Module
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.backends._spirv.frame import FrameReader
from quadrants_lab.backends._spirv.ops import lowering
from quadrants_lab.backends._spirv.outline import Plan
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.backends.layout import WORD
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import u32, u64

NOTHING = "nothing"  # the one program of a kernel that has none


def module(kernel: N.Kernel, options: CompileOptions, target: Target, lines: bool = False) -> Module:
    """``lines``: with the source line of every instruction."""
    kernel = lower(kernel, lowering(options, target), options)
    m = Module(kernel.functions, target, lines)
    layout, plan = L.gpu_layout(kernel), Plan(kernel, target.meets)
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
        self.body = Body(self.fn, self.frame, plan, not options.fast_math, program.kind == "range")

    def emit(self) -> None:
        m, fn, program = self.m, self.fn, self.program
        fn.stmt = program.task.id
        m.entry(fn.id, program.name, program.group)
        modes = (("SignedZeroInfNanPreserve", m.target.preserve), ("RoundingModeRTE", m.target.nearest))
        for mode, widths in (*modes, ("DenormFlushToZero", m.target.flush)):
            for bits in widths:
                m.need(mode)
                m.modes.append([C.OPS["ExecutionMode"][0], fn.id, C.MODES[mode], bits])
        getattr(self, "_" + program.kind)()
        if fn.cut:
            self._report_cut(fn.let("Load", m.bool, fn.cut))
        fn.put("Return")
        fn.close()

    def _report_cut(self, cut: int) -> None:
        """Says so where the driver ended a loop."""
        fn, bad, join = self.fn, self.fn.label(), self.fn.label()
        fn.branch(cut, bad, join, join)
        fn.start(bad)
        memory.at_once(self.body, "AtomicOr", u32, self.frame.at(L.STATUS, u32), self.m.const(u32, L.CUT))
        fn.jump(join)
        fn.start(join)

    def _serial(self) -> None:
        self.body.block(self.program.task.body)

    def _bounds(self) -> None:
        """Leaves the box in the frame, and the count of groups that the task needs."""
        fn, m, b, number = self.fn, self.m, self.body, self.program.number
        box = b.block(self.program.task.bounds)
        for n, value in enumerate(box):
            memory.write(b, u64, u64, self.frame.at(self.layout.frame.bounds[number] + n * WORD, u64), value)
        wide, total = m.type(u64), box[1]
        for extent in box[3::2]:
            total = fn.let("IMul", wide, total, extent)
        groups = fn.let("UDiv", wide, fn.let("IAdd", wide, total, m.const(u64, GROUP - 1)), m.const(u64, GROUP))
        stored = stores_slots(self.kernel, self.program.task.body)
        most = self.frame.word(L.THREADS if stored else L.LANES, u32)
        most = fn.let("UConvert", wide, fn.let("UDiv", m.type(u32), most, m.const(u32, GROUP)))
        fewer = fn.let("ULessThan", m.bool, groups, most)
        groups = fn.let("UConvert", m.type(u32), fn.let("Select", wide, fewer, groups, most))
        memory.write(b, u32, u32, self.frame.at(self.layout.grid[number], u32), groups)

    def _range(self) -> None:
        b, task = self.body, self.program.task
        if self.program.inline:
            box = b.block(task.bounds)
        else:
            at = self.layout.frame.bounds[self.program.number]
            box = tuple(self.frame.word(at + n * WORD, p.type) for n, p in enumerate(task.indices))
        for p, value in zip(task.indices, box, strict=True):
            b.define(p.id, p.type, value)
        b.block(task.body)
