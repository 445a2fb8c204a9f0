"""Runs a cell as an experiment: its launches are recorded and, on demand, differentiated, checked and timed. A line
shows the progress of work that takes longer than a second."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.ad import clear_all_gradients
from quadrants_lab.errors import QuadrantsError, QuadrantsRuntimeError, QuadrantsWarning, render
from quadrants_lab.lang.classes import BoundKernel
from quadrants_lab.lang.config import init
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.kernel import Kernel
from quadrants_lab.notebook.cell import Cell, calls, execute
from quadrants_lab.notebook.collect import remembered
from quadrants_lab.runtime import session
from quadrants_lab.runtime.backend import available
from quadrants_lab.runtime.check import compare_gradients
from quadrants_lab.runtime.check.differences import Differentiable
from quadrants_lab.runtime.check.recording import touched
from quadrants_lab.runtime.check.report import Report
from quadrants_lab.runtime.launch.plan import Plan
from quadrants_lab.runtime.observe.observers import Observer, unwatched, watch
from quadrants_lab.runtime.record.recorder import Recorder, recording
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.runtime.tape.report import report
from quadrants_lab.runtime.tape.timeline import Tracing

if TYPE_CHECKING:
    from quadrants_lab.notebook.options import CellOptions
    from quadrants_lab.notebook.progress import Progress
    from quadrants_lab.runtime.launch.dispatch import Dispatcher

TIMED_SECONDS = 0.2
MOST_TIMED = 1000


def ensure_session(options: CellOptions) -> None:
    """Makes sure that there is a session: the current one, or a new one on the first usable arch of the options."""
    try:
        session.current()
    except QuadrantsRuntimeError:
        usable = [name for name in options.arch if available(name).runs]
        init(arch=usable[0] if usable else None, simulate=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a cell. ``value``: of its last expression. ``recorder``: of its launches. ``report``: the
    report of ``--check``. ``says``: the result of ``--shards``. ``live``: the program of ``--live`` with
    ``--grad``, or why there is none."""

    value: Any
    recorder: Recorder
    report: Report | None = None
    says: str = ""
    live: dict[str, Any] | str = ""


def run(cell: Cell, options: CellOptions, namespace: dict[str, Any], progress: Progress) -> Outcome:
    """Runs the cell; ``progress`` is told what is compiled and checked.

    With ``--grad`` everything before the last expression is recorded. Then LOSS.grad is set to 1, all other gradients
    to 0, and the gradients of the launches run, last first. Then the last expression is evaluated. If this expression
    launches a kernel, or if no kernel was launched before it, its launches are recorded, too.
    """
    __tracebackhide__ = True
    ensure_session(options)
    launches = CellLaunches(repeatable=options.check or options.live)
    if session.current().backend.CAPABILITIES.on_host:
        launches.tracing = Tracing(launches.account, False)
    checked: Report | None = None
    live: dict[str, Any] | str = ""
    checks = () if options.release else ("asserts", "check_out_of_bound", *(["check_races"] if options.check else []))
    with session.checking(*checks), recording(compiling=progress.tell) as recorder, remembered(recorder):
        if options.shards:
            from quadrants_lab.notebook import split  # imported here, because it imports Dask

            execute(cell.body, namespace)
            return Outcome(None, recorder, says=split.compared(*split.parts(cell, namespace), options.shards))
        if not options.grad:
            execute(cell.body, namespace)
            return Outcome(execute(cell.last, namespace), recorder)
        value, pending = None, True
        with watch(launches):
            execute(cell.body, namespace)
            if not recorder.launches or calls(cell, namespace, (Kernel, BoundKernel)):
                value, pending = execute(cell.last, namespace), False
        target = loss(options.grad, namespace)
        differentiate(target, launches)
        recorder.tapes[target._memory.serial] = report(launches)
        if options.live:
            from quadrants_lab.notebook.live_page import of_cell

            with unwatched():
                live = or_why_not(lambda: of_cell(launches, target))
        if options.check:
            with unwatched():
                checked = check(launches, target, namespace, progress.checks)
        if pending:
            with watch(NoGradients()), watch(NothingNew()):
                value = execute(cell.last, namespace)
        return Outcome(value, recorder, checked, live=live)


def or_why_not(make: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    """The result of ``make()``, or the message of the QuadrantsError that it raises."""
    try:
        return make()
    except QuadrantsError as e:
        return str(e)


class NoGradients(Observer):
    """An observer that refuses launches of gradients, because ``--grad`` runs them after the cell."""

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        _refuse_gradient(plan.owner)


class CellLaunches(Launches):
    """The launches of a cell with ``--grad``. If it is the only observer, launches can take the fast way."""

    def again(self, dispatcher: Dispatcher, args: tuple[Any, ...]) -> Any:
        _refuse_gradient(dispatcher)
        return super().again(dispatcher, args)

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        _refuse_gradient(plan.owner)
        return super().before(plan, args)


def _refuse_gradient(dispatcher: Dispatcher) -> None:
    if dispatcher.mode == "reverse":
        raise QuadrantsRuntimeError(
            f"the gradient of {dispatcher.name} ran in a cell with --grad, which runs the gradients itself",
            code="QL0704",
            help=f"drop the call of {dispatcher.name}.grad(), or the qd.ad.Tape that makes it; or drop the option",
        )


class NothingNew(Observer):
    """An observer that refuses launches that would need a gradient, because the gradients have run already."""

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        buffers = plan.compiled.lowered.kernel.buffers
        if plan.owner.mode == "forward" and any(name in buffers and buffers[name].grad for name in plan.writes):
            raise QuadrantsRuntimeError(
                f"the cell's last expression launched {plan.kernel.name}, which writes to memory with a gradient; "
                "the expression is evaluated for display, after the gradients, so these would miss the launch",
                code="QL0705",
                help="put something behind it, for instance the value to be shown, or end the line with a semicolon",
            )


def loss(name: str, namespace: dict[str, Any]) -> Dense:
    """The field that LOSS names, as ``loss`` or ``sim.loss``. Raises if it is no 0-d float field with a gradient."""
    first, *rest = name.split(".")
    found = reduce(lambda x, attribute: getattr(x, attribute, None), rest, namespace.get(first))
    if found is None:
        close = [k for k, v in namespace.items() if isinstance(v, Dense) and not k.startswith("_")]
        raise QuadrantsRuntimeError(
            f"--grad {name}: no such name after the program",
            code="QL0701",
            help=f"the fields are {', '.join(close)}" if close else "the cell must make or use a field of that name",
        )
    if not isinstance(found, Dense):
        raise QuadrantsRuntimeError(
            f"--grad {name}: this is of type {type(found).__name__}, not a field", code="QL0702"
        )
    if found.shape or found.element_shape or not found.dtype.is_float:
        shape = found.shape + found.element_shape
        raise QuadrantsRuntimeError(
            f"--grad {name}: a loss is one floating point number, {name} is {found.dtype} with shape {shape}",
            code="QL0702",
            help="sum it into a field of shape () in a kernel, and name that",
        )
    if not found.has_grad():
        raise QuadrantsRuntimeError(
            f"--grad {name}: {name} has no gradient", code="QL0702", help="make it with needs_grad=True"
        )
    return found


def differentiate(target: Dense, launches: Launches) -> None:
    """Sets ``target.grad`` to 1 and all other gradients to 0, and runs the gradients of the launches, last first."""
    if not any(x.differentiates for x in launches.leaves()):
        raise QuadrantsRuntimeError(
            "--grad: the cell launched no kernel that touches anything with a gradient",
            code="QL0703",
            help="call a kernel in the cell; fields to differentiate are made with needs_grad=True",
        )
    if launches.uses_only(target._memory):
        text = render(
            "QL0706",
            "--grad: the cell's kernels use nothing with a gradient but the loss, so there is no gradient to show",
            help="make the fields to differentiate by with needs_grad=True",
            kind="warning",
        )
        warnings.warn(text, QuadrantsWarning, stacklevel=2)
    clear_all_gradients()
    for f in launches.tracked.values():
        if f.grad is not None:  # includes gradients of torch tensors, which do not belong to the session
            f.grad.write(..., np.zeros(f.grad.operand.shape, f.grad.dtype.numpy))
    assert target.grad is not None
    target.grad.fill(1)
    launches.differentiate()
    launches.dead_paths.differentiated()


def check(launches: Launches, target: Dense, namespace: Mapping[str, Any], say: Callable[[str], None]) -> Report:
    """Runs the gradient doctor on all memory with a gradient that the launches touched, fields of the namespace first,
    under their first names. ``say`` is called with a text about the current step."""
    named: dict[int, tuple[str, Differentiable]] = {}
    for name, x in namespace.items():
        own = isinstance(x, Dense) and not name.startswith("_") and x._memory is not target._memory
        if own and x.dtype.is_float and x.has_grad() and id(x._memory) in launches.initial:
            named.setdefault(id(x._memory), (name, x))
    return compare_gradients.check(launches, target, touched(launches, target._memory, dict(named.values())), say=say)


def timings(recorder: Recorder) -> list[tuple[str, str, float, int]]:
    """Launches the kernels of the records again without observers, to time them. Returns (kernel, mode, median seconds,
    number of launches) for each. Memory is restored afterwards."""
    return [_time(record) for record in recorder.records() if not record.failed]


def _time(record: LaunchRecord) -> tuple[str, str, float, int]:
    plan = record.plan
    inputs, slots = record.inputs or {}, zip(plan.slots, record.args, strict=True)
    args = [inputs[s.name].copy() if isinstance(arg, str) else arg for s, arg in slots]  # a str replaces a numpy array
    memories = plan.memories(args)
    before = {name: memories[name].copy() for name in plan.writes & memories.keys()}
    took: list[float] = []
    start = perf_counter()
    while len(took) < MOST_TIMED and (not took or perf_counter() - start < TIMED_SECONDS):
        at = perf_counter()
        with plan.session.lock:
            plan.call(*args)
        plan.session.finish()
        took.append(perf_counter() - at)
    for name, array in before.items():
        memories[name].assign(array)
        memories[name].version += 1
    return record.kernel, record.mode, median(took), len(took)
