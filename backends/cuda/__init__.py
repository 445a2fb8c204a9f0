"""CUDA: kernels become PTX, which NVIDIA's driver makes machine code of.

PTX is made on any machine, with LLVM and, for elementary functions, with NVIDIA's library of them.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from quadrants_lab.backends.cuda import toolkit
from quadrants_lab.backends.disk_cache import DiskCache, Keep, Kept, forget

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.cuda.device import Device
    from quadrants_lab.backends.cuda.executable import Executable
    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel, Pass
    from quadrants_lab.ir.options import CompileOptions

STAGES = ("llvm", "ptx")
AD_UNROLL = (2, 1)
if toolkit.tool("ptxas") and toolkit.tool("nvdisasm"):
    STAGES = (*STAGES, "sass")  # type: ignore[assignment]  # three where the tools are


def probe() -> str:
    """Empty when kernels can run here, else the sentence why not."""
    if find_spec("llvmlite") is None:
        return "The cuda backend needs the package llvmlite: pip install llvmlite."
    from quadrants_lab.backends.cuda import driver

    return driver.probe()


def devices() -> list[str]:
    """The device that kernels run on, with its memory and compute capability."""
    from quadrants_lab.backends.cuda import driver

    d = driver.current()
    return [
        f"{d.name}, {d.total_bytes / 2**30:.0f} GiB, compute capability {d.capability // 10}.{d.capability % 10}"
    ]


def probe_simulation() -> str:
    """Empty where something stands in for a device (`driver.register`), else the sentence why not."""
    from quadrants_lab.backends.cuda import driver

    return "" if driver.stand_in() is not None else "Nothing stands in for a CUDA device here."


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    """The device that QD_VISIBLE_DEVICE names by its number, or the first. ``threads``: most in flight, 0 for what the
    device has room for. The driver keeps its own cache of machine code.

    Raises QuadrantsRuntimeError where there is no device.
    """
    from quadrants_lab.backends.cuda.device import Device
    from quadrants_lab.errors import QuadrantsRuntimeError

    why_not = probe()
    if why_not and probe_simulation():
        raise QuadrantsRuntimeError(why_not, code="QL3010")
    return Device(threads)


def chip() -> int:
    """The chip whose code is shown: the device's, or the default one."""
    from quadrants_lab.backends.cuda import driver, nvptx

    if driver.probe():
        return nvptx.DEFAULT_CHIP
    return nvptx.chip_for(driver.current().capability)


def lowering() -> tuple[Pass, ...]:
    """The passes that the emitter begins with."""
    from quadrants_lab.backends._simt.kernel import LOWERING

    return LOWERING


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """ "llvm": as emitted; "ptx": optimised; "sass", where ptxas and nvdisasm are found: the machine code, with what
    it needs of registers and memory."""
    from quadrants_lab.backends.cuda.listings import stages as make

    return make(kernel, options, chip())


def load(
    kernel: Kernel, options: CompileOptions, cached: Kept | None = None, keep: Keep = forget
) -> Executable:
    """PTX of an offloaded kernel without exits, ready to launch; the driver builds it when a device first needs it.

    ``cached``, ``keep``: see `quadrants_lab.runtime.backend.Backend`.
    """
    from quadrants_lab.backends.cuda.executable import load as make

    return make(kernel, options, cached, keep)


@cache
def target_key() -> str:
    """What code depends on besides kernel and options: the chip, LLVM, the math library, and our own sources."""
    import llvmlite.binding as llvm

    from quadrants_lab.backends.cuda import driver
    from quadrants_lab.backends.sources import digest

    library = toolkit.libdevice()
    sources = digest(
        "_gpu", "_llvm", "_simt", "cuda", "lower/adstacks", also=library.read_bytes() if library is not None else b""
    )
    return f"cuda/{driver.current().code_name}/llvm{llvm.llvm_version_info}/{sources}"
