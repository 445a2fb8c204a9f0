"""Describes compiled kernels as text: the IR and code of each stage, the schedule of each task, and a table of the
stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from quadrants_lab.errors import QuadrantsKeyError, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.deep_recursion import check_depth, deeply_recursive, depth_of_block
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.walk import all_are
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.arguments.slots import ScalarSlot
from quadrants_lab.runtime.backend import all_stages, backend
from quadrants_lab.runtime.launch.dispatch import Dispatcher

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow, StackRow
    from quadrants_lab.autodiff.explain import Note
    from quadrants_lab.runtime.launch.plan import Plan

FRONT_END = "front end"


class Sizes(tuple["StackRow", ...]):
    """The report of a gradient's launch, with a row for each adstack. ``kept``: a row for each buffer whose overwritten
    values the forward launch saved. ``notes`` say why other values have no stack. ``bytes``: bytes of stacks for each
    iteration in flight. ``bytes_before``: the same without recomputation and narrowing (None: unknown).
    ``launch_bytes``: bytes of the heap, for ``lanes`` iterations in flight. Printing it shows a table."""

    def __new__(cls, rows: Sequence[StackRow], *_: object) -> Sizes:
        return super().__new__(cls, rows)

    def __init__(
        self, rows: Sequence[StackRow], kept: Sequence[KeptRow], notes: Sequence[Note], bytes_before: int | None,
        launch_bytes: int, lanes: int,
    ) -> None:  # fmt: skip
        self.kept = tuple(kept)
        self.notes = tuple(notes)
        self.bytes = sum(row.bytes_per_lane for row in rows)
        self.bytes_before = bytes_before
        self.launch_bytes = launch_bytes
        self.lanes = lanes

    def __str__(self) -> str:
        lines = _table(self) if self else ["no adstacks"]
        for text in dict.fromkeys(row.cure for row in self):
            names = ", ".join(f"{row.name} (line {row.line})" for row in self if row.cure == text)
            lines.append(f"to avoid the stack of {names}: {text}")
        if self.bytes_before:
            lines.append(f"bytes for one iteration: {self.bytes}; without recomputation: {self.bytes_before}")
        for k in self.kept:
            lines.append(f"kept of {k.name}: {k.elements} values, {k.bytes} bytes a launch ({k.size}), {k.reason}")
        lines += [f"no stack for '{n.name}' (line {n.line}): {n.why}" for n in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def _table(rows: Sequence[StackRow]) -> list[str]:
    head = ("stack", "line", "type", "slots", "bytes", "size", "how", "because")
    cells = [head] + [
        (r.name, str(r.line), r.dtype, str(r.depth), str(r.bytes_per_lane), r.size, r.how, r.reason)
        for r in rows
    ]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]


def compiled_plan(dispatcher: Dispatcher) -> Plan:
    """The plan of the last call, even if the default session has ended. If there was no call, compiles the kernel,
    provided that its code does not depend on the arguments."""
    if S.default() is None and dispatcher.last is not None:
        return dispatcher.last
    now = S.current()
    with now.lock:
        dispatcher.enter(now)
        if dispatcher.last is not None:
            return dispatcher.last
        if all_are(dispatcher.slots, ScalarSlot):
            return dispatcher.plan(now, [None] * len(dispatcher.slots))
    what = "its gradient" if dispatcher.mode == "reverse" else "it"
    raise QuadrantsRuntimeError(
        f"kernel {dispatcher.name} has arrays or templates among its arguments, and it was not called yet, or what its "
        "last call was compiled for has ended",
        code="QL2065",
        help=f"launch {what} once, and keep what it is given: its code depends on its arguments",
    )


def _no_stage(dispatcher: Dispatcher, wanted: str, makers: Mapping[str, str]) -> QuadrantsKeyError:
    """The error for a stage ``wanted`` that does not exist. ``makers``: name of each stage -> the backend that makes
    it."""
    close = get_close_matches(wanted, makers, 1)
    its = [stage for stage, maker in makers.items() if maker == wanted]
    hint = f"the stages of {wanted} are {', '.join(its)}" if its else f"did you mean {close[0]!r}?" if close else ""
    what = f"kernel {dispatcher.name} has no stage {wanted!r}: there are {', '.join(makers)}"
    return QuadrantsKeyError(what, code="QL2068", help=hint)


@deeply_recursive
def ir_text(dispatcher: Dispatcher, stage: str = "") -> str:
    plan = compiled_plan(dispatcher)
    compiled = plan.compiled
    if not stage:
        return print_kernel(compiled.kernel)
    if stage == FRONT_END:
        return print_kernel(compiled.lowered.kernel)
    from quadrants_lab.runtime.compile.compile import lowering_of, trace_of

    lowering = lowering_of(compiled, *plan.last_code, plan.session.backend).steps
    ran = trace_of(compiled).steps
    own = max((n for n, step in enumerate(ran, 1) if step.after.mode == compiled.kernel.mode), default=0)
    # If a pass ran twice, this is its last run for this kernel; after the first `own` steps come those of the kernel
    # that counts pushes.
    steps = {step.name: step.after for step in (*ran[own:], *ran[:own], *lowering)}
    wanted = str(stage).removeprefix("after ").replace("_", " ")
    if wanted not in steps:
        raise _no_stage(dispatcher, wanted, dict.fromkeys((FRONT_END, *steps), ""))
    return print_kernel(steps[wanted])


@deeply_recursive
def schedule_text(dispatcher: Dispatcher) -> str:
    """What the device does with each task, one line a task."""
    return "\n".join(f"{where}: {what}" for where, what in schedules(compiled_plan(dispatcher)))


@deeply_recursive
def code_text(dispatcher: Dispatcher, stage: str) -> str:
    """The code of a kernel at a stage of the session's backend, or of another backend; no device is needed to make it.
    """
    plan = compiled_plan(dispatcher)
    own, stages = plan.session.settings.backend, plan.session.backend.STAGES
    makers = all_stages() | dict.fromkeys(stages, own)
    stage = stage or stages[-1]
    if stage not in makers:
        raise _no_stage(dispatcher, str(stage), makers)
    ran = plan.last_code
    kernel, options = ran if makers[stage] == own else (plan.kernel, plan.compiled.options)
    check_depth(depth_of_block(kernel.body))
    return backend(makers[stage]).stages(kernel, options)[stage]().text


@deeply_recursive
def sizes(*dispatchers: Dispatcher) -> Sizes:
    """The report of the last gradient launch, from the first dispatcher that has had one."""
    from quadrants_lab.autodiff.explain import unstacked
    from quadrants_lab.autodiff.unroll import Unroll
    from quadrants_lab.runtime.compile.compile import forward_ir
    from quadrants_lab.runtime.compile.naive_stack_bytes import bytes_before

    last = [x.last for x in dispatchers]
    plan = next((p for p in last if p is not None and p.stacks is not None and p.session is S.current()), None)
    if plan is None:
        raise QuadrantsRuntimeError(
            f"the gradient of kernel {dispatchers[0].name} was not launched yet, or its arguments have ended",
            code="QL2066",
            help="stacks are sized at launch: call .grad(...) first",
        )
    compiled = plan.compiled
    if compiled.notes is None:
        forward = forward_ir(compiled.lowered.kernel, compiled.options)
        compiled.notes = unstacked(Unroll(compiled.options.ad_unroll)(forward), compiled.source.node)
    frame = plan.frame
    lanes, launch = frame.stack_threads, frame.stack_threads * frame.stack_bytes()
    before = bytes_before(compiled, plan.stacks.depths, plan.stacks.last_data())
    return Sizes(plan.report(), plan.kept(), compiled.notes, before, launch, lanes)


# --- schedules in words ---------------------------------------------------------------------------------------------


def schedules(plan: Plan) -> list[tuple[str, str]]:
    """For each task of the code that the plan launched last: where it stands in the source, and what the device does
    with it and why (`ir.traits.Scheduled`)."""
    from quadrants_lab.runtime.compile.compile import lowering_of

    kernel, backend = plan.last_code[0], plan.session.backend
    steps = lowering_of(plan.compiled, kernel, plan.last_code[1], backend).steps
    scheduled = next((s.after for s in steps if s.name.endswith("schedule")), kernel)
    plain = "one thread, one iteration after the other" if backend.CAPABILITIES.on_host else "an iteration at a time"
    rows = enumerate(scheduled.tasks)
    return [(f"line {t.span.line}" if t.span else f"task {n}", _sentence(t, plain)) for n, t in rows]


def _sentence(task: N.Offload, plain: str) -> str:
    """What the device does with a task and why, as a sentence; ``plain`` if the schedule says nothing."""
    if task.kind == "serial":
        return "one thread"
    reasons = [task.why] if task.why else []
    if not task.grain:
        lanes = 0 if "lanes" in task.why else task.lanes  # a device whose reason speaks of lanes has no grains
        asked = ", ".join(f"{name}={n}" for name, n in (("lanes", lanes), ("colours", task.colours)) if n)
        plain = "; ".join(reasons) or plain
        return f"{plain}; qd.loop_config({asked}) has no effect on this device" if asked else plain
    if task.wait:
        reasons.append("a group of iterations that would wait for few of them runs alone")
    if task.grain and not task.lanes:
        reasons.append("LLVM's vectors, if it finds that they pay" if task.vectorise else "one iteration at a time")
    if task.fission:
        reasons.append(f"each row in {task.fission} loops")
    if task.sums == "serial":
        reasons.append(f"one thread adds to {_names(task.copies)}")
    elif task.copies:
        reasons.append(f"each thread may add to a copy of {_names(task.copies)}")
    if task.aggregate:
        reasons.append(f"groups of {task.aggregate} iterations first test whether all add to one element")
    if task.shares:
        reasons.append(f"each thread reduces its share of {_names([name for name, _ in task.shares])}")
    if task.brief:
        reasons.append("the launch takes a few microseconds at most")
    elif task.timed:
        reasons.append("timing finds how many iterations a thread takes at a time")
    elif task.grain:
        reasons.append(f"a thread takes {task.grain} iterations or more")
    return "; ".join(reasons) or plain


def _names(buffers: tuple[str, ...] | list[str]) -> str:
    return ", ".join(buffers)
