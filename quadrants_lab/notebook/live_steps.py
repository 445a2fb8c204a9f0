"""Describes the steps of an iteration as data for a page that runs the program in the browser (`live_page`). A
kernel that logs its values (`log_values`) writes a list of numbers; the data say which statement each number
belongs to. They also contain the stepper's HTML elements, which `widgets/live_page/steps.js` fills."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find
from quadrants_lab.notebook.collect import source_lines
from quadrants_lab.notebook.step_trace import Statements, written
from quadrants_lab.notebook.stepping import task_title
from quadrants_lab.notebook.values import number
from quadrants_lab.passes.log_values import Logged, Runs
from quadrants_lab.runtime.interpret.interpreter import Trip
from quadrants_lab.runtime.interpret.interpreter_trace import QUIET, Event, reverse_code
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import StepTrace
from quadrants_lab.widgets.steps import step_data, stepper
from quadrants_lab.widgets.tree import Lines


def steps_of(
    kernel: N.Kernel, runs: Sequence[Runs], source: FunctionSource, compilers: Set[str]
) -> list[dict[str, Any]]:
    """For each task: the log entries of each run of statements, by the number of the run; the texts of constants; the
    statements, stacks and hidden names in the form of `step_data`; and the stepper's HTML. ``compilers`` are names that
    only the compiler uses, see `Statements`."""
    found, tasks = [], kernel.tasks
    for n, task in enumerate(tasks):
        statements = Statements(kernel, task, source.file, compilers)
        back = reverse_code(task)
        entries = {at: [_entry(logged, statements, back) for logged in run] for at, run in runs[n].items()}
        hidden = statements.hidden()
        trace = StepTrace("", "", statements.rows, [], statements.columns(), hidden=hidden, back=bool(back))
        shown = Lines(source_lines(source), "python", f"Source of {kernel.name}")
        found.append({
            "title": task_title(n, task, tasks, source.file), "axes": len(task.indices), "runs": entries,
            "consts": {s.id: number(s.type.numpy(s.value)) for s in find(task.body, N.Const)},
            "html": write(stepper("", shown, trace.stacks, "")), **step_data(trace),
        })  # fmt: skip
    return found


def _entry(logged: Logged, statements: Statements, back: Set[int]) -> list[Any]:
    """Describes what a statement writes to the log: its number (-1: it is not shown); ids and dtypes of the values
    that it defines; ids of the values that it reads; then, for an access, the buffer and a text for the written
    value, and for a While its id."""
    s = logged.stmt
    defs = [[id, t.name] for id, t in logged.defs]
    if type(s) in QUIET:
        return [-1, defs]
    at = statements.number(Event(s, Trip(None, ()) if logged.begins else None, back=s.id in back))
    if isinstance(s, (N.Store, N.Atomic)):
        return [at, defs, [*s.index, s.value], s.buffer, written(s, "{0}", "{1}")]
    if isinstance(s, N.Load):
        return [at, defs, list(s.index), s.buffer, ""]
    read = s.operands() if isinstance(s, (N.Op, N.AdStackPush)) else ()
    return [at, defs, list(read), s.id if isinstance(s, N.While) else -1]
