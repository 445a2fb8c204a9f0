"""Calls NVIDIA's driver through ctypes, makes graphs of launches that one call starts, and opens a session's
device. `current` returns the driver of a device. Tests `register` a stand-in if there is no device.

Background threads do work that the first kernel of a process would otherwise wait for: they import LLVM, load NVIDIA's
compiler, make a code generator, and extract the math library's functions.
"""

from __future__ import annotations

import ctypes as C
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends._simt import driver as simt
from quadrants_lab.backends._simt.device import SimtDevice, SimtMemory
from quadrants_lab.backends._simt.driver import first_library
from quadrants_lab.backends._simt.opened import Opened
from quadrants_lab.backends.cuda import DEFAULT_CHIP, PTX_VERSIONS, SHAPE, chip_for, toolkit
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

# If adstacks need more than LARGE_HEAP bytes, so many threads per multiprocessor already give most of the speed.
FEW = 640
LARGE_HEAP = 64 << 20

_MAJOR, _MINOR = 75, 76  # the driver's codes for two attributes of a device
_DEVICE_OF_POINTER = 9  # the driver's code for an attribute of a pointer
_DEFAULT_STREAM = 1  # other libraries write 1 or 0 for the default stream; 2 is a thread's own default stream
_JIT_ERRORS, _JIT_ERROR_BYTES = 5, 6
_RELAXED = 2  # the capture mode in which memory may be allocated during a capture

_p, _u, _z = C.c_void_p, C.c_uint, C.c_size_t
_SECOND = ("DeviceTotalMem", "MemGetInfo", "MemAlloc", "MemFree", "MemcpyHtoDAsync", "MemcpyDtoHAsync",
           "MemcpyDtoDAsync", "EventDestroy")  # fmt: skip  # functions whose names in the library end in _v2
_CALLS: dict[str, tuple[Any, ...]] = {
    "cuDeviceGet": (_p, C.c_int), "cuDevicePrimaryCtxRetain": (_p, C.c_int), "cuCtxSetCurrent": (_p,),
    "cuMemcpyHtoD_v2": (C.c_uint64, _p, _z), "cuMemcpyDtoH_v2": (_p, C.c_uint64, _z),
    "cuStreamWaitEvent": (_p, _p, _u), "cuPointerGetAttribute": (_p, C.c_int, C.c_uint64),
    "cuModuleLoadDataEx": (_p, _p, _u, _p, _p), "cuGetErrorName": (C.c_int, _p),
    "cuGetErrorString": (C.c_int, _p),
    "cuStreamBeginCapture_v2": (_p, C.c_int), "cuStreamEndCapture": (_p, _p), "cuGraphDestroy": (_p,),
    "cuGraphInstantiateWithFlags": (_p, _p, C.c_ulonglong), "cuGraphExecUpdate": (_p, _p, _p, _p),
    "cuGraphExecDestroy": (_p,),
}  # fmt: skip


@cache
def _library() -> Any:
    """Raises OSError where there is no driver."""
    return first_library(("libcuda.so.1", "libcuda.so") if sys.platform != "darwin" else ("libcuda.dylib",))


class Driver(simt.Driver):
    """A device behind NVIDIA's driver. ``capability``: 75 for 7.5. ``version``: the version of CUDA, 13000 for 13.0.
    Raises OSError if there is no driver."""

    api = "CUDA"
    prefix = "cu"
    names = {name: f"cu{name}_v2" for name in _SECOND}
    more = _CALLS
    lost = (700, 702, 709, 710, 714, 715, 716, 717, 718, 719)
    attributes = (16, 39)
    shape = SHAPE

    def __init__(self, ordinal: int) -> None:
        library = _library()
        begin_imports()
        super().__init__(library, ordinal)
        self.launch_graph_call = C.CDLL(library._name).cuGraphLaunch  # see `launch_call`
        self.capability = 10 * self.attribute(_MAJOR) + self.attribute(_MINOR)
        self._event = self.new_event()

    def open(self) -> Any:
        device, self.context = C.c_int(), _p()
        self.check(self.cuDeviceGet(C.byref(device), self.ordinal), "choosing a device")
        self.check(self.cuDevicePrimaryCtxRetain(C.byref(self.context), device), "opening the device")
        return device

    def make_current(self) -> int:
        return int(self.cuCtxSetCurrent(self.context))

    def words(self, result: int) -> tuple[str, str]:
        words = C.c_char_p(), C.c_char_p()
        for call, word in zip((self.cuGetErrorName, self.cuGetErrorString), words, strict=True):
            call(result, C.byref(word))
        title, text = (w.value.decode() if w.value else "" for w in words)
        return title, text

    # these synchronous copies name no stream: they wait for our stream, because it is a blocking one

    def upload(self, address: int, host: int, nbytes: int) -> None:
        self.check(self.cuMemcpyHtoD_v2(address, host, nbytes), f"copying {nbytes} bytes to the device")

    def download(self, host: int, address: int, nbytes: int) -> None:
        self.check(self.cuMemcpyDtoH_v2(host, address, nbytes), f"copying {nbytes} bytes from the device")

    # --- other libraries ----------------------------------------------------------------------------------------

    def home(self, address: int) -> int:
        """The index of the device whose memory this is, or -1."""
        n = C.c_int()
        return -1 if self.cuPointerGetAttribute(C.byref(n), _DEVICE_OF_POINTER, address) else n.value

    def wait_stream(self, stream: int) -> None:
        """Makes our stream wait for another library's stream. Nothing is needed for the default stream: ours waits for
        that anyway."""
        if stream > _DEFAULT_STREAM:
            self._order(stream, self.stream)

    def signal_stream(self, stream: int) -> None:
        """Makes another library's stream wait for ours."""
        if stream > _DEFAULT_STREAM:
            self._order(self.stream, stream)

    def _order(self, first: Any, then: Any) -> None:
        """Makes the stream ``then`` wait for all work that is in the stream ``first`` now."""
        self.check(self.EventRecord(self._event, first), "marking a stream")
        self.check(self.cuStreamWaitEvent(then, self._event, 0), "waiting for a stream")

    # --- code ---------------------------------------------------------------------------------------------------

    @property
    def code_name(self) -> str:
        return f"sm_{chip_for(self.capability)}"

    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        """PTX for this device."""
        from quadrants_lab.backends.cuda.listings import ptx_of

        return ptx_of(kernel, options, chip_for(self.capability)).encode()

    def load(self, code: bytes, what: str) -> Any:
        """Loads PTX as a module. If the driver cannot assemble it, the error has the assembler's message."""
        module = _p()
        log = C.create_string_buffer(8192)
        names = (C.c_int * 2)(_JIT_ERRORS, _JIT_ERROR_BYTES)
        values = (_p * 2)(C.addressof(log), len(log))
        result = self.cuModuleLoadDataEx(C.byref(module), code + b"\0", 2, names, values)
        if result:
            words = log.value.decode(errors="replace").strip()
            self.check(result, f"building {what}, {len(code)} bytes of PTX ({words or 'no reason given'})")
        return module

    def graph(self, run: Callable[[], None]) -> Graph:
        """Captures everything that ``run`` launches, clears and copies as a graph."""
        return Graph(self, run)


class Graph:
    """A graph of everything that ``run`` puts into the driver's stream; capturing executes none of it. ``launch()``
    starts the graph after all earlier launches; any thread may call it."""

    def __init__(self, driver: Driver, run: Callable[[], None]) -> None:
        self._driver, self._run = driver, run
        graph, self._exec = self._captured(), _p()
        try:
            self._check(driver.cuGraphInstantiateWithFlags(C.byref(self._exec), graph, 0))
        finally:
            driver.cuGraphDestroy(graph)
        self.launch = _launcher(driver, self._exec)
        forks.finalize(self.launch, driver.release, driver.cuGraphExecDestroy, self._exec)

    def _check(self, result: int) -> None:
        self._driver.check(result, "making a graph of launches")

    def _captured(self) -> Any:
        driver, graph = self._driver, _p()
        try:  # the try begins before the capture does, since Ctrl-C may come right after it
            self._check(driver.cuStreamBeginCapture_v2(driver.stream, _RELAXED))
            self._run()
        except BaseException:
            driver.cuStreamEndCapture(driver.stream, C.byref(graph))
            if graph:
                driver.cuGraphDestroy(graph)
            raise
        self._check(driver.cuStreamEndCapture(driver.stream, C.byref(graph)))
        return graph

    def update(self) -> None:
        """Replaces the arguments in the graph by the present ones; ``run`` must launch the same programs as before."""
        graph, node, why = self._captured(), _p(), C.c_int()
        try:
            self._check(self._driver.cuGraphExecUpdate(self._exec, graph, C.byref(node), C.byref(why)))
        finally:
            self._driver.cuGraphDestroy(graph)


def _launcher(driver: Driver, running: Any) -> Callable[[], None]:
    """The function that starts a graph."""
    call, stream, here = driver.launch_graph_call, driver.stream, driver.here

    def launch() -> None:
        if here.driver is not driver:
            driver.enter()
        result = call(running, stream)
        if result:
            driver.check(result, "launching a graph")

    return launch


_driver = Opened("cuda", Driver, "NVIDIA's driver (libcuda.so.1)", toolkit.missing_libdevice)
current, probe, register, stand_in = _driver.current, _driver.probe, _driver.register, _driver.stand_in


def shown() -> int:
    """The compute capability whose code is shown: the device's, or the default."""
    return DEFAULT_CHIP if probe() else chip_for(current().capability)


# --- a session's device ---------------------------------------------------------------------------------------------

class CudaMemory(SimtMemory):
    """An array on the device that other libraries can use through ``__cuda_array_interface__``."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "strides": None,
            "version": 3, "stream": self.device.driver.stream.value,
        }  # fmt: skip


class Device(SimtDevice):
    memory = CudaMemory

    def __init__(self, threads: int = 0, number: int | None = None) -> None:
        super().__init__(current(number), threads)
        self.few_threads = min(self.few_threads, FEW * self.driver.multiprocessors)
        self.large_heap = LARGE_HEAP
        if isinstance(self.driver, Driver):
            warm_up(self.driver)

    # --- memory of other libraries ------------------------------------------------------------------------------

    @property
    def stream_number(self) -> int:
        """The handle of the stream in which all launches run, for other libraries."""
        return int(self.driver.stream.value)

    def lend(self, address: int, shape: tuple[int, ...], dtype: Any, keep: Any) -> CudaMemory:
        """Wraps C-contiguous memory of another library as an array. Raises ValueError if the memory is not on this
        device."""
        self.driver.enter()
        if prod(shape):
            home = self.driver.home(address)
            if home != self.driver.ordinal:
                where = "no GPU" if home < 0 else f"GPU {home}"
                raise ValueError(f"its memory is on {where}, the session is on GPU {self.driver.ordinal}")
        return CudaMemory.over(self, address, shape, dtype, keep)  # type: ignore[return-value]  # of this class

    def wait_stream(self, stream: int) -> None:
        """Makes later launches wait for the work in another library's stream."""
        self.driver.enter()
        self.driver.wait_stream(stream)
        self.running = True

    def signal_stream(self, stream: int) -> None:
        """Makes another library's stream wait for all launches so far."""
        self.driver.enter()
        self.driver.signal_stream(stream)


# --- work in background threads -------------------------------------------------------------------------------------

_EMPTY = """\
.version {version}
.target sm_{chip}
.address_size 64
.visible .entry nothing() {{ ret; }}
"""


@cache
def begin_imports() -> None:
    """Imports, on another thread, the modules that make PTX; this needs no device."""
    forks.start(import_module, "quadrants_lab.backends.cuda.nvptx", name="imports")


@cache
def warm_up(driver: Any) -> None:
    """Starts, on other threads, work for the first kernel that needs a device, once for each driver. Errors are
    ignored here: they occur again when the result is needed."""
    for work in (_load_compiler, _make_generator):
        forks.start(work, driver, name="warm-up")


def _load_compiler(driver: Any) -> None:
    with suppress(QuadrantsRuntimeError, MemoryError):
        chip = chip_for(driver.capability)
        version = f"{PTX_VERSIONS[chip] // 10}.{PTX_VERSIONS[chip] % 10}"
        driver.enter()
        driver.unload(driver.load(_EMPTY.format(version=version, chip=chip).encode(), "nothing"))


def _make_generator(driver: Any) -> None:
    from quadrants_lab.backends.cuda import libdevice
    from quadrants_lab.backends.cuda.nvptx import machine

    with suppress(QuadrantsRuntimeError):
        libdevice.prepare(machine(chip_for(driver.capability)))
