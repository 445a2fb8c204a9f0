"""NVIDIA's driver: the few of its calls that are needed, through ctypes, and what they say when they fail.

`current()` is the driver of this process. Tests register a stand-in for machines without a device.
"""

from __future__ import annotations

import ctypes as C
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from quadrants_lab.backends._simt.opened import Opened
from quadrants_lab.backends.cuda import toolkit, warmup
from quadrants_lab.backends.cuda.graph import CALLS as GRAPH_CALLS
from quadrants_lab.backends.cuda.graph import Graph, captured
from quadrants_lab.backends.cuda.shape import passed_by_value
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

OUT_OF_MEMORY = 2
NOT_READY = 600
_LOST = (700, 702, 709, 710, 714, 715, 716, 717, 718, 719)  # after these errors nothing works any more

# attributes of a device
_MULTIPROCESSORS, _MAJOR, _MINOR, _THREADS_OF_MULTIPROCESSOR = 16, 75, 76, 39
_REGISTERS, _LOCAL_BYTES, _MAX_THREADS = 4, 3, 0  # of a function
_DEVICE_OF_POINTER = 9  # an attribute of a pointer
_NO_TIMING = 2  # a flag of an event
_DEFAULT_STREAM = 1  # as others number it, beside 0; 2 is the default stream of a thread
_JIT_ERRORS, _JIT_ERROR_BYTES = 5, 6
_LONGEST_PAUSE = 5e-4  # seconds between two looks at what runs
_LOOKS = 500  # without a pause, about 200 us

_p, _u, _z = C.c_void_p, C.c_uint, C.c_size_t
_CALLS: dict[str, tuple[Any, ...]] = {
    "cuInit": (_u,),
    "cuDriverGetVersion": (_p,),
    "cuDeviceGetCount": (_p,),
    "cuDeviceGet": (_p, C.c_int),
    "cuDeviceGetName": (_p, C.c_int, C.c_int),
    "cuDeviceTotalMem_v2": (_p, C.c_int),
    "cuDeviceGetAttribute": (_p, C.c_int, C.c_int),
    "cuDevicePrimaryCtxRetain": (_p, C.c_int),
    "cuCtxSetCurrent": (_p,),
    "cuMemGetInfo_v2": (_p, _p),
    "cuMemAlloc_v2": (_p, _z),
    "cuMemFree_v2": (C.c_uint64,),
    "cuMemAllocHost_v2": (_p, _z),
    "cuMemFreeHost": (_p,),
    "cuMemcpyHtoD_v2": (C.c_uint64, _p, _z),
    "cuMemcpyDtoH_v2": (_p, C.c_uint64, _z),
    "cuMemcpyDtoHAsync_v2": (_p, C.c_uint64, _z, _p),
    "cuMemcpyDtoDAsync_v2": (C.c_uint64, C.c_uint64, _z, _p),
    "cuMemsetD8Async": (C.c_uint64, C.c_ubyte, _z, _p),
    "cuMemsetD16Async": (C.c_uint64, C.c_ushort, _z, _p),
    "cuMemsetD32Async": (C.c_uint64, _u, _z, _p),
    "cuStreamCreate": (_p, _u),
    "cuStreamDestroy_v2": (_p,),
    "cuStreamQuery": (_p,),
    "cuStreamSynchronize": (_p,),
    "cuStreamWaitEvent": (_p, _p, _u),
    "cuEventCreate": (_p, _u),
    "cuEventRecord": (_p, _p),
    "cuEventQuery": (_p,),
    "cuEventDestroy_v2": (_p,),
    "cuPointerGetAttribute": (_p, C.c_int, C.c_uint64),
    "cuModuleLoadDataEx": (_p, _p, _u, _p, _p),
    "cuModuleUnload": (_p,),
    "cuModuleGetFunction": (_p, _p, C.c_char_p),
    "cuFuncGetAttribute": (_p, C.c_int, _p),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_p, _p, C.c_int, _z),
    "cuGetErrorName": (C.c_int, _p),
    "cuGetErrorString": (C.c_int, _p),
}


class DriverError(QuadrantsRuntimeError):
    """A call of the driver that failed; ``number`` is its error."""

    number = 0


@cache
def _library() -> Any:
    """Raises OSError where there is no driver."""
    names = ("libcuda.so.1", "libcuda.so") if sys.platform != "darwin" else ("libcuda.dylib",)
    error: OSError | None = None
    for name in names:
        try:
            return C.CDLL(name)
        except OSError as e:
            error = e
    assert error is not None
    raise error


class _Here(threading.local):
    """What is so in one thread: whether the device is current there."""

    entered = False


class Function:
    """A loaded program. ``registers`` of a thread; ``local_bytes``: memory of a thread for what has no register."""

    def __init__(self, driver: Driver, module: Any, name: str, block: int) -> None:
        self.handle = _p()
        driver.check(driver.cuModuleGetFunction(C.byref(self.handle), module, name.encode()), f"finding {name}")
        self.name = name
        self.block = block
        self.registers = self._attribute(driver, _REGISTERS)
        self.local_bytes = self._attribute(driver, _LOCAL_BYTES)
        n = C.c_int()
        occupancy = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        driver.check(occupancy(C.byref(n), self.handle, block, 0), "asking for the occupancy")
        self.blocks_at_once = max(1, n.value) * driver.multiprocessors

    def _attribute(self, driver: Driver, which: int) -> int:
        n = C.c_int()
        driver.check(driver.cuFuncGetAttribute(C.byref(n), which, self.handle), "asking about a function")
        return n.value


class Driver:
    """The device that QD_VISIBLE_DEVICE names by its number, or the first; one a process.

    Raises OSError or QuadrantsRuntimeError where there is none. ``capability``: 75 for 7.5. ``version``: of CUDA, 13000
    for 13.0.
    """

    def __init__(self) -> None:
        library = _library()
        warmup.begin()
        for name, types in (_CALLS | GRAPH_CALLS).items():
            call = getattr(library, name)
            call.argtypes = types
            setattr(self, name, call)
        untyped = C.CDLL(library._name)  # what these get is ctypes' already
        self.launch_call, self.launch_graph_call = untyped.cuLaunchKernel, untyped.cuGraphLaunch
        self._look = C.PyDLL(library._name).cuStreamQuery  # without letting other threads run, which takes longer
        self.check(self.cuInit(0), "starting CUDA")
        self.version = self._int(self.cuDriverGetVersion)
        count = self._int(self.cuDeviceGetCount)
        asked = os.environ.get("QD_VISIBLE_DEVICE", "")
        ordinal = int(asked) if asked.isdigit() else 0
        if ordinal >= count:
            raise QuadrantsRuntimeError(f"CUDA has {count} devices; there is none with number {ordinal}", code="QL3010")
        self.ordinal = ordinal
        device = C.c_int()
        self.check(self.cuDeviceGet(C.byref(device), ordinal), "choosing a device")
        label = C.create_string_buffer(256)
        self.check(self.cuDeviceGetName(label, 256, device), "asking for the device's name")
        self.name = label.value.decode()
        total = _z()
        self.check(self.cuDeviceTotalMem_v2(C.byref(total), device), "asking for the device's memory")
        self.total_bytes = total.value
        self.multiprocessors = self._attribute(device, _MULTIPROCESSORS)
        self.threads_at_once = self.multiprocessors * self._attribute(device, _THREADS_OF_MULTIPROCESSOR)
        self.capability = 10 * self._attribute(device, _MAJOR) + self._attribute(device, _MINOR)
        self.context = _p()
        self.check(self.cuDevicePrimaryCtxRetain(C.byref(self.context), device), "opening the device")
        self.here = _Here()
        self.enter()
        self.lost = ""
        self.stream = _p()  # waits for the default stream of other libraries, and they for it
        self.check(self.cuStreamCreate(C.byref(self.stream), 0), "making a stream")
        self._event = _p()
        self.check(self.cuEventCreate(C.byref(self._event), _NO_TIMING), "making an event")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # the driver's calls are set in __init__

    def _int(self, call: Any) -> int:
        n = C.c_int()
        self.check(call(C.byref(n)), "asking the driver")
        return n.value

    def _attribute(self, device: Any, which: int) -> int:
        n = C.c_int()
        self.check(self.cuDeviceGetAttribute(C.byref(n), which, device), "asking about the device")
        return n.value

    # --- errors -------------------------------------------------------------------------------------------------

    def check(self, result: int, what: str) -> None:
        """DriverError (MemoryError where memory is lacking) unless ``result`` is 0."""
        if not result:
            return
        words = [C.c_char_p(), C.c_char_p()]
        for call, word in zip((self.cuGetErrorName, self.cuGetErrorString), words, strict=True):
            call(result, C.byref(word))
        title, text = (w.value.decode() if w.value else "" for w in words)
        if result == OUT_OF_MEMORY:
            raise MemoryError(f"{what}: {text} ({title})")
        error = DriverError(
            f"{what} on {getattr(self, 'name', 'CUDA')}: {text or result} ({title})",
            code="QL3012",
            help="the process cannot use the device any more: restart it; qd.init(debug=True) checks indices"
            if result in _LOST
            else "",
        )
        error.number = result
        raise error

    # --- contexts, memory ---------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Makes the device current in this thread."""
        if not self.here.entered:
            self.check(self.cuCtxSetCurrent(self.context), "entering the device")
            self.here.entered = True

    def free_bytes(self) -> int:
        free, total = _z(), _z()
        self.check(self.cuMemGetInfo_v2(C.byref(free), C.byref(total)), "asking for free memory")
        return free.value

    def allocate(self, nbytes: int) -> int:
        """Address of device memory; MemoryError where there is not that much."""
        address = C.c_uint64()
        self.check(self.cuMemAlloc_v2(C.byref(address), max(nbytes, 1)), f"allocating {nbytes} bytes")
        return address.value

    def free(self, address: int) -> None:
        self.enter()
        self.cuMemFree_v2(address)  # waits for what runs; at the process's end it may fail, which harms nobody

    def pinned(self, nbytes: int) -> int:
        """Address of host memory that the device copies to without a detour."""
        address = _p()
        self.check(self.cuMemAllocHost_v2(C.byref(address), nbytes), f"allocating {nbytes} bytes of host memory")
        assert address.value
        return address.value

    def free_pinned(self, address: int) -> None:
        self.enter()
        self.cuMemFreeHost(address)

    def clear(self, address: int, nbytes: int) -> None:
        self.check(self.cuMemsetD8Async(address, 0, nbytes, self.stream), "clearing memory")

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        """``count`` times the 1, 2 or 4 bytes of ``pattern``."""
        call = {1: self.cuMemsetD8Async, 2: self.cuMemsetD16Async, 4: self.cuMemsetD32Async}[len(pattern)]
        self.check(call(address, int.from_bytes(pattern, sys.byteorder), count, self.stream), "filling memory")

    # these two order themselves with our stream, which is a blocking one

    def upload(self, address: int, host: int, nbytes: int) -> None:
        """Copies from the host, after all that was launched before; when it returns the host's memory may change."""
        self.check(self.cuMemcpyHtoD_v2(address, host, nbytes), f"copying {nbytes} bytes to the device")

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copies to the host, after all that was launched before, and waits for it."""
        self.check(self.cuMemcpyDtoH_v2(host, address, nbytes), f"copying {nbytes} bytes from the device")

    def start_download(self, pinned: int, address: int, nbytes: int) -> None:
        """The same to `pinned` memory, done only when `wait` has returned."""
        self.check(self.cuMemcpyDtoHAsync_v2(pinned, address, nbytes, self.stream), f"copying {nbytes} bytes")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies from memory of the device to memory of the device, after all that was launched before."""
        self.check(self.cuMemcpyDtoDAsync_v2(target, source, nbytes, self.stream), f"copying {nbytes} bytes")

    # --- other libraries ----------------------------------------------------------------------------------------

    def home(self, address: int) -> int:
        """Number of the device that memory is on; -1 for memory that is on none."""
        n = C.c_int()
        return -1 if self.cuPointerGetAttribute(C.byref(n), _DEVICE_OF_POINTER, address) else n.value

    def follow(self, stream: int) -> None:
        """Our stream waits for what is in another one. The default stream needs no telling."""
        if stream > _DEFAULT_STREAM:
            self.check(self.cuEventRecord(self._event, stream), "marking a stream")
            self.check(self.cuStreamWaitEvent(self.stream, self._event, 0), "waiting for a stream")

    def lead(self, stream: int) -> None:
        """Another stream waits for what is in ours."""
        if stream > _DEFAULT_STREAM:
            self.check(self.cuEventRecord(self._event, self.stream), "marking a stream")
            self.check(self.cuStreamWaitEvent(stream, self._event, 0), "waiting for a stream")

    # --- what runs ----------------------------------------------------------------------------------------------

    def running(self) -> bool:
        return bool(self.cuStreamQuery(self.stream) == NOT_READY)

    def wait(self, what: str) -> None:
        """Until all that was launched is done; Ctrl-C ends the waiting."""
        look, stream = self._look, self.stream
        for _ in range(_LOOKS):
            result = look(stream)
            if result != NOT_READY:
                break
        else:
            result = _longer(self.cuStreamQuery, stream)
        if result:
            self.check(result, what)

    def new_mark(self) -> Any:
        """An event; `drop_mark` gives it back."""
        made = _p()
        self.check(self.cuEventCreate(C.byref(made), _NO_TIMING), "making an event")
        return made

    def drop_mark(self, mark: Any) -> None:
        self.enter()
        self.cuEventDestroy_v2(mark)

    def set_mark(self, mark: Any) -> None:
        """Marks what was launched so far."""
        self.check(self.cuEventRecord(mark, self.stream), "marking a launch")

    def await_mark(self, mark: Any, what: str) -> None:
        """Until what was marked is done; Ctrl-C ends the waiting."""
        self.check(_longer(self.cuEventQuery, mark), what)

    @property
    def code_name(self) -> str:
        """What `build` makes code for."""
        from quadrants_lab.backends.cuda.nvptx import chip_for

        return f"sm_{chip_for(self.capability)}"

    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        """What `load` takes: PTX for this device."""
        from quadrants_lab.backends.cuda.listings import ptx_of
        from quadrants_lab.backends.cuda.nvptx import chip_for

        return ptx_of(kernel, options, chip_for(self.capability)).encode()

    def load(self, code: bytes, what: str) -> Any:
        """A module; an error with the assembler's words where it does not build."""
        module = _p()
        log = C.create_string_buffer(8192)
        names = (C.c_int * 2)(_JIT_ERRORS, _JIT_ERROR_BYTES)
        values = (_p * 2)(C.addressof(log), len(log))
        result = self.cuModuleLoadDataEx(C.byref(module), code + b"\0", 2, names, values)
        if result:
            words = log.value.decode(errors="replace").strip()
            self.check(result, f"building {what}, {len(code)} bytes of PTX ({words or 'no reason given'})")
        return module

    def unload(self, module: Any) -> None:
        self.enter()
        self.cuModuleUnload(module)

    def function(self, module: Any, name: str, block: int) -> Function:
        return Function(self, module, name, block)

    def graph(
        self, launches: list[Launch], clear: tuple[int, int] | None, back: tuple[int, int, int] | None
    ) -> Graph:
        """Prepared launches as one, in order. ``clear``: address and bytes of device memory, zeroed before them;
        ``back``: where in pinned memory, from where and how many bytes are copied after them."""
        return Graph(self, launches, clear, back)

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """See `graph.captured`."""
        return captured(self, run)

    def call(self, function: Function, blocks: int, state: int, frame: int, frame_bytes: int) -> Any:
        """A prepared launch: `Launch`."""
        return Launch(self, function, blocks, state, frame, passed_by_value(frame_bytes))


def _longer(query: Any, of: Any) -> int:
    """What ``query`` says when something is done, which is looked at ever less often, while other threads run."""
    pause = 0.0
    while (result := query(of)) == NOT_READY:
        pause = min(pause * 2 + 1e-5, _LONGEST_PAUSE)
        time.sleep(pause)
    return int(result)


class Launch:
    """A launch of one program with everything but its frame's content settled; calling ``run(*args)`` starts it.

    ``frame``: address of the frame's bytes on the host, which are read at each launch (``by_value``), or of their copy
    on the device.
    """

    __slots__ = ("_keep", "args", "blocks", "function", "params", "run")

    def __init__(self, driver: Driver, function: Function, blocks: int, state: int, frame: int, by_value: bool) -> None:
        self.run = driver.launch_call
        first = C.c_uint64(state)
        second = C.c_uint64(frame)
        at = frame if by_value else C.addressof(second)
        params = self.params = (_p * 2)(C.addressof(first), at)
        self.function, self.blocks = function, blocks
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
        return "The cuda backend needs NVIDIA's driver (libcuda.so.1), which is not here."
    why = _driver.probe()
    return toolkit.missing_libdevice() if why is None else f"The cuda backend found no device: {why}"
