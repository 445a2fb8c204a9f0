"""Emits the LLVM module of a kernel, with one function for each of its programs (`_gpu.programs`)."""

from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Module
from quadrants_lab.backends._simt.body import SimtBody, Target
from quadrants_lab.backends._simt.shape import State
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions


def module(kernel: N.Kernel, options: CompileOptions, target: Target) -> Module:
    """The module of an offloaded kernel without exits."""
    kernel = lower(kernel, target.shape.lowering(options), options)
    mod = Module(target.triple, target.layout)
    mod.own = target.own
    mod.private_space = target.private_space
    mod.atomic_scope, mod.atomic_notes = target.atomic_scope, target.atomic_notes
    state = State(kernel)
    unit = Unit(kernel, options, state.layout.frame)
    for program in programs(kernel):
        group = target.shape.group_of(program, stores_slots(kernel, program.task.body))
        fn = mod.function(program.name, target.head(program, group, state.layout.size))
        for line in target.prologue:
            fn.put(line)
        fn.stmt = program.task.id
        body = SimtBody(fn, unit, state, target, program, group)
        if program.kind == "range":
            _range(body, program)
        else:
            body.open(program.block)
            body.block(program.block)
            fn.enter("leave")
        fn.end()
    mod.metadata = unit.scopes.lines()
    target.finish(mod, kernel)
    return mod


def _range(body: SimtBody, program: Program) -> None:
    """Emits a parallel program. After a failed assert a thread continues after its loops, because all threads of a
    group must reach the code there."""
    fn, task = body.fn, program.task
    body.thread = body.target.thread(fn)
    body.open(task.body)
    if program.inline:
        body.open(task.bounds)
        body.bind(task.indices, body.block(task.bounds))
    loops = [n for n, s in enumerate(task.body) if isinstance(s, N.For)]
    body.in_step = task.body[loops[0]].blocks()[0] if task.in_step else None
    parts = task.body[: loops[0]], task.body[loops[0] : loops[-1] + 1], task.body[loops[-1] + 1 :]
    for n, part in enumerate(parts):
        body.block((*part, task.body[-1]) if n < 2 else part)
        if n == 1:
            fn.enter("leave")
