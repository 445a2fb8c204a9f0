"""Emits the MSL source of a kernel: the struct of its launch frame, helpers, and a function for each of its
programs (`_gpu.programs`). A table says which function emits which class of statement."""

from collections.abc import Callable
from dataclasses import replace

from quadrants_lab.backends import Stage
from quadrants_lab.backends._clike import body as clike, control
from quadrants_lab.backends._clike.source import Source
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._msl import expr as X, memory, ops
from quadrants_lab.backends._msl.body import Body
from quadrants_lab.backends._msl.frame import FrameStruct
from quadrants_lab.backends.lower import devices, lower
from quadrants_lab.errors import Label, QuadrantsTypeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import f64, u1, u32
from quadrants_lab.ir.walk import find, of_kind, walk

LOWERING = devices.metal(lower_failures)
_ONCE = "device Frame& f [[buffer(0)]]"
_MANY = f"{_ONCE}, uint lane [[thread_position_in_grid]], uint lanes [[threads_per_grid]]"


def lowering(options: CompileOptions) -> tuple[N.Pass, ...]:
    return LOWERING


def stages(kernel: N.Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    return {"msl": lambda: module(kernel, options)}


def module(kernel: N.Kernel, options: CompileOptions) -> Stage:
    """The source of an offloaded kernel without exits; in debug mode with #line, so that a debugger shows the user's
    lines.

    Raises QuadrantsTypeError if the kernel needs f64.
    """
    check_f64(kernel)
    kernel = lower(kernel, LOWERING, options)
    frame = FrameStruct(kernel, L.gpu_layout(kernel))
    library: dict[str, str] = {}
    out = Source(options.debug)
    for program in programs(kernel):
        out.stmt, out.span = program.task.id, program.task.span
        body = Body((program.task,), frame, library, out)
        with out.separate() as inside, body.braces():
            _program(body, program)
        out.put(f"kernel void {program.name}({_MANY if program.kind == 'range' else _ONCE}) {{")
        out.add(body.start)
        out.add(inside)
        out.put("}")
    contraction = [] if options.fast_math else ["#pragma METAL fp contract(off)"]
    head = ["#include <metal_stdlib>", *contraction, "using namespace metal;", *frame.lines()]
    for text in library.values():
        head += text.split("\n")
    instructions = sum(line.rstrip().endswith((";", "{")) for line in out.lines)
    return Stage("msl", "\n".join([*head, *out.lines]), (*[N.NO_ID] * len(head), *out.ids), instructions)


def _fails(s: N.Stmt) -> bool:
    """Whether the statement is an If whose first block reports that an adstack is too small."""
    return isinstance(s, N.If) and any(x.buffer == "$failure" for x in find(s.then, N.Store))


def _program(b: Body, program: Program) -> None:
    task, block = program.task, program.block
    ranges = program.kind == "range"
    if ranges:
        b.lane = "lane"
        if program.inline:
            for p, value in zip(task.indices, b.block(task.bounds), strict=True):
                if b.read(p.id):
                    t = X.name(p.type)
                    b.set(p.id, p.type, b.fix(X.as_type(value, t), p.name, t))
    last = (loop.body[-2:][0] for loop in of_kind(block, N.For)) if ranges else block[-2:-1]
    b.exits = {s.id: "continue;" if ranges else "return;" for s in last if _fails(s)}
    b.block(block)


# --- statements -----------------------------------------------------------------------------------------------------


def _const(b: Body, s: N.Const) -> None:
    b.set(s.id, s.type, X.literal(s.type, s.value))


def _op(b: Body, s: N.Op) -> None:
    types = tuple(b.types[i] for i in s.args)
    args = tuple(b.values[i] for i in s.args)
    if s.prim == "min" and s.type is u32:  # MSL's own function, unambiguous because both operands are uint
        e = X.call("min", "uint", *args)
    else:
        e = ops.emit(s.prim, s.type, types, args)
    b.define(s, e if e.known is None else replace(e, known=None))


def _call(b: Body, s: N.Call) -> None:
    """Emits a call. Functions whose names differ only after the first dot, in dtypes, are overloads in MSL."""
    name = "qd_" + s.function.partition(".")[0]
    if s.function not in b.library:  # emitting it takes time
        b.library[s.function] = clike.function(b, name, b.frame.kernel.functions[s.function])
    b.define(s, X.call(name, X.name(s.type), *(b.typed(i) for i in s.args)))


def _arg(b: Body, s: N.ArgLoad) -> None:
    member = b.frame.arg(s.arg, s.type)
    text = f"{member} != 0" if s.type is u1 else member
    b.set(s.id, s.type, X.variable(b.once(member[2:], X.name(s.type), text), X.name(s.type)))


def _shape(b: Body, s: N.ShapeOf) -> None:
    b.set(s.id, s.type, X.as_type(b.extent(b.frame.kernel.buffers[s.buffer], s.axis), X.name(s.type)))


def _builtin(b: Body, s: N.Builtin) -> None:
    at = {"seed": L.SEED, "launch": L.LAUNCH}
    text = b.frame.head(at[s.what]) if s.what in at else "0" if s.what == "clock" else s.what
    b.set(s.id, s.type, X.variable(text, X.name(s.type)))


Body.handlers = control.HANDLERS | {
    N.Const: _const, N.Op: _op, N.Call: _call, N.ArgLoad: _arg, N.ShapeOf: _shape, N.Builtin: _builtin,
    N.Load: memory.load, N.Store: memory.store, N.Atomic: memory.atomic,
    N.Lane: lambda b, s: b.set(s.id, s.type, X.variable(b.lane, "uint")),
    N.ThreadExit: lambda b, s: b.out.put("return;"),
}  # fmt: skip


# --- f64 ------------------------------------------------------------------------------------------------------------

_WHAT = {"field": "field", "ndarray": "ndarray", "temp": "variable", "ret": "returned value"}


def check_f64(kernel: N.Kernel) -> None:
    """Raises QuadrantsTypeError if the kernel has an f64, with name and line of the first one."""
    for s in walk(kernel.body):
        what = _f64(kernel, s)
        if what:
            _refuse(kernel, what, s.span)
    for a in kernel.args:
        if a.type is f64:
            _refuse(kernel, f"argument '{a.name}'", kernel.span)


def _f64(kernel: N.Kernel, s: N.Stmt) -> str:
    """What in the statement has dtype f64, in words; "" if nothing has."""
    if isinstance(s, N.Access) and kernel.buffers[s.buffer].dtype is f64:
        buffer = kernel.buffers[s.buffer]
        return f"{_WHAT[buffer.kind]} '{buffer.name}'"
    if isinstance(s, N.ArgLoad) and s.type is f64:
        return f"argument '{s.arg}'"
    if isinstance(s, (N.Value, N.AdStackAlloca)) and s.type is f64:
        return f"variable '{s.name}'" if s.name else "this value"
    for p in s.params():
        if p.type is f64:
            return f"variable '{p.name}'" if p.name else "this value"
    return ""


def _refuse(kernel: N.Kernel, what: str, span: Span | None) -> None:
    raise QuadrantsTypeError(
        f"{what} of kernel '{kernel.name}' is f64, which Metal does not have",
        code="QL3001",
        labels=(Label(span, "f64 here"),),
        help="use f32, or run this kernel on another backend; default_fp=qd.f64 makes every untyped float f64",
    )
