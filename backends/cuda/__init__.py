"""CUDA: kernels are compiled to PTX, which NVIDIA's driver translates to machine code.

PTX can be made on any machine. It needs LLVM and, for elementary functions, NVIDIA's math library.
"""

from functools import cache

from quadrants_lab.backends._simt.backend import SimtBackend
from quadrants_lab.backends.cuda import toolkit
from quadrants_lab.backends.interface import Capabilities
from quadrants_lab.ir.importing import lazily

STAGES = ("llvm", "ptx")
CAPABILITIES = Capabilities(ad_unroll=(2, 1), dlpack=2, many=True, blocks=True)
if toolkit.tool("ptxas") and toolkit.tool("nvdisasm"):
    STAGES = (*STAGES, "sass")  # type: ignore[assignment]  # three where the tools are

_backend = SimtBackend("cuda", "driver", "a CUDA device")
probe, probe_simulation = _backend.probe, _backend.probe_simulation
open_device, load, stages = _backend.open_device, _backend.load, _backend.stages
lowering = lazily("backends.cuda.nvptx", "lowering")


def devices() -> list[str]:
    """The device that kernels run on, with its memory and compute capability."""
    from quadrants_lab.backends.cuda import driver

    d = driver.current()
    return [
        f"{d.name}, {d.total_bytes / 2**30:.0f} GiB, compute capability {d.capability // 10}.{d.capability % 10}"
    ]


@cache
def target_key() -> str:
    """See `SimtBackend.key`; code also depends on the math library."""
    library = toolkit.libdevice()
    return _backend.key(library.read_bytes() if library is not None else b"")
