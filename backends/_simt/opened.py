"""The driver of a kind of GPU: opened on first use, once a process; where there is no device, what stands in for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError


class Opened:
    """``open`` makes the driver and raises OSError, AttributeError (a library without a call that is needed),
    QuadrantsRuntimeError or MemoryError where it cannot."""

    def __init__(self, open: Callable[[], Any]) -> None:
        self._open = open
        self._driver: Any = None
        self._lock = threading.Lock()
        self._stand_in: Any = None

    def current(self) -> Any:
        """Raises OSError or QuadrantsRuntimeError where there is neither a device nor a stand-in."""
        with self._lock:
            if self._driver is None:
                try:
                    self._driver = self._open()
                except (OSError, QuadrantsRuntimeError):
                    if self._stand_in is None:
                        raise
                    return self._stand_in
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
                self._driver = self._driver or self._open()
            except (OSError, AttributeError, QuadrantsRuntimeError, MemoryError) as e:
                return e
        return None
