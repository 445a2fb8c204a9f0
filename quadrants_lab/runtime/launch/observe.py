"""Who watches launches: tapes and recorders. While nobody does, a launch pays nothing for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from quadrants_lab.runtime import session

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class Observer(Protocol):
    """``before`` is called with the session locked, after arguments were checked and before the launch; what it
    returns is handed to ``after``, which is called when the launch is done or has failed. One that has ``again`` and is
    alone is asked first whether it can launch by itself, with arguments as they were given."""

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any: ...
    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None: ...


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("quadrants_lab_observers", default=())
MODE: ContextVar[str] = ContextVar("quadrants_lab_mode", default="forward")
CONSTANT: ContextVar[bool] = ContextVar("quadrants_lab_constant", default=False)
_watching = (
    0  # how many observers there are in any context: fast paths are installed only while there are none
)


def watching() -> bool:
    return _watching > 0


def differentiating() -> bool:
    """Whether somebody sees what is launched in this context, to whom a copy made in Python would be a constant."""
    return bool(OBSERVERS.get()) or MODE.get() == "dual"


@contextmanager
def watch(observer: Observer) -> Iterator[None]:
    """Shows the observer every launch of this context until the with ends."""
    with _no_fast_paths():
        token = OBSERVERS.set((*OBSERVERS.get(), observer))
        try:
            yield
        finally:
            OBSERVERS.reset(token)


@contextmanager
def unwatched(by: Observer | None = None) -> Iterator[None]:
    """Hides the launches of this context, until the with ends, from those who watch it, or from that one of them."""
    token = OBSERVERS.set(() if by is None else tuple(o for o in OBSERVERS.get() if o is not by))
    try:
        yield
    finally:
        OBSERVERS.reset(token)


@contextmanager
def launching(mode: str) -> Iterator[None]:
    """Kernels called in this context until the with ends are launched in ``mode`` instead of "forward"."""
    with _no_fast_paths():
        token = MODE.set(mode)
        try:
            yield
        finally:
            MODE.reset(token)


@contextmanager
def constants() -> Iterator[None]:
    """What kernels called in this context until the with ends compute has no derivative."""
    with _no_fast_paths():
        token = CONSTANT.set(True)
        try:
            yield
        finally:
            CONSTANT.reset(token)


@contextmanager
def _no_fast_paths() -> Iterator[None]:
    global _watching
    now = session.default()  # a later one installs none while somebody watches
    with now.lock if now is not None else nullcontext():
        _watching += 1
        if now is not None:
            now.forget_fast_paths()
    try:
        yield
    finally:
        _watching -= 1
