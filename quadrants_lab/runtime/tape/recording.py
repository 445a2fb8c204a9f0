"""Repeats launches unchanged, without running the Python code that led to them. It decides when this is allowed,
and captures the launches as a graph, which the device starts by one call of the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from quadrants_lab.runtime.observe.observers import CONSTANT, MODE, open_recording
from quadrants_lab.runtime.session import CHECKS, Session, default

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan

_AFTER = 3  # after so many equal runs, the launches are captured

Arguments = list[tuple[Any, ...]]


def modes() -> tuple[Any, ...]:
    """The launch modes of this context."""
    return MODE.get(), CONSTANT.get(), CHECKS.get()


def surroundings(session: Session) -> tuple[Any, ...] | None:
    """What, besides the arguments and the attributes that a kernel reads, decides which plan launches it in a session:
    the launch modes, and which fields are placed. None if another session is the default one."""
    return (session.placements, *modes()) if default() is session else None


class Recording:
    """Launches by these plans that are repeated. A device that has graphs captures them when they have been equal often
    enough."""

    def __init__(self, session: Session, plans: Iterable[Plan]) -> None:
        self.session = session
        capture = getattr(session.device, "capture", None)
        self.capture = capture if capture is not None and all(plan.repeatable for plan in plans) else None
        self.times = 0
        self.captured: Any = None
        self.arguments: Arguments = []  # the arguments with which `captured` was captured
        self.parts: dict[int, Any] = {}  # what was captured besides `captured`
        session.holders.add(self)

    def session_ended(self) -> None:
        self.capture = self.captured = None
        self.parts.clear()

    def start(self, ready: Callable[[], Callable[[], None]], arguments: Arguments) -> bool:
        """Starts the launches that ``ready()()`` makes as one graph. Does nothing and returns False if they have not
        been repeated often enough with equal arguments, if the device cannot capture them, or if a recorder has to be
        told of them. ``ready`` itself allocates memory, and is not captured."""
        if open_recording() is not None:
            self.times, self.captured = 0, None  # the recorder takes saved values away, and others replace them
            return False
        if self.capture is None:
            return False
        self.times += 1
        if self.times < _AFTER:
            return False
        with self.session.lock:
            if self.captured is not None and not equal(arguments, self.arguments):
                self.times, self.captured = 0, None  # if the arguments change each time, capturing does not pay
                return False
            if self.captured is None or not self.captured.holds():
                self.captured, self.arguments, self.parts = self.capture(ready()), arguments, {}
            if self.captured is None:
                self.capture = None
                return False
            self.captured.launch()
        return True


def equal(a: Arguments, b: Arguments) -> bool:
    """Whether two sequences of launches have the same arguments, including the signs of zeros."""
    return len(a) == len(b) and all(map(_equal, a, b))


def _equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    if a is b:
        return True
    for x, y in zip(a, b, strict=True):
        if x is not y and (x.__class__ is not y.__class__ or x != y or (x == 0 and str(x) != str(y))):
            return False
    return True
