"""The drivers of a kind of GPU, one a device: each opened on first use, once a process; where there is no device, what
stands in for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError


class Opened:
    """``open`` makes the driver of the device with a number, and raises OSError, AttributeError (a library without a
    call that is needed), QuadrantsRuntimeError or MemoryError where it cannot."""

    def __init__(self, open: Callable[[int], Any]) -> None:
        self._open = open
        self._drivers: dict[int, Any] = {}
        self._lock = forks.lock()
        self._home: forks.Home | None = None  # where they were opened
        self._stand_ins: dict[int, Any] = {}

    def current(self, number: int | None = None) -> Any:
        """The driver of the device with this number; without one that of QD_VISIBLE_DEVICE's, else of the first.

        Raises OSError or QuadrantsRuntimeError where there is neither a device nor a stand-in, or where a parent of
        this process had opened the device before the fork.
        """
        with self._lock:
            try:
                return self._opened(number)
            except (OSError, QuadrantsRuntimeError):
                if self._drivers or _number(number) not in self._stand_ins:
                    raise
                return self._stand_ins[_number(number)]

    def _opened(self, asked: int | None) -> Any:
        number = _number(asked)
        driver = self._drivers.get(number)
        if driver is not None and self._home is not None:
            self._home.check(driver.name)
        elif driver is None:
            driver = self._open(number)
            for other in self._drivers.values():
                if other.code_name != driver.code_name:
                    raise QuadrantsRuntimeError(
                        f"{driver.name} and {other.name} take unlike code, so they are not both for one process",
                        code="QL3010",
                        help="run a process for each, with CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES",
                    )
            self._drivers[number] = driver
            self._home = self._home or forks.Home()
        return driver

    def register(self, stand_in: Any) -> None:
        """Puts something in the place of a driver that is not there: it has its methods and attributes."""
        self._stand_ins[stand_in.ordinal] = stand_in

    def stand_in(self) -> Any:
        """What was registered, the first of these, or None."""
        return next(iter(self._stand_ins.values()), None)

    def probe(self) -> Exception | None:
        """Why there is no device; None where there is one."""
        with self._lock:
            try:
                self._opened(None)
            except (OSError, AttributeError, QuadrantsRuntimeError, MemoryError) as e:
                return e
        return None


def _number(asked: int | None) -> int:
    said = os.environ.get("QD_VISIBLE_DEVICE", "")
    return asked if asked is not None else int(said) if said.isdigit() else 0
