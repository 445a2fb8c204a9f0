"""Emits the SPIR-V module of a kernel, with an entry point for each of its programs (`_gpu.programs`). A table says
which function emits which class of statement."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._gpu.stacks import chunks
from quadrants_lab.backends._spirv import control, memory, opcodes as C, ops
from quadrants_lab.backends._spirv.assembler import Function, Module
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.backends._spirv.frame import FrameReader
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.backends.cost import GROUP
from quadrants_lab.backends.lower import lower
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import u32
from quadrants_lab.ir.walk import find

NOTHING = "nothing"  # the name of the only entry point of a kernel without programs
_MOST_INLINE = 32  # drivers must not inline a function with more calls: their time would grow faster than the code


def module(kernel: N.Kernel, options: CompileOptions, target: Target, lines: bool = False) -> Module:
    """The module of a kernel that is split into tasks and has no exits. ``lines``: instructions name the line of the
    user's source."""
    kernel = lower(kernel, target.lowering(options), options)
    m = Module(kernel.functions, target, lines)
    m.calls.update(s.function for s in find(kernel.body, N.Call))
    layout, found = L.gpu_layout(kernel), chunks(kernel)
    for program in programs(kernel):
        fn = Function(m, m.void, (), program.name, span=program.task.span)
        body = Body(fn, FrameReader(fn, kernel, layout), found, not options.fast_math, program.kind == "range")
        _emit(body, program)
    if not m.entries:  # SPIR-V demands at least one entry point
        fn = Function(m, m.void, (), NOTHING)
        m.entry(fn.id, NOTHING, 1)
        fn.end()
    return m


def _emit(b: Body, program: Program) -> None:
    """Emits one program with its entry point."""
    m, fn = b.m, b.fn
    fn.stmt = program.task.id
    guarded = program.group == 1 and m.target.lanes > 1 and any(find(program.block, N.While))
    m.entry(fn.id, program.name, m.target.lanes if guarded else program.group)
    modes = (("SignedZeroInfNanPreserve", m.target.preserve), ("RoundingModeRTE", m.target.nearest))
    for mode, widths in (*modes, ("DenormFlushToZero", m.target.flush)):
        for bits in widths:
            m.need(mode)
            m.modes.append([C.OPS["ExecutionMode"][0], fn.id, C.MODES[mode], bits])
    first = fn.let("IEqual", m.bool, b.frame.builtin("GlobalInvocationId"), m.const(u32, 0)) if guarded else 0
    with _only_if(fn, first) if guarded else nullcontext():
        if program.kind == "range" and program.inline:
            b.bind(program.task.indices, b.block(program.task.bounds))
        b.block(program.block)
        if fn.cut:  # sets a bit of the launch's status if the driver ended a loop too early
            with _only_if(fn, fn.let("Load", m.bool, fn.cut)):
                memory.at_once(b, "AtomicOr", u32, b.frame.at(L.STATUS, u32), m.const(u32, L.CUT))
    fn.end()


@contextmanager
def _only_if(fn: Function, cond: int) -> Iterator[None]:
    """Makes a context whose code runs only if the condition holds."""
    do, join = fn.label(), fn.label()
    fn.branch(cond, do, join, join)
    fn.start(do)
    yield
    fn.enter(join)


# --- statements -----------------------------------------------------------------------------------------------


def _const(b: Body, s: N.Const) -> None:
    b.define(s.id, s.type, b.m.const(s.type, s.value))
    b.known[s.id] = s.value


def _op(b: Body, s: N.Op) -> None:
    types = tuple(b.types[i] for i in s.args)
    args = tuple(b.values[i] for i in s.args)
    known = tuple(b.known.get(i) for i in s.args)
    b.define(s.id, s.type, ops.emit(b.fn, s.prim, s.type, types, args, known, b.exact))


def _arg(b: Body, s: N.ArgLoad) -> None:
    b.define(s.id, s.type, b.frame.arg(s.arg, s.type))


def _shape(b: Body, s: N.ShapeOf) -> None:
    wide = b.frame.extent(s.buffer, s.axis)
    b.define(s.id, s.type, wide if s.type.bits == 64 else b.fn.let("UConvert", b.m.type(s.type), wide))


def _builtin(b: Body, s: N.Builtin) -> None:
    if s.what == "elected":
        value = b.fn.let("GroupNonUniformElect", b.m.bool, b.m.const(u32, C.SUBGROUP_SCOPE))
    elif s.what == "clock":  # drivers need not have VK_KHR_shader_clock
        value = b.m.const(s.type, 0)
    elif s.what == "lanes":
        groups = b.frame.builtin("NumWorkgroups")
        value = b.fn.let("IMul", b.m.type(u32), groups, b.m.const(u32, GROUP))
    else:
        value = b.frame.word({"seed": L.SEED, "launch": L.LAUNCH}[s.what])
    b.define(s.id, s.type, value)


def _group_reduce(b: Body, s: N.GroupReduce) -> None:
    """The IR leaves open which threads sum together: here, the threads of a subgroup that are active."""
    b.define(s.id, s.type, memory.subgroup_sum(b, s.type, b.values[s.value]))


def _barrier(b: Body, s: N.Barrier) -> None:
    scope = b.m.const(u32, C.GROUP_SCOPE)
    b.fn.put("ControlBarrier", scope, scope, b.m.const(u32, C.BUFFERS_AND_SHARED))


def _call(b: Body, s: N.Call) -> None:
    m = b.m
    if s.function not in m.helpers:
        m.helpers[s.function] = _function(b, m.callable[s.function])
    args = (b.values[i] for i in s.args)
    b.define(s.id, s.type, b.fn.let("FunctionCall", m.type(s.type), m.helpers[s.function], *args))


def _function(caller: Body, f: N.Function) -> int:
    """Emits a function, without contraction: error-compensated sums must stay exactly as they are."""
    m = caller.m
    control = C.DONT_INLINE if m.calls[f.name] > _MOST_INLINE else 0
    params, name = tuple(m.type(p.type) for p in f.params), f.name.replace(".", "_")
    fn = Function(m, m.type(f.type), params, name, caller.fn.stmt, caller.fn.span, control)
    body = type(caller)(fn, None, {}, True)
    body.bind(f.params, fn.params)
    (value,) = body.block(f.body)
    return fn.end(value)


Body.handlers = {
    N.Const: _const,
    N.Op: _op,
    N.Call: _call,
    N.ArgLoad: _arg,
    N.ShapeOf: _shape,
    N.Builtin: _builtin,
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: memory.atomic,
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Lane: lambda b, s: b.define(s.id, s.type, b.lane),
    N.GroupReduce: _group_reduce,
    N.GroupSame: memory.group_same,
    N.Barrier: _barrier,
    N.ThreadExit: lambda b, s: None,  # the enclosing If emits the return
}
