"""Calls Apple's Metal through PyObjC. It needs macOS 13, where buffers have GPU addresses."""

import platform
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

FAMILY_METAL3 = 5001  # MTLGPUFamilyMetal3
LANGUAGE = 3 << 16  # MTLLanguageVersion3_0
MATH_SAFE, MATH_RELAXED = 0, 1  # MTLMathMode


@cache
def probe() -> str:
    """The empty string if kernels can run on this machine, else a sentence that says why not."""
    if platform.system() != "Darwin":
        return "Metal is the GPU interface of macOS, and this is another system."
    if int(platform.mac_ver()[0].split(".")[0] or 0) < 13:
        return "The metal backend needs macOS 13 or later."
    if find_spec("Metal") is None:
        return "The metal backend needs the package pyobjc-framework-Metal: pip install pyobjc-framework-Metal."
    device = _default_device()
    if device is None:
        return "Metal finds no GPU here."
    if not device.supportsFamily_(FAMILY_METAL3):
        return f"The GPU {device.name()} does not support Metal 3."
    return ""


def _default_device() -> Any:
    import Metal

    return Metal.MTLCreateSystemDefaultDevice()


class Apple:
    """The system's default GPU."""

    simulated = False
    threads = 1 << 17

    def __init__(self) -> None:
        self.device = _default_device()

    def compile_options(self, fast_math: bool) -> Any:
        import Metal

        options = Metal.MTLCompileOptions.alloc().init()
        options.setLanguageVersion_(LANGUAGE)
        if options.respondsToSelector_("setMathMode:"):
            options.setMathMode_(MATH_RELAXED if fast_math else MATH_SAFE)
        else:  # before macOS 15, fast math also assumes that there are no NaN
            options.setFastMathEnabled_(False)
        return options

    def pool(self) -> AbstractContextManager[Any]:
        import objc  # comes with pyobjc-framework-Metal

        made: AbstractContextManager[Any] = objc.autorelease_pool()
        return made


STORAGE_SHARED = 0  # MTLResourceStorageModeShared
USAGE_READ_WRITE = 3  # MTLResourceUsageRead | MTLResourceUsageWrite
SCOPE_BUFFERS = 1  # MTLBarrierScopeBuffers
COMPLETED, ERROR = 4, 5  # MTLCommandBufferStatus


class System(Protocol):
    """The interface of Metal with one device. ``threads``: the most threads of a launch."""

    @property
    def simulated(self) -> bool: ...

    @property
    def threads(self) -> int: ...

    @property
    def device(self) -> Any: ...

    def compile_options(self, fast_math: bool) -> Any:
        """Makes an MTLCompileOptions. NaN and infinity keep their meaning, also with ``fast_math``."""

    def pool(self) -> AbstractContextManager[Any]:
        """An autorelease pool for a launch; without it, temporary objects would live as long as the process."""
        ...
