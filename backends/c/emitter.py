"""Emits the C source of a kernel: a struct for the launch frame, which holds a launch's arguments, a function for
each task, and the entry, which calls these functions.

One thread runs the kernel; the iterations of a parallel task run in row-major order.
"""

from __future__ import annotations

import json
import re
from math import prod
from platform import machine

from quadrants_lab.backends import Stage
from quadrants_lab.backends._clike import body, control, expr as X
from quadrants_lab.backends._clike.expr import Expr
from quadrants_lab.backends._clike.source import Source, commented, struct
from quadrants_lab.backends._clike.variables import WORDS, Names
from quadrants_lab.backends.c import ops
from quadrants_lab.backends.c.ops import FUNCTIONS, TYPES
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.lower import devices, lower
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType, u1
from quadrants_lab.ir.walk import walk

LOWERING = devices.c()
_INCLUDES = ("#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>")
_RUNTIME = """\
bool qd_poll(Frame *frame, uint64_t worker);
void qd_assert(Frame *frame, int64_t number, int64_t count, const Word *values);
void qd_print(Frame *frame, int64_t number, uint64_t count, const Word *values);
void qd_overflow(Frame *frame, int64_t stack, int64_t depth);
static inline bool qd_stopped(Frame *frame) { return frame->device->flag && qd_poll(frame, 0); }"""

_WORDS = "restrict asm typeof linux unix frame entry Frame Device Word"
_LIBRARY = "|".join(f"{name}f?" for name in FUNCTIONS.values())
_MACROS = r"U?INT\w*|\w+_(MIN|MAX|C)|FP_\w*|HUGE\w*|M_\w+|MATH_\w+|NAN|INFINITY"
AVOID = re.compile("|".join((*WORDS.split(), *_WORDS.split(), *TYPES.values(), _LIBRARY, _MACROS, "qd_.*")))


# --- the source -----------------------------------------------------------------------------------------------------


def stage(kernel: N.Kernel, options: CompileOptions) -> Stage:
    """The source as a stage. Before the lines made from a line of the user's source there is a comment with that line.
    """
    lines = commented(emitted(kernel, options), {s.id: s.span for s in walk(kernel.body)})
    count = sum(id != N.NO_ID and line.endswith((";", "{")) for line, id in lines)
    return Stage("c", "\n".join(line for line, _ in lines), tuple(id for _, id in lines), count)


def emitted(kernel: N.Kernel, options: CompileOptions) -> list[tuple[str, int]]:
    """The lines of the source, each with the id of the statement that it came from."""
    kernel = lower(kernel, LOWERING, options)
    unit, out = Unit(kernel), Source()
    names = [unit.names.of(n, f"{kernel.name}_{n}") for n in range(len(kernel.body))]
    for name, task in zip(names, kernel.tasks, strict=True):
        _task(unit, out, name, task)
    out.stmt = N.NO_ID
    out.put("void entry(Frame *frame) {")
    for n, name in enumerate(names):
        if n:
            out.put(f"  if (frame->status & {Status.ASSERT | Status.CANCELLED}) return;")
        out.put(f"  {name}(frame);")
    out.put("}")
    text = "\n".join((*unit.frame, "", _RUNTIME, *unit.functions.values(), ""))
    # not every compiler has half floats
    half = any("_Float16" in line or ".f16" in line for line in (text, *out.lines))
    word = " ".join(f"{t} {name};" for name, t in TYPES.items() if name != "u1" and (half or name != "f16"))
    head = (*_INCLUDES, "", f"typedef union {{ {word} }} Word;", "", *text.split("\n"))
    return [*((line, N.NO_ID) for line in head), *zip(out.lines, out.ids, strict=True)]


def _task(unit: Unit, out: Source, name: str, task: N.Offload) -> None:
    out.stmt = task.id
    b, k = Body((task,), unit, out, task=True), len(task.indices)
    with out.separate() as inside, out.nest():
        indices = [b.names.local(p.name or "i") for p in task.indices]
        what = [f"{i}_{end}_" for end in ("begin", "end") for i in indices]
        types = [TYPES[p.type.name] for p in task.indices] * 2
        bounds = [b.fix(*bound).text for bound in zip(b.block(task.bounds), what, types, strict=True)]
        for axis, (p, i, t) in enumerate(zip(task.indices, indices, types, strict=False)):
            out.put(f"for ({t} {i} = {bounds[axis]}; {i} < {bounds[k + axis]}; ++{i}) {{  // parallel")
            out.depth += 1
            b.set(p.id, p.type, X.variable(i, t))
            if not axis:
                b.poll()
        b.block(task.body)
        if k and "iteration" in b.names.known:
            out.put(f"++{b.names.known['iteration']};")
        for _ in indices:
            out.depth -= 1
            out.put("}")
    out.put(f"static void {name}(Frame *frame) {{")
    out.add(b.start)
    out.add(inside)
    out.put("}")
    out.put("")


def memory_type(t: DType) -> str:
    """The type of an element in memory: a u1 is a byte, and true if the byte is not 0."""
    return "uint8_t" if t is u1 else TYPES[t.name]


class Unit:
    """What the functions of one source share. ``members``: name of a buffer, or ``argument()``, -> member of the frame.
    ``functions``: the texts of functions, each after the functions that it calls. ``frame``: the structs with the
    members that the kernel uses, at the offsets of the CPU's runtime."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.layout = layout = L.frame_layout(kernel)
        self.functions: dict[str, str] = {}
        self.names = Names(AVOID)
        self.members: dict[str, str] = {}
        at = {L.DEVICE: ("Device *device", 8), L.STATUS: ("int64_t status", 8), L.LAUNCH: ("uint64_t launch", 8)}
        for b in kernel.buffers.values():
            name, t = self._member(b.of or b.name), memory_type(b.dtype)
            self.members[b.name] = self.members[b.of or b.name]
            if b.of:
                continue
            if b.kind in ("temp", "ret"):
                at[layout.buffers[b.name]] = f"{t} {name}", b.dtype.nbytes
            elif b.kind not in ("local", "private"):
                kind = "int64_t " if b.kind == "heap" else f"{t} *" if b.ndim < 2 else "void *"
                at[layout.buffers[b.name]] = f"{kind}{name}", L.WORD
            if b.name in layout.extents and b.ndim:
                at[layout.extents[b.name]] = f"int64_t {name}_shape[{b.ndim}]", b.ndim * L.WORD
        for a in kernel.args:
            at[layout.args[a.name]] = f"{TYPES[a.type.name]} {self._member(f'{a.name}()')}", a.type.nbytes
        device = {L.CANCEL: ("volatile int32_t flag", 4), L.HEAP: ("char *heap", 8), L.SEED: ("uint64_t seed", 8)}
        self.frame = ["typedef struct {", *struct(device, "char"), "} Device;", ""]
        self.frame += ["typedef struct {", *struct(at, "char"), "} Frame;"]

    def _member(self, key: str) -> str:
        name = self.names.of(key, key)
        self.members[key] = f"frame->{name}"
        return name


# --- statements -----------------------------------------------------------------------------------------------------


class Body(body.Body):
    """Emits one function. ``unit``: what the functions of the source share; ``task``: whether this is the function
    of a task, which gets the launch frame."""

    type_names = TYPES
    named = True

    def __init__(self, block: N.Block, unit: Unit, out: Source, task: bool) -> None:
        super().__init__(unit.kernel, block, out, Names(AVOID))
        self.unit = unit
        self.task = task

    def inner(self, block: N.Block, out: Source) -> Body:
        return Body(block, self.unit, out, task=False)

    def poll(self) -> None:
        if self.task:
            self.out.put("if (qd_stopped(frame)) return;")

    def changed(self, s: N.Stmt) -> str | None:
        b = self.unit.kernel.buffers[s.buffer] if isinstance(s, N.Store) else None
        return self.base(b) if b and b.kind == "local" else None

    def once(self, key: str, t: str, declaration: str) -> str:
        """A variable that is set at the start of the function; ``{}`` in its declaration stands for its name."""
        if key not in self.names.known:
            self.start.declare(t, declaration.replace("{}", self.names.of(key, key)))
        return self.names.known[key]

    def base(self, b: N.Buffer) -> str:
        """The variable that points to the elements of a buffer, or to rows of them."""
        member, t = self.unit.members[b.name], memory_type(b.dtype)
        if b.kind == "local":
            return self.once(b.name, t, "{} = 0")
        if b.kind == "private":
            return self.once(b.name, t, f"{{}}[{prod(b.shape or ())}]")
        if b.kind == "heap":
            return self.once(b.name, t, f"*{{}} = ({t} *)(frame->device->heap + {member})")
        if b.of:
            return self.once(b.name, t, f"*{{}} = ({t} *){member}")
        extents = b.shape if b.shape is not None else [f"{member}_shape[{axis}]" for axis in range(b.ndim)]
        rows = "".join(f"[{n}]" for n in extents[1:])
        return self.once(b.name, t, f"{f'(*{{}}){rows}' if rows else '*{}'} = {member}")

    def element(self, name: str, index: tuple[int, ...]) -> Expr:
        """The expression of an element of a buffer, of its `memory_type`. The index is assumed to be in range."""
        b = self.unit.kernel.buffers[name]
        if b.kind in ("temp", "ret"):
            return X.variable(self.unit.members[name], "")
        base, places = self.base(b), [self.values[i] for i in index]
        if not index:
            return X.variable(base, "", assigned=True) if b.kind == "local" else Expr(f"*{base}", X.UNARY, "")
        return X.made(base + "".join(f"[{e.text}]" for e in places), X.PRIMARY, "", *places)

    def loaded(self, t: DType, e: Expr) -> Expr:
        """The value that a load of the element yields."""
        e = X.binary("!=", "bool", e, ops.literal(u1, False)) if t is u1 else e
        return Expr(e.text, e.level, TYPES[t.name], None, e.reads, True)

    def raw(self, ids: tuple[int, ...]) -> str:
        """The arguments of a report as text: how many values there are, and the values as words."""
        words = [f"{{.{self.types[i] if self.types[i].is_float else 'i64'} = {self.values[i].text}}}" for i in ids]
        return f"{len(ids)}, " + (f"(Word[]){{{', '.join(words)}}}" if ids else "0")


def _call(b: Body, s: N.Call) -> None:
    name, unit = "qd_" + s.function.replace(".", "_"), b.unit
    if name not in unit.functions:
        unit.functions[name] = "static " + body.function(b, name, unit.kernel.functions[s.function])
    b.define(s, X.call(name, TYPES[s.type.name], *(b.values[i] for i in s.args)))


def _started(b: Body, s: N.Value, key: str, member: str) -> None:
    t = TYPES[s.type.name]
    b.set(s.id, s.type, X.variable(b.once(key, f"const {t}", f"{{}} = {member}"), t))


def _shape(b: Body, s: N.ShapeOf) -> None:
    _started(b, s, f"{s.buffer}_shape{s.axis}", f"{b.unit.members[s.buffer]}_shape[{s.axis}]")


def _builtin(b: Body, s: N.Builtin) -> None:
    known = {"seed": "frame->device->seed", "launch": "frame->launch"}.get(s.what)
    if s.what == "clock":
        counter = "(int64_t)__builtin_ia32_rdtsc()" if machine() in ("x86_64", "AMD64") else "INT64_C(0)"
        b.set(s.id, s.type, X.variable(counter, "int64_t"))
        return
    b.set(s.id, s.type, X.variable(known or b.once("iteration", "uint64_t", "{} = 0"), "uint64_t"))


def _assert(b: Body, s: N.Assert) -> None:
    """Emits an assert. If it fails, the task ends."""
    b.out.put(f"if ({X.prefix('!', 'bool', b.values[s.cond]).text}) {{  // {json.dumps(s.message)}")
    b.out.put(f"  qd_assert(frame, {b.unit.layout.numbers[s.id]}, {b.raw(s.args[: L.VALUES])});")
    b.out.put("  return;")
    b.out.put("}")


def _print(b: Body, s: N.Print) -> None:
    number = b.unit.layout.numbers[s.id]
    b.out.put(f"qd_print(frame, {number}, {b.raw(s.operands())});")


Body.handlers = control.HANDLERS | {
    N.Const: lambda b, s: b.set(s.id, s.type, ops.literal(s.type, s.value)),
    N.Op: lambda b, s: b.define(s, ops.emit(s.prim, s.type, b.types[s.args[-1]], *(b.values[i] for i in s.args))),
    N.Call: _call,
    N.ArgLoad: lambda b, s: _started(b, s, f"{s.arg}()", b.unit.members[f"{s.arg}()"]),
    N.ShapeOf: _shape,
    N.Builtin: _builtin,
    N.Load: lambda b, s: b.define(s, b.loaded(s.type, b.element(s.buffer, s.index))),
    N.Store: lambda b, s: b.out.put(X.assignment(b.element(s.buffer, s.index).text, b.values[s.value])),
    N.Assert: _assert,
    N.Print: _print,
    N.Overflow: lambda b, s: b.out.put(f"qd_overflow(frame, {b.values[s.stack].text}, {b.values[s.depth].text});"),
}
