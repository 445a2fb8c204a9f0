"""NVIDIA's chips: which code runs on which, and how their programs are launched."""

from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.errors import QuadrantsRuntimeError

# With this oversubscription most iterations have a separate thread. Kernels can set flags in pinned host memory.
SHAPE = Shape(group=128, block=(1024, 32), waves=64, signals=True, warp=32, local_arrays=True, near_sines=True)
DEFAULT_CHIP = 90

# compute capability -> the oldest PTX version that supports it; code for one runs on all later ones
PTX_VERSIONS = {75: 70, 80: 70, 86: 71, 89: 78, 90: 78, 100: 86, 120: 87}


def chip_for(capability: int) -> int:
    """The newest chip whose code runs on a device of this compute capability (75 for 7.5).

    Raises QuadrantsRuntimeError where there is none.
    """
    known = [c for c in PTX_VERSIONS if c <= capability]
    if not known:
        raise QuadrantsRuntimeError(
            f"compute capability {capability / 10} is too old: the cuda backend needs 7.5 or newer", code="QL3010"
        )
    return max(known)
