"""Shows recorded launches step by step, also at the steps that the gradient doctor found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock
from time import monotonic

from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.autodiff.explain import added_names
from quadrants_lab.errors import QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.lang.kernel import Kernel
from quadrants_lab.notebook import show
from quadrants_lab.notebook.compare import MODES
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.notebook.step_trace import element, step_trace, wanted
from quadrants_lab.notebook.values import number
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.report import Report
from quadrants_lab.runtime.interpret.greatest import NOTHING, greatest_part
from quadrants_lab.runtime.interpret.interpreter import Lane
from quadrants_lab.runtime.interpret.interpreter_trace import trace_iteration
from quadrants_lab.runtime.launch.plan import Plan
from quadrants_lab.runtime.record.launch_data import launch_data
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.widgets import model

MOST_KNOWN = 4  # windows of a launch that are cached
MOST_SECONDS = 2.0  # the time limit for finding the steps of all causes before a report is shown
_BACK = ("dot product", "custom gradient")  # kinds of causes that lie in the gradient
_WHERE = {"nonfinite": "lost", **dict.fromkeys(_BACK, "back-{line}")}  # kind of cause -> place for `wanted`
_Key = tuple[int, str, str]  # task, iteration, place


def steps_view(
    records: Mapping[str, LaunchRecord], file: str, past: Iterable[LaunchRecord] = ()
) -> model.StepsView | str:
    """The steps of a kernel's launches and gradients, opened at its last gradient, or at its last launch if there is no
    gradient; or why there are none. ``past``: earlier launches of any kernel."""
    record = records.get("reverse") or records.get("forward") or next(iter(records.values()), None)
    if record is None:
        return "none of its launches was recorded: launch it in a %%qdkernel cell or within qd.recording()"
    owners = [r.plan.owner for r in records.values()]
    launches = [*(r for r in past if r.plan.owner in owners), *records.values()]
    kernels = {plan: _Kernel(plan, file) for plan in {r.plan for r in launches}}
    steps = {(r.launch, r.mode): _Launch(r, kernels[r.plan]).steps() for r in launches}
    return model.StepsView([steps[key] for key in sorted(steps)], sorted(steps).index((record.launch, record.mode)))


class _Kernel:
    """The data that the steps of all launches of one compiled kernel (plan) share. ``at``: the number of the task
    that is shown first."""

    def __init__(self, plan: Plan, file: str) -> None:
        self.kernel, self.file = plan.kernel, file
        self.tasks = self.kernel.tasks
        self.compilers = added_names(plan.compiled.source.node)
        self.titles = [task_title(n, t, self.tasks, file) for n, t in enumerate(self.tasks)]
        self.at = self.first(lambda s: isinstance(s, N.AdStackAlloca), self.first(lambda s: s.adjoint_of != N.NO_ID))

    def first(self, test: Callable[[N.Stmt], bool], otherwise: int = 0) -> int:
        """The number of the first task with a statement for which ``test`` is true; else ``otherwise``."""
        return next((n for n, t in enumerate(self.tasks) if any(test(s) for s in walk(t.body))), otherwise)

    def task_of(self, line: int) -> int:
        return self.first(lambda s: model.span_line(s.span, self.file) == line, self.at)


class _Launch:
    """Makes the steps of one recorded launch from its kernel and its data."""

    def __init__(self, record: LaunchRecord, of: _Kernel) -> None:
        self.of, self.number, self.mode = of, record.launch, MODES[record.mode]
        self.launch = launch_data(record)
        self.known: dict[_Key, model.StepTrace] = {}
        self.lock = Lock()

    def steps(self) -> model.LaunchSteps:
        return model.LaunchSteps(self.number, self.mode, self.of.titles, self.make, self.of.at, self.of.task_of)

    def make(self, task: int, lane: str, where: str = "") -> model.StepTrace:
        key = task, lane, where
        trace = self.known.get(key)
        if trace is None:
            if where and model.ONLY_READY.get():  # the wanted place may be far into the iteration
                ended = Event()
                raise model.NotReady(
                    f"the steps of iteration {lane}".rstrip(),
                    lambda: self.keep(key, self.follow(*key, ended.is_set)),
                    ended.set,
                )
            trace = self.follow(*key)
            self.keep(key, trace)
        return trace

    def follow(self, task: int, lane: str, where: str, stop: Callable[[], bool] = lambda: False) -> model.StepTrace:
        kernel, tasks, file = self.of.kernel, self.of.tasks, self.of.file
        if task >= len(tasks):
            raise QuadrantsRuntimeError(f"this launch of kernel {kernel.name} has no task", code="QL0707")
        stacks = [s.id for s in stack_allocas(kernel) if any(s is t for t in tasks[task].body)]
        at = kernel.body.index(tasks[task])
        asked, why = _lane(lane), ""
        if asked is None and (part := greatest_part(self.launch, at)) is not NOTHING:
            what, sign = ("has the greatest gradient", "=") if part.whole else ("adds most to a gradient", "+=")
            asked, why = part.lane, f"{what}: {element(part.buffer, part.index)} {sign} {number(part.value)}"
        window = trace_iteration(self.launch, at, asked, wanted(where, file, stacks), stop)
        return replace(step_trace(kernel, window, file, self.of.compilers), why=why)

    def keep(self, key: _Key, trace: model.StepTrace) -> None:
        with self.lock:  # threads make windows, too
            while len(self.known) >= MOST_KNOWN:
                self.known.pop(next(iter(self.known)))
            self.known[key] = trace


def stepper(kernel: Kernel, lane: str, launch: int = 0, where: str = "") -> Inspection:
    """The inspector of a kernel, opened at the steps of the iteration ``lane`` (`model.LaunchSteps` says what ``""``
    means) and at the step ``where`` (`step_trace.wanted`). ``launch``: the number of the launch in the program, 0 for
    the last launch. Raises QuadrantsRuntimeError if no launch of the kernel was recorded or the launch has no such
    iteration."""
    seen = show(kernel).view
    view = seen.kernels[0]
    if isinstance(view.steps, str):
        raise QuadrantsRuntimeError(f"kernel {kernel.name}: {view.steps}", code="QL0709")
    at = view.steps.at
    if launch:
        there = [n for n, x in enumerate(view.steps.launches) if x.number == launch]
        if not there:
            raise QuadrantsRuntimeError(
                f"launch {launch} of the program is none of kernel {kernel.name} that is kept",
                code="QL0715",
                help=f"kept are {', '.join(map(str, sorted({x.number for x in view.steps.launches})[-20:]))}",
            )
        at = there[-1]
    steps = view.steps.placed(at, lane, where)
    steps.trace()
    return Inspection(replace(seen, kernels=[replace(view, steps=steps)], open="steps"))


def add_verdict(view: model.CellView, report: Report) -> None:
    """Adds the verdict to the view, which opens there, with a request for the step of each cause that lies in one of
    the view's launches."""
    until = monotonic() + MOST_SECONDS
    steps = [_request(view, cause, until) for cause in report.all_causes]
    view.open = "check"
    for kernel in view.kernels:
        kernel.check = report, steps


def _request(view: model.CellView, cause: Cause, until: float) -> str:
    """The request for the step of a cause: the first one of its line, of the line's derivative, or the first NaN; after
    ``until`` only for the iteration."""
    launches = sorted(_launches(view, cause), key=lambda x: (x[1].mode == "forward") == (cause.kind in _BACK))
    lane = ",".join(map(str, cause.iteration))
    places = [f"{_WHERE[cause.kind]}--1"] if cause.kind in _WHERE else []
    first = ""
    for where in [*(p.format(line=cause.line) for p in places), f"line-{cause.line}--1"]:
        for kernel, steps in launches:
            task = steps.task_of(cause.line)
            request = f"{kernel}/steps/{steps.id}/{task}/{lane}"
            first = first or f"{request}//open"
            if monotonic() > until:
                return first
            with suppress(QuadrantsError):
                if steps.make(task, lane, where).found >= 0:
                    return f"{request}/{where}/open"
    return first


def _launches(view: model.CellView, cause: Cause) -> list[tuple[int, model.LaunchSteps]]:
    """The launches in which a cause may lie, each with the number of its kernel: the launches with the cause's launch
    number, or, for a cause in a custom gradient, the last launches of its kernel."""
    number = 0 if cause.kind == "custom gradient" else cause.launch
    kernels = ((n, k.steps) for n, k in enumerate(view.kernels) if cause.kernel in ("", k.name))
    of_kernel = [(n, x) for n, steps in kernels if isinstance(steps, model.StepsView) for x in steps.launches]
    return [x for x in of_kernel if x[1].number == number] or (of_kernel[-2:] if cause.kernel and not number else [])


def _lane(text: str) -> Lane | None:
    if not text.strip():
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise QuadrantsRuntimeError(
            f"{text!r} is not an iteration", code="QL0707", help="give its index, for instance 3, or 3,5 of two loops"
        ) from None


def task_title(n: int, task: N.Offload, tasks: Sequence[N.Offload], file: str) -> str:
    line = model.span_line(task.span, file)
    where = f"the loop at line {line}" if line and task.kind != "serial" else task.kind
    return f"{n + 1} of {len(tasks)}: {where}" if len(tasks) > 1 else where
