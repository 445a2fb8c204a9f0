"""A device of one session behind a driver (`cuda.driver`, `amdgpu.hip`), and memory on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.device import GpuDevice
from quadrants_lab.backends._gpu.flight import PART, Cost
from quadrants_lab.backends._simt.capture import Captured, MustWait, capture
from quadrants_lab.backends._simt.flight import Flight
from quadrants_lab.backends._simt.host_flag import ALONE, HostFlag

T = TypeVar("T")
_HEAP_SHARE = 4  # adstacks may take that part of the device's memory before fewer threads run at a time


class SimtMemory:
    """Memory of an array on the device, which the host does not see: `read` and `write` copy.

    It has these attributes of an array: ``shape``, ``dtype``, ``ndim``, ``nbytes``.
    """

    array = None

    read_only = False

    def __init__(self, device: SimtDevice, shape: tuple[int, ...], dtype: Any) -> None:
        self._describe(device, shape, dtype)
        driver = device.driver
        driver.enter()
        self.address = driver.allocate(-(-self.nbytes // 8) * 8)  # atomics on bytes touch the whole word
        forks.finalize(self, driver.free, self.address)
        if self.nbytes:
            driver.clear(self.address, self.nbytes)
            device.running = True

    @classmethod
    def over(cls, device: SimtDevice, address: int, shape: tuple[int, ...], dtype: Any, keep: Any) -> SimtMemory:
        """Memory that is another's, which ``keep`` keeps alive."""
        made = cls.__new__(cls)
        made._describe(device, shape, dtype)
        made.address = address
        made.keep = keep
        return made

    def _describe(self, device: SimtDevice, shape: tuple[int, ...], dtype: Any) -> None:
        self.device = device
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = np.dtype(dtype)
        self.size = prod(shape)
        self.nbytes = self.size * self.dtype.itemsize
        self.keep: Any = None
        self.stream: int | None = None  # of the owner, where that is another

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

    def piece(self, at: int, size: int) -> SimtMemory:
        """A copy, on the device, of ``size`` elements from number ``at`` on, as of all launches so far."""
        device, made = self.device, SimtMemory.__new__(SimtMemory)
        if device.captured is not None:
            raise MustWait
        made._describe(device, (size,), self.dtype)
        device.driver.enter()
        spare = device.spare.setdefault(made.nbytes, [])
        made.address = spare.pop() if spare else device.take(made.nbytes)
        forks.finalize(made, spare.append, made.address)  # what runs until then does so before what uses it next
        self.take(at, made)
        return made

    def take(self, at: int, piece: SimtMemory) -> None:
        """`piece` again, into memory that it gave before."""
        driver = self.device.driver
        driver.enter()
        driver.copy(piece.address, self.address + at * self.dtype.itemsize, piece.nbytes)
        self.device.running = True

    def put(self, at: int, piece: SimtMemory) -> None:
        """Writes what `piece` gave to the elements from number ``at`` on, after all launches so far."""
        driver = self.device.driver
        driver.enter()
        driver.copy(self.address + at * self.dtype.itemsize, piece.address, piece.nbytes)
        self.device.running = True

    def _place(self, key: Any) -> int:
        parts = key if isinstance(key, tuple) else (key,)
        at = 0
        for n, i in zip(self.shape, parts, strict=True):
            at = at * n + i
        return at

    def _fetch(self, host: int, offset: int, nbytes: int) -> None:
        driver = self.device.driver
        self.device.finish()  # here Ctrl-C ends the waiting
        driver.enter()
        driver.download(host, self.address + offset, nbytes)

    def _send(self, host: int, offset: int, nbytes: int) -> None:
        if self.device.captured is not None:
            raise MustWait
        driver = self.device.driver
        driver.enter()
        driver.upload(self.address + offset, host, nbytes)

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Takes whatever has this shape, or can be broadcast to it; casts."""
        if not self.nbytes:
            return
        if np.ndim(values) == 0 and self._filled(np.asarray(values).astype(self.dtype)):
            return
        whole = np.ascontiguousarray(np.broadcast_to(values, self.shape), self.dtype)
        self._send(whole.ctypes.data, 0, self.nbytes)

    def _filled(self, value: np.ndarray[Any, Any]) -> bool:
        """Whether the device could do it by itself."""
        pattern = value.tobytes()
        size = len(pattern)
        if size == 8 and pattern[:4] == pattern[4:]:
            pattern, size = pattern[:4], 4
        if size == 8:
            return False
        self.device.driver.enter()
        self.device.driver.fill(self.address, pattern, self.nbytes // size)
        self.device.running = True
        return True


def _free(driver: Any, spare: dict[int, list[int]]) -> None:
    for addresses in list(spare.values()):
        while addresses:
            driver.free(addresses.pop())


class SimtDevice(GpuDevice):
    """``memory``: the class of arrays on it. ``ahead``: what the host changed in copies of its own and the device has
    not seen; each has a method ``send``, which the next launch calls. ``running``: something may not be done yet;
    `ALONE` where that is one launch that sets the flag ``done`` at its end.
    ``unsettled``: frames whose last launches may have failed; each has methods ``ask``, and, for when that is answered,
    ``settle``, which raises then. ``few_threads``: the most with adstacks, where these take more than ``large_heap``
    bytes."""

    memory: type[SimtMemory] = SimtMemory
    remote = True  # the host does not see its memory

    def __init__(self, driver: Any, threads: int = 0) -> None:
        self.driver = driver
        self.name = driver.name
        most = threads or driver.threads_at_once
        super().__init__(most, most, driver.total_bytes // _HEAP_SHARE)
        self.chosen_threads = threads
        self.few_threads, self.large_heap = most, 0
        self.running: int = False
        self.flight = Flight(driver)
        self.ahead: list[Any] = []
        self.unsettled: list[Any] = []
        self.captured: list[Any] | None = None  # frames, while their launches are captured: `capture`
        self._over = False  # whether a fork ended it
        self.spare: dict[int, list[int]] = {}  # memory of pieces that are gone, by bytes, for others to come
        forks.finalize(self, _free, self.driver, self.spare)

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> SimtMemory:
        """Zeroed memory of a C-contiguous array; MemoryError where there is not that much."""
        return self._without_spare(lambda: self.memory(self, shape, dtype))

    def take(self, nbytes: int) -> int:
        """Memory for a piece; MemoryError where there is not that much."""
        return self._without_spare(lambda: int(self.driver.allocate(nbytes)))

    def _without_spare(self, make: Callable[[], T]) -> T:
        """Memory; where there is not that much, once more without what is spare."""
        try:
            return make()
        except MemoryError:
            _free(self.driver, self.spare)
            return make()

    def locate(self, array: np.ndarray[Any, Any]) -> int:
        return 0

    @property
    def busy(self) -> bool:
        return bool(self.running)

    @cached_property
    def done(self) -> HostFlag:
        address = self.driver.pinned(8)
        forks.finalize(self, self.driver.free_pinned, address)
        return HostFlag(address)

    def forked(self) -> bool:
        self.running, self._over = False, True
        self.unsettled, self.ahead = [], []
        return False

    def begin(self, signals: bool, cost: Cost) -> None:
        """To be called before a launch, which it lets wait where many are on their way; ``signals``: it sets the
        flag `done`. ``cost``: its frame's."""
        flight = self.flight
        if self.running:
            if flight.load >= PART:
                flight.mark()
            self.running = True
        else:
            if self._over:
                raise forks.forked(self.name)
            flight.begin()
            if signals:
                self.done.clear()
            self.running = ALONE if signals else True
        flight.load += cost.ns
        flight.costs.append(cost)

    def finish(self) -> None:
        """Waits until nothing runs here."""
        if self.captured is not None:
            raise MustWait
        if self.running == ALONE and not self.unsettled and self.done.signaled():
            self.running = False
        if self.running or self.unsettled:
            self.driver.enter()
            for frame in self.unsettled:
                frame.ask()
            self.driver.wait("running kernels")
            self.flight.end()
            self.running = False
            while self.unsettled:
                self.unsettled.pop().settle()

    def capture(self, run: Callable[[], None]) -> Captured | None:
        """See `capture`."""
        return capture(self, run)

    def send(self) -> None:
        """Hands the device what the host changed."""
        ahead, self.ahead = self.ahead, []
        for memory in ahead:
            memory.send()
