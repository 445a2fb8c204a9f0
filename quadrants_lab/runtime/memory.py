"""Dense memory of fields and ndarrays: numpy arrays, which lie where the session's device sees them too, that count
their writes."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy.typing as npt

from quadrants_lab.backends.cpu.memory import zeros
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.session import Session


class Memory:
    """The array of one field or ndarray. ``version`` grows with every write through Python or a kernel, so whoever
    derived something from the data can tell whether it still holds. ``address`` never changes. ``serial`` is this
    memory's alone: unlike an id or an address, nothing made after it is freed gets it again. ``on_device``: what keeps
    memory of a device other than the CPU."""

    __slots__ = ("address", "array", "dtype", "logs", "on_device", "serial", "session", "version")
    _serials = count()

    def __init__(self, session: Session, dtype: DType, shape: tuple[int, ...]) -> None:
        self.session = session
        self.dtype = dtype
        self.on_device: Any = None
        self.array: npt.NDArray[Any]
        self.address: int
        if session.settings.backend == "cpu":  # without its device, which loads the code generator
            self.array = zeros(shape, dtype.numpy)
            self.address = self.array.ctypes.data
        else:
            self.on_device = session.device.allocate(shape, dtype.numpy)
            self.array = self.on_device.array
            self.address = self.on_device.address
        self.version = 0
        self.logs: tuple[list[Any], ...] = ()  # of who wants to know where Python writes
        self.serial = next(Memory._serials)

    def wrote(self, where: Any) -> None:
        """To be called by Python's writes: ``where`` is the index into the array, ... for all of it."""
        self.version += 1
        for log in self.logs:
            log.append(where)
