"""AMDGPU: kernels are compiled to code objects for AMD's GPUs, which the HIP runtime launches.

Assembly can be made on any machine that has LLVM; a code object also needs LLVM's linker. Elementary functions are our
own (`lower.functions`). No kernel has run on a real AMD GPU yet; everything that can be tested without one is tested.
"""

import os
from functools import cache

from quadrants_lab.backends import Capabilities
from quadrants_lab.backends._simt.backend import SimtBackend
from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.errors import QuadrantsRuntimeError

STAGES = ("llvm", "llvm-opt", "isa", "hsaco")
CAPABILITIES = Capabilities(ad_unroll=(2, 1), many=True, blocks=True)

# chip -> how many threads a wave has. Tests check the code for the first three chips.
WAVES = {
    "gfx90a": 64, "gfx942": 64, "gfx1100": 32,
    "gfx906": 64, "gfx908": 64, "gfx950": 64, "gfx1030": 32, "gfx1101": 32, "gfx1102": 32, "gfx1200": 32, "gfx1201": 32,
}  # fmt: skip
DEFAULT_CHIP = "gfx942"
# A group has four waves, or eight. Kernels set no flags in host memory: whether the host sees a flag before the launch
# ends depends on the kind of the memory.
SHAPE = Shape(group=256, block=(256, 64), waves=4, functions=True)

_backend = SimtBackend("amdgpu", "hip", "an AMD device")
probe, probe_simulation = _backend.probe, _backend.probe_simulation
open_device, load, stages = _backend.open_device, _backend.load, _backend.stages
lowering = SHAPE.lowering


def devices() -> list[str]:
    """The device that kernels run on, with its memory."""
    from quadrants_lab.backends.amdgpu import hip

    d = hip.current()
    return [f"{d.name}, {d.total_bytes / 2**30:.0f} GiB"]


def known_chip(chip: str) -> str:
    """The key of `WAVES` for a chip's name with or without features: "gfx90a" for "gfx90a:sramecc+:xnack-".

    Raises QuadrantsRuntimeError if no code can be made for it.
    """
    base = chip.partition(":")[0]
    if base not in WAVES:
        raise QuadrantsRuntimeError(f"the amdgpu backend makes no code for {chip!r}, but for {', '.join(WAVES)}",
                                    code="QL3010")  # fmt: skip
    return base


def asked_chip() -> str:
    """The chip that QL_AMDGPU_CHIP names; "" if it is not set."""
    name = os.environ.get("QL_AMDGPU_CHIP")
    return known_chip(name) if name else ""


@cache
def target_key() -> str:
    """See `SimtBackend.key`."""
    return _backend.key()
