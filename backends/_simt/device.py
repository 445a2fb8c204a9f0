"""Implements a session's GPU over a driver (`cuda.driver`, `amdgpu.hip`), and arrays in its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.device import PART, Cost, GpuDevice
from quadrants_lab.backends._gpu.remote import RemoteDevice, RemoteMemory
from quadrants_lab.backends._simt.flight import Flight

_MOST_SPARE = 256 << 20  # a device keeps so many bytes of freed memory, at most, for its next arrays
# adstacks may take this part (a quarter) of the device's memory; if they need more, fewer threads run at a time
_HEAP_SHARE = 4


class MustWait(Exception):
    """Raised when code cannot be captured as a graph, because it waits for a result or its launches differ from run to
    run."""


class SimtMemory(RemoteMemory):
    """The memory of an array on the device."""

    def __init__(self, device: SimtDevice, shape: tuple[int, ...], dtype: Any) -> None:
        self._describe(device, shape, dtype)
        driver = device.driver
        driver.enter()
        # atomics on bytes access a whole word, so the memory ends at a multiple of 8 bytes
        nbytes = -(-self.nbytes // 8) * 8
        spare = device.spare.get(nbytes)
        self._use(spare.pop() if spare else driver.allocate(nbytes))
        forks.finalize(self, _release, ref(device), driver, nbytes, self.address)
        if self.nbytes:
            driver.clear(self.address, self.nbytes)
            device.running = True

    @classmethod
    def over(cls, device: SimtDevice, address: int, shape: tuple[int, ...], dtype: Any, keep: Any) -> SimtMemory:
        """An array over memory that another library owns; ``keep``: an object that keeps the memory alive."""
        made = cls.__new__(cls)
        made._describe(device, shape, dtype)
        made.imported = True
        made._use(address)
        made.keep = keep
        return made

    def _describe(self, device: SimtDevice, shape: tuple[int, ...], dtype: Any) -> None:
        super()._describe(device, shape, dtype)
        self.keep: Any = None
        self.stream: int | None = None  # if another library owns the memory, the stream that it uses

    def save(self, at: int, size: int) -> Any:
        if self.device.captured is not None:
            raise MustWait
        return super().save(at, size)


def _release(device: Callable[[], SimtDevice | None], driver: Any, nbytes: int, address: int) -> None:
    """Keeps freed memory for the next array of the same size, which will use it in launch order, because allocation by
    the driver takes longer than most kernels. Beyond `_MOST_SPARE` bytes, memory goes back to the driver."""
    known = device()
    if known is not None and nbytes + sum(n * len(them) for n, them in list(known.spare.items())) <= _MOST_SPARE:
        known.spare.setdefault(nbytes, []).append(address)
    else:
        driver.free(address)


def _free(driver: Any, spare: dict[int, list[int]]) -> None:
    for addresses in list(spare.values()):
        while addresses:
            driver.free(addresses.pop())


class SimtDevice(RemoteDevice, GpuDevice):
    """A session's GPU behind a driver. ``memory``: the class of arrays on it. ``running``: some work may not be
    done yet. ``unchecked``: frames whose last launches may have failed; each has `fetch_status`, and
    `check_overflow` to call after the next wait. ``few_threads``: the most threads with adstacks, if these take
    more than ``large_heap`` bytes."""

    memory: type[SimtMemory] = SimtMemory

    def __init__(self, driver: Any, threads: int = 0) -> None:
        self.driver = driver
        self.name = driver.name
        most = threads or driver.threads_at_once
        RemoteDevice.__init__(self)
        GpuDevice.__init__(self, most, most, driver.total_bytes // _HEAP_SHARE)
        self.chosen_threads = threads
        self.few_threads, self.large_heap = most, 0
        self.running = False
        self.flight = Flight(driver)
        self.unchecked: list[Any] = []
        # during a `capture`: the frames whose launches have been captured so far
        self.captured: list[Any] | None = None
        forks.finalize(self, _free, self.driver, self.spare)

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> SimtMemory:
        """Allocates zeroed memory for a C-contiguous array; raises MemoryError if there is too little."""
        return self.without_spare(lambda: self.memory(self, shape, dtype))

    def allocate_storage(self, nbytes: int) -> int:
        self.driver.enter()
        return self.without_spare(lambda: int(self.driver.allocate(nbytes)))

    def drop_spare(self) -> None:
        _free(self.driver, self.spare)

    def copy(self, to: int, offset: int, source: int, start: int, nbytes: int) -> None:
        self.driver.enter()
        self.driver.copy(to + offset, source + start, nbytes)
        self.running = True

    def download(self, host: int, storage: int, offset: int, nbytes: int) -> None:
        self.finish()  # this wait, unlike the driver's copy, can be interrupted by Ctrl-C
        self.driver.enter()
        self.driver.download(host, storage + offset, nbytes)

    def upload(self, storage: int, offset: int, host: int, nbytes: int) -> None:
        if self.captured is not None:
            raise MustWait
        self.driver.enter()
        self.driver.upload(storage + offset, host, nbytes)

    def fill(self, storage: int, nbytes: int, pattern: bytes) -> None:
        self.driver.enter()
        self.driver.fill(storage, pattern, nbytes // len(pattern))
        self.running = True

    def locate(self, array: np.ndarray[Any, Any]) -> int:
        return 0

    @property
    def busy(self) -> bool:
        return self.running

    def forked(self) -> bool:
        self.running, self.unchecked, self.ahead = False, [], []
        return False

    def begin(self, cost: Cost) -> None:
        """Prepares a launch, and waits if too many are in flight. ``cost``: the cost of its frame."""
        flight = self.flight
        if not self.running:
            flight.begin()
        elif flight.load >= PART:
            flight.mark()
        self.running = True
        flight.load += cost.ns
        flight.costs.append(cost)

    def finish(self) -> None:
        """Waits until no launch runs, and raises the overflows of earlier launches that no caller waited for."""
        if self.captured is not None:
            raise MustWait
        if self.running or self.unchecked:
            self.driver.enter()
            for frame in self.unchecked:
                frame.fetch_status()
            self.driver.wait("running kernels")
            self.flight.end()
            self.running = False
            while self.unchecked:
                frame = self.unchecked[-1]
                # set first: if Ctrl-C interrupts the check, the frame's next launch puts it into the list again
                frame.unchecked = False
                self.unchecked.pop()
                frame.check_overflow()

    def capture(self, run: Callable[[], None]) -> Captured | None:
        """Captures all launches and copies that ``run`` makes as one graph, without executing them. Then one call of
        the driver starts all of them. None if the driver has no graphs or ``run`` waits for a result. The session must
        be locked."""
        make = getattr(self.driver, "graph", None)
        if make is None:
            return None
        self.finish()
        self.send()
        frames: list[Any] = []
        self.captured = frames
        try:
            return Captured(self, make(run).launch, frames)
        except MustWait:
            return None
        finally:
            self.captured = None


class Captured:
    """A captured graph. ``launch()`` starts it after all earlier launches; call it only while `holds` is true."""

    def __init__(self, device: SimtDevice, start: Callable[[], None], frames: list[Any]) -> None:
        self.device = device
        self.start = start
        self.cost = Cost()
        self.frames = {id(f): (f, f._launches) for f in frames}.values()
        self.heap = device.heap_address
        self.count = len(frames)

    def holds(self) -> bool:
        """Whether the adstack heap and the group counts are still as they were when the graph was captured."""
        same = all(f._launches is launches and not f._grid_is_old for f, launches in self.frames)
        return same and self.device.heap_address == self.heap

    def launch(self) -> None:
        device = self.device
        device.driver.enter()
        device.begin(self.cost)
        if device.ahead:
            device.send()
        self.start()
        device.launches += self.count
        for frame, _ in self.frames:
            frame.defer_check()
