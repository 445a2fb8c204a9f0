"""Opens the driver of each device of a kind of GPU on first use. Tests may register a stand-in for a missing
device."""

import os
from collections.abc import Callable
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError


class Opened:
    """The opened drivers of one kind of GPU. ``backend``: the backend's name; ``open(number)`` makes a device's
    driver. It may raise OSError (there is no library), AttributeError (the library lacks a function),
    QuadrantsRuntimeError or MemoryError. ``library``: the library in words; ``lacks``: what to do if code for the
    device cannot be made here, "" if it can."""

    def __init__(self, backend: str, open: Callable[[int], Any], library: str, lacks: Callable[[], str]) -> None:
        self._backend, self._library, self._lacks = backend, library, lacks
        self._open = open
        self._drivers: dict[int, Any] = {}
        self._lock = forks.lock()
        self._home: forks.Home | None = None  # the process that opened the drivers
        self._stand_ins: dict[int, Any] = {}

    def current(self, number: int | None = None) -> Any:
        """The driver of the device with index ``number``; by default of the device that QD_VISIBLE_DEVICE names, or the
        first.

        Raises OSError or QuadrantsRuntimeError if there is neither a device nor a stand-in, or if the device was opened
        before this process was forked.
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
                        f"{driver.name} and {other.name} need different machine code, so one process cannot use both",
                        code="QL3010",
                        help="run a process for each, with CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES",
                    )
            self._drivers[number] = driver
            self._home = self._home or forks.Home()
        return driver

    def register(self, stand_in: Any) -> None:
        """Registers a stand-in: an object with a driver's methods and attributes, which is used if there is no device.
        """
        self._stand_ins[stand_in.ordinal] = stand_in

    def stand_in(self) -> Any:
        """The stand-in that was registered first, or None."""
        return next(iter(self._stand_ins.values()), None)

    def probe(self) -> str:
        """Why kernels cannot run here; "" if they can."""
        with self._lock:
            try:
                self._opened(None)
            except OSError:
                return f"The {self._backend} backend needs {self._library}, which is not here."
            except (AttributeError, QuadrantsRuntimeError, MemoryError) as e:
                return f"The {self._backend} backend found no device: {e}"
        return self._lacks()


def _number(asked: int | None) -> int:
    named = os.environ.get("QD_VISIBLE_DEVICE", "")
    return asked if asked is not None else int(named) if named.isdigit() else 0
