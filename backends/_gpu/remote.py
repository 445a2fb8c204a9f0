"""The base class of device memory that the host cannot access: copies to, from and within it, for every API."""

from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np

from quadrants_lab.backends import forks

T = TypeVar("T")


class RemoteMemory:
    """The memory of an array, which `read` and `write` copy in the order of launches. ``storage``: what the device's
    `allocate_storage` returned, an address or an object that has one.

    Like an array it has ``shape``, ``dtype``, ``ndim``, ``size`` and ``nbytes``.
    """

    array = None
    read_only = imported = False
    address: int

    def __init__(self, device: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self._describe(device, shape, dtype)
        self._use(device.allocate_storage(self.nbytes))
        if self.nbytes:
            device.fill(self.storage, self.nbytes, b"\0")

    def _describe(self, device: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.device = device
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = np.dtype(dtype)
        self.size = prod(shape)
        self.nbytes = self.size * self.dtype.itemsize

    def _use(self, storage: Any) -> None:
        """Makes ``storage`` the place of the elements."""
        self.storage, self.address = storage, getattr(storage, "address", storage)

    # --- the host ------------------------------------------------------------------------------------------------

    def read(self) -> np.ndarray[Any, Any]:
        """A copy of the memory after all launches so far."""
        out: np.ndarray[Any, Any] = np.empty(self.shape, self.dtype)
        self.read_into(out)
        return out

    def read_into(self, out: np.ndarray[Any, Any]) -> None:
        """Copies to ``out``, a C-contiguous array of this shape and dtype, after all launches so far."""
        if self.nbytes:
            self.device.download(out.ctypes.data, self.storage, 0, self.nbytes)

    def item(self, key: Any) -> Any:
        """One element as a Python number. ``key``: a non-negative index for each axis."""
        out: np.ndarray[Any, Any] = np.empty((), self.dtype)
        at = int(np.ravel_multi_index(key if isinstance(key, tuple) else (key,), self.shape)) if self.ndim else 0
        self.device.download(out.ctypes.data, self.storage, at * self.dtype.itemsize, self.dtype.itemsize)
        return out.item()

    def put(self, at: int, values: Any) -> None:
        """Writes a number, or an array of consecutive elements, from flat index ``at`` on."""
        cast: np.ndarray[Any, Any] = np.asarray(values).astype(self.dtype, order="C")
        self.device.upload(self.storage, at * self.dtype.itemsize, cast.ctypes.data, cast.nbytes)

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Writes the values to the memory, after broadcasting them to its shape and casting them to its dtype."""
        if not self.nbytes:
            return
        if np.ndim(values) == 0:
            pattern = np.asarray(values).astype(self.dtype).tobytes()
            if len(pattern) == 8 and pattern[:4] == pattern[4:]:
                pattern = pattern[:4]
            if len(pattern) <= 4:
                self.device.fill(self.storage, self.nbytes, pattern)
                return
        whole = np.ascontiguousarray(np.broadcast_to(values, self.shape), self.dtype)
        self.device.upload(self.storage, 0, whole.ctypes.data, self.nbytes)

    # --- copies on the device ------------------------------------------------------------------------------------

    def save(self, at: int, size: int) -> Any:
        """A copy, on the device, of ``size`` elements from flat index ``at`` on, made after all launches so far. A copy
        of all elements has the shape of the whole array."""
        made = type(self).__new__(type(self))
        made._describe(self.device, self.shape if size == self.size else (size,), self.dtype)
        spare = self.device.spare.setdefault(made.nbytes, [])
        storage = spare.pop() if spare else self.device.allocate_storage(made.nbytes)
        made._use(storage)
        # a later array may reuse the storage at once: the device works in launch order, so all earlier uses are done
        # before
        forks.finalize(made, spare.append, storage)
        self.save_into(at, made)
        return made

    def save_into(self, at: int, copy: Any) -> None:
        """Copies the same elements as `save` into ``copy``, which `save` returned earlier."""
        self.device.copy(copy.storage, 0, self.storage, at * self.dtype.itemsize, copy.nbytes)

    def restore(self, at: int, copy: Any) -> None:
        """Copies a result of `save` back to the elements from flat index ``at`` on, after all launches so far."""
        self.device.copy(self.storage, at * self.dtype.itemsize, copy.storage, 0, copy.nbytes)


class RemoteDevice:
    """A device whose memory the host cannot access. It copies and fills in the order of launches:
    ``upload(storage, offset, host, nbytes)`` copies from an address of the host, which the caller may overwrite when
    this returns; ``download(host, storage, offset, nbytes)`` waits for the copy; ``copy(to, offset, source, start,
    nbytes)`` copies within the device; ``fill(storage, nbytes, pattern)`` repeats one, two or four bytes.

    ``ahead``: weak references to objects whose copy on the host was changed since the last launch; the next launch
    calls their method ``upload``. ``spare``: the unused storage of earlier copies (`RemoteMemory.save`) and arrays, by
    size in bytes."""

    remote = True  # the host cannot access its memory
    upload: Callable[..., None]
    download: Callable[..., None]
    copy: Callable[..., None]
    fill: Callable[..., None]

    def __init__(self) -> None:
        self.ahead: list[Callable[[], Any]] = []
        self.spare: dict[int, list[Any]] = {}

    def send(self) -> None:
        """Uploads what the host has changed since the last launch."""
        ahead, self.ahead = self.ahead, []
        for of in ahead:
            if (memory := of()) is not None:
                memory.upload()

    def allocate_storage(self, nbytes: int) -> Any:
        """Allocates memory, or raises MemoryError."""
        raise NotImplementedError

    def drop_spare(self) -> None:
        """Frees the unused storage."""
        raise NotImplementedError

    def without_spare(self, make: Callable[[], T]) -> T:
        """Returns ``make()``, which allocates memory; after a MemoryError, frees the unused storage and tries again."""
        try:
            return make()
        except MemoryError:
            self.drop_spare()
            return make()
