"""Who watches launches: tapes and recorders. While nobody does, a launch pays nothing for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from quadrants_lab.runtime import session

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan

T = TypeVar("T")


class Observer(Protocol):
    """``before`` is called with the session locked, after arguments were checked and before the launch; what it
    returns is handed to ``after``, which is called when the launch is done or has failed. One that has ``again`` and is
    alone is asked first whether it can launch by itself, with arguments as they were given."""

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        return None

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        return None


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("quadrants_lab_observers", default=())
MODE: ContextVar[str] = ContextVar("quadrants_lab_mode", default="forward")
CONSTANT: ContextVar[bool] = ContextVar("quadrants_lab_constant", default=False)
# while a Tape runs gradients: memory is as their launches left it, whatever its versions say
PUT_BACK: ContextVar[bool] = ContextVar("quadrants_lab_put_back", default=False)
_watching = 0  # contexts, in any thread, in which no fast paths are to be installed


def watching() -> bool:
    return _watching > 0


def differentiating() -> bool:
    """Whether somebody sees what is launched in this context, to whom a copy made in Python would be a constant."""
    return bool(OBSERVERS.get()) or MODE.get() == "dual"


def watch(observer: Observer) -> AbstractContextManager[None]:
    """Shows the observer every launch of this context until the with ends."""
    return _without_fast_paths(OBSERVERS, (*OBSERVERS.get(), observer))


def launching(mode: str) -> AbstractContextManager[None]:
    """Kernels called in this context until the with ends are launched in ``mode`` instead of "forward"."""
    return _without_fast_paths(MODE, mode)


def constants() -> AbstractContextManager[None]:
    """What kernels called in this context until the with ends compute has no derivative."""
    return _without_fast_paths(CONSTANT, True)


@contextmanager
def unwatched(by: Observer | None = None) -> Iterator[None]:
    """Hides the launches of this context, until the with ends, from those who watch it, or from that one of them."""
    token = OBSERVERS.set(() if by is None else tuple(o for o in OBSERVERS.get() if o is not by))
    try:
        yield
    finally:
        OBSERVERS.reset(token)


@contextmanager
def _without_fast_paths(variable: ContextVar[T], value: T) -> Iterator[None]:
    global _watching
    now = session.default()  # a later one installs none while somebody watches
    with now.lock if now is not None else nullcontext():
        _watching += 1
        if now is not None:
            now.forget_fast_paths()
    token = variable.set(value)
    try:
        yield
    finally:
        _watching -= 1
        with suppress(ValueError):  # of another context, whose end is the end of it
            variable.reset(token)
