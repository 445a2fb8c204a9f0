"""C: kernels become C11 that is meant to be read, compiled by the system's compiler and run on the calling thread.

Memory, launches, prints and failures are the CPU backend's.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import TYPE_CHECKING

from quadrants_lab.backends.capabilities import Capabilities
from quadrants_lab.backends.disk_cache import DiskCache, Keep, Kept, forget

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.cpu.device import Device
    from quadrants_lab.backends.cpu.executable import Executable
    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel, Pass
    from quadrants_lab.ir.options import CompileOptions

STAGES = ("c",)
CAPABILITIES = Capabilities(on_host=True)


def probe() -> str:
    """Empty when kernels can run here, else the sentence why not."""
    from quadrants_lab.backends import cpu
    from quadrants_lab.backends.c import compiler

    return cpu.probe() or compiler.probe()


def devices() -> list[str]:
    """The processor that kernels run on, with the compiler."""
    from quadrants_lab.backends.c import compiler

    return [f"{platform.machine()}, 1 thread, {compiler.version()}"]


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    """This process's processor: the calling thread alone runs kernels, whatever ``threads`` says."""
    from quadrants_lab.backends.cpu.device import Device

    return Device(1)


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """ "c": the source, with a comment in front of what each of the user's lines became."""
    from quadrants_lab.backends.c.kernel import stage

    return {"c": lambda: stage(kernel, options)}


def lowering(options: CompileOptions) -> tuple[Pass, ...]:
    """See `quadrants_lab.runtime.backend.Backend`."""
    from quadrants_lab.backends.c.kernel import LOWERING

    return LOWERING


def load(
    kernel: Kernel, options: CompileOptions, cached: Kept | None = None, keep: Keep = forget
) -> Executable:
    """Machine code of an offloaded kernel without exits, ready to launch.

    ``cached``, ``keep``: see `quadrants_lab.runtime.backend.Backend`.

    Raises QuadrantsRuntimeError where the compiler is missing, refuses the source or does not come to an end.
    """
    from quadrants_lab.backends.c.compiler import load as make

    return make(kernel, options, cached, keep)


@cache
def target_key() -> str:
    """What object code depends on besides kernel and options: processor, compiler, and our own sources."""
    from quadrants_lab.backends.c import compiler
    from quadrants_lab.backends.sources import digest

    sources = digest("c", "_clike", "cpu", "lower/adstacks")
    return f"c/{platform.machine()}/{compiler.version()}/{' '.join(compiler.FLAGS)}/{sources}"
