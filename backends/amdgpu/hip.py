"""Calls AMD's HIP runtime through ctypes. It is written after AMD's documentation and was not yet tried on a
device. `current` returns the driver of a device. Tests `register` a stand-in."""

import ctypes as C
import re
from functools import cache
from typing import Any

from quadrants_lab.backends import amdgpu
from quadrants_lab.backends._simt import driver as simt
from quadrants_lab.backends._simt.device import SimtDevice
from quadrants_lab.backends._simt.driver import first_library
from quadrants_lab.backends._simt.opened import Opened
from quadrants_lab.backends.amdgpu import SHAPE, toolkit
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

_PROPERTIES = 16384  # the size in bytes of the buffer for hipDeviceProp_t, more than any version needs


@cache
def _library() -> Any:
    """Loads the HIP runtime. Raises OSError if there is none."""
    return first_library(toolkit.runtimes())


class Driver(simt.Driver):
    """A device behind the HIP runtime. ``chip``: a key of `amdgpu.WAVES`. ``version``: the version of HIP. Raises
    OSError if there is no runtime."""

    api = "HIP"
    prefix = "hip"
    names = {
        "DriverGetVersion": "hipRuntimeGetVersion", "DeviceGetCount": "hipGetDeviceCount",
        "MemAlloc": "hipMalloc", "MemFree": "hipFree", "MemHostAlloc": "hipHostMalloc",
        "MemFreeHost": "hipHostFree", "StreamCreate": "hipStreamCreateWithFlags",
        "EventCreate": "hipEventCreateWithFlags",
        "OccupancyMaxActiveBlocksPerMultiprocessor": "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
        "LaunchKernel": "hipModuleLaunchKernel",
    }  # fmt: skip
    more = {
        "hipSetDevice": (C.c_int,),
        "hipModuleLoadData": (C.c_void_p, C.c_void_p),
        "hipGetErrorName": (C.c_int,),
        "hipGetErrorString": (C.c_int,),
    }
    lost = (700, 702, 709, 710, 719)
    attributes = (63, 57)
    shape = SHAPE

    def __init__(self, ordinal: int) -> None:
        super().__init__(_library(), ordinal)
        self.chip = amdgpu.known_chip(self._chip_name())
        self.name = f"{self.name} ({self.chip})"

    def open(self) -> int:
        return self.ordinal

    def make_current(self) -> int:
        return int(self.hipSetDevice(self.ordinal))

    def words(self, result: int) -> tuple[str, str]:
        for call in (self.hipGetErrorName, self.hipGetErrorString):
            call.restype = C.c_char_p
        return (self.hipGetErrorName(result) or b"").decode(), (self.hipGetErrorString(result) or b"").decode()

    def _chip_name(self) -> str:
        """The field gcnArchName of hipDeviceProp_t. Its offset depends on HIP's version, so the field is found as the
        only text that begins with "gfx"."""
        call = getattr(self.library, "hipGetDevicePropertiesR0600", None) or self.library.hipGetDeviceProperties
        call.argtypes = (C.c_void_p, C.c_int)
        properties = C.create_string_buffer(_PROPERTIES)
        self.check(call(properties, self.ordinal), "asking for the device's properties")
        found = re.search(rb"gfx[0-9a-f]{3,5}[:\0]", properties.raw)
        return found[0][:-1].decode() if found else "an unnamed chip"

    @property
    def code_name(self) -> str:
        return self.chip

    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        """Compiles a kernel to a code object for this device."""
        from quadrants_lab.backends.amdgpu.listings import code_of

        return code_of(kernel, options, self.chip)

    def load(self, code: bytes, what: str) -> Any:
        module = C.c_void_p()
        self.check(self.hipModuleLoadData(C.byref(module), code), f"loading {what}, {len(code)} bytes of code object")
        return module


_driver = Opened("amdgpu", Driver, "AMD's HIP runtime (libamdhip64.so, of ROCm)", toolkit.missing_linker)
current, probe, register, stand_in = _driver.current, _driver.probe, _driver.register, _driver.stand_in


def shown() -> str:
    """The chip whose code is shown: the chip that QL_AMDGPU_CHIP names, else the device's, else the default one."""
    return amdgpu.asked_chip() or (amdgpu.DEFAULT_CHIP if probe() else str(current().chip))


class Device(SimtDevice):
    def __init__(self, threads: int = 0, number: int | None = None) -> None:
        super().__init__(current(number), threads)
