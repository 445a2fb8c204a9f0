"""CUDA: kernels are compiled to PTX, which NVIDIA's driver translates to machine code.

PTX can be made on any machine. It needs LLVM and, for elementary functions, NVIDIA's math library.
"""

from functools import cache

from quadrants_lab.backends import Capabilities
from quadrants_lab.backends._simt.backend import SimtBackend
from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.backends.cuda import toolkit
from quadrants_lab.errors import QuadrantsRuntimeError

STAGES = ("llvm", "ptx")
CAPABILITIES = Capabilities(ad_unroll=(2, 1), dlpack=2, many=True, blocks=True)
if toolkit.tool("ptxas") and toolkit.tool("nvdisasm"):
    STAGES = (*STAGES, "sass")  # type: ignore[assignment]  # three where the tools are

# With this oversubscription most iterations have a separate thread.
SHAPE = Shape(group=128, block=(1024, 32), waves=64, warp=32, local_arrays=True, near_sines=True)
DEFAULT_CHIP = 90

# compute capability -> the oldest PTX version that supports it. Code for one capability runs on all later ones.
PTX_VERSIONS = {75: 70, 80: 70, 86: 71, 89: 78, 90: 78, 100: 86, 120: 87}

_backend = SimtBackend("cuda", "driver", "a CUDA device")
probe, probe_simulation = _backend.probe, _backend.probe_simulation
open_device, load, stages = _backend.open_device, _backend.load, _backend.stages
lowering = SHAPE.lowering


def devices() -> list[str]:
    """The device that kernels run on, with its memory and compute capability."""
    from quadrants_lab.backends.cuda import driver

    d = driver.current()
    return [
        f"{d.name}, {d.total_bytes / 2**30:.0f} GiB, compute capability {d.capability // 10}.{d.capability % 10}"
    ]


def chip_for(capability: int) -> int:
    """The newest key of `PTX_VERSIONS` whose code runs on a device of this compute capability (75 for 7.5).

    Raises QuadrantsRuntimeError if there is none.
    """
    known = [c for c in PTX_VERSIONS if c <= capability]
    if not known:
        raise QuadrantsRuntimeError(
            f"compute capability {capability / 10} is too old: the cuda backend needs 7.5 or newer", code="QL3010"
        )
    return max(known)


@cache
def target_key() -> str:
    """See `SimtBackend.key`; code also depends on the math library."""
    library = toolkit.libdevice()
    return _backend.key(library.read_bytes() if library is not None else b"")
