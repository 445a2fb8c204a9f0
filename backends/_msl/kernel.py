"""A kernel's MSL: a function for each of its programs, behind the frame's struct and the helpers that they need."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from quadrants_lab.backends._clike.source import Source
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import GROUP, Program, programs
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl import memory
from quadrants_lab.backends._msl.body import Body
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.frame import FrameStruct
from quadrants_lab.backends._msl.helpers import Library
from quadrants_lab.backends._msl.limits import check
from quadrants_lab.backends._msl.ops import LOWERING as OPERATIONS
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks, stores_slots
from quadrants_lab.backends.lower.shallow import shallow
from quadrants_lab.backends.reductions import reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

LOWERING: tuple[N.Pass, ...] = (lower_adstacks(Layout(lockstep=True, numbered=True)), shallow, *OPERATIONS)
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
        _Entry(kernel, options, frame, library, out, program).emit()
    contraction = [] if options.fast_math else ["#pragma METAL fp contract(off)"]
    head = ["#include <metal_stdlib>", *contraction, "using namespace metal;", *frame.lines()]
    for text in library.texts.values():
        head += text.split("\n")
    instructions = sum(line.rstrip().endswith((";", "{")) for line in out.lines)
    return Module((*head, *out.lines), (*[N.NO_ID] * len(head), *out.ids), instructions)


class _Entry:
    """Emits one program."""

    def __init__(
        self, kernel: N.Kernel, options: CompileOptions, frame: FrameStruct, library: Library, out: Source,
        program: Program,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.frame = frame
        self.program = program
        self.out = out
        asserts = options.debug or options.asserts
        whole = (program.task,)
        self.body = Body(whole, program.number, frame, library, out, program.kind == "range", asserts)

    def emit(self) -> None:
        out, program, b = self.out, self.program, self.body
        out.stmt, out.span = program.task.id, program.task.span
        with out.apart() as inside, b.braces():
            getattr(self, "_" + program.kind)()
        out.put(f"kernel void {program.name}({_MANY if program.kind == 'range' else _ONCE}) {{")
        with out.nest():
            if program.checked:
                status = self.frame.head(L.STATUS)
                failed = f"atomic_load_explicit(&{status}, memory_order_relaxed) & {Status.ASSERT}u"
                out.put(f"if (({failed}) != 0) return;")
            for line in b.start.lines:
                out.put(line)
        out.add(inside)
        out.put("}")

    def _serial(self) -> None:
        block = self.program.task.body
        self.body.exits = {s.id: "return;" for s in block[-2:-1]}
        self.body.block(block)

    # --- the box of iterations --------------------------------------------------------------------------------------

    def _box(self) -> tuple[list[Expr], list[Expr]]:
        """Begin and extent of each axis, from the task's bounds block: literals, or variables (long and ulong)."""
        b, out = self.body, self.out
        task = self.program.task
        values = b.block(task.bounds)
        k = len(task.indices)
        begins, extents = [], []
        for axis in range(k):
            low, high = values[axis], values[k + axis]
            if low.known is not None and high.known is not None:
                begins.append(Expr(str(low.known), X.PRIMARY if low.known >= 0 else X.UNARY, "long", low.known))
                size = max(0, high.known - low.known)
                extents.append(Expr(f"{size}u" if size < 1 << 32 else f"{size}ul", X.PRIMARY, "ulong", size))
                continue
            ids = task.bounds[-1].operands()
            low, high = (X.as_type(v, X.name(b.types[ids[n]])) for v, n in ((low, axis), (high, k + axis)))
            small = low.known is not None and low.known >= 0 and high.type == "int"
            if low.known != 0:
                out.put(f"long b{axis} = {low.text};")
                begins.append(X.variable(f"b{axis}", "long"))
                out.put(f"long e{axis} = {high.text};")
                size_text = f"b{axis} < e{axis} ? ulong(e{axis} - b{axis}) : 0"
            else:
                begins.append(Expr("0", X.PRIMARY, "long", 0))
                end = b.fix(high, f"e{axis}", high.type)
                size_text = f"{end.within(X.ADD)} > 0 ? {end.text} : 0"
            out.put(f"{'uint' if small else 'ulong'} n{axis} = {size_text};")
            extents.append(X.variable(f"n{axis}", "uint" if small else "ulong"))
        return begins, extents

    def _bounds(self) -> None:
        """Leaves the box in the frame, and the count of groups that the task needs."""
        out, number = self.out, self.program.number
        begins, extents = self._box()
        box, grid = self.frame.bounds(number), self.frame.grid(number)
        for axis, (begin, extent) in enumerate(zip(begins, extents, strict=True)):
            out.put(f"{box}[{2 * axis}] = {begin.text};")
            out.put(f"{box}[{2 * axis + 1}] = {extent.text};")
        stored = stores_slots(self.kernel, self.program.task.body)
        most = self.frame.head(L.THREADS if stored else L.LANES)
        total = " * ".join(f"ulong({e.text})" for e in extents)
        out.put(f"ulong groups = ({total} + {GROUP - 1}) / {GROUP}, most = {most} / {GROUP};")
        out.put(f"{grid}[0] = uint(groups < most ? groups : most);")

    def _range(self) -> None:
        out, b, task = self.out, self.body, self.program.task
        if self.program.inline:
            begins, extents = self._box()
        else:
            box = self.frame.bounds(self.program.number)
            begins, extents = [], []
            for axis in range(len(task.indices)):
                out.put(f"long b{axis} = {box}[{2 * axis}];")
                out.put(f"ulong n{axis} = {box}[{2 * axis + 1}];")
                begins.append(X.variable(f"b{axis}", "long"))
                extents.append(X.variable(f"n{axis}", "ulong"))
        b.lane = "lane"
        memory.open_partials(b, reductions(self.kernel, task.body))
        t, total = self._total(extents)
        b.iteration = "it"
        out.put(f"for ({t} it = lane; it < {total}; it += lanes) {{")
        with b.braces():
            self._indices(begins, extents)
            b.exits = {s.id: "continue;" for s in task.body[-2:-1]}
            b.block(task.body)
        out.put("}")
        memory.close_partials(b)

    def _total(self, extents: list[Expr]) -> tuple[str, str]:
        """How many iterations there are, and the type that counts them: 32 bits where a thread's next number, which
        may be past the end, surely fits."""
        known = 1
        for e in extents:
            known = -1 if e.known is None or known < 0 else known * e.known
        if known >= 0:
            return ("uint", f"{known}u") if known < 1 << 31 else ("ulong", f"{known}ul")
        if len(extents) == 1:
            return extents[0].type, extents[0].text
        self.out.put(f"ulong t0 = {' * '.join(f'ulong({e.text})' for e in extents)};")
        return "ulong", "t0"

    def _indices(self, begins: list[Expr], extents: list[Expr]) -> None:
        """Defines the task's indices for the iteration ``it``, row by row."""
        out, b = self.out, self.body
        indices = self.program.task.indices
        behind = ""  # how many iterations an index of this axis stands for
        places = []
        for axis in reversed(range(len(extents))):
            place = f"it / {behind}" if behind else "it"
            extent = extents[axis].text if extents[axis].known != 0 else "1u"
            places.append(f"{place} % {extent}" if axis else place)
            known = [e.known for e in extents[axis:]]
            if None not in known:
                behind = f"{max(prod(known), 1)}{'u' if prod(known) < 1 << 32 else 'ul'}"
            elif axis == len(extents) - 1:
                behind = extents[axis].text
            else:
                behind = f"({' * '.join(f'ulong({e.text})' for e in extents[axis:])})"
        for p, begin, place in zip(indices, begins, reversed(places), strict=True):
            name, t = b.names.local(p.name or "i"), X.name(p.type)
            text = place if begin.known == 0 else f"{begin.text} + {place}"
            out.put(f"{t} {name} = {text};")
            b.set(p.id, p.type, X.variable(name, t))
