"""Launches that start in one call of the device's driver, once they have been the same a few times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants_lab.runtime.session import Session

_AFTER = 3  # equal runs before they are captured

Arguments = list[tuple[Any, ...]]


class OneGo:
    """``alike``: whether two runs with the same arguments differ in nothing but what is in memory."""

    def __init__(self, session: Session, alike: bool) -> None:
        self.session = session
        self.capture = getattr(session.device, "capture", None) if alike else None
        self.times = 0
        self.captured: Any = None
        self.arguments: Arguments = []  # that `captured` was made with

    def start(self, ready: Callable[[], Callable[[], None]], arguments: Arguments) -> bool:
        """Starts what ``ready()()`` launches; False, with nothing done, where that has not been the same often enough,
        or the device cannot do it. ``ready`` allocates what is needed, which cannot be captured."""
        if self.capture is None:
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
    """Whether launches have the same arguments, to the sign of zeros."""
    return len(a) == len(b) and all(map(_equal, a, b))


def _equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    if a is b:
        return True
    for x, y in zip(a, b, strict=True):
        if x is not y and (x.__class__ is not y.__class__ or x != y or (x == 0 and str(x) != str(y))):
            return False
    return True
