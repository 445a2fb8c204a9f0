"""CUDA: kernels become PTX, which NVIDIA's driver makes machine code of.

PTX is made on any machine, with LLVM and, for elementary functions, with NVIDIA's library of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quadrants_lab.backends._simt.backend import SimtBackend
from quadrants_lab.backends.capabilities import Capabilities
from quadrants_lab.backends.cuda import toolkit
from quadrants_lab.backends.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions

STAGES = ("llvm", "ptx")
CAPABILITIES = Capabilities(ad_unroll=(2, 1), dlpack=2, many=True)
if toolkit.tool("ptxas") and toolkit.tool("nvdisasm"):
    STAGES = (*STAGES, "sass")  # type: ignore[assignment]  # three where the tools are

_backend = SimtBackend("cuda", "driver", "a CUDA device")
probe, probe_simulation = _backend.probe, _backend.probe_simulation
open_device, load = _backend.open_device, _backend.load
lowering = lazily("cuda.nvptx", "lowering")


def devices() -> list[str]:
    """The device that kernels run on, with its memory and compute capability."""
    from quadrants_lab.backends.cuda import driver

    d = driver.current()
    return [
        f"{d.name}, {d.total_bytes / 2**30:.0f} GiB, compute capability {d.capability // 10}.{d.capability % 10}"
    ]


def chip() -> int:
    """The chip whose code is shown: the device's, or the default one."""
    from quadrants_lab.backends.cuda import driver, nvptx

    if driver.probe():
        return nvptx.DEFAULT_CHIP
    return nvptx.chip_for(driver.current().capability)


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """ "llvm": as emitted; "ptx": optimised; "sass", where ptxas and nvdisasm are found: the machine code, with what
    it needs of registers and memory."""
    from quadrants_lab.backends.cuda.listings import stages as make

    return make(kernel, options, chip())


@cache
def target_key() -> str:
    """See `SimtBackend.key`; also the math library."""
    library = toolkit.libdevice()
    return _backend.key(library.read_bytes() if library is not None else b"")
