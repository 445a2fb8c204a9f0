"""Calls observers of launches, and manages recordings. If there are none, launches are as fast as without this
module.

An observer, such as a Tape, is called before and after each launch; while there is one, no launch takes the fast path.
A recording replaces the functions by which plans launch (`Plan.record`), so that launches stay fast, also under a Tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from typing import Any, Generic, Protocol, TypeVar

from quadrants_lab.ir.temporary import holding, put
from quadrants_lab.runtime import session

T = TypeVar("T")
Plan = Any  # stands for `launch.plan.Plan`, whose module imports this one


class Launched(Generic[T]):
    """The plan of a kernel's last launch in any mode, for arguments of given types; None before the first launch."""

    __slots__ = ("plan",)

    def __init__(self) -> None:
        self.plan: T | None = None


# whether kernels remember the plan of their last launch even when something that it was made for has ended
KEEPS_LAST: ContextVar[bool] = ContextVar("quadrants_lab_keeps_last", default=False)


def refuse(*args: Any) -> Any:
    """A launch function that never launches."""
    return NotImplemented


class Observer(Protocol):
    """The protocol of an object that watches launches. ``before`` is called with the session locked, after the
    arguments were checked; its result is passed to ``after``, which is called when the launch is done or has
    failed. If there is only one observer and it has a method ``again``, that is called first, with the dispatcher
    and unchecked arguments; it may launch by itself, or return NotImplemented. If there is only one and its
    ``rerun`` is not None, ``rerun.launch`` is called before all else. ``differentiates``: the observer takes the
    derivatives of what is launched. ``of_session``: the observer belongs to the default session and stays as long
    as that."""

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        return None

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        return None


class Recorder(Protocol):
    """``launch`` is called in place of ``how``, one of the functions by which a plan launches, and calls it. ``run``
    notes many launches of a Tape at once (`record.log.Run`); then ``failed`` is called if an error ended one, and
    ``missed`` if one was none. ``pause`` is called before launches that the recorder does not see. ``tapes``: serial of
    the memory of a loss -> function that makes the report of the last Tape over it."""

    tapes: dict[int, Callable[[], Any]]

    def launch(self, plan: Plan, how: Callable[..., Any], *args: Any) -> Any: ...

    def run(self, *given: Any) -> Any: ...

    def failed(self) -> None: ...

    def missed(self) -> None: ...

    def pause(self) -> None: ...


class Noting(Protocol):
    """Source lines that a recording adds to the closure of a plan, so that it is told of launches (`record.noting`).
    ``lost``: leaves the closure if the call does not fit the plan; ``given_back``: runs after borrowed gradients are
    returned; ``done``: after the entry. ``space``: name in the lines -> value. ``function``: the closure."""

    function: Callable[..., Any]
    lost: str
    given_back: str
    done: list[str]
    space: dict[str, Any]

    def before(self) -> list[str]:
        """The lines that run before the session is locked."""

    def around(self, lines: list[str], prepared: bool) -> list[str]:
        """Puts ``lines``, which launch, between lines that tell the recording. ``prepared``: they call `prepare`."""

    def end(self, again: Callable[..., Any]) -> None:
        """From now on the closure calls ``again`` and no longer tells the recording."""


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("quadrants_lab_observers", default=())
MODE: ContextVar[str] = ContextVar("quadrants_lab_mode", default="forward")
CONSTANT: ContextVar[bool] = ContextVar("quadrants_lab_constant", default=False)
# true while a Tape runs gradients: it has restored the memory that they read, although the versions have grown
PUT_BACK: ContextVar[bool] = ContextVar("quadrants_lab_put_back", default=False)
SCOPE: ContextVar[Any] = ContextVar("quadrants_lab_scope", default=None)  # the innermost `Scope`
_OF_SCOPES: tuple[ContextVar[Any], ...] = SCOPE, OBSERVERS  # the variables that each `Scope` sets
_SET, _RESET = ContextVar.set, ContextVar.reset
_recordings: list[Recorder] = []  # open recordings; only the last one is told of launches
# whether launches of this context are hidden from the recording
HIDDEN: ContextVar[bool] = ContextVar("quadrants_lab_hidden", default=False)
# The following count contexts, in all threads. Python never switches threads within += or -=.
_hiding = 0  # contexts whose launches are hidden from the recording
_watching = 0  # contexts in which no fast path may be installed


def recording_tape() -> bool:
    """Whether a Tape records."""
    now = SCOPE.get()
    return now is not None and now.on_tape


def watching() -> bool:
    return _watching > 0


def differentiating() -> bool:
    """Whether derivatives of this context's launches are wanted. They are not within `constants`, nor within a function
    with a custom gradient."""
    wanted = MODE.get() == "dual" or any(getattr(o, "differentiates", False) for o in OBSERVERS.get())
    return wanted and not CONSTANT.get()


def watch(observer: Observer) -> AbstractContextManager[None]:
    """Makes a ``with`` in which the observer sees every launch of this thread's context."""
    return _WithoutFastPaths(OBSERVERS, (*OBSERVERS.get(), observer))


def launching(mode: str) -> AbstractContextManager[None]:
    """Makes a ``with`` in which kernels called in this context are launched in ``mode`` instead of "forward"."""
    return _WithoutFastPaths(MODE, mode)


def constants() -> AbstractContextManager[None]:
    """Makes a ``with`` in which results of kernels called in this context have no derivative."""
    return _WithoutFastPaths(CONSTANT, True)


@contextmanager
def unwatched(by: Observer | None = None) -> Iterator[None]:
    """Makes a ``with`` in which launches of this context are hidden from all observers and the recording, or only
    from the observer ``by``."""
    left = () if by is None else tuple(o for o in OBSERVERS.get() if o is not by)
    with holding(OBSERVERS, left), _hidden() if by is None else nullcontext():
        yield


@contextmanager
def _hidden() -> Iterator[None]:
    global _hiding
    _hiding += 1
    try:
        with holding(HIDDEN, True):
            recording = open_recording()
            if recording is not None:
                recording.pause()
            yield
    finally:
        _hiding -= 1


def hiding() -> bool:
    return _hiding > 0


def open_recording() -> Recorder | None:
    """The recording that is told of launches, or None."""
    return _recordings[-1] if _recordings else None


@contextmanager
def recorded(by: Recorder) -> Iterator[None]:
    """Makes a ``with`` in which the recording is told of every launch, in any thread."""
    outer, now = open_recording(), session.default()
    if outer is not None:
        outer.pause()
    with now.other_fast_paths() if now is not None else nullcontext():
        try:
            _recordings.append(by)
            _tell_plans()
            yield
        finally:
            _recordings.remove(by)
            _tell_plans()
    last = session.default()
    if last is not None and last is not now:
        last.forget_fast_paths()


def _tell_plans() -> None:
    for plan in session.all_plans():
        plan.record(open_recording())


class _WithoutFastPaths:
    """Makes a ``with`` in which the variable has a value with which no launch may take a fast path. It is a class,
    because with a generator a Tape of few launches would take a tenth longer."""

    __slots__ = ("tokens", "value", "variable")

    def __init__(self, variable: ContextVar[Any], value: object) -> None:
        self.variable = variable
        self.value = value
        self.tokens: list[Token[Any]] = []

    def __enter__(self) -> None:
        global _watching
        _watching += 1  # set before fast paths are looked for: see `Specialised.wakes`
        try:
            now = session.default()  # a session that starts later installs none while `_watching`
            if now is not None and now.awake:
                now.suspend_fast_paths()
            put(self.variable, self.value, self.tokens)
            if self.variable is not OBSERVERS:
                session.changed()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        global _watching
        _watching -= 1  # first, and with no call before it, since Ctrl-C in such a call could leave the observer behind
        try:
            for token in self.tokens:
                self.variable.reset(token)
        except ValueError:  # the token belongs to another context, which has ended
            pass
        finally:
            if self.variable is not OBSERVERS:
                session.changed()


class Scope:
    """One `with` block of a Tape or a FwdMode (``what``), in the session ``now``. Until `end`, the ``observer`` sees
    all launches of this context. ``which``: the derivative that it computes, "grad" or "dual". ``on_tape``: it belongs
    to a Tape or lies within one. Numbers that Python reads within it refer to it (`tape_numbers`)."""

    __slots__ = ("now", "observer", "on_tape", "open", "tokens", "undo", "what", "which")

    def __init__(self, what: str, which: str, observer: Observer, now: session.Session) -> None:
        self.what = what
        self.which = which
        self.on_tape = which == "grad" or recording_tape()
        self.now = now
        self.observer = observer
        self.open = False
        self.tokens: list[Token[Any]] = []
        self.undo = map(_RESET, _OF_SCOPES, self.tokens)

    def begin(self) -> None:
        global _watching
        now, self.open = self.now, True
        _watching += 1  # set before fast paths are looked for: see `Specialised.wakes`
        now.tapes += 1
        if now.awake:
            now.suspend_fast_paths()
        now.unobserved = False
        values = self, (*OBSERVERS.get(), self.observer)
        self.tokens.extend(map(_SET, _OF_SCOPES, values))  # both in one call: see `holding`

    def end(self) -> None:
        global _watching
        now = self.now
        if self.open:  # first, and with no call before it, since Ctrl-C in such a call could leave the observer behind
            self.open = False
            _watching -= 1
            now.tapes -= 1
            now.unobserved = now.alive and not (now.tapes or now.field_observers)
        try:  # noqa: SIM105  # whose calls would come before
            _ = [*self.undo]
        except ValueError:  # the tokens belong to another context, which has ended
            pass
