"""AMD's HIP runtime: the few of its calls that are needed, through ctypes, and what they say when they fail.

Written to AMD's documentation of HIP; it has never met a device. `current()` is the driver of this process. Tests
register a stand-in.
"""

from __future__ import annotations

import ctypes as C
import os
import re
import sys
import threading
import time
from functools import cache
from typing import Any

from quadrants_lab.backends._objects import elf
from quadrants_lab.backends._simt.opened import Opened
from quadrants_lab.backends.amdgpu import chips, toolkit
from quadrants_lab.backends.amdgpu.shape import passed_by_value
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

OUT_OF_MEMORY = 2
NOT_READY = 600
_LOST = (700, 702, 709, 710, 719)  # after these errors nothing works any more

# attributes of a device (hipDeviceAttribute_t), of a function (hipFunction_attribute)
_THREADS_OF_MULTIPROCESSOR, _MULTIPROCESSORS = 57, 63
_REGISTERS, _LOCAL_BYTES = 4, 3
_NO_TIMING = 2  # a flag of an event
_PROPERTIES = 16384  # bytes that hipDeviceProp_t does not fill in any version
_LONGEST_PAUSE = 5e-4  # seconds between two looks at what runs
_SPIN = 2e-4  # seconds of looking without a pause

_p, _u, _z = C.c_void_p, C.c_uint, C.c_size_t
_CALLS: dict[str, tuple[Any, ...]] = {
    "hipInit": (_u,),
    "hipRuntimeGetVersion": (_p,),
    "hipGetDeviceCount": (_p,),
    "hipSetDevice": (C.c_int,),
    "hipDeviceGetName": (_p, C.c_int, C.c_int),
    "hipDeviceTotalMem": (_p, C.c_int),
    "hipDeviceGetAttribute": (_p, C.c_int, C.c_int),
    "hipMemGetInfo": (_p, _p),
    "hipMalloc": (_p, _z),
    "hipFree": (_p,),
    "hipHostMalloc": (_p, _z, _u),
    "hipHostFree": (_p,),
    "hipMemcpyHtoDAsync": (_p, _p, _z, _p),
    "hipMemcpyDtoHAsync": (_p, _p, _z, _p),
    "hipMemcpyDtoDAsync": (_p, _p, _z, _p),
    "hipMemsetD8Async": (_p, C.c_ubyte, _z, _p),
    "hipMemsetD16Async": (_p, C.c_ushort, _z, _p),
    "hipMemsetD32Async": (_p, C.c_int, _z, _p),
    "hipStreamCreateWithFlags": (_p, _u),
    "hipStreamQuery": (_p,),
    "hipStreamSynchronize": (_p,),
    "hipEventCreateWithFlags": (_p, _u),
    "hipEventRecord": (_p, _p),
    "hipEventQuery": (_p,),
    "hipEventDestroy": (_p,),
    "hipModuleLoadData": (_p, _p),
    "hipModuleUnload": (_p,),
    "hipModuleGetFunction": (_p, _p, C.c_char_p),
    "hipFuncGetAttribute": (_p, C.c_int, _p),
    "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": (_p, _p, C.c_int, _z),
    "hipModuleLaunchKernel": (_p, _u, _u, _u, _u, _u, _u, _u, _p, _p, _p),
    "hipGetErrorName": (C.c_int,),
    "hipGetErrorString": (C.c_int,),
}


class HipError(QuadrantsRuntimeError):
    """A call of the runtime that failed; ``number`` is its error."""

    number = 0


@cache
def _library() -> Any:
    """Raises OSError where there is no runtime."""
    error = OSError("no candidates")
    for name in toolkit.runtimes():
        try:
            return C.CDLL(name)
        except OSError as e:
            error = e
    raise error


class Function:
    """A loaded program. ``registers`` of a thread; ``local_bytes``: memory of a thread for what has no register."""

    def __init__(self, driver: Driver, module: Any, name: str, block: int) -> None:
        self.handle = _p()
        driver.check(driver.hipModuleGetFunction(C.byref(self.handle), module, name.encode()), f"finding {name}")
        self.name = name
        self.block = block
        self.registers = self._attribute(driver, _REGISTERS)
        self.local_bytes = self._attribute(driver, _LOCAL_BYTES)
        n = C.c_int()
        occupancy = driver.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
        driver.check(occupancy(C.byref(n), self.handle, block, 0), "asking for the occupancy")
        self.blocks_at_once = max(1, n.value) * driver.multiprocessors

    def _attribute(self, driver: Driver, which: int) -> int:
        n = C.c_int()
        driver.check(driver.hipFuncGetAttribute(C.byref(n), which, self.handle), "asking about a function")
        return n.value


class Driver:
    """The device that QD_VISIBLE_DEVICE names by its number, or the first; one a process.

    Raises OSError or QuadrantsRuntimeError where there is none. ``chip``: a key of `chips.WAVES`. ``version``: of HIP.
    """

    def __init__(self) -> None:
        library = self._calls = _library()
        for name, types in _CALLS.items():
            call = getattr(library, name)
            call.argtypes = types
            setattr(self, name, call)
        for call in (self.hipGetErrorName, self.hipGetErrorString):
            call.restype = C.c_char_p
        self.check(self.hipInit(0), "starting HIP")
        self.version = self._int(self.hipRuntimeGetVersion)
        count = self._int(self.hipGetDeviceCount)
        asked = os.environ.get("QD_VISIBLE_DEVICE", "")
        self._ordinal = int(asked) if asked.isdigit() else 0
        if self._ordinal >= count:
            words = f"HIP has {count} devices; there is none with number {self._ordinal}"
            raise QuadrantsRuntimeError(words, code="QL3010")
        self._threads: set[int] = set()
        self.enter()
        label = C.create_string_buffer(256)
        self.check(self.hipDeviceGetName(label, 256, self._ordinal), "asking for the device's name")
        self.chip = chips.known(self._chip_name())
        self.name = f"{label.value.decode(errors='replace')} ({self.chip})"
        total = _z()
        self.check(self.hipDeviceTotalMem(C.byref(total), self._ordinal), "asking for the device's memory")
        self.total_bytes = total.value
        self.multiprocessors = self._attribute(_MULTIPROCESSORS)
        self.threads_at_once = self.multiprocessors * self._attribute(_THREADS_OF_MULTIPROCESSOR)
        self.stream = _p()
        self.check(self.hipStreamCreateWithFlags(C.byref(self.stream), 0), "making a stream")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # the runtime's calls are set in __init__

    def _int(self, call: Any) -> int:
        n = C.c_int()
        self.check(call(C.byref(n)), "asking the runtime")
        return n.value

    def _attribute(self, which: int) -> int:
        n = C.c_int()
        self.check(self.hipDeviceGetAttribute(C.byref(n), which, self._ordinal), "asking about the device")
        return n.value

    def _chip_name(self) -> str:
        """gcnArchName, the only text of hipDeviceProp_t that reads "gfx...": where it stands depends on the version."""
        call = getattr(self._calls, "hipGetDevicePropertiesR0600", None) or self._calls.hipGetDeviceProperties
        call.argtypes = (_p, C.c_int)
        properties = C.create_string_buffer(_PROPERTIES)
        self.check(call(properties, self._ordinal), "asking for the device's properties")
        found = re.search(rb"gfx[0-9a-f]{3,5}[:\0]", properties.raw)
        return found[0][:-1].decode() if found else "an unnamed chip"

    # --- errors -------------------------------------------------------------------------------------------------

    def check(self, result: int, what: str) -> None:
        """HipError (MemoryError where memory is lacking) unless ``result`` is 0."""
        if not result:
            return
        title, text = ((call(result) or b"").decode() for call in (self.hipGetErrorName, self.hipGetErrorString))
        if result == OUT_OF_MEMORY:
            raise MemoryError(f"{what}: {text} ({title})")
        error = HipError(
            f"{what} on {self.__dict__.get('name', 'HIP')}: {text or result} ({title})",
            code="QL3012",
            help="the process cannot use the device any more: restart it; qd.init(debug=True) checks indices"
            if result in _LOST
            else "",
        )
        error.number = result
        raise error

    # --- memory -------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Makes the device current in this thread."""
        me = threading.get_ident()
        if me not in self._threads:
            self.check(self.hipSetDevice(self._ordinal), "entering the device")
            self._threads.add(me)

    def free_bytes(self) -> int:
        free, total = _z(), _z()
        self.check(self.hipMemGetInfo(C.byref(free), C.byref(total)), "asking for free memory")
        return free.value

    def allocate(self, nbytes: int) -> int:
        """Address of device memory, of which atomics need to know no more than that it is the device's own; MemoryError
        where there is not that much."""
        address = _p()
        self.check(self.hipMalloc(C.byref(address), max(nbytes, 1)), f"allocating {nbytes} bytes")
        return address.value or 0

    def free(self, address: int) -> None:
        self.enter()
        self.hipFree(address)  # waits for what runs; at the process's end it may fail, which harms nobody

    def pinned(self, nbytes: int) -> int:
        """Address of host memory that the device copies to without a detour."""
        address = _p()
        self.check(self.hipHostMalloc(C.byref(address), nbytes, 0), f"allocating {nbytes} bytes of host memory")
        return address.value or 0

    def free_pinned(self, address: int) -> None:
        self.enter()
        self.hipHostFree(address)

    def clear(self, address: int, nbytes: int) -> None:
        self.check(self.hipMemsetD8Async(address, 0, nbytes, self.stream), "clearing memory")

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        """``count`` times the 1, 2 or 4 bytes of ``pattern``."""
        call = {1: self.hipMemsetD8Async, 2: self.hipMemsetD16Async, 4: self.hipMemsetD32Async}[len(pattern)]
        self.check(call(address, int.from_bytes(pattern, sys.byteorder), count, self.stream), "filling memory")

    def upload(self, address: int, host: int, nbytes: int) -> None:
        """Copies from the host, after all that was launched before; when it returns the host's memory may change."""
        what = f"copying {nbytes} bytes to the device"
        self.check(self.hipMemcpyHtoDAsync(address, host, nbytes, self.stream), what)
        self.check(self.hipStreamSynchronize(self.stream), what)

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copies to the host, after all that was launched before, and waits for it."""
        what = f"copying {nbytes} bytes from the device"
        self.check(self.hipMemcpyDtoHAsync(host, address, nbytes, self.stream), what)
        self.check(self.hipStreamSynchronize(self.stream), what)

    def start_download(self, pinned: int, address: int, nbytes: int) -> None:
        """The same to `pinned` memory, done only when `wait` has returned."""
        self.check(self.hipMemcpyDtoHAsync(pinned, address, nbytes, self.stream), f"copying {nbytes} bytes")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies from memory of the device to memory of the device, after all that was launched before."""
        self.check(self.hipMemcpyDtoDAsync(target, source, nbytes, self.stream), f"copying {nbytes} bytes")

    # --- what runs ----------------------------------------------------------------------------------------------

    def running(self) -> bool:
        return bool(self.hipStreamQuery(self.stream) == NOT_READY)

    def wait(self, what: str) -> None:
        """Until all that was launched is done; Ctrl-C ends the waiting."""
        self._until(self.hipStreamQuery, self.stream, what)

    def _until(self, query: Any, of: Any, what: str) -> None:
        start, pause = time.perf_counter(), 0.0
        while (result := query(of)) == NOT_READY:
            if pause or time.perf_counter() - start > _SPIN:
                pause = min(pause * 2 + 1e-5, _LONGEST_PAUSE)
                time.sleep(pause)
        self.check(result, what)

    def new_mark(self) -> Any:
        """An event; `drop_mark` gives it back."""
        made = _p()
        self.check(self.hipEventCreateWithFlags(C.byref(made), _NO_TIMING), "making an event")
        return made

    def drop_mark(self, mark: Any) -> None:
        self.enter()
        self.hipEventDestroy(mark)

    def set_mark(self, mark: Any) -> None:
        """Marks what was launched so far."""
        self.check(self.hipEventRecord(mark, self.stream), "marking a launch")

    def await_mark(self, mark: Any, what: str) -> None:
        """Until what was marked is done; Ctrl-C ends the waiting."""
        self._until(self.hipEventQuery, mark, what)

    @property
    def code_name(self) -> str:
        """What `build` makes code for."""
        return self.chip

    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        """What `load` takes: a code object for this device."""
        from quadrants_lab.backends.amdgpu.listings import code_of

        return code_of(kernel, options, self.chip)

    def is_whole(self, code: bytes) -> bool:
        """Whether `load` may look at code that comes from a disk."""
        try:
            elf.check_shared(code, "amdgpu")
        except ValueError:
            return False
        return True

    def load(self, code: bytes, what: str) -> Any:
        """A module."""
        module = _p()
        self.check(self.hipModuleLoadData(C.byref(module), code), f"loading {what}, {len(code)} bytes of code object")
        return module

    def unload(self, module: Any) -> None:
        self.enter()
        self.hipModuleUnload(module)

    def function(self, module: Any, name: str, block: int) -> Function:
        return Function(self, module, name, block)

    def call(self, function: Function, blocks: int, state: int, frame: int, frame_bytes: int) -> Any:
        """A prepared launch: `Launch`."""
        return Launch(self, function, blocks, state, frame, passed_by_value(frame_bytes))


class Launch:
    """A launch of one program with everything but its frame's content settled; calling ``run(*args)`` starts it.

    ``frame``: address of the frame's bytes on the host, which are read at each launch (``by_value``), or of their copy
    on the device.
    """

    __slots__ = ("_keep", "args", "run")

    def __init__(self, driver: Driver, function: Function, blocks: int, state: int, frame: int, by_value: bool) -> None:
        self.run = driver.hipModuleLaunchKernel
        first, second = C.c_uint64(state), C.c_uint64(frame)
        params = (_p * 2)(C.addressof(first), frame if by_value else C.addressof(second))
        self._keep = (first, second)
        one, none = _u(1), _p()
        self.args = (
            function.handle, _u(blocks), one, one, _u(function.block), one, one, _u(0), driver.stream, params, none,
        )  # fmt: skip


_driver = Opened(Driver)
current, register, stand_in = _driver.current, _driver.register, _driver.stand_in


def probe() -> str:
    """Why kernels cannot run on a device here, "" where they can."""
    try:
        _library()
    except OSError:
        return "The amdgpu backend needs AMD's HIP runtime (libamdhip64.so, of ROCm), which is not here."
    why = _driver.probe()
    return toolkit.missing_linker() if why is None else f"The amdgpu backend found no device: {why}"
