"""The CPU: kernels become machine code in this process, which the calling thread and worker threads run."""

from __future__ import annotations

import platform
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from quadrants_lab.backends import Capabilities
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.ir.importing import importing, lazily

if TYPE_CHECKING:
    from quadrants_lab.backends.cpu.device import CpuDevice

# LLVM IR as emitted; LLVM IR after optimisation; assembly, with the size of the machine code
STAGES = ("llvm", "llvm-opt", "asm")
CAPABILITIES = Capabilities(on_host=True, suspects_races=True, pages=True)
stages, lowering = lazily("backends.cpu.listings", "stages"), lazily("backends.cpu.tasks", "lowering")
load = lazily("backends.cpu.executable", "load")
will_load = lazily("backends.llvm_binding", "load_soon")


def probe() -> str:
    """The empty string if kernels can run on this machine, else the reason why not."""
    if find_spec("llvmlite") is None:
        return "The cpu backend needs the package llvmlite: pip install llvmlite."
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if machine not in ("x86_64", "aarch64", "arm64"):
        return f"The cpu backend runs on x86_64 and arm64, not on {machine}."
    return ""


def devices() -> list[str]:
    """A list with one name: the processor of this machine stands for all processors that this process may use."""
    from quadrants_lab.backends.cpu.device import processors

    return [f"{platform.machine()}, {processors()} threads"]


def open_device(threads: int = 0, cache: DiskCache | None = None) -> CpuDevice:
    """Opens the CPU. ``threads``: the most threads of a launch, 0 for one a processor. ``cache``: where the C runtime's
    object code is looked up and stored."""
    with importing():
        from quadrants_lab.backends.cpu.device import CpuDevice

    return CpuDevice(threads, cache)


@cache
def target_key() -> str:
    """What object code depends on besides kernel and options: the processor, LLVM, and the sources of the compiler."""
    from quadrants_lab.backends.cpu import jit
    from quadrants_lab.backends.disk_cache import digest

    sources = digest("cpu", "_llvm")
    return f"{jit.target_key()}/{sources}"
