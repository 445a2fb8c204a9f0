"""Makes WebAssembly the device of a session: a store of wasmtime with one memory, which holds all data.

An address has 32 bits. Code runs on the calling thread. A ticking thread advances the engine's epoch; at each tick
wasmtime suspends the running call, so that Python can handle a Ctrl-C before the call is resumed.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np
import wasmtime
from wasmtime import _ffi as ffi

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.device import GpuDevice
from quadrants_lab.backends.host import ALIGNMENT, VisibleMemory, over
from quadrants_lab.backends.wasm.emitter import FIRST
from quadrants_lab.backends.wasm.module import PAGE
from quadrants_lab.errors import QuadrantsRuntimeError

_TICK, _IDLE = 0.02, 50  # seconds between two ticks; after so many ticks without a launch, the thread ends
_MOST = 1 << 16  # the most pages that a memory of WebAssembly can have
_devices: weakref.WeakSet[Device] = weakref.WeakSet()
_awake = threading.Event()
Stopped = wasmtime.Trap | wasmtime.WasmtimeError | None


@cache
def engine() -> wasmtime.Engine:
    """wasmtime's compiler, one for the process."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.parallel_compilation = False  # without threads, a fork loses none
    forks.in_child(_awake.clear)
    made = wasmtime.Engine(config)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # never freed: the ticking thread may outlive this module
    return made


def _tick() -> None:
    idle = 0
    while idle < _IDLE:
        time.sleep(_TICK)
        engine().increment_epoch()
        idle = 0 if any(d.launching for d in [*_devices]) else idle + 1
        if idle == _IDLE:
            _awake.clear()
            if any(d.launching for d in [*_devices]):  # a launch may have begun before the event was cleared
                _awake.set()
                idle = 0


def _wake() -> None:
    """Starts the ticking thread, unless it runs already. If the system cannot start a thread, Ctrl-C has to wait for
    the end of the launch."""
    if _awake.is_set():
        return
    ticking = threading.Thread(target=_tick, name="quadrants_lab epochs", daemon=True)
    try:
        _awake.set()
        with suppress(RuntimeError):
            ticking.start()
    finally:
        if not ticking.is_alive():  # a Ctrl-C may have come before the thread started
            _awake.clear()


class Device(GpuDevice):
    """A session's memory in wasmtime. ``origin``: the host address of the memory; ``used``: memory from this
    address on is zero. ``launching``: whether code is running."""

    def __init__(self) -> None:
        super().__init__(threads=1, stack_threads=1, heap_budget=1 << 31)
        self.launching = False
        self._lock = forks.lock()  # protects the store and the list of free memory
        self.store = wasmtime.Store(engine())
        self.store.set_limits(instances=1 << 30)
        self.context = self.store._context()
        ffi.wasmtime_context_epoch_deadline_async_yield_and_update(self.context, 1)
        self.memory_, self.nbytes = self._reserve()
        self.origin = ctypes.addressof(self.memory_.data_ptr(self.store).contents)
        self._linker = wasmtime.Linker(engine())
        self._linker.define(self.store, "env", "memory", self.memory_)
        self._free = [(FIRST, self.nbytes - FIRST)]  # (address, size) of each free piece, in order
        # pieces that arrays have given back; this may happen at any moment and in any thread
        self._freed: deque[tuple[int, int]] = deque()
        self.used = FIRST
        _devices.add(self)
        for owned in (self.store, self._linker):
            weakref.finalize(self, owned.close)

    def _reserve(self) -> tuple[wasmtime.Memory, int]:
        """Reserves the largest memory that the process can get. Its pages take physical memory only once they are used.
        """
        for pages in (_MOST, _MOST // 4, _MOST // 16, _MOST // 64):
            try:
                limits = wasmtime.Limits(pages, pages)
                return wasmtime.Memory(self.store, wasmtime.MemoryType(limits)), pages * PAGE
            except wasmtime.WasmtimeError as e:
                why = e
        raise QuadrantsRuntimeError(f"there is no memory for WebAssembly: {why}", code="QL3041")

    # --- memory -----------------------------------------------------------------------------------------------------

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> VisibleMemory:
        """Allocates zeroed memory for a C-contiguous array; raises MemoryError if there is too little."""
        dtype = np.dtype(dtype)
        nbytes = prod(shape) * dtype.itemsize
        size = max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT
        with self._lock:
            address = self._take(size)
        array = over(self, self.origin + address, shape, dtype)
        forks.finalize(array.base, self._freed.append, (address, size))
        if address < self.used:
            ctypes.memset(self.origin + address, 0, min(size, self.used - address))
        self.used = max(self.used, address + size)
        return VisibleMemory(array, address)

    def _take(self, size: int) -> int:
        while self._freed:
            self._give_back(*self._freed.popleft())
        for n, (begin, room) in enumerate(self._free):
            if size <= room:
                self._free[n : n + 1] = [(begin + size, room - size)] if size < room else []
                return begin
        left = sum(room for _, room in self._free)
        raise MemoryError(
            f"WebAssembly has 32-bit addresses, so all memory of a session is at most {self.nbytes:,} bytes, of which "
            f"{left:,} are free; another arch has more"
        )

    def _give_back(self, address: int, size: int) -> None:
        pieces = sorted([*self._free, (address, size)])
        joined = pieces[:1]
        for begin, room in pieces[1:]:
            last, had = joined[-1]
            if last + had == begin:
                joined[-1] = last, had + room
            else:
                joined.append((begin, room))
        self._free = joined

    def locate(self, array: np.ndarray[Any, Any]) -> int:
        start = int(array.__array_interface__["data"][0]) - self.origin
        return start if 0 < start < self.nbytes else 0

    # --- launches ---------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return False

    def finish(self) -> None:
        """Nothing to wait for: a launch returns only when it is done."""

    def forked(self) -> bool:
        return True

    def instance(self, module: wasmtime.Module) -> wasmtime.Func:
        """Instantiates a module over this device's memory; returns the function that it exports."""
        made = ffi.wasmtime_instance_t()
        why = self._ran(partial(
            ffi.wasmtime_linker_instantiate_async, self._linker.ptr(), self.context, module.ptr(), ctypes.byref(made)
        ))  # fmt: skip
        if why is not None:
            raise why
        found = wasmtime.Instance._from_raw(made).exports(self.store)["run"]
        assert isinstance(found, wasmtime.Func)
        return found

    def call(self, function: wasmtime.Func, argument: int) -> Stopped:
        """Runs the function. If a signal handler raises something, the function ends and this raises it too."""
        given = ffi.wasmtime_val_t()
        given.of.i32 = argument if argument < 1 << 31 else argument - (1 << 32)
        try:
            self.launching = True
            _wake()
            arguments = ctypes.byref(function._func), ctypes.byref(given), 1, None, 0
            return self._ran(partial(ffi.wasmtime_func_call_async, self.context, *arguments))
        finally:
            self.launching = False

    def _ran(self, start: Callable[..., Any]) -> Stopped:
        """Calls wasmtime until it is done; returns what stopped it, if anything did."""
        trap, error = ctypes.POINTER(ffi.wasm_trap_t)(), ctypes.POINTER(ffi.wasmtime_error_t)()
        with self._lock:
            future = start(ctypes.byref(trap), ctypes.byref(error))
            try:
                while not ffi.wasmtime_call_future_poll(future):
                    pass
            finally:
                ffi.wasmtime_call_future_delete(future)
        if trap:
            return wasmtime.Trap._from_ptr(trap)
        return wasmtime.WasmtimeError._from_ptr(error) if error else None
