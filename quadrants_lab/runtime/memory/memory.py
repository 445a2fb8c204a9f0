"""Dense memory of fields and ndarrays, which counts its writes: numpy arrays that lie where the session's device sees
them too, or, where device and host do not see each other's memory, memory of the device and a copy on the host."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.host import zeros
from quadrants_lab.ir.types import DType, from_numpy
from quadrants_lab.runtime.session import Session

SHARED: Any = object()  # in the place of an index: from now on others may write without telling


class Memory:
    """The array of one field or ndarray. ``version`` grows with every write through Python or a kernel, so whoever
    derived something from the data can tell whether it still holds. ``address`` never changes. ``serial`` is this
    memory's alone: unlike an id or an address, nothing made after it is freed gets it again. ``on_device``: what keeps
    memory of a device other than the CPU. ``operand`` is what a launch takes: the array, or memory of the device.
    ``foreign``: whether others may write to it without telling, so that ``version`` says nothing; for memory of a torch
    tensor, what is known of the tensor.

    ``array`` is for reading and writing, and must be asked for anew after each launch; `values` is for reading only,
    which may be cheaper.
    """

    __slots__ = (
        "_ahead", "_copy", "_taken", "address", "array", "dtype", "foreign", "marks", "on_device", "operand",
        "python_wrote", "serial", "session", "version", "watchers",
    )  # fmt: skip
    _serials = count()
    array: npt.NDArray[Any]
    operand: Any
    address: int
    on_device: Any
    foreign: Any

    def __init__(self, session: Session, dtype: DType) -> None:
        """Nothing yet: see `allocate`, `over` and `Imported.at`."""
        self.session = session
        self.dtype = dtype
        self.on_device = None
        self.foreign = None
        self.marks: dict[str, tuple[int, Memory]] = {}  # of launches that watch for races, with their generation
        self.version = self.python_wrote = 0  # python_wrote: the version that Python's last write made
        self.watchers: tuple[Callable[[Any], None], ...] = ()  # told where Python is about to write
        self.serial = next(Memory._serials)
        self._copy: npt.NDArray[Any] | None = None
        self._taken = -1
        self._ahead = False

    @staticmethod
    def over(session: Session, array: npt.NDArray[Any], foreign: Any) -> Memory:
        """Memory that is another's: a C-contiguous array of the host, which GPUs only borrow for a launch."""
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        assert array.flags.c_contiguous
        made = Memory(session, dtype)
        made.array = made.operand = array
        made.address = array.ctypes.data
        made.foreign = foreign
        return made

    def writing(self, where: Any) -> None:
        """To be called before Python writes: ``where`` is the index into the array, ... for all of it, or `SHARED`."""
        for watcher in self.watchers:
            watcher(where)

    def wrote(self) -> None:
        """To be called after Python's writes."""
        self.version = self.python_wrote = self.version + 1

    def write(self, where: Any, values: Any) -> None:
        """A write of Python's: ``where`` as for `writing`; ``values`` are cast."""
        for watcher in self.watchers:
            watcher(where)
        if where is ...:
            self.assign(values)
        else:
            self.array[where] = values
        self.version = self.python_wrote = self.version + 1

    def values(self) -> npt.NDArray[Any]:
        """What is in it; not to be written to."""
        return self.array

    def copy(self) -> npt.NDArray[Any]:
        out: npt.NDArray[Any] = self.array.copy()
        return out

    def assign(self, values: Any) -> None:
        """Writes all of it; ``values`` are cast. `writing` and `wrote` are to be called as well."""
        self.array[...] = values

    def reader(self) -> Callable[[Any], Any]:
        """What gives one element, a Python number, by its index."""
        return self.array.item

    def settle(self) -> None:
        """To be called after writes to ``array`` that others may look for before the next launch."""


class HostVisible(Memory):
    """Memory that host and device both see, where launches return before they are done: who looks at it waits."""

    __slots__ = ()

    @property
    def array(self) -> npt.NDArray[Any]:  # type: ignore[override]  # a plain attribute is faster where one will do
        if self.on_device.busy:
            self.session.finish()
        array: npt.NDArray[Any] = self.operand
        return array

    def reader(self) -> Callable[[Any], Any]:
        memory, finish, item = self.on_device, self.session.finish, self.operand.item

        def one(index: Any) -> Any:
            if memory.busy:
                finish()
            return item(index)

        return one


class HostMirrored(Memory):
    """Memory of a device that the host does not see, and the host's copy of it, made when it is first needed.

    The copy is right if it was taken at this ``version`` (`_taken`), or if the host is `_ahead`: it may have been
    written to and goes to the device before the next launch, which asks for it by `send`.
    """

    __slots__ = ()

    @property
    def array(self) -> npt.NDArray[Any]:  # type: ignore[override]  # a plain attribute is faster where one will do
        copy = self.values()
        if not self._ahead:
            self._ahead = True
            self.on_device.device.ahead.append(self)
        return copy

    def values(self) -> npt.NDArray[Any]:
        if self._copy is None:
            self._copy = np.empty(self.on_device.shape, self.on_device.dtype)
        if not self._ahead and self._taken != self.version:
            self.on_device.read_into(self._copy)
            self._taken = self.version
        return self._copy

    def copy(self) -> npt.NDArray[Any]:
        right = self._ahead or self._taken == self.version
        out: npt.NDArray[Any] = self.values().copy() if right else self.on_device.read()
        return out

    def assign(self, values: Any) -> None:
        self.on_device.write(values)
        self._ahead = False
        self._taken = -1

    def reader(self) -> Callable[[Any], Any]:
        if self.on_device.nbytes <= _SMALL:
            return lambda index: self.values().item(index)

        def item(index: Any) -> Any:
            """From the copy where it is right, else that one element."""
            right = self._ahead or self._taken == self.version
            return self.values().item(index) if right else self.on_device.item(index)

        return item

    def send(self) -> None:
        """Hands the device what the host may have written."""
        if self._ahead:
            assert self._copy is not None
            self.on_device.write(self._copy)
            self._ahead = False
            self._taken = self.python_wrote  # which a launch that writes it has passed, now or soon


class Imported(HostMirrored):
    """Memory of another library on the session's device. The host's copy of it is never known to be right; `settle`
    hands on what was written to it."""

    __slots__ = ()

    @classmethod
    def at(cls, session: Session, on_device: Any, foreign: Any) -> Imported:
        """Over memory of the device, which says that it is lent (`on_device.stream`)."""
        dtype = from_numpy(on_device.dtype)
        assert dtype is not None
        made = cls(session, dtype)
        made.on_device = made.operand = on_device
        made.address = on_device.address
        made.foreign = foreign
        return made

    def values(self) -> npt.NDArray[Any]:
        self._taken = -1
        return super().values()

    def copy(self) -> npt.NDArray[Any]:
        out: npt.NDArray[Any] = self.values().copy()
        return out

    def reader(self) -> Callable[[Any], Any]:
        return lambda index: self.values().item(index)

    def settle(self) -> None:
        self.send()


_SMALL = 4096  # bytes that are as fast to copy as one element


def allocate(session: Session, dtype: DType, shape: tuple[int, ...]) -> Memory:
    """Memory of zeros on the session's device."""
    if session.backend.CAPABILITIES.on_host:  # without the device, which loads the code generator
        return Memory.over(session, zeros(shape, dtype.numpy), None)
    with session.lock:  # which may wait for launches, or start some
        there = session.device.allocate(shape, dtype.numpy)
    if there.array is None:
        made: Memory = HostMirrored(session, dtype)
        made.operand = there
    elif getattr(there, "late", False):
        made = HostVisible(session, dtype)
        made.operand = there.array
    else:
        made = Memory(session, dtype)
        made.array = made.operand = there.array
    made.on_device, made.address = there, there.address
    return made
