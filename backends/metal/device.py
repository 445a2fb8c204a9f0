"""Implements a session's Metal device: memory, the command queue, and waiting for launches."""

from __future__ import annotations

import time
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from quadrants_lab.backends._gpu.device import GpuDevice
from quadrants_lab.backends.host import VisibleMemory
from quadrants_lab.backends.metal import apple, simulator
from quadrants_lab.backends.metal.apple import COMPLETED, ERROR, STORAGE_SHARED, System
from quadrants_lab.errors import QuadrantsRuntimeError

_STACK_THREADS = 1 << 15  # the most threads with adstacks: enough to keep a GPU busy while threads wait for memory
_LONGEST_PAUSE = 1e-3  # the longest pause between two polls of a launch, in seconds


class MetalMemory(VisibleMemory):
    """The memory of an array in a buffer that host and GPU share."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: Any) -> None:
        dtype, count = np.dtype(dtype), prod(shape)
        self.nbytes = max(count * dtype.itemsize, 16)
        self.buffer = device.make_buffer(self.nbytes)
        array = np.frombuffer(contents(self.buffer, self.nbytes), dtype, count).reshape(shape)
        super().__init__(array, int(self.buffer.gpuAddress()))
        self.host = int(array.__array_interface__["data"][0])
        self._device = device

    def finish(self) -> None:
        self._device.finish()


def contents(buffer: Any, nbytes: int) -> memoryview:
    """The bytes of a buffer."""
    return memoryview(buffer.contents().as_buffer(nbytes)).cast("B")


class Device(GpuDevice):
    """A session's Metal device. ``simulated``: whether the device is a simulation; ``name`` says so too."""

    def __init__(self, system: System, threads: int = 0) -> None:
        self.system = system
        self.simulated = system.simulated
        self.metal = system.device
        self.name = str(self.metal.name())
        threads = threads or system.threads
        budget = int(self.metal.recommendedMaxWorkingSetSize()) // 4
        super().__init__(threads=threads, stack_threads=min(threads, _STACK_THREADS), heap_budget=budget)
        self.queue = self.metal.newCommandQueue()
        # address -> the memory that begins there
        self._memory: WeakValueDictionary[int, MetalMemory] = WeakValueDictionary()
        self._running: Any = None  # the command buffer of the launch in flight

    def forked(self) -> bool:
        return self.simulated

    # --- memory -----------------------------------------------------------------------------------------------------

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> MetalMemory:
        """Allocates zeroed memory for a C-contiguous array; raises MemoryError if there is too little."""
        memory = MetalMemory(self, shape, dtype)
        self._memory[memory.address] = memory
        return memory

    def make_buffer(self, nbytes: int) -> Any:
        """A zeroed MTLBuffer that the host can access."""
        most = int(self.metal.maxBufferLength())
        if nbytes > most:
            raise MemoryError(f"{nbytes} bytes are more than {self.name} has in one buffer ({most})")
        buffer = self.metal.newBufferWithLength_options_(nbytes, STORAGE_SHARED)
        if buffer is None:
            raise MemoryError(f"{self.name} has no {nbytes} bytes of memory left")
        if not self.simulated:  # Metal does not promise zeros
            np.frombuffer(contents(buffer, nbytes), np.uint8).fill(0)
        return buffer

    def locate(self, array: np.ndarray[Any, Any]) -> int:
        """The GPU address of an array that lies in memory of this device; 0 for any other array."""
        start = int(array.__array_interface__["data"][0])
        for memory in self._memory.values():
            if memory.host <= start and start + array.nbytes <= memory.host + memory.nbytes:
                return memory.address + start - memory.host
        return 0

    def buffer_at(self, address: int) -> Any:
        """The MTLBuffer that contains the GPU address, or None."""
        memory = self._memory.get(address)
        if memory is None:
            inside = (m for m in self._memory.values() if m.address <= address < m.address + m.nbytes)
            memory = next(inside, None)
        return None if memory is None else memory.buffer

    # --- waiting ----------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._running is not None

    def finish(self) -> None:
        """Waits for the launch in flight, if there is one."""
        running, self._running = self._running, None
        if running is not None:
            running.waitUntilCompleted()

    def wait(self, commands: Any, what: str) -> None:
        """Waits for committed commands. Ctrl-C ends the wait but not the commands."""
        self._running = commands
        pause = 0.0
        while commands.status() < COMPLETED:
            time.sleep(pause)
            pause = min(pause * 2 + 1e-6, _LONGEST_PAUSE)
        self._running = None
        if commands.status() == ERROR:
            error = commands.error()
            words = error.localizedDescription() if error is not None else "it gives no reason"
            self.queue = self.metal.newCommandQueue()  # after an error the old one may be unusable
            raise QuadrantsRuntimeError(
                f"{self.name} did not finish kernel '{what}': {words}",
                code="QL3003",
                help="what the kernel was to write is undefined now; a launch that runs for seconds, or reads out of "
                "bounds, may be the cause (qd.init(debug=True) checks indices)",
            )


def open_device(threads: int = 0) -> Device:
    """Opens the system's GPU, or a simulation if there is none."""
    absent = apple.probe()
    if not absent:
        return Device(apple.Apple(), threads)
    no_simulation = simulator.probe()
    if no_simulation:
        raise QuadrantsRuntimeError(f"{absent} {no_simulation}", code="QL3000")
    return Device(simulator.Simulator(), threads)
