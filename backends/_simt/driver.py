"""Calls the C interface of a GPU's driver through ctypes: one device, its memory, and launches on it.

NVIDIA's driver and AMD's HIP have the same functions under different names. `CALLS` has the functions' argument types;
a subclass for each driver has the names, and the functions that the other driver lacks.
"""

from __future__ import annotations

import ctypes as C
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

OUT_OF_MEMORY = 2
NOT_READY = 600
_REGISTERS = 4  # the driver's code for an attribute of a function: how many registers a thread uses
_NO_TIMING = 2  # the driver's flag for an event without time stamps, which is cheaper
_LONGEST_PAUSE = 5e-4  # the longest pause between two polls, in seconds
_SPINS = 500  # so many polls are made without a pause; they take about 200 us

_p, _u, _z, _i = C.c_void_p, C.c_uint, C.c_size_t, C.c_int
CALLS: dict[str, tuple[Any, ...]] = {  # function name without prefix -> argument types
    "Init": (_u,),
    "DriverGetVersion": (_p,),
    "DeviceGetCount": (_p,),
    "DeviceGetName": (_p, _i, _i),
    "DeviceTotalMem": (_p, _i),
    "DeviceGetAttribute": (_p, _i, _i),
    "MemGetInfo": (_p, _p),
    "MemAlloc": (_p, _z),
    "MemFree": (_p,),
    "MemHostAlloc": (_p, _z, _u),
    "MemFreeHost": (_p,),
    "MemcpyHtoDAsync": (_p, _p, _z, _p),
    "MemcpyDtoHAsync": (_p, _p, _z, _p),
    "MemcpyDtoDAsync": (_p, _p, _z, _p),
    "MemsetD8Async": (_p, C.c_ubyte, _z, _p),
    "MemsetD16Async": (_p, C.c_ushort, _z, _p),
    "MemsetD32Async": (_p, _u, _z, _p),
    "StreamCreate": (_p, _u),
    "StreamQuery": (_p,),
    "StreamSynchronize": (_p,),
    "EventCreate": (_p, _u),
    "EventRecord": (_p, _p),
    "EventQuery": (_p,),
    "EventDestroy": (_p,),
    "ModuleUnload": (_p,),
    "ModuleGetFunction": (_p, _p, C.c_char_p),
    "FuncGetAttribute": (_p, _i, _p),
    "OccupancyMaxActiveBlocksPerMultiprocessor": (_p, _p, _i, _z),
}


class DriverError(QuadrantsRuntimeError):
    """A call of the driver failed; ``number``: the driver's error code."""

    def __init__(self, *args: Any, number: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.number = number


def first_library(names: Iterable[str]) -> Any:
    """Loads the first of these libraries that can be loaded. Raises OSError if none can."""
    why = "no candidates"
    for name in names:
        try:
            return C.CDLL(name)
        except OSError as e:
            why = str(e)  # keeping the error itself would keep all callers' variables alive
    raise OSError(why)


class _Here(threading.local):
    """The driver whose device is current in this thread."""

    driver: Driver | None = None


class Driver(ABC):
    """The device with index ``ordinal``; a process has one driver object for it. ``version``: the version of the API.

    Raises QuadrantsRuntimeError if there is no such device, AttributeError if the library lacks a function.
    """

    api: ClassVar[str]  # the name of the API in messages
    prefix: ClassVar[str]
    names: ClassVar[dict[str, str]]  # key of `CALLS` -> the driver's name for it, where that is not prefix + key
    more: ClassVar[dict[str, tuple[Any, ...]]]  # full name of a function that only this driver has -> argument types
    lost: ClassVar[tuple[int, ...]]  # codes of errors after which the process cannot use the device any more
    # the driver's codes for two attributes of a device: how many multiprocessors it has, and how many threads each of
    # them holds
    attributes: ClassVar[tuple[int, int]]
    shape: ClassVar[Shape]
    here: ClassVar[_Here]

    def __init_subclass__(cls) -> None:
        cls.here = _Here()

    def __init__(self, library: Any, ordinal: int) -> None:
        self.library = library
        for name, types in CALLS.items():
            self._take(name, self.names.get(name, self.prefix + name), types)
        for name, types in self.more.items():
            self._take(name, name, types)
        # ctypes is not told the argument types: all arguments are ctypes objects already, and checking them takes time
        self.launch_call = getattr(C.CDLL(library._name), self.names.get("LaunchKernel", f"{self.prefix}LaunchKernel"))
        # called through PyDLL, which does not release the GIL: releasing it and taking it again would take longer than
        # the call
        self._poll = getattr(C.PyDLL(library._name), f"{self.prefix}StreamQuery")
        self.check(self.Init(0), f"starting {self.api}")
        self.version = self.given(_i, self.DriverGetVersion, "asking the driver")
        count = self.given(_i, self.DeviceGetCount, "asking the driver")
        self.ordinal = ordinal
        if self.ordinal >= count:
            words = f"{self.api} has {count} devices; there is none with number {self.ordinal}"
            raise QuadrantsRuntimeError(words, code="QL3010")
        self.device = self.open()
        self.enter()
        label = C.create_string_buffer(256)
        self.check(self.DeviceGetName(label, 256, self.device), "asking for the device's name")
        self.name = label.value.decode(errors="replace")
        self.total_bytes = self.given(_z, self.DeviceTotalMem, "asking for the device's memory", self.device)
        self.multiprocessors, threads = (self.attribute(which) for which in self.attributes)
        self.threads_at_once = self.multiprocessors * threads
        # a blocking stream: this stream and the default stream of other libraries wait for each other
        self.stream = _p(self.given(_p, self.StreamCreate, "making a stream", 0))

    def _take(self, name: str, symbol: str, types: tuple[Any, ...]) -> None:
        call = getattr(self.library, symbol)
        call.argtypes = types
        setattr(self, name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # the driver's calls are set in __init__

    def given(self, kind: Any, call: Any, what: str, *args: Any) -> int:
        """Calls ``call`` with a pointer to a new object of the ctypes type ``kind`` and then ``args``; returns the
        value that the call wrote there. ``what``: see `check`."""
        made = kind()
        self.check(call(C.byref(made), *args), what)
        return int(made.value or 0)

    def attribute(self, which: int) -> int:
        return self.given(_i, self.DeviceGetAttribute, "asking about the device", which, self.device)

    # --- differences between drivers ----------------------------------------------------------------------------

    @abstractmethod
    def open(self) -> Any:
        """The handle of the device."""

    @abstractmethod
    def make_current(self) -> int:
        """Makes the device current in this thread; returns the error code."""

    @abstractmethod
    def words(self, result: int) -> tuple[str, str]:
        """The name and the description of the error with code ``result``."""

    @property
    @abstractmethod
    def code_name(self) -> str:
        """The name of the chip that `build` makes code for."""

    @abstractmethod
    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        """Compiles a kernel to code for this device, in the form that `load` takes."""

    @abstractmethod
    def load(self, code: bytes, what: str) -> Any:
        """Loads code as a module of the driver. ``what``: the name of the code in messages."""

    # --- errors -------------------------------------------------------------------------------------------------

    def check(self, result: int, what: str) -> None:
        """Raises DriverError, or MemoryError if there is too little memory, unless ``result`` is 0. ``what``: the
        operation, in words."""
        if not result:
            return
        title, text = self.words(result)
        if result == OUT_OF_MEMORY:
            raise MemoryError(f"{what}: {text} ({title})")
        raise DriverError(
            f"{what} on {getattr(self, 'name', self.api)}: {text or result} ({title})",
            code="QL3012",
            help="the process cannot use the device any more: restart it; qd.init(debug=True) checks indices"
            if result in self.lost
            else "",
            number=result,
        )

    # --- memory -------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Makes the device current in this thread."""
        if self.here.driver is not self:
            self.check(self.make_current(), "entering the device")
            self.here.driver = self

    def release(self, call: Any, what: Any) -> None:
        """Calls a function of the driver that frees something. The garbage collector may run this at any time, so the
        thread's current device is restored afterwards."""
        before = self.here.driver
        self.enter()
        call(what)
        if before is not None:
            before.enter()

    def free_bytes(self) -> int:
        free, total = _z(), _z()
        self.check(self.MemGetInfo(C.byref(free), C.byref(total)), "asking for free memory")
        return free.value

    def allocate(self, nbytes: int) -> int:
        """Allocates device memory and returns its address. Raises MemoryError if there is too little."""
        return self.given(_p, self.MemAlloc, f"allocating {nbytes} bytes", max(nbytes, 1))

    def free(self, address: int) -> None:
        self.release(self.MemFree, address)  # waits for running kernels; may fail harmlessly when the process ends

    def pinned(self, nbytes: int) -> int:
        """Allocates pinned host memory and returns its address."""
        return self.given(_p, self.MemHostAlloc, f"allocating {nbytes} bytes of host memory", nbytes, 0)

    def free_pinned(self, address: int) -> None:
        self.release(self.MemFreeHost, address)

    def clear(self, address: int, nbytes: int) -> None:
        self.check(self.MemsetD8Async(address, 0, nbytes, self.stream), "clearing memory")

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        """Fills device memory with ``count`` repetitions of ``pattern``, which has 1, 2 or 4 bytes."""
        call = {1: self.MemsetD8Async, 2: self.MemsetD16Async, 4: self.MemsetD32Async}[len(pattern)]
        self.check(call(address, int.from_bytes(pattern, sys.byteorder), count, self.stream), "filling memory")

    def upload(self, address: int, host: int, nbytes: int) -> None:
        """Copies from the host, after all earlier launches. The caller may overwrite the host's memory when this
        returns."""
        what = f"copying {nbytes} bytes to the device"
        self.check(self.MemcpyHtoDAsync(address, host, nbytes, self.stream), what)
        self.check(self.StreamSynchronize(self.stream), what)

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copies to the host, after all earlier launches, and waits for the copy."""
        what = f"copying {nbytes} bytes from the device"
        self.check(self.MemcpyDtoHAsync(host, address, nbytes, self.stream), what)
        self.check(self.StreamSynchronize(self.stream), what)

    def start_download(self, pinned: int, address: int, nbytes: int) -> None:
        """Starts a copy to `pinned` memory; it is done when `wait` has returned."""
        self.check(self.MemcpyDtoHAsync(pinned, address, nbytes, self.stream), f"copying {nbytes} bytes")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies within device memory, after all earlier launches."""
        self.check(self.MemcpyDtoDAsync(target, source, nbytes, self.stream), f"copying {nbytes} bytes")

    # --- waiting ------------------------------------------------------------------------------------------------

    def running(self) -> bool:
        return bool(self.StreamQuery(self.stream) == NOT_READY)

    def wait(self, what: str) -> None:
        """Waits until all launches are done. Ctrl-C ends the wait."""
        poll, stream = self._poll, self.stream
        for _ in range(_SPINS):
            result = poll(stream)
            if result != NOT_READY:
                break
        else:
            result = _poll_with_pauses(self.StreamQuery, stream)
        if result:
            self.check(result, what)

    def new_event(self) -> Any:
        """Makes an event; `free_event` frees it."""
        return _p(self.given(_p, self.EventCreate, "making an event", _NO_TIMING))

    def free_event(self, event: Any) -> None:
        self.release(self.EventDestroy, event)

    def record_event(self, event: Any) -> None:
        """Records the event after all launches so far."""
        self.check(self.EventRecord(event, self.stream), "marking a launch")

    def await_event(self, event: Any, what: str) -> None:
        """Waits for all launches before the event. Ctrl-C ends the wait."""
        self.check(_poll_with_pauses(self.EventQuery, event), what)

    def unload(self, module: Any) -> None:
        self.release(self.ModuleUnload, module)

    def function(self, module: Any, name: str, block: int) -> Function:
        return Function(self, module, name, block)

    def call(self, function: Function, blocks: int, state: int, frame: int, frame_bytes: int) -> Launch:
        return Launch(self, function, blocks, state, frame, self.shape.passed_by_value(frame_bytes))


def _poll_with_pauses(query: Callable[[Any], int], of: Any) -> int:
    """Calls ``query`` until it no longer says that work is running, and returns its result; the pauses between two
    calls get longer."""
    pause = 0.0
    while (result := query(of)) == NOT_READY:
        pause = min(pause * 2 + 1e-5, _LONGEST_PAUSE)
        time.sleep(pause)
    return int(result)


class Function:
    """A loaded program. ``registers``: how many registers a thread uses; ``blocks_at_once``: how many groups the device
    runs at a time."""

    def __init__(self, driver: Driver, module: Any, name: str, block: int) -> None:
        self.handle = _p(driver.given(_p, driver.ModuleGetFunction, f"finding {name}", module, name.encode()))
        self.name = name
        self.block = block
        self.registers = driver.given(_i, driver.FuncGetAttribute, "asking about a function", _REGISTERS, self.handle)
        occupancy = driver.OccupancyMaxActiveBlocksPerMultiprocessor
        blocks = driver.given(_i, occupancy, "asking for the occupancy", self.handle, block, 0)
        self.blocks_at_once = max(1, blocks) * driver.multiprocessors


class Launch:
    """A prepared launch of one program; ``run(*args)`` starts it with the present content of the frame.

    ``frame``: if ``by_value``, the host address of the frame's bytes, which each launch reads; otherwise the device
    address of a copy of these bytes.
    """

    __slots__ = ("_keep", "args", "run")

    def __init__(self, driver: Driver, function: Function, blocks: int, state: int, frame: int, by_value: bool) -> None:
        self.run = driver.launch_call
        first, second = C.c_uint64(state), C.c_uint64(frame)
        params = (_p * 2)(C.addressof(first), frame if by_value else C.addressof(second))
        self._keep = (function, first, second)
        one, none = _u(1), _p()
        self.args = (
            function.handle, _u(blocks), one, one, _u(function.block), one, one, _u(0), driver.stream, params, none,
        )  # fmt: skip
