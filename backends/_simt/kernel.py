"""The LLVM module of a kernel, with one function for each of its programs (`_gpu.programs`)."""

from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Module
from quadrants_lab.backends._simt import host_flag
from quadrants_lab.backends._simt.body import SimtBody
from quadrants_lab.backends._simt.state import State
from quadrants_lab.backends._simt.target import Target
from quadrants_lab.backends.layout import WORD
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions


def module(kernel: N.Kernel, options: CompileOptions, target: Target) -> Module:
    """The module of an offloaded kernel without exits."""
    signals = target.shape.signals and host_flag.signals(kernel)
    kernel = lower(kernel, target.lowering(options), options)
    mod = Module(target.triple, target.layout)
    mod.own = target.own
    mod.private_space = target.private_space
    mod.atomic_scope, mod.atomic_notes = target.atomic_scope, target.atomic_notes
    state = State(kernel)
    unit = Unit(kernel, options, state.layout.frame)
    made = programs(kernel)
    for program in made:
        group = target.shape.group_of(program, stores_slots(kernel, program.task.body))
        fn = mod.function(program.name, target.head(program, group, state.layout.size))
        for line in target.prologue:
            fn.put(line)
        fn.stmt = program.task.id
        body = SimtBody(fn, unit, state, target, program, group)
        _PROGRAMS[program.kind](body, program)
        if program.kind != "range":
            fn.start("leave")
        if signals and program is made[-1]:
            host_flag.signal(body)
        fn.put("ret void")
        fn.close()
    mod.metadata = unit.scopes.lines()
    target.finish(mod, kernel)
    return mod


def _serial(body: SimtBody, program: Program) -> None:
    block = program.task.body
    body.open(block)
    body.block(block)
    body.fn.jump("leave")


def _bounds(body: SimtBody, program: Program) -> None:
    """Writes the begin and extent of each axis to the state."""
    bounds = program.task.bounds
    body.open(bounds)
    at = body.frame.bounds[program.number]
    for n, value in enumerate(body.block(bounds)):
        body.fn.put(f"store i64 {value}, ptr {body.in_frame(at + n * WORD)}")
    body.fn.jump("leave")


def _range(body: SimtBody, program: Program) -> None:
    """After a failed assert a thread continues behind its loops, because all threads of a group must reach the code
    there."""
    fn, task = body.fn, program.task
    body.thread = body.target.thread(fn)
    body.open(task.body)
    if program.inline:
        body.open(task.bounds)
        box = body.block(task.bounds)
    else:
        at = body.frame.bounds[program.number]
        box = tuple(fn.let(f"load i64, ptr {body.in_frame(at + n * WORD)}") for n in range(len(task.indices)))
    for p, value in zip(task.indices, box, strict=True):
        body.define(p.id, p.type, value)
    loops = [n for n, s in enumerate(task.body) if isinstance(s, N.For)]
    body.in_step = task.body[loops[0]].blocks()[0] if task.in_step else None
    parts = task.body[: loops[0]], task.body[loops[0] : loops[-1] + 1], task.body[loops[-1] + 1 :]
    for n, part in enumerate(parts):
        body.block((*part, task.body[-1]) if n < 2 else part)
        if n == 1:
            fn.jump("leave")
            fn.start("leave")


_PROGRAMS = {"serial": _serial, "bounds": _bounds, "range": _range}
