"""AMDGPU: kernels become code objects for AMD's GPUs, which the HIP runtime launches.

ISA and its sizes are made on any machine, with LLVM alone; elementary functions are our own (`_gpu.functions`). A code
object needs LLVM's linker. No kernel has ever run on an AMD GPU: what can be tested without one is.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from quadrants_lab.backends.disk_cache import DiskCache, Keep, Kept, forget

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.amdgpu.device import Device
    from quadrants_lab.backends.amdgpu.executable import Executable
    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel, Pass
    from quadrants_lab.ir.options import CompileOptions

STAGES = ("llvm", "llvm-opt", "isa", "hsaco")
AD_UNROLL = (2, 1)


def probe() -> str:
    """Empty when kernels can run here, else the sentence why not."""
    if find_spec("llvmlite") is None:
        return "The amdgpu backend needs the package llvmlite: pip install llvmlite."
    from quadrants_lab.backends.amdgpu import hip

    return hip.probe()


def devices() -> list[str]:
    """The device that kernels run on, with its memory."""
    from quadrants_lab.backends.amdgpu import hip

    d = hip.current()
    return [f"{d.name}, {d.total_bytes / 2**30:.0f} GiB"]


def probe_simulation() -> str:
    """Empty where something stands in for a device (`hip.register`), else the sentence why not."""
    from quadrants_lab.backends.amdgpu import hip

    return "" if hip.stand_in() is not None else "Nothing stands in for an AMD device here."


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    """The device that QD_VISIBLE_DEVICE names by its number, or the first. ``threads``: most in flight, 0 for what the
    device has room for.

    Raises QuadrantsRuntimeError where there is no device.
    """
    from quadrants_lab.backends.amdgpu.device import Device
    from quadrants_lab.errors import QuadrantsRuntimeError

    why_not = probe()
    if why_not and probe_simulation():
        raise QuadrantsRuntimeError(why_not, code="QL3010")
    return Device(threads)


def chip() -> str:
    """The chip whose code is shown: the one that QL_AMDGPU_CHIP names, the device's, or the default one."""
    from quadrants_lab.backends.amdgpu import chips, hip

    asked = chips.asked()
    return asked or (chips.DEFAULT if hip.probe() else str(hip.current().chip))


def lowering() -> tuple[Pass, ...]:
    """The passes that the emitter begins with."""
    from quadrants_lab.backends._simt.kernel import LOWERING

    return LOWERING


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """ "llvm": as emitted; "llvm-opt": optimised; "isa": assembly; "hsaco": the code object, where LLVM's linker is
    found. The last two say what each program needs of registers and memory."""
    from quadrants_lab.backends.amdgpu.listings import stages as make

    return make(kernel, options, chip())


def load(
    kernel: Kernel, options: CompileOptions, cached: Kept | None = None, keep: Keep = forget
) -> Executable:
    """The code object of an offloaded kernel without exits, ready to launch.

    ``cached``, ``keep``: see `quadrants_lab.runtime.backend.Backend`.
    """
    from quadrants_lab.backends.amdgpu.executable import load as make

    return make(kernel, options, cached, keep)


@cache
def target_key() -> str:
    """What code depends on besides kernel and options: the chip, LLVM, and our own sources."""
    import llvmlite.binding as llvm

    from quadrants_lab.backends.amdgpu import hip
    from quadrants_lab.backends.sources import digest

    sources = digest("_gpu", "_llvm", "_simt", "amdgpu", "lower/adstacks")
    return f"amdgpu/{hip.current().code_name}/llvm{llvm.llvm_version_info}/{sources}"
