"""A kernel's MSL: a function for each of its programs, behind the frame's struct and the helpers that they need."""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.backends._clike.source import Source
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends._gpu.programs import GROUP, Program, programs
from quadrants_lab.backends._msl import atomics
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.body import Body
from quadrants_lab.backends._msl.frame import FrameStruct
from quadrants_lab.backends._msl.helpers import Library
from quadrants_lab.backends._msl.limits import check
from quadrants_lab.backends._msl.ops import LOWERING as OPERATIONS
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks, stores_slots
from quadrants_lab.backends.lower.shallow import shallow
from quadrants_lab.backends.lower.tasks import lower_tasks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk

LOWERING: tuple[N.Pass, ...] = (
    lower_adstacks(Layout(lockstep=True, numbered=True)), shallow, *OPERATIONS, lower_tasks(), lower_failures,
    atomics.LOWERING,
)  # fmt: skip
_ONCE = "device Frame& f [[buffer(0)]]"
_MANY = f"{_ONCE}, uint lane [[thread_position_in_grid]], uint lanes [[threads_per_grid]]"


@dataclass(frozen=True, slots=True)
class Module:
    """``ids``: for each line the statement that it came from, or -1. ``instructions``: lines of the programs that do
    something."""

    lines: tuple[str, ...]
    ids: tuple[int, ...]
    instructions: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def lowering(options: CompileOptions) -> tuple[N.Pass, ...]:
    return LOWERING


def module(kernel: N.Kernel, options: CompileOptions, directives: bool = False) -> Module:
    """MSL of an offloaded kernel without exits. ``directives``: with #line, which names the user's source lines.

    Raises QuadrantsTypeError where the kernel needs f64.
    """
    check(kernel)
    kernel = lower(kernel, LOWERING, options)
    layout = L.gpu_layout(kernel)
    frame = FrameStruct(kernel, layout)
    library = Library(frame.need)
    out = Source(directives)
    for program in programs(kernel):
        _Entry(kernel, frame, library, out, program).emit()
    contraction = [] if options.fast_math else ["#pragma METAL fp contract(off)"]
    head = ["#include <metal_stdlib>", *contraction, "using namespace metal;", *frame.lines()]
    for text in library.texts.values():
        head += text.split("\n")
    instructions = sum(line.rstrip().endswith((";", "{")) for line in out.lines)
    return Module((*head, *out.lines), (*[N.NO_ID] * len(head), *out.ids), instructions)


def _fails(s: N.Stmt) -> bool:
    """Whether it is an If whose first block says that a stack is too small."""
    return isinstance(s, N.If) and any(isinstance(x, N.Store) and x.buffer == "$failure" for x in walk(s.then))


class _Entry:
    """Emits one program."""

    def __init__(
        self, kernel: N.Kernel, frame: FrameStruct, library: Library, out: Source, program: Program
    ) -> None:
        self.kernel = kernel
        self.frame = frame
        self.program = program
        self.out = out
        out.stmt, out.span = program.task.id, program.task.span
        self.body = Body((program.task,), frame, library, out)

    def emit(self) -> None:
        out, program, b = self.out, self.program, self.body
        with out.separate() as inside, b.braces():
            getattr(self, "_" + program.kind)()
        out.put(f"kernel void {program.name}({_MANY if program.kind == 'range' else _ONCE}) {{")
        out.add(b.start)
        out.add(inside)
        out.put("}")

    def _serial(self) -> None:
        block = self.program.task.body
        self.body.exits = {s.id: "return;" for s in block[-2:-1] if _fails(s)}
        self.body.block(block)

    def _bounds(self) -> None:
        """Leaves the box in the frame, and the count of groups that the task needs."""
        out, b, number = self.out, self.body, self.program.number
        box, grid = self.frame.bounds(number), self.frame.grid(number)
        values = b.block(self.program.task.bounds)
        for n, value in enumerate(values):
            out.put(f"{box}[{n}] = {value.text};")
        stored = stores_slots(self.kernel, self.program.task.body)
        most = self.frame.head(L.THREADS if stored else L.LANES)
        total = " * ".join(f"{box}[{n}]" for n in range(1, len(values), 2))
        out.put(f"ulong groups = ({total} + {GROUP - 1}) / {GROUP}, most = {most} / {GROUP};")
        out.put(f"{grid}[0] = uint(groups < most ? groups : most);")

    def _range(self) -> None:
        b, task = self.body, self.program.task
        b.lane = "lane"
        if self.program.inline:
            values = b.block(task.bounds)
        else:
            box = self.frame.bounds(self.program.number)
            values = tuple(X.variable(f"{box}[{n}]", "ulong") for n in range(len(task.indices)))
        for p, value in zip(task.indices, values, strict=True):
            if b.read(p.id):
                t = X.name(p.type)
                b.set(p.id, p.type, b.fix(X.as_type(value, t), p.name, t))
        last = (loop.body[-2:][0] for loop in task.body if isinstance(loop, N.For))
        b.exits = {s.id: "continue;" for s in last if _fails(s)}
        b.block(task.body)
