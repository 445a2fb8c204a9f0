"""The SPIR-V module of a kernel, with an entry point for each of its programs (`_gpu.programs`)."""

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._spirv import memory, opcodes as C
from quadrants_lab.backends._spirv.assembler import Function, Module
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.backends._spirv.frame import FrameReader
from quadrants_lab.backends._spirv.outline import Plan
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.backends.lower import lower
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import u32

NOTHING = "nothing"  # the only entry point of a kernel without programs


def module(kernel: N.Kernel, options: CompileOptions, target: Target, lines: bool = False) -> Module:
    """The module of an offloaded kernel. ``lines``: instructions name the line of the user's source."""
    kernel = lower(kernel, target.lowering(options), options)
    m = Module(kernel.functions, target, lines)
    layout, plan = L.gpu_layout(kernel), Plan(kernel)
    for program in programs(kernel):
        fn = Function(m, m.void, (), program.name, span=program.task.span)
        body = Body(fn, FrameReader(fn, kernel, layout), plan, not options.fast_math, program.kind == "range")
        _emit(body, program)
    if not m.entries:  # SPIR-V demands at least one
        fn = Function(m, m.void, (), NOTHING)
        m.entry(fn.id, NOTHING, 1)
        fn.put("Return")
        fn.close()
    return m


def _emit(b: Body, program: Program) -> None:
    """Emits one program with its entry point."""
    m, fn = b.m, b.fn
    fn.stmt = program.task.id
    m.entry(fn.id, program.name, program.group)
    modes = (("SignedZeroInfNanPreserve", m.target.preserve), ("RoundingModeRTE", m.target.nearest))
    for mode, widths in (*modes, ("DenormFlushToZero", m.target.flush)):
        for bits in widths:
            m.need(mode)
            m.modes.append([C.OPS["ExecutionMode"][0], fn.id, C.MODES[mode], bits])
    if program.kind == "range" and program.inline:
        for p, value in zip(program.task.indices, b.block(program.task.bounds), strict=True):
            b.define(p.id, p.type, value)
    b.block(program.block)
    if fn.cut:
        _report_cut(b, fn.let("Load", m.bool, fn.cut))
    fn.put("Return")
    fn.close()


def _report_cut(b: Body, cut: int) -> None:
    """Sets a bit of the launch's status where the driver ended a loop too early."""
    fn, bad, join = b.fn, b.fn.label(), b.fn.label()
    fn.branch(cut, bad, join, join)
    fn.start(bad)
    memory.at_once(b, "AtomicOr", u32, b.frame.at(L.STATUS, u32), b.m.const(u32, L.CUT))
    fn.jump(join)
    fn.start(join)
