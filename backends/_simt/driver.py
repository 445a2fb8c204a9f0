"""A driver that is called through ctypes: one device of a process, its memory, and launches on it.

NVIDIA's driver and AMD's HIP have the same calls under other names. `CALLS` says what they take; a subclass says what
they are called, and adds what only its driver has.
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
_REGISTERS = 4  # an attribute of a function
_NO_TIMING = 2  # a flag of an event
_LONGEST_PAUSE = 5e-4  # seconds between two looks at what runs
_LOOKS = 500  # without a pause, about 200 us

_p, _u, _z, _i = C.c_void_p, C.c_uint, C.c_size_t, C.c_int
CALLS: dict[str, tuple[Any, ...]] = {  # without the prefix that all of a driver's calls have
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
    """A call of the driver that failed; ``number`` is its error."""

    number = 0


def first_library(names: Iterable[str]) -> Any:
    """The first of these libraries that can be loaded; OSError where there is none."""
    error = OSError("no candidates")
    for name in names:
        try:
            return C.CDLL(name)
        except OSError as e:
            error = e
    raise error


class _Here(threading.local):
    """What is so in one thread: whose device is current there."""

    driver: Driver | None = None


class Driver(ABC):
    """The device with number ``ordinal``; one driver a device and process. ``version``: the API's.

    Raises QuadrantsRuntimeError where there is none, AttributeError where the library lacks a call.
    """

    api: ClassVar[str]  # in words
    prefix: ClassVar[str]
    names: ClassVar[dict[str, str]]  # calls of `CALLS` that are called otherwise
    more: ClassVar[dict[str, tuple[Any, ...]]]  # calls of this driver alone, by their whole names
    lost: ClassVar[tuple[int, ...]]  # after these errors nothing works any more
    attributes: ClassVar[tuple[int, int]]  # of a device: multiprocessors, and threads of one
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
        # without types: what it gets is ctypes' already
        self.launch_call = getattr(C.CDLL(library._name), self.names.get("LaunchKernel", f"{self.prefix}LaunchKernel"))
        # without letting other threads run, which takes longer
        self._look = getattr(C.PyDLL(library._name), f"{self.prefix}StreamQuery")
        self.check(self.Init(0), f"starting {self.api}")
        self.version = self._int(self.DriverGetVersion)
        count = self._int(self.DeviceGetCount)
        self.ordinal = ordinal
        if self.ordinal >= count:
            words = f"{self.api} has {count} devices; there is none with number {self.ordinal}"
            raise QuadrantsRuntimeError(words, code="QL3010")
        self.device = self.open()
        self.enter()
        label = C.create_string_buffer(256)
        self.check(self.DeviceGetName(label, 256, self.device), "asking for the device's name")
        self.name = label.value.decode(errors="replace")
        total = _z()
        self.check(self.DeviceTotalMem(C.byref(total), self.device), "asking for the device's memory")
        self.total_bytes = total.value
        self.multiprocessors, threads = (self.attribute(which) for which in self.attributes)
        self.threads_at_once = self.multiprocessors * threads
        self.stream = _p()  # waits for the default stream of other libraries, and they for it
        self.check(self.StreamCreate(C.byref(self.stream), 0), "making a stream")

    def _take(self, name: str, symbol: str, types: tuple[Any, ...]) -> None:
        call = getattr(self.library, symbol)
        call.argtypes = types
        setattr(self, name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # the driver's calls are set in __init__

    def _int(self, call: Any) -> int:
        n = _i()
        self.check(call(C.byref(n)), "asking the driver")
        return n.value

    def attribute(self, which: int) -> int:
        n = _i()
        self.check(self.DeviceGetAttribute(C.byref(n), which, self.device), "asking about the device")
        return n.value

    # --- what differs -------------------------------------------------------------------------------------------

    @abstractmethod
    def open(self) -> Any:
        """The device that `ordinal` says, as calls take it."""

    @abstractmethod
    def make_current(self) -> int:
        """Makes the device current in this thread; the driver's result."""

    @abstractmethod
    def words(self, result: int) -> tuple[str, str]:
        """Name and description of an error."""

    @property
    @abstractmethod
    def code_name(self) -> str:
        """What `build` makes code for."""

    @abstractmethod
    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        """What `load` takes: code for this device."""

    @abstractmethod
    def load(self, code: bytes, what: str) -> Any:
        """A module."""

    # --- errors -------------------------------------------------------------------------------------------------

    def check(self, result: int, what: str) -> None:
        """DriverError (MemoryError where memory is lacking) unless ``result`` is 0."""
        if not result:
            return
        title, text = self.words(result)
        if result == OUT_OF_MEMORY:
            raise MemoryError(f"{what}: {text} ({title})")
        error = DriverError(
            f"{what} on {getattr(self, 'name', self.api)}: {text or result} ({title})",
            code="QL3012",
            help="the process cannot use the device any more: restart it; qd.init(debug=True) checks indices"
            if result in self.lost
            else "",
        )
        error.number = result
        raise error

    # --- memory -------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Makes the device current in this thread."""
        if self.here.driver is not self:
            self.check(self.make_current(), "entering the device")
            self.here.driver = self

    def give_back(self, call: Any, what: Any) -> None:
        """A call that the garbage collector may make at any time, also while a launch on another device is made."""
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
        """Address of device memory; MemoryError where there is not that much."""
        address = _p()
        self.check(self.MemAlloc(C.byref(address), max(nbytes, 1)), f"allocating {nbytes} bytes")
        return address.value or 0

    def free(self, address: int) -> None:
        self.give_back(self.MemFree, address)  # waits for what runs; at the process's end it may fail: no harm

    def pinned(self, nbytes: int) -> int:
        """Address of host memory that the device copies to without a detour."""
        address = _p()
        self.check(self.MemHostAlloc(C.byref(address), nbytes, 0), f"allocating {nbytes} bytes of host memory")
        return address.value or 0

    def free_pinned(self, address: int) -> None:
        self.give_back(self.MemFreeHost, address)

    def clear(self, address: int, nbytes: int) -> None:
        self.check(self.MemsetD8Async(address, 0, nbytes, self.stream), "clearing memory")

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        """``count`` times the 1, 2 or 4 bytes of ``pattern``."""
        call = {1: self.MemsetD8Async, 2: self.MemsetD16Async, 4: self.MemsetD32Async}[len(pattern)]
        self.check(call(address, int.from_bytes(pattern, sys.byteorder), count, self.stream), "filling memory")

    def upload(self, address: int, host: int, nbytes: int) -> None:
        """Copies from the host, after all that was launched before; when it returns the host's memory may change."""
        what = f"copying {nbytes} bytes to the device"
        self.check(self.MemcpyHtoDAsync(address, host, nbytes, self.stream), what)
        self.check(self.StreamSynchronize(self.stream), what)

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copies to the host, after all that was launched before, and waits for it."""
        what = f"copying {nbytes} bytes from the device"
        self.check(self.MemcpyDtoHAsync(host, address, nbytes, self.stream), what)
        self.check(self.StreamSynchronize(self.stream), what)

    def start_download(self, pinned: int, address: int, nbytes: int) -> None:
        """The same to `pinned` memory, done only when `wait` has returned."""
        self.check(self.MemcpyDtoHAsync(pinned, address, nbytes, self.stream), f"copying {nbytes} bytes")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies from memory of the device to memory of the device, after all that was launched before."""
        self.check(self.MemcpyDtoDAsync(target, source, nbytes, self.stream), f"copying {nbytes} bytes")

    # --- what runs ----------------------------------------------------------------------------------------------

    def running(self) -> bool:
        return bool(self.StreamQuery(self.stream) == NOT_READY)

    def wait(self, what: str) -> None:
        """Until all that was launched is done; Ctrl-C ends the waiting."""
        look, stream = self._look, self.stream
        for _ in range(_LOOKS):
            result = look(stream)
            if result != NOT_READY:
                break
        else:
            result = _longer(self.StreamQuery, stream)
        if result:
            self.check(result, what)

    def new_mark(self) -> Any:
        """An event; `drop_mark` gives it back."""
        made = _p()
        self.check(self.EventCreate(C.byref(made), _NO_TIMING), "making an event")
        return made

    def drop_mark(self, mark: Any) -> None:
        self.give_back(self.EventDestroy, mark)

    def set_mark(self, mark: Any) -> None:
        """Marks what was launched so far."""
        self.check(self.EventRecord(mark, self.stream), "marking a launch")

    def await_mark(self, mark: Any, what: str) -> None:
        """Until what was marked is done; Ctrl-C ends the waiting."""
        self.check(_longer(self.EventQuery, mark), what)

    def unload(self, module: Any) -> None:
        self.give_back(self.ModuleUnload, module)

    def function(self, module: Any, name: str, block: int) -> Function:
        return Function(self, module, name, block)

    def call(self, function: Function, blocks: int, state: int, frame: int, frame_bytes: int) -> Launch:
        return Launch(self, function, blocks, state, frame, self.shape.passed_by_value(frame_bytes))


def _longer(query: Callable[[Any], int], of: Any) -> int:
    """What ``query`` says when something is done, which is looked at ever less often, while other threads run."""
    pause = 0.0
    while (result := query(of)) == NOT_READY:
        pause = min(pause * 2 + 1e-5, _LONGEST_PAUSE)
        time.sleep(pause)
    return int(result)


class Function:
    """A loaded program. ``registers`` of a thread."""

    def __init__(self, driver: Driver, module: Any, name: str, block: int) -> None:
        self.handle = _p()
        driver.check(driver.ModuleGetFunction(C.byref(self.handle), module, name.encode()), f"finding {name}")
        self.name = name
        self.block = block
        n = _i()
        driver.check(driver.FuncGetAttribute(C.byref(n), _REGISTERS, self.handle), "asking about a function")
        self.registers = n.value
        occupancy = driver.OccupancyMaxActiveBlocksPerMultiprocessor
        driver.check(occupancy(C.byref(n), self.handle, block, 0), "asking for the occupancy")
        self.blocks_at_once = max(1, n.value) * driver.multiprocessors


class Launch:
    """A launch of one program with everything but its frame's content settled; calling ``run(*args)`` starts it.

    ``frame``: address of the frame's bytes on the host, which are read at each launch (``by_value``), or of their copy
    on the device.
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
