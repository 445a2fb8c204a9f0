"""Implements `qd.ad`, which computes derivatives of programs of many launches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache, partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from quadrants_lab.autodiff.diagnostics import warn
from quadrants_lab.errors import (
    QuadrantsAssertionError,
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
    QuadrantsWarning,
)
from quadrants_lab.ir.types import f64
from quadrants_lab.ir.weak import Table
from quadrants_lab.lang import forward_mode
from quadrants_lab.lang.custom_gradients import Replaced, grad_for, grad_replaced, no_grad, primals
from quadrants_lab.lang.dense import Dense, ScalarNdarray
from quadrants_lab.lang.derivatives import check_has_derivative
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.forward_mode import FwdMode, clear_all, warn_unreached
from quadrants_lab.runtime import session
from quadrants_lab.runtime.arguments.slots import ArraySlot
from quadrants_lab.runtime.check import SECONDS
from quadrants_lab.runtime.interop.arrays import adopt
from quadrants_lab.runtime.interop.gradients import settle_argument
from quadrants_lab.runtime.interop.tensors import torch_tensor
from quadrants_lab.runtime.memory.memory import THREAD, TIMES
from quadrants_lab.runtime.observe.observers import (
    OBSERVERS,
    SCOPE,
    Scope,
    open_recording,
    unwatched,
)
from quadrants_lab.runtime.tape.program import Program
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.runtime.tape.recording import modes
from quadrants_lab.runtime.tape.report import NO_RESULT, Report, Result, report, timed
from quadrants_lab.runtime.tape.step import Kept
from quadrants_lab.runtime.tape.timeline import COMPILE, Tracing, write
from quadrants_lab.runtime.tape.written import gradient_warning

if TYPE_CHECKING:
    from quadrants_lab.ir.dot import Drawing
    from quadrants_lab.runtime.check.report import Report as Checked

__all__ = [
    "FwdMode", "Tape", "check", "checkpoint", "clear_all_gradients", "export", "grad_for", "grad_replaced",
    "hessian_vector", "no_grad", "program",
]  # fmt: skip

_Open = tuple[Scope, AbstractContextManager[None] | None]
P = ParamSpec("P")
R = TypeVar("R")


class Tape:
    """``with qd.ad.Tape(loss): ...`` records the kernels that are launched in the ``with``. At its end it runs their
    gradients in reverse order.

    ``loss`` is a 0-d field, or an ndarray or torch tensor of one element, with a gradient. At the start the loss is set
    to 0 and, with ``clear_gradients``, so are all gradients of the session. (Gradients of torch tensors are not; a
    gradient that another thread has made or used last is cleared only if a launch of this Tape uses it.) At the end
    ``loss.grad`` is set to 1. Each gradient sees memory as its launch left it, even if later launches overwrote it;
    afterwards memory is again as the last launch left it. After an exception inside the ``with`` no gradient runs.

    ``validation``: launches check, element by element, accesses about which the compiler cannot decide. If a launch
    overwrites an element after it has read it, and the gradient needs the old value, a QuadrantsAssertionError names
    both lines, field and index. A warning tells which memory the Tape saved because launches overwrite it. ``memory``:
    the most bytes that the Tape may keep at a time, for values that launches overwrite and gradients read, and for
    everything else. None means 1 GiB, and an error if that is exceeded. With a number, launches whose values do not fit
    run again during the backward pass, from a saved state; if the number is too small even for that, an error at the
    end says how many bytes the program needs. `kept_bytes` and `made_again` say how much was saved and run again, and
    `report`, a timeline in a notebook, says where and why. ``trace``: the Tape waits for each launch and times it, for
    the method `trace`. ``grad_check``: fields (f64) whose gradients are compared with finite differences. If they
    differ, a QuadrantsAssertionError names field, index and both values.
    """

    __slots__ = (
        "__weakref__", "_caller", "_differentiated", "_given", "_key", "_once", "_open", "_recorder", "_result",
        "_tracing", "clear_gradients", "grad_check", "loss", "memory", "traces", "validation",
    )  # fmt: skip

    def __init__(
        self, loss: Any = None, clear_gradients: bool = True, validation: bool = False,
        grad_check: Sequence[Any] | None = None, memory: int | None = None, trace: bool = False,
    ) -> None:  # fmt: skip
        if getattr(loss, "recordings", None) is None:
            self._given = loss  # a torch tensor must live as long as its Tape
            loss = _checked_loss(loss)
        self.loss = loss
        self.clear_gradients = clear_gradients
        self.validation = validation
        self.grad_check = list(grad_check) if grad_check else ()
        if grad_check:
            for x in (loss, *self.grad_check):
                _check_grad_check(x)
        if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int) or memory < 0):
            raise QuadrantsRuntimeError(
                f"memory must be a number of bytes, not {memory!r}", code="QL2091", help="for instance memory=2**28"
            )
        self.memory = memory
        self.traces = trace
        self._once = validation or trace or memory is not None or bool(grad_check)  # no later run reuses it
        self._recorder: Launches | None = None  # made when it is needed
        self._open: _Open | None = None  # what must be ended when the recording ends
        self._caller = "Tape", 4  # for warnings: the function that the user called, and how many frames up its call is
        self._differentiated = False  # whether it ran gradients since it began to record
        self._result = NO_RESULT
        self._tracing: Tracing | None = None

    def __enter__(self) -> Tape:
        outer, loss, now, mine = SCOPE.get(), self.loss, session.current(), THREAD.number
        if self._open is not None:
            raise QuadrantsRuntimeError("this Tape is already recording", code="QL2092")
        if outer is not None and outer.on_tape:
            raise QuadrantsRuntimeError(
                "another Tape is recording",
                code="QL2092",
                help="end its with first: it would run the gradients of this one's launches once more",
            )
        memory, known, recording = loss._live(), loss.recordings, open_recording()
        if self.clear_gradients:
            clear_all("grad", now, mine)
        memory.fill(0, mine)
        self._differentiated, self._key = False, (memory.serial, modes())
        launches = None if known is None or self._once else known.get(self._key)
        if launches is None or not launches.take_up():
            launches = self._launches
            launches.take_up()
        self._recorder = launches
        launches.began, launches.clears = next(TIMES), self.clear_gradients
        if launches.rerun is not None:
            launches.rerun.lends = recording is None
        # a recorded cell shows when launches ran; a GPU's launches are timed only where `traces` lets the Tape wait
        if self.traces or (recording is not None and memory.session.backend.CAPABILITIES.on_host):
            self._tracing = launches.tracing = Tracing(launches.account, self.traces)
        checking = session.checking("check_races") if self.validation else None
        scope = Scope("Tape", "grad", launches, now)
        self._open = scope, checking
        try:
            scope.begin()
            if checking is not None:
                checking.__enter__()
        except BaseException:  # Ctrl-C
            self._open = None
            scope.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._open is not None
        assert self._recorder is not None
        (scope, checking), self._open = self._open, None
        launches, rested = self._recorder, False
        try:
            try:
                if checking is not None:
                    checking.__exit__(None, None, None)
            finally:
                scope.end()
            if kind is None:
                rested = self._finish_again(launches) or self._rest(launches, self._finish())
        finally:
            launches.tracing = self._recorder = None
            try:
                if not rested:
                    listed = self.report
                    self._result = self._result._replace(report=lambda: listed)  # without what was kept
            finally:
                if not rested:
                    launches.clear()
                launches.free.append(True)

    def _rest(self, launches: Launches, reaches: bool) -> bool:
        """Keeps the recording for the next run of the same program. Returns False if it cannot be used again.
        ``reaches``: whether its launches pass derivatives on to any memory."""
        if self._once or self.loss._memory.session.finds_lost:
            return False
        if self.loss.recordings is None:
            self.loss.recordings = Table(Launches.ended)
        rerun = launches.for_the_next_run()
        if rerun is None:
            return False
        if reaches:
            rerun.result = self._result
        self.loss.recordings.put(self._key, launches, rerun.needs())
        rerun.let_go()
        return True

    def _finish_again(self, launches: Launches) -> bool:
        """Runs the gradients of a recording that this run has repeated exactly, and keeps the recording. Returns False,
        without effect, if the gradients must be computed in the general way."""
        rerun, recordings = launches.rerun, self.loss.recordings
        if rerun is None or self._differentiated or not rerun.finish(self._seed):
            launches.end_rerun()
            return False
        assert rerun.result is not None
        assert recordings is not None
        self._result = rerun.result
        if self._tracing is not None:
            self._result = self._result._replace(report=cache(partial(timed, self._tracing, rerun.result.report)))
        self._tell_recorder()
        if recordings.get(self._key) is not launches:
            recordings.put(self._key, launches, rerun.needs())
        return True

    def __repr__(self) -> str:
        """Names the loss, the number of launches, the most bytes that were kept, and the budget."""
        if self._open is not None:
            state = f"recording, {_launches(sum(1 for _ in self._launches.leaves()))} so far"
        elif not (report := self.report).steps:
            state = "no launches"
        else:
            budget = "no budget" if report.budget is None else f"a budget of {report.budget:,} bytes"
            state = f"{_launches(len(report.steps))} under {budget}, {report.kept()}"
        return f"<qd.ad.Tape of {self.loss!r}: {state}>"

    def graph(self) -> Drawing:
        """The program as a graph, which a notebook draws. Nodes are fields and launches, and the values of a field that
        were kept because a launch overwrote them. Repeated launches are drawn once. ``.source`` is DOT text;
        `Report.program` has the data."""
        from quadrants_lab.notebook.graphs import program

        return program(self.report)

    def trace(self, path: str | Path) -> Path:
        """Writes a timeline of launches, gradients and bytes kept, which Perfetto (https://ui.perfetto.dev) and
        chrome://tracing open, and returns its absolute path. The Tape must have been made with ``trace=True``."""
        if self._tracing is None:
            untimed = "the launches under this Tape were not timed"
            what = "this Tape recorded nothing yet" if self.traces else untimed
            help = f"with qd.ad.Tape({self.loss.name or 'loss'}, trace=True) as tape: ..."
            raise QuadrantsRuntimeError(what, code="QL2104", help=help)
        ran = self.report.ran
        launches = sum(x.track != COMPILE for x in ran)
        return write(path, ran, {"loss": repr(self.loss), "launches": launches, "kept_bytes": self.kept_bytes})

    @property
    def report(self) -> Report:
        """A report about the last gradient, with a row for each launch: which values the Tape saved, what it ran again,
        and why."""
        return self._result.report()

    @property
    def kept_bytes(self) -> int:
        """The most bytes that the Tape kept at a time for the last gradient."""
        return self._result.kept_bytes

    @property
    def made_again(self) -> int:
        """How many launches and writes from Python the Tape ran again for the last gradient."""
        return self._result.made_again

    @property
    def kept(self) -> Sequence[Kept]:
        """The values that the Tape saved for the last gradient, most bytes first."""
        return self._result.kept

    @property
    def _launches(self) -> Launches:
        if self._recorder is None:
            repeatable = session.current().finds_lost or bool(self.grad_check)
            self._recorder = Launches(repeatable=repeatable, memory=self.memory)
        return self._recorder

    def grad(self) -> None:
        """Runs the gradients of the launches so far, inside of the ``with``. The end of the ``with`` runs those of all
        launches. With ``clear_gradients``, gradients are set to 0 each time; otherwise they add up."""
        self._differentiate(forget=False)

    def _differentiate(self, forget: bool) -> None:
        if self._differentiated and self.clear_gradients:
            clear_all("grad", session.current(), THREAD.number)
        self._differentiated = True
        self._seed()
        with unwatched(self._launches):
            self._launches.differentiate(forget)
        self._launches.dead_paths.differentiated()
        launches = self._launches
        self._result = Result(report(launches), launches.account.most, launches.made_again, self.kept)
        self._tell_recorder()

    def _tell_recorder(self) -> None:
        if (recorder := open_recording()) is not None:
            recorder.tapes[self.loss._memory.serial] = self._result.report

    def insert(self, func: Callable[..., Any], args: Sequence[Any]) -> None:
        """Records a call, made outside of this Tape, of a function that is decorated with `grad_replaced`."""
        if not isinstance(func, Replaced):
            what = f"a Tape takes functions decorated with @qd.ad.grad_replaced, not {func!r}"
            raise QuadrantsRuntimeTypeError(what, code="QL2097")
        self._launches.insert(func, tuple(args), {}, primals(args))

    def _seed(self) -> None:
        loss = self.loss
        if loss._memory.foreign:
            settle_argument(loss)
        loss.grad._live().fill(1, THREAD.number)

    def _finish(self) -> bool:
        """Runs the gradients at the end of the ``with``. Returns whether the launches pass derivatives on to
        something."""
        launches, loss = self._launches, self.loss._memory
        reaches = launches.writes.wrote(loss) and not launches.uses_only(loss)
        if not reaches:
            caller, levels = self._caller
            warn_unreached(caller, self.loss, launches.writes, levels, launches.read_without_gradient())
        warn([gradient_warning(plan, "grad") for plan in launches.by_hand.values()])
        self._differentiate(forget=self.memory is not None and not launches.repeatable)
        self._result = self._result._replace(kept=launches.report())
        if loss.session.finds_lost and reaches:
            # imported here, because it loads the compiler
            from quadrants_lab.runtime.check.checked_session import tell_lost_gradients

            tell_lost_gradients(loss.session, launches, self.loss)
        if self.validation:
            for kept in self.kept:
                warnings.warn(str(kept), QuadrantsWarning, stacklevel=3)
        if self.grad_check:
            self._check_gradients()
        return reaches

    def _check_gradients(self) -> None:
        """Raises QL2099 for the first field whose gradient differs from finite differences; KeyboardInterrupt if the
        user stops it."""
        names = [self._launches.names.get(id(x._memory), repr(x)) for x in self.grad_check]
        fields = {f"{name} ({n})" if name in names[:n] else name: x
                  for n, (name, x) in enumerate(zip(names, self.grad_check, strict=True))}  # fmt: skip
        # imported here, because it loads the compiler
        from quadrants_lab.lang import doctor
        from quadrants_lab.runtime.check import compare_gradients

        with unwatched(), doctor.showing(None) as say:
            report = compare_gradients.check(self._launches, self.loss, fields, say=say)
        if report.stopped:
            raise KeyboardInterrupt("the check of gradients was stopped before everything was checked")
        for v in report.verdicts:
            if v.kind not in ("right", "noisy"):
                says = f"the gradient of {v.field} {v.says}"
                if v.worst is not None:
                    at = f"the gradient of {v.field}[{v.worst.index or None}] is {v.worst.gradient:.9g}"
                    says = f"{at}, by finite differences it is {v.worst.slope:.9g}"
                raise QuadrantsAssertionError(
                    "\n".join([f"Grad check failed: {says}", *map(str, v.causes)]),
                    code="QL2099",
                    help="a custom gradient, a value that a kernel rounds or compares, or a kink at this very point",
                )


def checkpoint(fn: Callable[P, R]) -> Callable[P, R]:
    """Makes a Tape save only the memory before the first launch of a Python function. The function's launches run again
    when their gradients are computed. Checkpoints can be nested.

    A launch that cannot run again is an error (QL2098): one that uses arrays which others may write to, or that belongs
    to a function with a custom gradient.
    """

    @wraps(fn)
    def segment(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as stack:
            for observer in OBSERVERS.get():
                if isinstance(observer, Launches):
                    stack.enter_context(observer.segment())
            return fn(*args, **kwargs)

    return segment


def program(fn: Callable[P, R]) -> Callable[P, R | None]:
    """Records the launches of a Python function at its first call, and replays them, without the Python code between
    them, at later calls with equal arguments, also under a Tape. On CUDA a replay is one call of the driver.

    Python objects that the function reads are compared by value (`runtime.tape.environment`), fields and ndarrays by
    identity; the data in these may change. Some functions cannot be replayed: those that read or write fields in
    Python, change objects that they read, use arrays of other libraries, have a custom gradient, or return something.
    Python runs each call of such a function, and a warning says why (QL2102).
    """
    made = Program(fn)

    @wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
        result: R | None = made.call(args, kwargs)
        return result

    return run


def hessian_vector(program: Callable[[], object], loss: Any, x: Any, v: Any, memory: int | None = None) -> Any:
    """The product of the Hessian of ``loss`` with respect to ``x`` with the vector ``v``.

    ``program()`` launches the kernels that compute ``loss``; it runs under a `Tape` with the budget ``memory``. ``x``
    is a field or ndarray with a gradient, or a list or dict of them. ``v`` has a number for each entry, in row-major
    order or in the shape of ``x``, and is a list or dict if ``x`` is one. The result is a numpy array with the shape
    and dtype of ``x``, or a list or dict of these. Derivatives flow through all fields and ndarrays that have a
    gradient; afterwards these hold the gradient of ``loss``, as after a Tape. An operation that has only a first
    derivative is an error (QL0418).
    """
    tape = Tape(loss, memory=memory)
    tape._caller = "hessian_vector", 6
    return forward_mode.hessian_vector(program, tape, x, v)


def check(
    program: Callable[..., object], loss: Any, wrt: Any = None, *, args: Sequence[Any] = (), seconds: float = SECONDS,
    progress: Callable[[str], None] | None = None,
) -> Checked:  # fmt: skip
    """Compares the gradients of ``loss`` with finite differences and forward mode, and explains differences.

    ``program(*args)`` is a kernel, or a function that launches kernels, as under a `Tape`; ``loss`` starts from 0.
    ``wrt``: the inputs whose gradients are checked: a field or ndarray with a gradient, or a list or dict of them; None
    for all fields with a gradient that the launches read before they write them. The report is data that can be
    printed; ``report.raise_if_wrong()`` is for tests. ``program`` runs at least three times; afterwards memory is as
    after one run, and gradients as after a Tape. If the program runs gradients itself, their results are compared, too,
    and are not overwritten. ``seconds``: a time limit. When it is over, no more elements are changed one by one, and no
    search for the launch that causes a difference begins. A search that has begun is finished, and each explanation of
    a gradient that is zero, at a kink or NaN may take 11 seconds more in the interpreter. Ctrl-C stops the check; the
    report has what was found. ``progress`` is called with a line about the current step; by default it is shown on a
    terminal.
    """
    # imported here, because it loads the compiler
    from quadrants_lab.lang import doctor

    tape = Tape(loss)
    return doctor.check(partial(program, *args), tape.loss, wrt, seconds, progress)


def export(program: Callable[..., object], loss: Any, path: str | Path, *, args: Sequence[Any] = ()) -> Path:
    """Writes a page (.html) in which a program and its gradient run, in any browser and without network, on numbers
    that its reader changes.

    ``program(*args)`` launches kernels, as under a `Tape`; ``loss`` starts from 0. The program runs once, and
    afterwards memory is restored as it was before. The page repeats its launches, up to 1,000, and the writes of Python
    between them.
    """
    from quadrants_lab.notebook.saved import export_program  # an import upwards

    return export_program(partial(program, *args), Tape(loss).loss, path)


def _check_grad_check(x: Any) -> None:
    check_has_derivative(x, "a field of grad_check", "QL2099")
    if x.dtype is not f64:
        raise QuadrantsAssertionError(
            f"Only f64 is supported when checking grad: {x!r}",
            code="QL2099",
            help="finite differences of rounded values are useless: qd.init(default_fp=qd.f64), and fields of qd.f64",
        )


def clear_all_gradients() -> None:
    """Sets the gradients of all fields and ndarrays of the session to 0."""
    clear_all("grad", session.current())


def __getattr__(name: str) -> object:
    return missing_attribute("qd.ad", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)


def _checked_loss(loss: Any) -> Dense:
    """The loss of a Tape as a field or ndarray; raises an error for an object that cannot be a loss."""
    checked: Dense = _as_dense(loss)
    help = "make it with needs_grad=True; a tensor, with requires_grad=True"
    if callable(loss):
        help = "the program comes before its loss: qd.ad.check(program, loss)"
    check_has_derivative(checked, "a loss", "QL2090", help=help)
    if checked.element_shape or (set(checked.shape) - {1} if checked.kind == "ndarray" else checked.shape):
        raise QuadrantsRuntimeError(f"a loss must be 0-d, it is {checked!r}", code="QL2090")
    return checked


def _as_dense(loss: Any) -> Any:
    """A torch tensor as an ndarray with a gradient that shares the tensor's memory; any other object unchanged."""
    if not isinstance(loss, torch_tensor()):
        return loss
    return adopt(loss, ArraySlot("loss", None, None, None), "a Tape", session.current(), (ScalarNdarray,))


def _launches(n: int) -> str:
    return f"{n:,} launch{'es' if n != 1 else ''}"
