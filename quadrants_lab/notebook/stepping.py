"""What the stepper shows, from a launch record: an iteration as statements and the values that they had."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.text import statement_lines
from quadrants_lab.ir.walk import walk
from quadrants_lab.lang.kernel import Kernel
from quadrants_lab.notebook import show
from quadrants_lab.notebook.compare import MODES
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.notebook.values import number
from quadrants_lab.runtime.interpret.interpreter import Lane, Trip
from quadrants_lab.runtime.interpret.interpreter_trace import Event, walk_iteration
from quadrants_lab.runtime.record.records import Arrays, LaunchRecord
from quadrants_lab.widgets.model import StepStatement, StepsView, StepTrace, span_line

MOST_BYTES = 16 << 20  # of a launch's data that is kept for its steps
COMPILERS = frozenset(("trips", "group", "segment", "live", "row"))  # names that passes give to what they add
PRIME = "\N{PRIME}"
_WRITTEN = {"add": "+=", "sub": "-=", "mul": "*=", "and": "&=", "or": "|=", "xor": "^="}


def steps_view(records: Mapping[str, LaunchRecord], file: str) -> StepsView | str:
    """The steps of a kernel's gradient, or of its forward launch where there is none; or why there are none."""
    record = records.get("reverse") or records.get("forward")
    if record is None or record.failed:
        return "none of its launches was recorded: launch it in a %%qdkernel cell"
    held = sum(a.nbytes for a in record.inputs.values()) if record.inputs is not None else 0
    if record.inputs is None or held > MOST_BYTES:
        return f"the launch read too much to keep it for its steps: these are kept of at most {MOST_BYTES >> 20} MiB"
    kernel, scalars = record.plan.kernel, record.plan.scalars(record.args)
    inputs = _shapes(record) | record.inputs
    caps = {row.stack: row.depth for row in record.report}
    random = (record.plan.session.settings.random_seed, record.draws)
    tasks = [t for t in kernel.body if isinstance(t, N.Offload)]
    written = {x.id for x in ast.walk(record.plan.compiled.source.node) if isinstance(x, ast.Name)}
    hidden = COMPILERS - written

    def make(task: int, lane: str) -> StepTrace:
        ran = walk_iteration(kernel, scalars, inputs, task, _lane(lane), caps, random)
        box = " x ".join(f"{axis.start} .. {axis.stop - 1}" for axis in ran.box)
        return _trace(kernel, ran.task, ran.events, file, ", ".join(map(str, ran.lane)), box, ran.cut, hidden)

    first = next((n for n, t in enumerate(tasks) if any(isinstance(s, N.AdStackAlloca) for s in t.body)), 0)
    return StepsView(MODES[record.mode], [_title(n, t, tasks, file) for n, t in enumerate(tasks)], make, first)


def _shapes(record: LaunchRecord) -> Arrays:
    """Arrays of the launch without data: a kernel may ask for the shape of one that it does not read."""
    buffers = record.plan.kernel.buffers
    return {
        name: np.broadcast_to(np.zeros((), buffers[name].dtype.numpy), shape) for name, shape in record.shapes.items()
    }


def stepper(kernel: Kernel, lane: str) -> Inspection:
    """The inspector of a kernel, open at its steps of one iteration (``""``: the first). Raises QuadrantsRuntimeError
    where no launch of it was recorded, or it has no such iteration."""
    seen = show(kernel).view
    view = seen.kernels[0]
    if isinstance(view.steps, str):
        raise QuadrantsRuntimeError(f"kernel {kernel.name}: {view.steps}", code="QL0709")
    steps = replace(view.steps, lane=lane)
    steps.make(steps.task, lane)
    return Inspection(replace(seen, kernels=[replace(view, steps=steps)], open="steps"))


def _lane(text: str) -> Lane | None:
    if not text.strip():
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise QuadrantsRuntimeError(
            f"{text!r} is not an iteration", code="QL0707", help="give its index, for instance 3, or 3,5 of two loops"
        ) from None


def _title(n: int, task: N.Offload, tasks: Sequence[N.Offload], file: str) -> str:
    line = span_line(task.span, file)
    where = f"the loop at line {line}" if line and task.kind != "serial" else task.kind
    return f"{n + 1} of {len(tasks)}: {where}" if len(tasks) > 1 else where


def _trace(
    kernel: N.Kernel, task: N.Offload, events: Sequence[Event], file: str, lane: str, box: str, cut: bool,
    hidden: Set[str],
) -> StepTrace:  # fmt: skip
    texts: dict[int, str] = {}
    for shown, stmt in statement_lines(kernel):
        if stmt is not None:
            texts.setdefault(stmt.id, shown.strip().removesuffix(" {"))
    stacks = [s for s in stack_allocas(kernel) if any(s is t for t in task.body)]
    column = {s.id: n for n, s in enumerate(stacks)}
    back = {s.id for g in task.body if isinstance(g, N.AdStackGuard) for s in walk((g,))}
    number_of: dict[tuple[int, str], int] = {}
    statements: list[StepStatement] = []
    told: list[tuple[int, str | list[str], str]] = []
    for e in events:
        kind = _kind(e)
        at = number_of.setdefault((e.stmt.id, kind), len(statements))
        if at == len(statements):
            own = e.stmt.id in back or e.stmt.adjoint_of != N.NO_ID
            statements.append(_statement(e.stmt, kind, texts.get(e.stmt.id, ""), file, column, own, hidden))
        told.append((at, _value(e), _read(e)))
    columns = [(s.name or f"%{s.primal}", span_line(s.span, file), s.type.name) for s in stacks]
    return StepTrace(lane, box, statements, told, columns, cut)


def _kind(e: Event) -> str:
    match e.stmt:
        case N.Loop():
            return "trip" if isinstance(e.value, Trip) else "end"
        case N.AdStackPush():
            return "push"
        case N.AdStackPop():
            return "pop"
        case N.Write():
            return "write"
    return "value"


def _statement(
    s: N.Stmt, kind: str, text: str, file: str, column: Mapping[int, int], back: bool, hidden: Set[str]
) -> StepStatement:
    """``hidden``: names that are nobody's but the compiler's."""
    name, carried = "", []
    if isinstance(s, N.Loop):
        name = s.index.name if isinstance(s, N.For) else ""
        carried = _distinct([p.name for p in (s.carried if kind == "trip" else s.results)])
    elif isinstance(s, N.Value):
        name = s.name
    name, *carried = ("" if x.partition(".")[0].rstrip(PRIME) in hidden else x for x in (name, *carried))
    stack = column.get(s.stack, -1) if isinstance(s, (N.AdStackPush, N.AdStackPop)) else -1
    return StepStatement(text, span_line(s.span, file), kind, name, stack, carried, back)


def _distinct(names: Sequence[str]) -> list[str]:
    """With a prime for each earlier value of the same name: a variable, and what it was before the loop."""
    out: list[str] = []
    for name in names:
        while name and name in out:
            base, dot, rest = name.partition(".grad")
            name = f"{base}{PRIME}{dot}{rest}"
        out.append(name)
    return out


def _value(e: Event) -> str | list[str]:
    if isinstance(e.value, Trip):
        return ["" if e.value.index is None else number(e.value.index), *map(number, e.value.carried)]
    if isinstance(e.value, tuple):
        return ["", *map(number, e.value)]
    if isinstance(e.stmt, (N.Store, N.Atomic)):
        return _written(e.stmt, e)
    return number(e.value)


def _read(e: Event) -> str:
    """What the value was computed or read from."""
    if isinstance(e.stmt, N.Load):
        return _element(e.stmt.buffer, e)
    return ", ".join(map(number, e.operands)) if isinstance(e.stmt, N.Op) else ""


def _element(buffer: str, e: Event) -> str:
    return f"{buffer}[{', '.join(map(str, e.at)) or 'None'}]"


def _written(s: N.Store | N.Atomic, e: Event) -> str:
    element = _element(s.buffer, e)
    if isinstance(s, N.Store):
        return f"{element} = {number(e.value)}"
    sign: Any = _WRITTEN.get(s.op)
    brought = number(e.operands[0])
    return f"{element} {sign} {brought}" if sign else f"{element} = {s.op}({number(e.value)}, {brought})"
