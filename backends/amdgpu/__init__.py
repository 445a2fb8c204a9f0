"""AMDGPU: kernels become code objects for AMD's GPUs, which the HIP runtime launches.

ISA and its sizes are made on any machine, with LLVM alone; elementary functions are our own (`lower.functions`). A code
object needs LLVM's linker. No kernel has ever run on an AMD GPU: what can be tested without one is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quadrants_lab.backends._simt.backend import SimtBackend
from quadrants_lab.backends.capabilities import Capabilities
from quadrants_lab.backends.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions

STAGES = ("llvm", "llvm-opt", "isa", "hsaco")
CAPABILITIES = Capabilities(ad_unroll=(2, 1), many=True)

_backend = SimtBackend("amdgpu", "hip", "an AMD device")
probe, probe_simulation = _backend.probe, _backend.probe_simulation
open_device, load = _backend.open_device, _backend.load
lowering = lazily("amdgpu.gcn", "lowering")


def devices() -> list[str]:
    """The device that kernels run on, with its memory."""
    from quadrants_lab.backends.amdgpu import hip

    d = hip.current()
    return [f"{d.name}, {d.total_bytes / 2**30:.0f} GiB"]


def chip() -> str:
    """The chip whose code is shown: the one that QL_AMDGPU_CHIP names, the device's, or the default one."""
    from quadrants_lab.backends.amdgpu import chips, hip

    asked = chips.asked()
    return asked or (chips.DEFAULT if hip.probe() else str(hip.current().chip))


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """ "llvm": as emitted; "llvm-opt": optimised; "isa": assembly; "hsaco": the code object, where LLVM's linker is
    found. The last two say what each program needs of registers and memory."""
    from quadrants_lab.backends.amdgpu.listings import stages as make

    return make(kernel, options, chip())


@cache
def target_key() -> str:
    """See `SimtBackend.key`."""
    return _backend.key()
