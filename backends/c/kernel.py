"""A kernel's C: the launch frame as a struct, a function a task, and the entry that runs them in order."""

from __future__ import annotations

import linecache

from quadrants_lab.backends._clike import expr as X
from quadrants_lab.backends._clike.source import Source
from quadrants_lab.backends.c import ops
from quadrants_lab.backends.c.body import Body, Names, memory_type
from quadrants_lab.backends.c.ops import TYPES
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.tasks import ENTRY_NAME, STOP_STATUS
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks
from quadrants_lab.backends.stage import Stage
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import i64, u64
from quadrants_lab.ir.walk import walk

_INCLUDES = ("#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>")
LOWERING: tuple[N.Pass, ...] = (lower_adstacks(Layout(u64, lanes=False)), *ops.LOWERING)


def source(kernel: N.Kernel, options: CompileOptions) -> str:
    """C of an offloaded kernel without exits."""
    return "\n".join(line for line, _ in _emitted(kernel, options))


def stage(kernel: N.Kernel, options: CompileOptions) -> Stage:
    """The same, with a comment in front of what each of the user's lines became."""
    spans = {s.id: s.span for s in walk(kernel.body)}
    lines: list[tuple[str, int]] = []
    last: Span | None = None
    for line, id in _emitted(kernel, options):
        span = spans.get(id)
        if span is not None and line.strip(" }") and (last is None or (span.file, span.line) != (last.file, last.line)):
            said = f"// line {span.line}: {linecache.getline(span.file, span.line).strip()}".rstrip(": \\")
            lines.append((line[: -len(line.lstrip())] + said, id))
            last = span
        lines.append((line, id))
        last = last if line else None
    count = sum(id != N.NO_ID and line.endswith((";", "{")) for line, id in lines)
    return Stage("c", "\n".join(line for line, _ in lines), tuple(id for _, id in lines), count)


class Unit:
    """What the functions of one source share. ``members``: of the frame, by the name of a buffer or ``argument()``.
    ``helpers``: texts of functions by name, each behind those that it calls."""

    def __init__(self, kernel: N.Kernel, options: CompileOptions) -> None:
        self.kernel = kernel
        self.asserts = options.debug or options.asserts
        self.layout = L.frame_layout(kernel)
        self.members: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.declarations: list[str] = []
        self._names = Names()
        self.frame = self._frame()

    def declare(self, text: str) -> None:
        """Something of the runtime."""
        if text not in self.declarations:
            self.declarations.append(text)

    def helper(self, name: str, text: str) -> str:
        self.helpers.setdefault(name, text)
        return name

    def extents(self, b: N.Buffer) -> list[str]:
        return [f"frame->{self.members[b.name]}_shape[{axis}]" for axis in range(b.ndim)]

    def _frame(self) -> list[str]:
        """Both structs, with what kernels use, each where the CPU's runtime has it."""
        at = {L.DEVICE: ("Device *device", 1), L.STATUS: ("int64_t status", 1), L.LAUNCH: ("uint64_t launch", 1)}
        for b in self.kernel.buffers.values():
            name = self.members[b.name] = self._names.fresh(b.name)
            if b.kind == "heap":
                at[self.layout.buffers[b.name]] = f"int64_t {name}", 1
            elif b.kind in ("temp", "ret"):
                at[self.layout.buffers[b.name]] = f"{memory_type(b.dtype)} {name}", 1
            elif b.kind != "local":
                at[self.layout.buffers[b.name]] = f"{memory_type(b.dtype) if b.ndim < 2 else 'void'} *{name}", 1
            if b.name in self.layout.extents and b.ndim:
                at[self.layout.extents[b.name]] = f"int64_t {name}_shape[{b.ndim}]", b.ndim
        for a in self.kernel.args:
            name = self.members[f"{a.name}()"] = self._names.fresh(a.name)
            at[self.layout.args[a.name]] = f"{TYPES[a.type.name]} {name}", 1
        device = {L.HEAP: ("char *heap", 1), L.SEED: ("uint64_t seed", 1)}
        return [*_struct("Device", device), "", *_struct("Frame", at)]


def _struct(name: str, members: dict[int, tuple[str, int]]) -> list[str]:
    """``members``: declaration and words, by offset."""
    out, at = ["typedef struct {"], 0
    for offset, (text, words) in sorted(members.items()):
        if offset > at:
            out.append(f"  char unused{at}_[{offset - at}];")
        whole = any(sign in text for sign in ("*", "64", "double"))
        out.append(f"  {text if whole else f'_Alignas({L.WORD}) {text}'};")
        at = offset + words * L.WORD
    return [*out, f"}} {name};"]


def _emitted(kernel: N.Kernel, options: CompileOptions) -> list[tuple[str, int]]:
    """Lines, and the statement that each came from."""
    kernel = lower(kernel, LOWERING, options)
    unit, out = Unit(kernel, options), Source()
    names = [unit._names.fresh(f"{kernel.name}_{n}") for n in range(len(kernel.body))]
    for name, task in zip(names, kernel.body, strict=True):
        assert isinstance(task, N.Offload)
        _task(unit, out, name, task)
    out.stmt = N.NO_ID
    out.put(f"void {ENTRY_NAME}(Frame *frame) {{")
    with out.nest():
        for n, name in enumerate(names):
            if n:
                out.put(f"if (frame->status & {STOP_STATUS}) return;")
            out.put(f"{name}(frame);")
    out.put("}")
    head = [f"// {kernel.name}: {kernel.mode}", *_INCLUDES, "", *unit.frame, "", *unit.declarations]
    head += [*(line for text in unit.helpers.values() for line in text.split("\n")), ""]
    return [*((line, N.NO_ID) for line in head), *zip(out.lines, out.ids, strict=True)]


def _task(unit: Unit, out: Source, name: str, task: N.Offload) -> None:
    b = Body((task,), unit, out, task=True)
    out.stmt = task.id
    with out.apart() as inside, out.nest():
        if task.kind == "serial":
            b.block(task.body)
        else:
            _box(b, task)
    out.put(f"static void {name}(Frame *frame) {{")
    with out.nest():
        for line in b.start:
            out.put(line)
    out.add(inside)
    out.put("}")
    out.put("")


def _box(b: Body, task: N.Offload) -> None:
    """A loop an axis. What runs in parallel elsewhere runs here in the order of its numbers."""
    out, k = b.out, len(task.indices)
    bounds, number = b.block(task.bounds), None
    begins, ends = bounds[:k], bounds[k:]
    for axis, p in enumerate(task.indices):
        t = TYPES[p.type.name]
        begin, end = b.fix(begins[axis], b.names.fresh("begin"), t), b.fix(ends[axis], b.names.fresh("end"), t)
        i = X.variable(b.variable(p.name or "i", p.id), t)
        out.put(f"for ({t} {i.text} = {begin.text}; {i.text} < {end.text}; ++{i.text}) {{  // parallel")
        out.depth += 1
        if not axis:
            b.poll()
        b.set(p.id, p.type, i)
        place = X.binary("-", "", ops.convert(i64, i), begin)
        extent = X.binary("-", "", ops.convert(i64, end), begin)
        number = place if number is None else X.binary("+", "", X.binary("*", "", number, extent), place)
    b.iteration = number or b.iteration
    b.block(task.body)
    for _ in task.indices:
        out.depth -= 1
        out.put("}")
