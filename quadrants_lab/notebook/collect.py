"""Collects the data that the inspector shows, from compiled kernels, traces of passes and recorded launches; and
the history of each kernel: source, times and sizes of each run of its cell."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from statistics import median
from types import MappingProxyType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from quadrants_lab.adstack.evaluate_sizes import LiveData, reads, values_of_parts
from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.adstack.sparse_iterations import sparse_iterations
from quadrants_lab.autodiff.explain import on_stacks, unstacked
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.ir import sizeexpr as S
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk
from quadrants_lab.lang.kernel import Kernel
from quadrants_lab.notebook.code_process import LOWERED, Job, make_code, process
from quadrants_lab.notebook.compare import MODES, NOT_KEPT, ROUNDED, Backends, Compared, lines, place
from quadrants_lab.notebook.roofline import roofline_of
from quadrants_lab.notebook.stepping import steps_view
from quadrants_lab.notebook.values import array_view, number, results
from quadrants_lab.notebook.views import LANGUAGES, Values, pass_views, stack_views, task_graphs
from quadrants_lab.passes import pipeline
from quadrants_lab.pipelines.by_name import PASSES
from quadrants_lab.runtime.backend import backend, names
from quadrants_lab.runtime.check.report import Verdict
from quadrants_lab.runtime.compile.compile import lowering_of, trace_of
from quadrants_lab.runtime.compile.naive_stack_bytes import bytes_before
from quadrants_lab.runtime.launch.dispatch import Dispatcher
from quadrants_lab.runtime.launch.plan import Plan
from quadrants_lab.runtime.record.inspect import schedules
from quadrants_lab.runtime.record.launch_data import MOST_BYTES, keep_last
from quadrants_lab.runtime.record.recorder import Recorder, Times
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.widgets import model
from quadrants_lab.widgets.code import backends, bytes_of
from quadrants_lab.widgets.model import CellView, EditView, KernelView
from quadrants_lab.widgets.tree import seconds, size

MOST_PAST = 4  # earlier launches of a kernel that are shown beside its last one
MOST_ELEMENTS = 2000  # the most elements of an array that is sent to the browser because size expressions read it
MOST_STATEMENTS = 300  # the most statements of a kernel whose code is made at once, not on demand
MOST_OF_CELL = 1200  # the most statements of all kernels of a cell whose code is made at once
_REVERSES = ("reverse", "value and gradient")  # the passes that make reverse code
FRONT_END = "The front end: the Python function as IR, loops and branches as they stand in the source."


Launched: TypeAlias = tuple[model.StepsView | str, list[Callable[[], model.LaunchView]]]
RECORDED: WeakKeyDictionary[Dispatcher, model.KernelView | Launched] = WeakKeyDictionary()
"""Forward dispatcher of a living kernel -> its last recorded view, or the steps and the launches of a later recording
of which no view was made."""


def remember(recorder: Recorder) -> None:
    """Keeps the records of launches, from which a view can be made later. No view is made now, and arrays of many bytes
    are not kept."""
    for owner, records in _by_kernel(recorder).items():
        steps = steps_view(records, owner.of.source.file, recorder.past)
        RECORDED[owner.root] = steps, [noted(record, most=MOST_BYTES) for record in records.values()]


@contextmanager
def remembered(recorder: Recorder) -> Iterator[None]:
    """Makes a context in which launches are recorded. If it raises, the steps of all launches up to the failure are
    kept."""
    try:
        yield
    except BaseException:
        remember(recorder)
        raise


def _by_kernel(recorder: Recorder) -> dict[Dispatcher, dict[str, LaunchRecord]]:
    """The records by forward dispatcher and mode, in the order of each kernel's first record. Their data are kept for
    `Kernel.reproduce`."""
    records = recorder.records()
    keep_last(records)
    forward_of = {r.plan.owner.gradient: r.plan.owner for r in records if r.plan.owner.gradient}
    found: dict[Dispatcher, dict[str, LaunchRecord]] = {}
    for record in records:
        owner = record.plan.owner
        home = owner.forward if record.mode == "dual" else forward_of.get(owner)
        found.setdefault(home or owner, {})[record.mode] = record
    return found


def cell_view(title: str, recorder: Recorder, compared: Compared | None = None) -> model.CellView:
    """The view of all kernels that were launched, in the order of their first recorded launch. ``compared``: their runs
    on several backends."""
    kernels: list[KernelView] = []
    tapes = [report for made in recorder.tapes.values() if (report := made()).steps]
    groups, cost = _by_kernel(recorder), _cost(recorder)
    for owner, of_kernel in groups.items():
        plans = {m: r.plan for m, r in of_kernel.items()}
        kernels.append(kernel_view(plans, of_kernel, compared or {}, recorder.times, recorder.past))
        if owner is owner.root or owner.root not in groups:  # the kernel may have run without derivatives only
            RECORDED[owner.root] = kernels[-1]
        kernels[-1].tapes, kernels[-1].cost = tapes, cost
    view = model.CellView(title, kernels)
    _make_small(view)
    return view


def _cost(recorder: Recorder) -> str:
    """How much time the recording took in the cell, in words."""
    took, cost, copies = recorder.took, recorder.cost, recorder.copies
    share = f" of {seconds(took)} ({cost / took:.0%})" if took else ""
    text = f"Recording took about {seconds(cost)}{share}: {recorder.launches:,} launches were noted, {copies.made} "
    text += f"arrays ({size(copies.nbytes)}) copied; repeating launches took {seconds(recorder.repeated)} more."
    if any(record.plan.compiled.options.check_out_of_bound for record in recorder.records()):
        text += " The time of a launch includes checks of its indices; --release leaves them out."
    return text


def _make_small(view: model.CellView) -> None:
    """Makes the code of small kernels for the cell's backend, so that the saved notebook contains this code."""
    left = MOST_OF_CELL
    codes = [stages for kernel in view.kernels for stages in kernel.code.values()]
    for stages in sorted(codes, key=lambda s: s[0].statements):
        left -= stages[0].statements
        if left < 0 or stages[0].statements > MOST_STATEMENTS:
            break
        for stage in stages:
            if stage.backend == stages[0].backend:
                stage.make()


@deeply_recursive
def kernel_view(
    plans: Mapping[str, Plan],
    records: Mapping[str, LaunchRecord],
    compared: Compared,
    times: Mapping[int, Times] = MappingProxyType({}),
    past: Iterable[LaunchRecord] = (),
) -> model.KernelView:
    """The view of one kernel: ``plans`` and ``records`` by mode (a key of `MODES`), at least one plan."""
    source = next(iter(plans.values())).compiled.source
    file = source.file
    view = model.KernelView(source.name, file, source_lines(source), devices=devices)
    for mode, plan in plans.items():
        _add_traces(view, mode, plan)
        view.code[MODES[mode]] = _stages(plan, file)
        if mode in records:
            record = records[mode]
            near = _roofline(record, times)
            view.launches.append(noted(record, times, compared.get(record.number, []), near)())
    view.steps = steps_view(records, file, past)
    owners = {r.plan.owner for r in records.values()}
    for record in [r for r in past if r.plan.owner in owners][-MOST_PAST:]:
        view.past.append((f"launch {record.launch}, {MODES[record.mode]}", noted(record)()))
    gradient = plans.get("reverse") or plans.get("both")
    if gradient is not None and gradient.stacks is not None:
        _add_stacks(view, gradient, records.get("reverse"))
    return view


def devices() -> list[tuple[str, str]]:
    """Each backend with its devices, or why it has none."""
    return [(row.name, "; ".join(lines(row)).replace(".;", ";")) for row in Backends().rows]


def source_lines(source: FunctionSource, alone: bool = False) -> list[model.Line]:
    """The source around a kernel: the whole cell, or the function ``alone``, as if it is in a file."""
    lines = [x.rstrip("\n") for x in source.lines]
    first, last = 1, len(lines)
    if alone or not source.file.startswith("Cell In["):
        first = min([source.node.lineno, *(d.lineno for d in source.node.decorator_list)]) + source.offset
        last = (source.node.end_lineno or first) + source.offset
    return [model.Line(lines[n - 1], n) for n in range(first, last + 1)]


def _stages(plan: Plan, file: str) -> list[model.StageView]:
    """The code stages of every backend, the plan's own backend first; making code needs no device. This process makes
    small code of the plan's own backend; the code process, which can be stopped, makes all other code."""
    own, ran = plan.session.settings.backend, plan.last_code
    out: list[model.StageView] = []
    for name in _backends(plan):
        kernel, options = ran if name == own else (plan.kernel, plan.compiled.options)
        statements = sum(1 for _ in walk(kernel.body))
        make = make_code if name == own and statements <= MOST_STATEMENTS else process().make
        for stage in backend(name).STAGES:
            job = Job(name, stage, kernel, options, file)
            out.append(model.StageView(stage, name, partial(make, job), None, LANGUAGES.get(stage, ""), statements))
    return out


def _backends(plan: Plan) -> list[str]:
    """The names of all backends, the plan's own first."""
    return sorted(names(), key=lambda name: name != plan.session.settings.backend)


# --- passes -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def pass_docs() -> dict[str, str]:
    """Maps the name of each pass in a trace to the first paragraph of its docstring, which says what the pass
    guarantees."""
    lowerings = (fn for name in names() for fn in backend(name).lowering(CompileOptions()))
    return {pipeline.pass_name(fn): _doc(fn) for fn in (*PASSES.values(), *lowerings)}


def _doc(fn: Callable[..., Any]) -> str:
    return (inspect.getdoc(fn) or "").split("\n\n")[0]


def _lowering(plan: Plan) -> list[pipeline.Step]:
    """The steps of the backend's lowering that changed what ran."""
    steps = lowering_of(plan.compiled, *plan.last_code, plan.session.backend).steps
    return [s for s in steps if s.after is not s.before]


def _lowered(job: Job) -> list[model.PassView]:
    """The steps of another backend's lowering, without times, because times of another process are not comparable."""
    return pass_views([replace(s, seconds=0.0) for s in process().make(job)], pass_docs())


def _add_traces(view: model.KernelView, mode: str, plan: Plan) -> None:
    steps, arch = trace_of(plan.compiled).steps, plan.session.settings.backend
    if mode in ("forward", "dual"):
        front = model.PassView("front end", None, plan.compiled.lowered.kernel, plan.compiled.clock.front, FRONT_END)
        lowered = [replace(s, lowering=True) for s in pass_views(_lowering(plan), pass_docs())]
        view.traces[MODES[mode]] = [front, *pass_views(steps, pass_docs()), *lowered]
        return
    gradient = MODES[mode]
    start = next((n for n, s in enumerate(steps) if s.name == "unroll"), 0)
    at = next((n for n, s in enumerate(steps) if s.name in _REVERSES), 0)
    own = [s for s in steps[start:] if s.before.mode != "count"]
    view.traces[gradient] = pass_views(own, pass_docs())
    if lowering := _lowering(plan):
        view.traces[f"{gradient} on {arch}"] = pass_views(lowering, pass_docs())
    for name in _backends(plan)[1:] if stack_allocas(plan.kernel) else ():  # stacks differ between backends
        job = Job(name, LOWERED, plan.kernel, plan.compiled.options, view.file)
        view.lowered[f"{gradient} on {name}"] = model.Lazy(LOWERED, name, partial(_lowered, job))
    counting = [s for s in steps[at:] if s.before.mode == "count"]
    if counting:
        doc = "The counting slice: the forward slice that only counts pushes, run before the gradient."
        front = model.PassView("counting kernel", None, counting[0].before, 0.0, doc)
        view.traces["counting"] = [front, *pass_views(counting, pass_docs())]
    if plan.stacks is not None and plan.last_code[0] is not plan.kernel:
        gates = plan.stacks.compacted.sparse
        view.traces["gated"] = [
            model.PassView("iterations that push, listed", None, gates.lists, 0.0, _doc(sparse_iterations)),
            model.PassView("the others, then the listed", plan.kernel, gates.split, 0.0, _doc(sparse_iterations)),
        ]
    view.free = unstacked(steps[at].before, plan.compiled.source.node)


# --- stacks -------------------------------------------------------------------------------------------------------


def _add_stacks(view: model.KernelView, plan: Plan, record: LaunchRecord | None) -> None:
    kernel, file = plan.kernel, view.file
    values = _values(plan, record)
    rows = record.report if record is not None else plan.report() if plan.stacks.depths else ()
    steps = trace_of(plan.compiled).steps
    forward = next((s.before for s in steps if s.name in _REVERSES), None)
    why = on_stacks(forward) if rows and forward is not None else {}
    view.stacks = stack_views(kernel, rows, file, values, {v: k.uses for v, k in why.items()})
    for stack in view.stacks:
        stack.choice = why[stack.primal].choice if stack.primal in why else ""
    view.kept = list(plan.kept() if record is None else record.kept)
    if rows:
        given = None if record is None or record.inputs is None else LiveData(record.scalars, record.inputs)
        live = given or plan.stacks.last_data()
        view.bytes_before = bytes_before(plan.compiled, plan.stacks.depths, live)
        lanes = plan.frame.stack_threads
        view.heap = (lanes * plan.frame.stack_bytes(), lanes)
    if record is not None and record.inputs is not None:
        wanted = {b for s in stack_allocas(kernel) if s.size is not None for b in reads(s.size)[2]}
        small = {b: a for b, a in record.inputs.items() if b in wanted and a.ndim > 0 and a.size <= MOST_ELEMENTS}
        view.arrays = {b: (a.reshape(-1).tolist(), a.shape) for b, a in small.items()}
    view.graphs = task_graphs(kernel, file, values)


def _values(plan: Plan, record: LaunchRecord | None) -> Values:
    """Evaluates size expressions at the launch of the record; gives no values if its data was not kept."""
    if record is None or record.inputs is None:
        return lambda e: {}
    live, counted = LiveData(record.scalars, record.inputs), dict(plan.stacks.counted)

    def values(e: S.SizeExpr) -> Mapping[int, int]:
        try:
            return values_of_parts(e, live, counted)
        except KeyError:  # the expression reads a buffer that the launch did not read
            return {}

    return values


# --- launches -----------------------------------------------------------------------------------------------------


COMPILE = ("front end", "passes and checks", "machine code")  # the parts of a compilation, which the history shows, too


def _times(record: LaunchRecord, times: Times | None) -> tuple[list[tuple[str, float]], float]:
    """The times of compilation, if the cell compiled the kernel, and of launches, all by one clock; and the median
    time of warm launches, 0 if there are none."""
    clock = record.plan.compiled.clock
    first, warm = (None, ()) if times is None else (times.first, times.warm)
    rows, took = [], median(warm) if warm else 0.0
    if warm:
        rows.append((f"median of {len(warm)} warm launches" if len(warm) > 1 else "warm launch", took))
    if first is not None:
        rows += zip(COMPILE, (clock.front, clock.passes, clock.code), strict=True)
        rows += [("driver", clock.driver), ("first launch", first)]
        rows.append(("compiled and first launched in", clock.whole + first))
    return rows, took


def noted(
    record: LaunchRecord, times: Mapping[int, Times] = MappingProxyType({}), compared: Sequence[model.BackendRun] = (),
    near: model.Lazy[model.RooflineView] | None = None, most: float = math.inf,
) -> Callable[[], model.LaunchView]:  # fmt: skip
    """A function that makes the view of a launch: its arguments and arrays, first those that the kernel wrote, then
    those that it only read. The function keeps no reference to the kernel, which may be deleted before somebody asks
    for the view, and no arrays of more than ``most`` bytes together."""
    plan, given, returned = record.plan, dict(record.scalars), record.returned
    rows, warm = _times(record, times.get(id(plan.compiled)))
    mode, took, where, schedule = MODES[record.mode], record.seconds, place(record), schedules(plan)
    mode += " (failed)" if record.failed else ""
    buffers, inputs, outputs = plan.kernel.buffers, record.inputs or {}, record.outputs or {}
    if large := sum(a.nbytes for a in (*inputs.values(), *outputs.values())) > most:
        inputs = outputs = {}
    lost = large or record.inputs is None or record.outputs is None
    note = NOT_KEPT if lost else ROUNDED if record.rounded else ""

    def make() -> model.LaunchView:
        read = {name: array for name, array in inputs.items() if name not in outputs}
        numbers = [(name, number(array[()])) for name, array in read.items() if array.ndim == 0]
        arguments = [*((name, str(value)) for name, value in given.items()), *numbers]
        arrays = results(buffers, outputs, returned)
        arrays += [array_view(name, buffers[name].dtype, a, "read") for name, a in read.items() if a.ndim]
        return model.LaunchView(
            mode, took, arguments, arrays, note, where, list(compared), rows, near, schedule, warm
        )

    return make


def _roofline(record: LaunchRecord, times: Mapping[int, Times]) -> model.Lazy[model.RooflineView] | None:
    _, warm = _times(record, times.get(id(record.plan.compiled)))
    return None if record.failed else roofline_of(record, warm or record.seconds)


def last_view(kernel: Kernel) -> model.KernelView | None:
    """The view of the kernel's last recorded launches; if none was recorded, of its last launches; None without any."""
    known = RECORDED.get(kernel.dispatcher)
    if isinstance(known, KernelView):
        return known
    own, others = kernel.dispatcher, (kernel.grad.dispatcher, kernel.value_and_grad.dispatcher)
    launched = {x.mode: x.last for x in (*own.variants.values(), own, *others) if x.last is not None}
    plans = {mode: launched[mode] for mode in MODES if mode in launched}
    if not plans:
        return None
    view = kernel_view(plans, {}, {})
    if known is not None:
        view.steps, view.launches = known[0], [make() for make in known[1]]
    return view


MOST_EDITS = 50  # the most rows in the history of a kernel
EDITS: dict[tuple[str, str, int], list[EditView]] = {}
"""(id of a cell, name of a kernel in it, number of the kernel among kernels with that name) -> its runs. An edited
kernel is a new object in a new file; only the front end's id of the cell ("" if there is none) and the name stay the
same."""


BEFORE: dict[tuple[str, str, int], list[tuple[str, KernelView]]] = {}
"""By the same key the last run of each of the last two texts, as (digest, view without data of launches)."""


def remember_edit(view: CellView, verdicts: Sequence[Verdict], cell: str = "") -> None:
    """Adds a row to the history of each kernel of the cell with the id ``cell``, and puts the history into the view,
    with the view of the last edit."""
    worst = _worst(verdicts)
    alike: Counter[str] = Counter()
    for kernel in view.kernels:
        alike[kernel.name] += 1
        key = cell, kernel.name, alike[kernel.name]
        rows = EDITS.setdefault(key, [])
        rows.append(_row(kernel, worst))
        del rows[:-MOST_EDITS]
        for row in rows[:-2]:
            row.near.clear()  # drops the data of its launches
        kernel.edits = list(rows)
        texts = [x for x in BEFORE.get(key, []) if x[0] != rows[-1].digest][-1:]
        kernel.before = texts[0][1] if texts else None
        launches = [replace(x, roofline=None) for x in kernel.launches]
        kept = replace(kernel, launches=launches, steps="", tapes=[], check=None, past=[], before=None, cell=[])
        BEFORE[key] = [*texts, (rows[-1].digest, kept)]


def _worst(verdicts: Sequence[Verdict]) -> float | None:
    """The greatest relative error by `--check`; NaN if a gradient is not finite, None if nothing was checked."""
    if any(v.kind == "nonfinite" for v in verdicts):
        return math.nan
    return max((v.error for v in verdicts if v.error is not None), default=None)


def _row(view: KernelView, worst: float | None) -> EditView:
    text = "\n".join(x.text for x in view.source if not x.text.startswith("%%"))  # without the line of the magic
    parts: dict[str, float] = {}
    launches: dict[str, float] = {}
    for launch in view.launches:
        for name, took in launch.times:
            if name in COMPILE:
                parts[name] = parts.get(name, 0.0) + took
        launches[launch.mode] = launch.warm
    code = sum(bytes_of(view, backend) for backend in backends(view)[:1])
    stacks = sum(s.bytes or 0 for s in view.stacks)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    near = {x.mode: x.roofline for x in view.launches if x.roofline is not None}
    return EditView(digest, list(view.source), parts, launches, code, stacks, worst, near)
