"""The driver of a kind of GPU: opened on first use, once a process; where there is no device, what stands in for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError


class Opened:
    """``open`` makes the driver and raises OSError, AttributeError (a library without a call that is needed),
    QuadrantsRuntimeError or MemoryError where it cannot."""

    def __init__(self, open: Callable[[], Any]) -> None:
        self._open = open
        self._driver: Any = None
        self._lock = forks.lock()
        self._home: forks.Home | None = None  # where it was opened
        self._stand_in: Any = None

    def current(self) -> Any:
        """Raises OSError or QuadrantsRuntimeError where there is neither a device nor a stand-in, or where a parent of
        this process had opened the device before the fork."""
        with self._lock:
            try:
                return self._opened()
            except (OSError, QuadrantsRuntimeError):
                if self._driver is not None or self._stand_in is None:
                    raise
                return self._stand_in

    def _opened(self) -> Any:
        if self._driver is None:
            self._driver = self._open()
            self._home = forks.Home()
        elif self._home is not None:
            self._home.check(self._driver.name)
        return self._driver

    def register(self, stand_in: Any) -> None:
        """Puts something in the place of a driver that is not there: it has its methods and attributes."""
        self._stand_in = stand_in

    def stand_in(self) -> Any:
        """What was registered, or None."""
        return self._stand_in

    def probe(self) -> Exception | None:
        """Why there is no device; None where there is one."""
        with self._lock:
            try:
                self._opened()
            except (OSError, AttributeError, QuadrantsRuntimeError, MemoryError) as e:
                return e
        return None
