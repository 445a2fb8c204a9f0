"""Observers of launches: tapes and recorders. Without one, a launch costs nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from quadrants_lab.runtime import session

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan

T = TypeVar("T")


class Observer(Protocol):
    """``before`` is called with the session locked, after the arguments were checked; its result is passed to
    ``after``, which is called when the launch is done or has failed. If the only observer has a method ``again``, that
    is called first, with the dispatcher and unchecked arguments; it may launch by itself, or return NotImplemented.
    An observer that takes the derivatives of what is launched has a true ``differentiates``."""

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        return None

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        return None


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("quadrants_lab_observers", default=())
MODE: ContextVar[str] = ContextVar("quadrants_lab_mode", default="forward")
CONSTANT: ContextVar[bool] = ContextVar("quadrants_lab_constant", default=False)
# True while a Tape runs gradients: it has restored the memory that they read, though versions have grown
PUT_BACK: ContextVar[bool] = ContextVar("quadrants_lab_put_back", default=False)
# contexts, in all threads, in which no fast paths may be installed; Python switches threads neither within += nor -=
_watching = 0


def watching() -> bool:
    return _watching > 0


def differentiating() -> bool:
    """Whether derivatives of this context's launches are wanted; False for constants and within a function that has a
    gradient of its own."""
    wanted = MODE.get() == "dual" or any(getattr(o, "differentiates", False) for o in OBSERVERS.get())
    return wanted and not CONSTANT.get()


def watch(observer: Observer) -> AbstractContextManager[None]:
    """Within the with, the observer sees every launch of this context."""
    return _without_fast_paths(OBSERVERS, (*OBSERVERS.get(), observer))


def launching(mode: str) -> AbstractContextManager[None]:
    """Within the with, kernels called in this context are launched in ``mode`` instead of "forward"."""
    return _without_fast_paths(MODE, mode)


def constants() -> AbstractContextManager[None]:
    """Within the with, results of kernels called in this context have no derivative."""
    return _without_fast_paths(CONSTANT, True)


@contextmanager
def unwatched(by: Observer | None = None) -> Iterator[None]:
    """Within the with, launches of this context are hidden from all observers, or from that one."""
    token = OBSERVERS.set(() if by is None else tuple(o for o in OBSERVERS.get() if o is not by))
    try:
        yield
    finally:
        OBSERVERS.reset(token)


@contextmanager
def _without_fast_paths(variable: ContextVar[T], value: T) -> Iterator[None]:
    global _watching
    now = session.default()  # a later session installs none while `_watching`
    with now.lock if now is not None else nullcontext():
        _watching += 1
        if now is not None:
            now.suspend_fast_paths()
    token = variable.set(value)
    try:
        yield
    finally:
        try:  # first, and without a call before it, in which Ctrl-C could leave the observer behind
            variable.reset(token)
        except ValueError:  # the token belongs to another context, which has ended
            pass
        finally:
            _watching -= 1
            if now is not None and not _watching and now is session.default():  # else `swap` resumes them
                now.resume_fast_paths()
