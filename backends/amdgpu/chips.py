"""The AMD chips that code can be made for, and the chip whose code is shown without a device."""

import os

from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.errors import QuadrantsRuntimeError

# chip -> threads of a wave. Tests check the code of the first three.
WAVES = {
    "gfx90a": 64, "gfx942": 64, "gfx1100": 32,
    "gfx906": 64, "gfx908": 64, "gfx950": 64, "gfx1030": 32, "gfx1101": 32, "gfx1102": 32, "gfx1200": 32, "gfx1201": 32,
}  # fmt: skip
DEFAULT = "gfx942"


def known(chip: str) -> str:
    """The key of `WAVES` for a chip or a device's full name: "gfx90a" for "gfx90a:sramecc+:xnack-".

    Raises QuadrantsRuntimeError where no code can be made for it.
    """
    base = chip.partition(":")[0]
    if base not in WAVES:
        raise QuadrantsRuntimeError(f"the amdgpu backend makes no code for {chip!r}, but for {', '.join(WAVES)}",
                                    code="QL3010")  # fmt: skip
    return base


def asked() -> str:
    """The chip that QL_AMDGPU_CHIP names, "" where it names none."""
    name = os.environ.get("QL_AMDGPU_CHIP")
    return known(name) if name else ""


# A group has four waves, or eight. Kernels set no flags in host memory: whether the host sees a flag before the launch
# ends depends on the kind of the memory.
SHAPE = Shape(group=256, block=(256, 64), waves=4, signals=False)
