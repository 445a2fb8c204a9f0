"""`qd.ad`: derivatives over many launches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from quadrants_lab.errors import (
    QuadrantsAssertionError,
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
    QuadrantsWarning,
)
from quadrants_lab.ir.types import f64
from quadrants_lab.lang import second
from quadrants_lab.lang.custom_gradients import Replaced, grad_for, grad_replaced, no_grad
from quadrants_lab.lang.dense import Dense, Ndarray, ScalarNdarray
from quadrants_lab.lang.forward_mode import FwdMode, clear_all, warn_unwritten
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.runtime import session
from quadrants_lab.runtime.arguments.signature import ArraySlot
from quadrants_lab.runtime.check import SECONDS
from quadrants_lab.runtime.interop.arrays import adopt, need_gradient, torch_tensor
from quadrants_lab.runtime.launch.observe import MODE, OBSERVERS, unwatched, watch
from quadrants_lab.runtime.record.records import Recorder
from quadrants_lab.runtime.tape.program import Program
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.runtime.tape.report import Report, report
from quadrants_lab.runtime.tape.step import Kept

if TYPE_CHECKING:
    from quadrants_lab.runtime.check.report import Report as Checked

__all__ = [
    "FwdMode",
    "Tape",
    "check",
    "checkpoint",
    "clear_all_gradients",
    "grad_for",
    "grad_replaced",
    "hessian_vector",
    "no_grad",
    "program",
]

P = ParamSpec("P")
R = TypeVar("R")
_RECORDING: ContextVar[bool] = ContextVar("quadrants_lab_recording", default=False)


class Tape:
    """``with qd.ad.Tape(loss): ...`` runs the gradients of the kernels launched inside, last first, when it ends.

    ``loss`` is a 0-d field, or an ndarray or torch tensor of one element, with a gradient. At the start it is set to 0
    and, with ``clear_gradients``, so are all gradients of the session (a torch tensor's are torch's to clear); at the
    end ``loss.grad`` is set to 1. Each gradient sees memory as its launch left it, also where later launches wrote to
    it; afterwards memory is as the last launch left it. After an exception inside the with no gradient runs.

    ``validation``: within a launch, each access that the compiler cannot decide is checked element by element: an
    element that is overwritten after it was read and that the gradient needs is a QuadrantsAssertionError which names
    both lines, field and index. What launches overwrote and the Tape therefore kept is reported as a warning.
    ``memory``: bytes to keep of what launches overwrite and gradients read (None: 1 GiB, beyond which there is an
    error); where that is hardly more than one copy of what the program overwrites, up to three such copies more. What
    would be more is launched again on the way back, from memory as it was before;
    `kept_bytes` and `made_again` tell how much that was, and `report`, a timeline in a notebook, where and why.
    ``grad_check``: fields (f64) whose gradients are compared with finite differences; a QuadrantsAssertionError names
    field, index and both values where they differ.
    """

    def __init__(
        self,
        loss: Any = None,
        clear_gradients: bool = True,
        validation: bool = False,
        grad_check: Sequence[Any] | None = None,
        memory: int | None = None,
    ) -> None:
        self._given = loss  # a tensor lives as long as its Tape
        loss = _as_dense(loss)
        if not isinstance(loss, Dense):
            raise QuadrantsRuntimeTypeError(
                f"the loss of a Tape must be a 0-d field or ndarray, not {loss!r}", code="QL2090"
            )
        if loss.element_shape or (set(loss.shape) - {1} if isinstance(loss, Ndarray) else loss.shape):
            raise QuadrantsRuntimeError(f"the loss of a Tape must be 0-d, it is {loss!r}", code="QL2090")
        if not loss.has_grad():
            raise QuadrantsRuntimeError(
                f"the loss of a Tape must have a gradient, it is {loss!r}",
                code="QL2090",
                help="make it with needs_grad=True; a tensor, with requires_grad=True",
            )
        self.loss = loss
        self.clear_gradients = clear_gradients
        self.validation = validation
        self.grad_check = list(grad_check or ())
        for x in (loss, *self.grad_check) if self.grad_check else ():
            _check_checked(x)
        if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int) or memory < 0):
            raise QuadrantsRuntimeError(
                f"memory must be a number of bytes, not {memory!r}", code="QL2091", help="for instance memory=2**28"
            )
        self.memory = memory
        self._launches = self._new()
        self._open: ExitStack | None = None
        self._shown = "Tape", 4  # what the user wrote, and how many frames below it warnings are made
        self.kept: list[Kept] = []
        self._differentiated = False  # since it began to record
        self.kept_bytes = 0  # the most that was kept at a time
        self.made_again = 0  # launches, and writes from Python, for the gradient
        self._report: Callable[[], Report] = Report

    def __enter__(self) -> Tape:
        if self._open is not None:
            raise QuadrantsRuntimeError("this Tape is already recording", code="QL2092")
        if _RECORDING.get():
            raise QuadrantsRuntimeError(
                "another Tape is recording",
                code="QL2092",
                help="end its with first: it would run the gradients of this one's launches once more",
            )
        if self.clear_gradients:
            clear_all_gradients()
        self._differentiated = False
        self.loss.fill(0)
        self._launches = self._recordings.pop(self._key, self._launches)
        self._open = ExitStack()
        self._open.callback(_RECORDING.reset, _RECORDING.set(True))
        self._open.enter_context(watch(self._launches))
        if self.validation:
            self._open.enter_context(session.checking("check_races"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._open is not None
        self._open.close()
        self._open = None
        launches, done = self._launches, False
        try:
            if kind is None:
                self._finish()
                done = not self.validation and launches.rest()
        finally:
            if done:
                self._recordings[self._key] = launches
                self._launches = self._new()
            else:
                listed = self.report
                self._report = lambda: listed  # without what was kept
                launches.clear()

    @property
    def report(self) -> Report:
        """What was kept and made again on the last way back, and why; a row a launch."""
        return self._report()

    def _new(self) -> Launches:
        return Launches(repeatable=bool(self.grad_check), memory=self.memory)

    @property
    def _recordings(self) -> dict[Hashable, Launches]:
        """What tapes over the same loss recorded last, for when the same is recorded again."""
        if self.loss.recordings is None:
            self.loss.recordings = {}
        recordings: dict[Hashable, Launches] = self.loss.recordings
        return recordings

    @property
    def _key(self) -> Hashable:
        return self.loss._memory.serial, MODE.get(), self.memory, self.validation, bool(self.grad_check)

    def grad(self) -> None:
        """Runs the gradients of what was launched so far; the end of the with does so by itself, for all of it. With
        ``clear_gradients`` each time from gradients of 0, else they add up."""
        self._differentiate(forget=False)

    def _differentiate(self, forget: bool) -> None:
        if self._differentiated and self.clear_gradients:
            clear_all_gradients()
        self._differentiated = True
        self.loss.grad.fill(1)
        with unwatched(self._launches):
            self._launches.differentiate(forget)
        self._launches.dead_paths.differentiated()
        self.kept_bytes, self.made_again = self._launches.most, self._launches.made_again
        self._report = report(self._launches)
        for observer in OBSERVERS.get():
            if isinstance(observer, Recorder):
                observer.tapes[self.loss._memory.serial] = self._report

    def insert(self, func: Callable[..., Any], args: Sequence[Any]) -> None:
        """Records a call of a function decorated with `grad_replaced` that happened elsewhere."""
        if not isinstance(func, Replaced):
            raise QuadrantsRuntimeTypeError(
                f"a Tape takes functions decorated with @qd.ad.grad_replaced, not {func!r}", code="QL2097"
            )
        self._launches.insert(func, tuple(args), {})

    def _finish(self) -> None:
        if not self._launches.writes.wrote(self.loss._memory):
            what, levels = self._shown
            warn_unwritten(what, self.loss, self._launches.writes, levels)
        self._differentiate(forget=self.memory is not None and not self.grad_check)
        self.kept = self._launches.report()
        if self.validation:
            for kept in self.kept:
                warnings.warn(str(kept), QuadrantsWarning, stacklevel=3)
        if self.grad_check:
            self._check_gradients()

    def _check_gradients(self) -> None:
        """Raises QL2099 for the first field whose gradient is not the slope of the loss; KeyboardInterrupt where it is
        stopped."""
        names = [self._launches.names.get(id(x._memory), repr(x)) for x in self.grad_check]
        fields = {f"{name} ({n})" if name in names[:n] else name: x
                  for n, (name, x) in enumerate(zip(names, self.grad_check, strict=True))}  # fmt: skip
        # it needs the compiler, which a program loads with its first kernel
        from quadrants_lab.lang import doctor
        from quadrants_lab.runtime.check import verdict

        with unwatched(), doctor.showing(None) as say:
            report = verdict.check(self._launches, self.loss, fields, say=say)
        if report.stopped:
            raise KeyboardInterrupt("the check of gradients was stopped before all was looked at")
        for v in report.verdicts:
            if not v.good:
                says = f"the gradient of {v.field} {v.says}"
                if v.worst is not None:
                    at = f"the gradient of {v.field}[{v.worst.index or None}] is {v.worst.gradient:.9g}"
                    says = f"{at}, by finite differences it is {v.worst.slope:.9g}"
                raise QuadrantsAssertionError(
                    "\n".join([f"Grad check failed: {says}", *map(str, v.causes)]),
                    code="QL2099",
                    help="a custom gradient, a value that a kernel rounds or decides by, or a kink at this very point",
                )


def checkpoint(fn: Callable[P, R]) -> Callable[P, R]:
    """A Python function whose launches, under a Tape, keep nothing but memory as it was before the first of them: they
    are made again when their gradients are due. Within one that is called by another, this happens in two levels.

    QL2098 where a launch cannot be made again: one that uses arrays which others may write to, or that belongs to a
    function with a gradient of its own.
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
    """A Python function that launches kernels, the same ones whenever its arguments are: they are recorded at the first
    call and from then on made again without the Python between them, on CUDA in one go; under a Tape too.

    What the function reads counts by value (`runtime.tape.surroundings`), fields and ndarrays by which they are; what
    is in these may be anything. A function that reads or writes fields in Python, changes what it reads, uses arrays of
    other libraries, has a gradient of its own or returns something is run by Python each time, and a warning says why
    (QL2102).
    """
    made = Program(fn)

    @wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
        result: R | None = made.call(args, kwargs)
        return result

    return run


def hessian_vector(program: Callable[[], object], loss: Any, x: Any, v: Any, memory: int | None = None) -> Any:
    """The product of the Hessian of ``loss`` with ``v``: how the gradient by ``x`` changes along ``v``.

    ``program()`` launches the kernels that compute ``loss``, as under a `Tape`, which it runs under, with ``memory`` as
    its budget. ``x`` is a field or ndarray with a gradient, or a list or dict of them; ``v`` has a number for each
    entry, in row-major order or in the shape of ``x``, and is a list or dict where ``x`` is one. What is returned is a
    numpy array with the shape and dtype of ``x``, or a list or dict of these. All that has a gradient takes part;
    afterwards gradients are what a Tape leaves. QL0418 names what has a first derivative only.
    """
    tape = Tape(loss, memory=memory)
    tape._shown = "hessian_vector", 6
    return second.along(program, tape, x, v)


def check(
    program: Callable[..., object],
    loss: Any,
    wrt: Any = None,
    *,
    args: Sequence[Any] = (),
    seconds: float = SECONDS,
    progress: Callable[[str], None] | None = None,
) -> Checked:
    """What speaks for and against the gradients of ``loss``, and why: by differences, by forward mode, by element.

    ``program(*args)`` is a kernel, or a function that launches some, as under a `Tape`; ``loss`` starts from 0.
    ``wrt``: a field or ndarray with a gradient, a list, or a dict of them by name; None: all that the launches read
    before they write it. The report is data that prints well; ``report.raise_if_wrong()`` is for tests. ``program``
    runs three times and more; memory is afterwards as one run leaves it, gradients as a Tape does. Where it runs
    gradients itself, what they left is compared as well, and stays. Every gradient is compared.
    ``seconds``: after these no more elements are moved alone, and no launch is looked for that is to blame; a search
    that has begun is finished, and to say why a gradient is zero, at a kink or NaN the interpreter takes up to 11 more,
    each time. Ctrl-C ends it with what was found. ``progress`` is told what it is at; without, a terminal.
    """
    # it needs the compiler, which a program loads with its first kernel
    from quadrants_lab.lang import doctor

    tape = Tape(loss)
    return doctor.check(partial(program, *args), tape.loss, wrt, seconds, progress)


def _check_checked(x: Any) -> None:
    if not isinstance(x, Dense) or not x.has_grad():
        raise QuadrantsRuntimeError(
            f"grad_check takes fields that have a gradient, not {x!r}",
            code="QL2099",
            help="make them with needs_grad=True",
        )
    if x.dtype is not f64:
        raise QuadrantsAssertionError(
            f"Only f64 is supported when checking grad: {x!r}",
            code="QL2099",
            help="differences of rounded values tell nothing: qd.init(default_fp=qd.f64), and fields of qd.f64",
        )


def clear_all_gradients() -> None:
    """Sets the gradients of all fields and ndarrays of the session to 0."""
    clear_all("grad")


def __getattr__(name: str) -> object:
    return missing_attribute("qd.ad", name, globals())


def _as_dense(loss: Any) -> Any:
    """A torch tensor as an ndarray over its memory, its gradient made; anything else as it is."""
    if not isinstance(loss, torch_tensor()):
        return loss
    slot = ArraySlot("loss", None, None, None)
    made = adopt(loss, slot, "a Tape", session.current(), (ScalarNdarray,))
    need_gradient(made, "loss", "a Tape")
    return made
