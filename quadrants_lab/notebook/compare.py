"""Which backends there are, their devices, and whether each can run here; and recorded launches repeated on further
backends, whose results and times are compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.notebook.inspection import Shown, as_text
from quadrants_lab.notebook.values import everything, number, results
from quadrants_lab.runtime.backend import Available, available, names
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.runtime.record.replay import Replay, replay, shadow
from quadrants_lab.widgets.model import BackendRun
from quadrants_lab.widgets.run import backends
from quadrants_lab.widgets.terminal import drawn
from quadrants_lab.widgets.tree import Table, bold, broken, head

Compared = dict[int, list[BackendRun]]  # number of the record -> its runs
MODES = {"forward": "forward", "dual": "forward mode", "reverse": "gradient", "both": "value and gradient"}
SIMULATION = "a simulation runs its kernels here, one thread after the other: its times say nothing of a GPU"
ROUNDED = (
    "earlier launches were repeated to find what this one read. Threads add to an element in any order, so the last "
    "digits may differ"
)
NOT_KEPT = (
    "the data of the launch was not kept: it needs more memory than is set aside for records, or another library wrote "
    "to it unnoticed"
)

APART = "in the cell only iterations that push had stacks, and ran separately; here all iterations have them"


def lines(row: Available) -> list[str]:
    """The text about a backend: one line for each device; if it has no device, the reason, and whether a simulation
    replaces it."""
    if not row.why_not:
        return list(row.devices) or ["usable"]
    return [row.why_not, *([SIMULATION] if row.simulated else [])]


class Backends(Shown):
    """The table of backends, as an object that displays itself; the default backend is first."""

    def __init__(self) -> None:
        self.rows = [available(name) for name in names()]
        super().__init__(Table(("backend", "devices"), [(bold(x.name), broken(lines(x))) for x in self.rows]))

    def __repr__(self) -> str:
        return "\n".join(
            f"{row.name if not n else '':<8} {text}" for row in self.rows for n, text in enumerate(lines(row))
        )


def home(record: LaunchRecord) -> str:
    """The backend on which the launch was made."""
    return record.plan.session.settings.backend


def label(row: Available) -> str:
    return f"{row.name}, simulated" if row.simulated else row.name


def place(record: LaunchRecord) -> str:
    """Where the launch was made (backend, device or simulation), in words."""
    row = available(home(record))
    return label(row) + (f": {SIMULATION}" if row.simulated else "")


def compare(records: Sequence[LaunchRecord], arches: Sequence[str]) -> Compared:
    """For each record, the same launch on every backend of ``arches``. The record's home backend comes first, and the
    others are compared with it. Empty if ``arches`` has no further backend."""
    rows = {name: available(name) for name in dict.fromkeys((*arches, *map(home, records)))}
    compared: Compared = {}
    for record in records:
        further = [name for name in dict.fromkeys(arches) if name != home(record)]
        if further:
            compared[record.number] = runs(record, [rows[name] for name in (home(record), *further)])
    return compared


def tables(records: Sequence[LaunchRecord], compared: Compared) -> str:
    """A table for each compared record."""
    titles = {r.number: head(f"{r.kernel}, {MODES[r.mode]}") for r in records}
    return "\n".join(as_text(drawn([titles[number], backends(runs)])) for number, runs in compared.items())


def runs(record: LaunchRecord, rows: Sequence[Available]) -> list[BackendRun]:
    """Runs the launch on each backend; gives its results there, or the reason why it did not run."""
    lost = NOT_KEPT if record.inputs is None or record.outputs is None else ""
    problem = "nothing to compare: the launch failed" if record.failed else lost
    return [BackendRun(label(row), problem=problem) if problem else _run(record, row) for row in rows]


def _run(record: LaunchRecord, row: Available) -> BackendRun:
    run = BackendRun(label(row))
    if not row.runs:
        run.problem = row.why_not
        return run
    session = shadow(record.plan.session, row.name)
    try:
        made = replay(record, session)
    except (QuadrantsError, MemoryError) as e:
        run.problem = str(e)
        return run
    finally:
        session.end()
    run.note = SIMULATION if row.simulated else ""
    run.first, run.seconds = made.first, made.seconds
    run.lane_bytes, run.heap_bytes = made.lane_bytes, made.heap_bytes
    if row.name == home(record):  # compared with the results in the cell
        run.arrays = results(record.plan.kernel.buffers, record.outputs, record.returned)
        if record.plan.last_code[0] is not record.plan.kernel:
            run.note = "; ".join(filter(None, (run.note, APART)))
    else:
        _differences(run, record, made)
    return run


def _differences(run: BackendRun, record: LaunchRecord, made: Replay) -> None:
    """Fills in the arrays of the run and their differences from the record."""
    own = results(record.plan.kernel.buffers, made.outputs, made.returned)
    theirs = everything(record.outputs or {}, record.returned)
    greatest = 0.0
    for view, (name, array) in zip(own, everything(made.outputs, made.returned).items(), strict=True):
        size, at = difference(theirs[name], array)
        where = f" at {_index(at)}" if at else ""
        view.difference = f"{size:.2g}{where} of {number(theirs[name][at])}" if size else "equal"
        whole = np.abs(theirs[name][np.isfinite(theirs[name])]).max(initial=0)
        run.apart = max(run.apart, size / float(whole) if whole else size)
        if size > greatest:
            greatest, run.greatest = size, f"{size:.2g} in {view.name}{_index(at)}"
    run.arrays = own
    run.greatest = run.greatest or "equal"


def difference(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[float, tuple[int, ...]]:
    """The greatest absolute difference between two arrays of one shape, and its index. NaN equals NaN and differs
    infinitely from a number."""
    if not a.size:
        return 0.0, ()
    same = (a == b) | ((a != a) & (b != b))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
    if a.dtype.kind != "f":
        difference = np.maximum(difference, 1.0)  # large different integers may be equal in float64
    difference = np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))
    at = np.unravel_index(int(np.argmax(difference)), a.shape)
    return (float(difference[at]), tuple(int(i) for i in at)) if difference[at] else (0.0, ())


def _index(at: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""
