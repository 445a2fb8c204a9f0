"""Metal: kernels are translated to the Metal Shading Language, which macOS compiles for the GPU.

Other systems can simulate a GPU, for tests and experiments: the same source is compiled as C++ and runs one thread
after the other, with the same frame, buffers, adstack heap and launches. `Device.simulated` tells whether a device is
simulated.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quadrants_lab.backends import Capabilities
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.ir.importing import lazily

if TYPE_CHECKING:
    from quadrants_lab.backends.metal.device import Device


STAGES = ("msl",)  # the source
CAPABILITIES = Capabilities(ad_unroll=(4, 4))
probe, probe_simulation = lazily("backends.metal.apple", "probe"), lazily("backends.metal.simulator", "probe")
lowering, stages = lazily("backends._msl.kernel", "lowering"), lazily("backends._msl.kernel", "stages")
load = lazily("backends.metal.executable", "Executable")


def devices() -> list[str]:
    """The system's default GPU, if Metal can be used."""
    from quadrants_lab.backends.metal import apple

    return [] if apple.probe() else [str(apple.Apple().device.name())]


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    """Opens the system's GPU, or a simulation if there is none. ``threads``: the most threads in flight, 0 for the
    default. ``cache`` is unused: the system has its own cache.

    Raises QuadrantsRuntimeError if neither is possible.
    """
    from quadrants_lab.backends.metal import device

    return device.open_device(threads)


@cache
def target_key() -> str:
    """The part of a cache key for everything besides kernel and options that the code depends on: our own sources."""
    from quadrants_lab.backends.disk_cache import digest

    sources = digest("_clike", "_gpu", "_msl", "metal")
    return f"metal/{sources}"
