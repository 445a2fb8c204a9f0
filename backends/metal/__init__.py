"""Metal: kernels become source of the Metal Shading Language, which the system compiles.

On a Mac they run on its GPU. Everywhere else a simulation can run them: the same source, compiled as C++ and run one
thread after the other, with the same frame, buffers, adstack heap and launches. It is for tests and for trying things
out; its `Device.simulated` says so.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quadrants_lab.backends.capabilities import Capabilities
from quadrants_lab.backends.disk_cache import DiskCache, Keep, Kept, forget

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.metal.device import Device
    from quadrants_lab.backends.metal.executable import Executable
    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel, Pass
    from quadrants_lab.ir.options import CompileOptions


def probe() -> str:
    """Empty when kernels can run on a GPU here, else the sentence why not."""
    from quadrants_lab.backends.metal import apple

    return apple.probe()


def probe_simulation() -> str:
    """Empty when a simulation can run kernels here, else the sentence why not."""
    from quadrants_lab.backends.metal import simulator

    return simulator.probe()


STAGES = ("msl",)
CAPABILITIES = Capabilities(ad_unroll=(4, 4))


def devices() -> list[str]:
    """The system's default GPU, where Metal can be used."""
    from quadrants_lab.backends.metal import apple

    return [] if apple.probe() else [str(apple.Apple().device.name())]


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    """The system's GPU; where there is none, a simulation of one. ``threads``: most in flight, 0 for what is good. The
    system keeps its own cache.

    Raises QuadrantsRuntimeError where neither is possible.
    """
    from quadrants_lab.backends.metal import device

    return device.open_device(threads)


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """ "msl": the source."""
    from quadrants_lab.backends.metal.executable import stage

    return {"msl": lambda: stage(kernel, options)}


def lowering(options: CompileOptions) -> tuple[Pass, ...]:
    """See `quadrants_lab.runtime.backend.Backend`."""
    from quadrants_lab.backends._msl.kernel import LOWERING

    return LOWERING


def load(
    kernel: Kernel, options: CompileOptions, cached: Kept | None = None, keep: Keep = forget
) -> Executable:
    """The source of an offloaded kernel without exits, ready to launch; devices build it when they first need it.

    ``cached``, ``keep``: see `quadrants_lab.runtime.backend.Backend`.

    Raises QuadrantsTypeError where the kernel needs f64.
    """
    from quadrants_lab.backends.metal.executable import Executable

    return Executable(kernel, options, cached, keep)


@cache
def target_key() -> str:
    """What the source depends on besides kernel and options: our own sources."""
    from quadrants_lab.backends.sources import digest

    sources = digest("_clike", "_gpu", "_msl", "metal", "lower/adstacks")
    return f"metal/{sources}"
