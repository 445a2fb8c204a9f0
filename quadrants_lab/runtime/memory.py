"""Dense memory of fields and ndarrays: numpy arrays, which lie where the session's device sees them too, that count
their writes."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy.typing as npt

from quadrants_lab.backends.cpu.memory import zeros
from quadrants_lab.ir.types import DType, from_numpy
from quadrants_lab.runtime.session import Session


class Memory:
    """The array of one field or ndarray. ``version`` grows with every write through Python or a kernel, so whoever
    derived something from the data can tell whether it still holds. ``address`` never changes. ``serial`` is this
    memory's alone: unlike an id or an address, nothing made after it is freed gets it again. ``on_device``: what keeps
    memory of a device other than the CPU. ``foreign``: whether others may write to it without telling, so that
    ``version`` says nothing; for memory of a torch tensor, what is known of the tensor."""

    __slots__ = ("address", "array", "dtype", "foreign", "logs", "on_device", "serial", "session", "version")
    _serials = count()
    array: npt.NDArray[Any]
    address: int
    on_device: Any
    foreign: Any

    def __init__(self, session: Session, dtype: DType, shape: tuple[int, ...]) -> None:
        self._begin(session, dtype)
        if session.settings.backend == "cpu":  # without its device, which loads the code generator
            self.array = zeros(shape, dtype.numpy)
            self.address = self.array.ctypes.data
        else:
            self.on_device = session.device.allocate(shape, dtype.numpy)
            self.array = self.on_device.array
            self.address = self.on_device.address

    @classmethod
    def over(cls, session: Session, array: npt.NDArray[Any], foreign: Any) -> Memory:
        """Memory that is another's: a C-contiguous array of the host, which GPUs only borrow for a launch."""
        made = cls.__new__(cls)
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        assert array.flags.c_contiguous
        made._begin(session, dtype)
        made.array = array
        made.address = array.ctypes.data
        made.foreign = foreign
        return made

    def _begin(self, session: Session, dtype: DType) -> None:
        self.session = session
        self.dtype = dtype
        self.on_device = None
        self.foreign = None
        self.version = 0
        self.logs: tuple[list[Any], ...] = ()  # of who wants to know where Python writes
        self.serial = next(Memory._serials)

    def wrote(self, where: Any) -> None:
        """To be called by Python's writes: ``where`` is the index into the array, ... for all of it."""
        self.version += 1
        for log in self.logs:
            log.append(where)
