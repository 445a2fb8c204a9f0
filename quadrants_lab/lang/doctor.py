"""Implements `qd.ad.check`, which records the launches of a function, differentiates them, and judges the
gradients."""

import inspect
import linecache
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from time import monotonic
from typing import Any

import numpy as np

from quadrants_lab.errors import (
    QuadrantsAssertionError,
    QuadrantsError,
    QuadrantsWarning,
)
from quadrants_lab.ir.source import Span
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.derivatives import check_has_derivative
from quadrants_lab.lang.forward_mode import by_key
from quadrants_lab.runtime import session
from quadrants_lab.runtime.check import compare_gradients
from quadrants_lab.runtime.check.by_hand import Forward
from quadrants_lab.runtime.check.cause import Cause, because
from quadrants_lab.runtime.check.differences import Differentiable, initial, loss_at, put_back, restore, saved
from quadrants_lab.runtime.check.dot_product import seed_gradients
from quadrants_lab.runtime.check.recording import beside_launches, checked_run, touched, why_not_ours
from quadrants_lab.runtime.check.report import Report
from quadrants_lab.runtime.observe.observers import unwatched, watch
from quadrants_lab.runtime.tape.python_writes import record_python_writes
from quadrants_lab.runtime.tape.recorder import Launches

Say = Callable[[str], None]
_STALE = {"QL0409": "seed", "QL0410": "changed bound", "QL0417": "changed value"}  # code of a warning -> kind of cause


def check(program: partial[object], loss: Dense, wrt: Any, seconds: float, progress: Say | None) -> Report:
    """The report that `qd.ad.check` returns."""
    launches = Forward(repeatable=True)
    try:
        return _checked(program, launches, loss, wrt, seconds, progress)
    finally:
        launches.clear()


def _checked(
    program: partial[object], launches: Forward, loss: Dense, wrt: Any, seconds: float, progress: Say | None
) -> Report:
    now = session.current()
    loss.fill(0)
    with showing(progress) as say:
        say("races and indices")
        unsafe = checked_run(program)
    if isinstance(unsafe, QuadrantsAssertionError) and because(unsafe).kind != "race":
        return Report("loss", np.nan, says="with checks on, the program ends with an error", causes=(because(unsafe),))
    wrote = {id(x): (x, x._memory.python_wrote) for x in now.differentiable if x.has_grad()}
    loss.fill(0)
    read: list[Any] = []
    catching, reading = warnings.catch_warnings(record=True), now.observing_fields(read.append)
    with catching as caught, unwatched(), reading, watch(launches):
        warnings.simplefilter("always", QuadrantsWarning)
        try:
            program()
            record_python_writes(launches)
        except QuadrantsError as e:
            return Report("loss", np.nan, says="the program ends with an error", causes=(because(e),))
    warned = {str(w.message): w for w in caught if issubclass(w.category, QuadrantsWarning)}
    from_python = {id(x._memory) for x, before in wrote.values() if x._memory.python_wrote != before}
    fields = _fields_to_check(launches, loss, wrt, read, _names(program.func))
    # gradients that the program itself computed
    left = {name: (x.grad._memory.copy(), x, _python_wrote_last(x)) for name, x in fields.items()}
    with unwatched(), showing(progress) as say:
        seed_gradients(launches, loss._memory)
        for x in fields.values():
            x.grad._memory.put(..., 0)
        launches.differentiate()
        report = compare_gradients.check(launches, loss, fields, seconds, say, explain=wrt is not None)
        causes: list[Cause | None] = list(report.causes)
        if launches.gradients:
            for name, x in fields.items():
                stale = [c for c in map(_stale_cause, warned.values()) if c is not None]
                causes += why_not_ours(name, *left[name], launches, loss, stale)
                put_back(x.grad._memory, left[name][0])
        elif not report.says:
            say("whether a value goes through Python")
            by_launches = {name: x for name, x in fields.items() if id(x._memory) not in from_python}
            lost = _through_python(program, launches, loss, by_launches)
            report = replace(report, verdicts=tuple(v.beside(lost.get(v.field)) for v in report.verdicts))
        causes.append(None if unsafe is None else because(unsafe))
    return replace(report, causes=tuple(c for c in causes if c is not None), warnings=tuple(warned))


def _names(program: Any) -> dict[int, str]:
    """The names of the fields that the program uses, by the ids of the fields."""
    fn = inspect.unwrap(program)
    if not inspect.isfunction(fn):
        return {}
    used = inspect.getclosurevars(fn)
    return {id(x): name for name, x in {**used.globals, **used.nonlocals}.items() if isinstance(x, Dense)}


def _fields_to_check(
    launches: Launches, loss: Dense, wrt: Any, read: Sequence[Any], names: Mapping[int, str]
) -> dict[str, Differentiable]:
    """The fields whose gradients are checked, by name. ``read``: the fields that Python read."""
    if wrt is None:
        found = touched(launches, loss._memory, {}, inputs=True)
        known = {id(loss._memory), *launches.names}
        more = {id(x._memory): x for x in read if x.has_grad() and id(x._memory) not in known}
        return found | {names.get(id(x), repr(x)): x for x in more.values()}
    given = by_key(wrt)
    if given is not wrt:
        named: dict[str, Any] = {}
        for n, x in enumerate(given.values()):
            name = launches.names.get(id(getattr(x, "_memory", None))) or names.get(id(x), f"wrt[{n}]")
            named[name if name not in named else f"{name} ({n + 1})"] = x
        given = named
    for name, x in given.items():
        check_has_derivative(x, f"{name}, whose gradient is checked,", "QL2099")
    return dict(given)


def _python_wrote_last(x: Differentiable) -> bool:
    """Whether the last write to the gradient came from Python."""
    memory = x.grad._memory
    return bool(memory.version and memory.python_wrote == memory.version)


def _run(program: Callable[[], object], launches: Launches, change: Callable[[], None] = lambda: None) -> None:
    """Restores memory as it was before the launches, calls ``change``, and runs the program again, without output."""
    restore(launches)
    change()
    for f in launches.tracked.values():
        f.memory.version += 1
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        program()


def _through_python(
    program: Callable[[], object], launches: Launches, loss: Dense, fields: Mapping[str, Differentiable]
) -> dict[str, Cause]:
    """Finds the inputs whose value goes through Python, rather than a launch, on its way to the loss; for each, the
    place where it does."""
    memory, found = loss._memory, dict[str, Cause]()
    with saved(launches, [loss, *fields.values()]):
        was = float(memory.values().reshape(-1)[0])
        _run(program, launches)
        drift = abs(float(memory.values().reshape(-1)[0]) - was)
        if not drift <= 1e-6 * abs(was):
            return found  # the program is not deterministic
        rounded = any(before.dtype in (np.float16, np.float32) for _, before in launches.initial.values())
        close = 1e-3 if rounded else 1e-9  # relative tolerance: sums have no fixed order
        noise = max(close * max(abs(was), 1e-6), 10 * drift)
        for name, x in fields.items():
            start = initial(launches, x._memory)
            moved = (start + 0.05 * (np.abs(start).max(initial=0.0) or 1.0)).astype(start.dtype)
            rerun = Forward(repeatable=True)
            try:
                by_launches = loss_at(launches, memory, x._memory, moved.reshape(-1))
                with watch(rerun), session.checking("check_out_of_bound"):
                    _run(program, launches, lambda: x._memory.put(..., moved))  # called in this iteration
                    record_python_writes(rerun)
                by_program = float(memory.values().reshape(-1)[0])
                if abs(by_program - by_launches) > noise + close * abs(by_program - was):
                    found[name] = beside_launches(name, launches, rerun)
            except QuadrantsAssertionError:  # an assert of the program rejects these values
                continue
            finally:
                rerun.clear()
    return found


def _stale_cause(warned: warnings.WarningMessage) -> Cause | None:
    """The cause of a difference, if a warning about a gradient that the program itself ran names it; else None."""
    head = str(warned.message).partition("\n")[0]
    kind = next((kind for code, kind in _STALE.items() if f"[{code}]" in head), "")
    if not kind:
        return None
    text = linecache.getline(warned.filename, warned.lineno).rstrip()
    at = Span(warned.filename, warned.lineno, len(text) - len(text.lstrip()), warned.lineno, len(text))
    help = str(warned.message).rpartition("= help: ")[2]
    return Cause(kind, head.partition(": ")[2], at, "read here", help)


@contextmanager
def showing(progress: Say | None) -> Iterator[Say]:
    """Returns a function to call with a text about the current step: ``progress``, or one that shows the text on a
    terminal after a second."""
    begun, shown = monotonic(), False

    def line(text: str) -> None:
        nonlocal shown
        if sys.stderr.isatty() and monotonic() - begun > 1:
            shown = True
            sys.stderr.write(f"\r\x1b[Kchecking: {text}")
            sys.stderr.flush()

    try:
        yield progress or line
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
