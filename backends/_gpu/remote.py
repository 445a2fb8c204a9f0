"""Memory of a device that the host does not see, as far as that does not depend on the API: what copies to it and back,
and what a device keeps for that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np

from quadrants_lab.backends import forks

T = TypeVar("T")


class RemoteMemory(ABC):
    """Memory of an array: `read` and `write` copy. It has these attributes of an array: ``shape``, ``dtype``, ``ndim``,
    ``size``, ``nbytes``. A device says how bytes are copied and filled, in the order of its launches."""

    array = None
    read_only = False
    address: int

    def _describe(self, device: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.device = device
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = np.dtype(dtype)
        self.size = prod(shape)
        self.nbytes = self.size * self.dtype.itemsize

    @abstractmethod
    def _lie(self, home: Any) -> None:
        """Takes what the device gave for `take_home` as the place of its elements."""

    @abstractmethod
    def _fetch(self, host: int, offset: int, nbytes: int) -> None:
        """Copies to an address of the host, and waits for that."""

    @abstractmethod
    def _send(self, host: int, offset: int, nbytes: int) -> None:
        """Copies from an address of the host, which is free for other things afterwards."""

    @abstractmethod
    def _fill(self, pattern: bytes) -> None:
        """Fills all of it with one, two or four bytes again and again."""

    @abstractmethod
    def _copy(self, offset: int, other: Any, start: int, nbytes: int) -> None:
        """Copies bytes of other memory of this device, from ``start`` on."""

    # --- the host ------------------------------------------------------------------------------------------------

    def read(self) -> np.ndarray[Any, Any]:
        """A copy, after all launches so far."""
        out: np.ndarray[Any, Any] = np.empty(self.shape, self.dtype)
        self.read_into(out)
        return out

    def read_into(self, out: np.ndarray[Any, Any]) -> None:
        """``out``: C-contiguous, of this shape and dtype."""
        if self.nbytes:
            self._fetch(out.ctypes.data, 0, self.nbytes)

    def item(self, key: Any) -> Any:
        """One element, as a Python number; ``key``: a non-negative index an axis."""
        out: np.ndarray[Any, Any] = np.empty((), self.dtype)
        self._fetch(out.ctypes.data, self._place(key) * self.dtype.itemsize, self.dtype.itemsize)
        return out.item()

    def _place(self, key: Any) -> int:
        parts = key if isinstance(key, tuple) else (key,)
        at = 0
        for n, i in zip(self.shape, parts, strict=True):
            at = at * n + i
        return at

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Takes whatever has this shape, or can be broadcast to it; casts."""
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

    def piece(self, at: int, size: int) -> Any:
        """A copy, on the device, of ``size`` elements from number ``at`` on, as of all launches so far."""
        made = type(self).__new__(type(self))
        made._describe(self.device, (size,), self.dtype)
        spare = self.device.spare.setdefault(made.nbytes, [])
        home = spare.pop() if spare else self.device.take_home(made.nbytes)
        made._lie(home)
        forks.finalize(made, spare.append, home)  # what runs until then does so before what uses it next
        self.take(at, made)
        return made

    def take(self, at: int, piece: Any) -> None:
        """`piece` again, into memory that it gave before."""
        piece._copy(0, self, at * self.dtype.itemsize, piece.nbytes)

    def put(self, at: int, piece: Any) -> None:
        """Writes what `piece` gave to the elements from number ``at`` on, after all launches so far."""
        self._copy(at * self.dtype.itemsize, piece, 0, piece.nbytes)


class RemoteDevice:
    """``ahead``: what the host changed in copies of its own and the device has not seen; each has a method ``send``,
    which the next launch calls. ``spare``: homes of pieces that are gone, by bytes, for others to come."""

    remote = True  # the host does not see its memory

    def __init__(self) -> None:
        self.ahead: list[Any] = []
        self.spare: dict[int, list[Any]] = {}

    def send(self) -> None:
        """Hands the device what the host changed."""
        ahead, self.ahead = self.ahead, []
        for memory in ahead:
            memory.upload()

    def take_home(self, nbytes: int) -> Any:
        """Memory for a piece; MemoryError where there is not that much."""
        raise NotImplementedError

    def drop_spare(self) -> None:
        """Gives back what is spare."""
        raise NotImplementedError

    def without_spare(self, make: Callable[[], T]) -> T:
        """Memory; where there is not that much, once more without what is spare."""
        try:
            return make()
        except MemoryError:
            self.drop_spare()
            return make()
