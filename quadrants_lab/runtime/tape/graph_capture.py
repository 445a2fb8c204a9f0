"""Captures a repeated sequence of launches as a graph of the device, which then starts with one call of the driver."""

from collections.abc import Callable
from typing import Any

from quadrants_lab.runtime.observe.observers import open_recording
from quadrants_lab.runtime.session import Session

_AFTER = 3  # equal runs before a capture

Arguments = list[tuple[Any, ...]]


class GraphCapture:
    """``repeatable``: whether two runs with the same arguments differ only in the content of memory."""

    def __init__(self, session: Session, repeatable: bool) -> None:
        self.session = session
        self.capture = getattr(session.device, "capture", None) if repeatable else None
        self.times = 0
        self.captured: Any = None
        self.arguments: Arguments = []  # that `captured` was made with

    def start(self, ready: Callable[[], Callable[[], None]], arguments: Arguments) -> bool:
        """Starts the launches of ``ready()()``; False, with nothing done, where they have not been repeated often
        enough with equal arguments, the device cannot capture them, or they are recorded. ``ready`` itself allocates
        memory, uncaptured."""
        if self.capture is None or open_recording() is not None:
            return False
        self.times += 1
        if self.times < _AFTER:
            return False
        with self.session.lock:
            if self.captured is not None and not equal(arguments, self.arguments):
                self.times, self.captured = 0, None  # arguments that change each time are not worth it
                return False
            if self.captured is None or not self.captured.holds():
                self.captured, self.arguments = self.capture(ready()), arguments
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
