"""A kernel's LLVM module: a function for each of its programs (`_gpu.programs`)."""

from __future__ import annotations

from quadrants_lab.backends._gpu.meetings import Meetings
from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Module
from quadrants_lab.backends._simt import host_flag
from quadrants_lab.backends._simt.body import SimtBody
from quadrants_lab.backends._simt.reduce import TOGETHER
from quadrants_lab.backends._simt.state import State
from quadrants_lab.backends._simt.target import WIDE, Target
from quadrants_lab.backends.block_memory import own_memory
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
    meetings = Meetings(kernel, unit.ranges, WIDE, TOGETHER) if target.meets else None
    made = programs(kernel)
    for program in made:
        entry = _Entry(mod, unit, state, target, program, meetings)
        entry.emit(signals and program is made[-1])
    mod.metadata = unit.scopes.lines()
    target.finish(mod, kernel)
    return mod


class _Entry:
    """Emits one program."""

    def __init__(
        self, mod: Module, unit: Unit, state: State, target: Target, program: Program, meetings: Meetings | None
    ) -> None:
        self.kernel = kernel = unit.kernel
        self.program = program
        self.target = target
        group = target.shape.group_of(program, stores_slots(kernel, program.task.body))
        head = target.head(program, group, state.layout.size)
        self.fn = mod.function(program.name, head)
        for line in target.prologue:
            self.fn.put(line)
        self.fn.stmt = program.task.id
        self.body = SimtBody(self.fn, unit, state, program.kind == "range", target, meetings)
        self.body.group, self.body.program = group, program.name
        if program.task.block_dim:
            self.body.own = own_memory(kernel, program.task, target.block_memory)

    def emit(self, signals: bool) -> None:
        """``signals``: its end is the launch's, and sets the flag of `host_flag`."""
        fn, body = self.fn, self.body
        getattr(self, "_" + self.program.kind)()
        if self.program.kind != "range":
            fn.start("leave")
        if signals:
            host_flag.signal(body)
        fn.put("ret void")
        fn.close()

    def _serial(self) -> None:
        body, block = self.body, self.program.task.body
        body.open(block)
        body.block(block)
        self.fn.jump("leave")

    def _bounds(self) -> None:
        """Leaves the box in the state."""
        fn, body, bounds = self.fn, self.body, self.program.task.bounds
        body.open(bounds)
        at = body.frame.bounds[self.program.number]
        for n, value in enumerate(body.block(bounds)):
            fn.put(f"store i64 {value}, ptr {body.in_frame(at + n * WORD)}")
        fn.jump("leave")

    def _range(self) -> None:
        """Where an assert fails the thread goes on behind its loops: all threads of a group come there."""
        fn, body, task = self.fn, self.body, self.program.task
        body.thread = self.target.thread(fn)
        body.open(task.body)
        if self.program.inline:
            body.open(task.bounds)
            box = body.block(task.bounds)
        else:
            at = body.frame.bounds[self.program.number]
            box = tuple(fn.let(f"load i64, ptr {body.in_frame(at + n * WORD)}") for n in range(len(task.indices)))
        for p, value in zip(task.indices, box, strict=True):
            body.define(p.id, p.type, value)
        loops = [n for n, s in enumerate(task.body) if isinstance(s, N.For)]
        body.in_step = task.body[loops[0]].blocks()[0] if len(loops) > 1 else None
        parts = task.body[: loops[0]], task.body[loops[0] : loops[-1] + 1], task.body[loops[-1] + 1 :]
        for n, part in enumerate(parts):
            body.block((*part, task.body[-1]) if n < 2 else part)
            if n == 1:
                fn.jump("leave")
                fn.start("leave")
