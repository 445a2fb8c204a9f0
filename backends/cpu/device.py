"""Makes the CPU the device of a session, with an adstack heap, a cancel flag and a print buffer.

All devices of a process share its worker threads. These start with the first device, end when the interpreter exits,
and start again in the child of a fork.
"""

import atexit
import ctypes
import os
import time
from _signal import SIG_SETMASK  # type: ignore[import-not-found]  # importing `signal` takes half a millisecond more
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends.cpu import jit, layout as L
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.backends.host import Block, HostMemory
from quadrants_lab.backends.launch import Device

MOST_THREADS = 1024

_launch_type = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_reset_type = ctypes.PYFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)
_start_type = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_stop_type = ctypes.CFUNCTYPE(None)  # joins threads, which may need the GIL, so it must not hold the GIL
_add_type = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Runtime:
    """The functions of the C runtime, and the threads that they start."""

    def __init__(self, cache: DiskCache | None) -> None:
        # the code stays loaded as long as the process lives, since devices and threads run it even while the process
        # ends
        self.code = jit.runtime(cache)
        address = self.code.address
        self.launch = _launch_type(address["qd_launch"])
        self._reset = _reset_type(address["qd_reset"])
        self.start = _start_type(address["qd_start"])
        self.stop = _stop_type(address["qd_stop"])
        self.add_device = _add_type(address["qd_add_device"])
        self.drop_copies = _add_type(address["qd_drop_copies"])
        self.call = address["qd_call"]
        # the device blocks of all devices; they are never freed, because the monitor thread reads them
        self.blocks: list[Block] = []
        self.free: list[Block] = []  # the blocks of closed devices, to be used again
        self.workers = 0
        self.reset()
        forks.in_child(self._forked)
        atexit.register(self.stop)

    # a runtime that was made after atexit had begun has no exit handler, so its threads are stopped here
    def __del__(self) -> None:
        if hasattr(self, "workers"):
            self.stop()

    def reset(self) -> None:
        self._reset(time.CLOCK_MONOTONIC, SIG_SETMASK, object.__basicsize__)

    def _forked(self) -> None:
        self.reset()
        wanted, self.workers = self.workers, 0
        if wanted:
            self.want(wanted)

    def want(self, workers: int) -> None:
        """Starts worker threads until there are ``workers`` of them, or as many as the system allows."""
        self.workers = max(self.workers, workers)
        self.start(min(self.workers, MOST_THREADS))


_runtime: _Runtime | None = None
_lock = forks.lock()


def runtime(cache: DiskCache | None = None) -> _Runtime:
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = _Runtime(cache)
        return _runtime


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


class CpuDevice(Device):
    """Opens the CPU. ``threads``: how many threads a launch uses, including the launching thread; 0 for as many as
    there are processors. ``cache``: see `jit.runtime`."""

    # in lanes, whole vectors of slots are read, so a read may extend so many bytes beyond the last slot
    read_beyond = 64 * 8

    def __init__(self, threads: int = 0, cache: DiskCache | None = None) -> None:
        super().__init__()
        self.threads = min(threads or processors(), MOST_THREADS)
        self.runtime = runtime(cache)
        with _lock:
            block = self.runtime.free.pop() if self.runtime.free else None
        if block is None:
            block = Block(L.DEVICE_BYTES)
            self.runtime.blocks.append(block)
            self.runtime.add_device(block.address)
        self._block = block
        self.address = block.address
        block.set_word(L.HEAP, 0)
        block.set_word(L.THREADS, self.threads)
        block.set_word(L.PRINT_BYTES, 0)
        self.set_seed(0)
        self.runtime.want(self.threads - 1)

    def __del__(self) -> None:
        if hasattr(self, "_block"):
            self.runtime.drop_copies(self._block.address)
            self.runtime.free.append(self._block)

    def finish(self) -> None:
        """Nothing to wait for: a launch returns only when it is done."""

    def forked(self) -> bool:
        return True

    def set_seed(self, seed: int) -> None:
        self._block.set_word(L.SEED, seed)
        self._block.set_word(L.LAUNCHES, 0)

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> HostMemory:
        return HostMemory(shape, dtype)

    def cancel(self) -> None:
        """Stops the launch in flight, if there is one."""
        self._block.or_word32(L.CANCEL, 1)

    def _make_heap(self, nbytes: int) -> None:
        try:
            super()._make_heap(nbytes)
        finally:
            self._block.set_word(L.HEAP, self.heap_address)

    def take_prints(self) -> tuple[bytes, int]:
        """The records of prints since the last call, and how many prints were lost because the buffer was full."""
        b = self._block
        size, lost = b.word(L.PRINT_BYTES), b.word(L.PRINT_LOST)
        data = ctypes.string_at(b.word(L.PRINT_DATA), size) if size else b""
        b.set_word(L.PRINT_BYTES, 0)
        b.set_word(L.PRINT_LOST, 0)
        return data, lost
