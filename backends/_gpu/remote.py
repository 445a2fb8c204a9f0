"""Device memory that the host cannot access: the parts of copies to, from and within it that do not depend on the API.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np

from quadrants_lab.backends import forks

T = TypeVar("T")


class RemoteMemory(ABC):
    """The memory of an array, which `read` and `write` copy. Subclasses copy and fill bytes in the order of launches.

    It has the attributes ``shape``, ``dtype``, ``ndim``, ``size`` and ``nbytes`` of an array.
    """

    array = None
    read_only = imported = False
    address: int

    def _describe(self, device: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.device = device
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = np.dtype(dtype)
        self.size = prod(shape)
        self.nbytes = self.size * self.dtype.itemsize

    @abstractmethod
    def _use(self, storage: Any) -> None:
        """Makes ``storage``, a result of the device's `allocate_storage`, the place of the elements."""

    @abstractmethod
    def _fetch(self, host: int, offset: int, nbytes: int) -> None:
        """Copies to an address of the host, and waits for the copy."""

    @abstractmethod
    def _send(self, host: int, offset: int, nbytes: int) -> None:
        """Copies from an address of the host, which the caller may overwrite when this returns."""

    @abstractmethod
    def _fill(self, pattern: bytes) -> None:
        """Fills the memory by repeating one, two or four bytes."""

    @abstractmethod
    def _copy(self, offset: int, other: Any, start: int, nbytes: int) -> None:
        """Copies bytes from other memory of this device, beginning at its byte ``start``."""

    # --- the host ------------------------------------------------------------------------------------------------

    def read(self) -> np.ndarray[Any, Any]:
        """A copy of the memory after all launches so far."""
        out: np.ndarray[Any, Any] = np.empty(self.shape, self.dtype)
        self.read_into(out)
        return out

    def read_into(self, out: np.ndarray[Any, Any]) -> None:
        """Copies to ``out``, a C-contiguous array of this shape and dtype, after all launches so far."""
        if self.nbytes:
            self._fetch(out.ctypes.data, 0, self.nbytes)

    def item(self, key: Any) -> Any:
        """One element as a Python number. ``key``: a non-negative index for each axis."""
        out: np.ndarray[Any, Any] = np.empty((), self.dtype)
        at = int(np.ravel_multi_index(key if isinstance(key, tuple) else (key,), self.shape)) if self.ndim else 0
        self._fetch(out.ctypes.data, at * self.dtype.itemsize, self.dtype.itemsize)
        return out.item()

    def put(self, at: int, values: Any) -> None:
        """Writes a number, or an array of consecutive elements, from flat index ``at`` on."""
        cast: np.ndarray[Any, Any] = np.asarray(values).astype(self.dtype, order="C")
        self._send(cast.ctypes.data, at * self.dtype.itemsize, cast.nbytes)

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Broadcasts the values to this shape, casts them, and copies them."""
        if not self.nbytes:
            return
        if np.ndim(values) == 0:
            pattern = np.asarray(values).astype(self.dtype).tobytes()
            if len(pattern) == 8 and pattern[:4] == pattern[4:]:
                pattern = pattern[:4]
            if len(pattern) <= 4:
                self._fill(pattern)
                return
        whole = np.ascontiguousarray(np.broadcast_to(values, self.shape), self.dtype)
        self._send(whole.ctypes.data, 0, self.nbytes)

    # --- copies on the device ------------------------------------------------------------------------------------

    def save(self, at: int, size: int) -> Any:
        """A copy on the device, after all launches so far, of ``size`` elements from flat index ``at`` on. A copy of
        all elements has their shape."""
        made = type(self).__new__(type(self))
        made._describe(self.device, self.shape if size == self.size else (size,), self.dtype)
        spare = self.device.spare.setdefault(made.nbytes, [])
        storage = spare.pop() if spare else self.device.allocate_storage(made.nbytes)
        made._use(storage)
        forks.finalize(made, spare.append, storage)  # a later owner uses it in launch order, after all earlier uses
        self.save_into(at, made)
        return made

    def save_into(self, at: int, copy: Any) -> None:
        """Copies the same elements as `save` into ``copy``, which `save` returned earlier."""
        copy._copy(0, self, at * self.dtype.itemsize, copy.nbytes)

    def restore(self, at: int, copy: Any) -> None:
        """Copies a result of `save` back to the elements from flat index ``at`` on, after all launches so far."""
        self._copy(at * self.dtype.itemsize, copy, 0, copy.nbytes)


class RemoteDevice:
    """A device whose memory the host cannot access. ``ahead``: weak references to objects whose copy on the host was
    changed since the last launch; the next launch calls their method ``upload``. ``spare``: the unused storage of
    earlier copies (`RemoteMemory.save`) and arrays, by size in bytes."""

    remote = True  # the host cannot access its memory

    def __init__(self) -> None:
        self.ahead: list[Callable[[], Any]] = []
        self.spare: dict[int, list[Any]] = {}

    def send(self) -> None:
        """Copies to the device what the host has changed."""
        ahead, self.ahead = self.ahead, []
        for of in ahead:
            if (memory := of()) is not None:
                memory.upload()

    def allocate_storage(self, nbytes: int) -> Any:
        """Allocates memory, or raises MemoryError."""
        raise NotImplementedError

    def drop_spare(self) -> None:
        """Frees the spare memory."""
        raise NotImplementedError

    def without_spare(self, make: Callable[[], T]) -> T:
        """Allocates memory by ``make``; after a MemoryError, frees the spare memory and tries again."""
        try:
            return make()
        except MemoryError:
            self.drop_spare()
            return make()
