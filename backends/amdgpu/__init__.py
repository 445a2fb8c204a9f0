"""AMDGPU: kernels are compiled to code objects for AMD's GPUs, which the HIP runtime launches.

Assembly can be made on any machine with LLVM alone; a code object needs LLVM's linker. Elementary functions are our own
(`lower.functions`). No kernel has run on a real AMD GPU yet; everything that can be tested without one is.
"""

from functools import cache

from quadrants_lab.backends._simt.backend import SimtBackend
from quadrants_lab.backends.interface import Capabilities
from quadrants_lab.ir.importing import lazily

STAGES = ("llvm", "llvm-opt", "isa", "hsaco")
CAPABILITIES = Capabilities(ad_unroll=(2, 1), many=True, blocks=True)

_backend = SimtBackend("amdgpu", "hip", "an AMD device")
probe, probe_simulation = _backend.probe, _backend.probe_simulation
open_device, load, stages = _backend.open_device, _backend.load, _backend.stages
lowering = lazily("backends.amdgpu.gcn", "lowering")


def devices() -> list[str]:
    """The device that kernels run on, with its memory."""
    from quadrants_lab.backends.amdgpu import hip

    d = hip.current()
    return [f"{d.name}, {d.total_bytes / 2**30:.0f} GiB"]


@cache
def target_key() -> str:
    """See `SimtBackend.key`."""
    return _backend.key()
