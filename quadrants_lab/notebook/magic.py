"""Implements the magics `%%qdkernel`, `%qdcheck`, `%qdinspect`, `%qdstep` and `%qdbackends`."""

import re
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.display import display

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.lang.classes import BoundKernel
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.elsewhere import NotSupportedYet
from quadrants_lab.lang.kernel import Kernel
from quadrants_lab.notebook import errors, experiment, show
from quadrants_lab.notebook.cell import Cell, compile_cell
from quadrants_lab.notebook.collect import cell_view, remember, remember_edit
from quadrants_lab.notebook.compare import MODES, Backends, Compared, compare, home, place, tables
from quadrants_lab.notebook.inspection import Inspection, as_text, cell_and_run, in_notebook
from quadrants_lab.notebook.options import CellOptions, matcher, parse, usage
from quadrants_lab.notebook.progress import Progress
from quadrants_lab.notebook.stepping import add_verdict, stepper
from quadrants_lab.runtime.backend import available, names
from quadrants_lab.runtime.check.report import Report
from quadrants_lab.runtime.record.recorder import Recorder
from quadrants_lab.runtime.tape import report as tape
from quadrants_lab.widgets.panes import NAMES, known
from quadrants_lab.widgets.static import static
from quadrants_lab.widgets.timeline import shown
from quadrants_lab.widgets.tree import seconds
from quadrants_lab.widgets.verdict import verdict

_ASYNCHRONOUS = re.compile("await|async")
_WAITS = "a %%qdkernel cell cannot wait for coroutines: await in an ordinary cell, and launch kernels here"
_PLACE = re.compile(r"--(launch|step|line)\s+(\d+)")


@magics_class
class QuadrantsMagics(Magics):
    """The magics; they work on the user's namespace."""

    @line_cell_magic
    def qdkernel(self, line: str, text: str | None = None) -> None:
        """`%%qdkernel` runs the cell, records what its kernels do and opens the inspector; `%qdkernel` lists its
        options."""
        __tracebackhide__ = True
        if text is None:
            print(usage())
            return
        options = parse(line, names(), self.names("pane"))
        try:
            magic = f"%%qdkernel {line}".rstrip()
            shell = self.shell
            number, flags = shell.displayhook.prompt_count, shell.compile.flags
            cell = compile_cell(text, magic, number, flags, shell.transform_cell)
            with Progress() as progress:
                ran = experiment.run(cell, options, self.shell.user_ns, progress)
        except KeyboardInterrupt as e:
            what = progress.now and f": {progress.now}"
            errors.show_in_a_line(e, f"interrupted{what or f' at {errors.place(e)}'}")
        except (QuadrantsError, NotSupportedYet, SyntaxError) as e:
            errors.show_as_text(e, _WAITS if "outside" in str(e) and _ASYNCHRONOUS.search(str(e)) else "")
        except Exception as e:
            errors.show_from_cell(e, self.shell, cell.file)
        try:
            self._show(cell, options, ran)
        except KeyboardInterrupt as e:
            errors.show_in_a_line(e, "interrupted: the cell has run, but made no inspector: %qdinspect makes it")

    def _show(self, cell: Cell, options: CellOptions, ran: experiment.Outcome) -> None:
        recorder = ran.recorder
        if ran.value is not None:
            self.shell.displayhook(ran.value)
        if ran.report is not None and (options.quiet or not ran.recorder.records() or not in_notebook(self.shell)):
            self._verdict(ran.report)
        if ran.says:
            print(ran.says)
        if options.time:
            print(_timing_table(recorder))
        compared = compare(recorder.records(), options.arch)
        for sentence in _places(recorder, options.arch):
            print(sentence)
        if options.quiet:
            print(tables(recorder.records(), compared), end="")
            remember(recorder)
            if options.live and recorder.records():
                _show_live(ran)
        else:
            self._inspect(cell, ran, compared, options)

    def _inspect(self, cell: Cell, ran: experiment.Outcome, compared: Compared, options: CellOptions) -> None:
        recorder, report = ran.recorder, ran.report
        if not recorder.records():
            print(_nothing_to_inspect(self._kernels_of(cell)))
            return
        try:
            view = cell_view(cell.file, recorder, compared)
            if report is not None:
                add_verdict(view, report)
            remember_edit(view, report.verdicts if report is not None else (), cell_and_run(self.shell)[0])
            if options.open and NAMES[options.open] in known(view):
                view.open = NAMES[options.open]
            if options.live:
                _show_live(ran)
            Inspection(view).display(self.shell)
        except Exception as e:  # an error in the view must not hide that the cell succeeded
            if report is not None and in_notebook(self.shell):
                self._verdict(report)
            warnings.warn(f"the inspector cannot be shown: {type(e).__name__}: {e}", stacklevel=2)

    def _verdict(self, report: Report) -> None:
        """Displays the cards of a check, without an inspector."""
        if in_notebook(self.shell):
            display({"text/html": static(verdict(report)), "text/plain": str(report)}, raw=True)
        elif sys.stdout.isatty():
            print(as_text(report.card(), color=True), end="")
        else:
            print(report)

    def _kernels_of(self, cell: Cell) -> list[str]:
        """Names of the kernels that the cell defines."""
        space = self.shell.user_ns.items()
        return [k for k, v in space if not k.startswith("_") and isinstance(v, Kernel) and v.source.file == cell.file]

    @line_magic
    def qdcheck(self, line: str) -> None:
        """`%qdcheck loss program()`: the same as `%%qdkernel --grad loss --check` with ``program()`` as the cell."""
        __tracebackhide__ = True
        loss, _, program = line.strip().partition(" ")
        if not program:
            raise UsageError("%qdcheck takes a loss and a program: %qdcheck loss program()")
        self.qdkernel(f"--grad {loss} --check", program)

    @line_magic
    def qdinspect(self, line: str) -> None:
        """`%qdinspect k`: shows the inspector of kernel k's last launches in a `%%qdkernel` cell, or of its last
        launches if there were none in a cell."""
        __tracebackhide__ = True
        self._display(partial(show, self._kernel("%qdinspect", line.strip())))

    def _display(self, make: Callable[[], Inspection]) -> None:
        try:
            inspection = make()
        except QuadrantsError as e:
            errors.show_as_text(e)
        inspection.display(self.shell)

    @line_magic
    def qdstep(self, line: str) -> None:
        """`%qdstep k 3`: shows iteration 3 (`3,5` for two nested loops; by default the first iteration) of the last
        gradient launch of kernel k in a `%%qdkernel` cell, step by step, forwards and backwards. `--launch 7` takes
        launch 7 of the program; `--step 40` or `--line 12` opens at that step or line."""
        __tracebackhide__ = True
        given = dict(_PLACE.findall(line))
        name, _, lane = _PLACE.sub("", line).strip().partition(" ")
        if "--" in lane or given.get("step") == "0" or {"step", "line"} <= given.keys():
            raise UsageError("%qdstep k 3 [--launch 7] [--step 40 | --line 12]: steps begin with 1")
        step, at = given.get("step"), given.get("line")
        where = f"step-{int(step) - 1}" if step else f"line-{at}--1" if at else ""
        kernel = self._kernel("%qdstep", name)
        self._display(partial(stepper, kernel, lane.strip(), int(given.get("launch", 0)), where))

    def _kernel(self, magic: str, name: str) -> Kernel:
        known = self.names("kernel")
        there = f"kernels here: {', '.join(known)}" if known else "there is no kernel here yet"
        if not name:
            raise UsageError(f"{magic} takes the name of a kernel; {there}")
        first, *rest = name.split(".")
        found = reduce(lambda x, attribute: getattr(x, attribute, None), rest, self.shell.user_ns.get(first))
        if isinstance(found, BoundKernel):
            found = found.kernel
        if found is None:
            raise UsageError(f"{magic} {name}: no such name; {there}")
        if not isinstance(found, Kernel):
            raise UsageError(f"{magic} {name}: this is of type {type(found).__name__}, not a kernel; {there}")
        return found

    @line_magic
    def qdbackends(self, line: str) -> None:
        """`%qdbackends`: the backends, their devices, and why one cannot run here."""
        self.shell.displayhook(Backends())

    def names(self, kind: str) -> Sequence[str]:
        """Completions of a kind: backends, numbers of shards, fields that can be a loss, or kernels."""
        fixed = {"arch": names(), "count": ("2", "4", "8"), "pane": list(NAMES)}
        if kind in fixed:
            return fixed[kind]
        named = ((k, v) for k, v in self.shell.user_ns.items() if not k.startswith("_"))
        if kind == "loss":
            losses = ((k, v) for k, v in named if isinstance(v, Dense) and not (v.shape or v.element_shape))
            return sorted(k for k, v in losses if v.has_grad())
        return sorted(k for k, v in named if isinstance(v, Kernel))


def _show_live(ran: experiment.Outcome) -> None:
    """Displays a live panel for the cell's program, or for each of its kernels; if a panel is impossible, the
    reason."""
    from quadrants_lab.notebook.live_page import of_kernel
    from quadrants_lab.widgets.live_page import panel

    programs: list[dict[str, Any] | str] = [ran.live] if ran.live else []
    if not programs:
        forward = dict.fromkeys(r.plan.owner for r in ran.recorder.records() if r.mode == "forward" and not r.failed)
        programs = [experiment.or_why_not(partial(of_kernel, owner.root)) for owner in forward]
    for program in programs:
        if isinstance(program, str):
            print(program)
        else:
            display({"text/html": panel(program), "text/plain": ""}, raw=True)


def _nothing_to_inspect(defined: Sequence[str]) -> str:
    head = "%%qdkernel: this cell launched no kernel, so there is nothing to inspect"
    if not defined:
        return f"{head}; a kernel is a function under @qd.kernel"
    names = " and ".join(defined)
    return f"{head}; it defines {names}: call {'it' if len(defined) == 1 else 'them'} in the cell"


def _places(recorder: Recorder, arches: Sequence[str]) -> list[str]:
    """Notes on where the cell ran: on a simulation, or not on the first backend of --arch. Also notes on backends that
    cannot run here."""
    rows = [available(arch) for arch in arches]
    without = [row for row in rows if not row.runs]
    notes = [f"--arch {row.name}: {row.why_not.rstrip('.')}; its code can be looked at all the same" for row in without]
    for record in recorder.records():
        if available(home(record)).simulated:
            notes.append(f"the cell ran on {place(record)}")
        elif arches and home(record) != arches[0] and available(arches[0]).runs:
            where = f"the cell ran on {home(record)}, the backend of its session, and was repeated on {arches[0]}"
            notes.append(f"{where}; qd.init(arch=qd.{arches[0]}) makes a session there")
    return list(dict.fromkeys(notes))


def _timing_table(recorder: Recorder) -> str:
    return "\n".join(
        f"{kernel:<16} {MODES[mode]:<12} {seconds(median):>9}   median of {count} launches"
        for kernel, mode, median, count in experiment.timings(recorder)
    )


def load(shell: Any) -> None:
    """Registers magics, completion and displays with the shell; loading twice has no further effect."""
    errors.install(shell)
    magics = QuadrantsMagics(shell)
    shell.register_magics(magics)
    if shell.display_formatter is not None:
        as_html = shell.display_formatter.formatters["text/html"]
        as_html.for_type(tape.Report, lambda report: static(shown(report)))
        as_html.for_type(Report, lambda report: static(verdict(report)))
    matchers = shell.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", "") != "quadrants_lab"]
    matchers.append(matcher(magics.names))
