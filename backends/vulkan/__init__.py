"""Vulkan: kernels become SPIR-V, which the driver of any device with Vulkan 1.2 runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.backends.vulkan.device import Device
    from quadrants_lab.backends.vulkan.executable import Executable
    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions

STAGES = ("spirv",)
AD_UNROLL = (4, 4)


def probe() -> str:
    """Empty when kernels can run here, else the sentence why not."""
    from quadrants_lab.backends.vulkan import api

    try:
        api.package()
    except ImportError:
        return "The vulkan backend needs the package vulkan: pip install vulkan."
    except OSError:
        return "The vulkan backend needs the Vulkan loader (libvulkan1 on Debian, vulkan-loader in Homebrew)."
    try:
        api.choose()
    except RuntimeError as e:
        return f"The vulkan backend found no device: {e}"
    return ""


def devices() -> list[str]:
    """Vulkan's devices, each with its name and kind; QD_VISIBLE_DEVICE takes a number of this list."""
    from quadrants_lab.backends.vulkan import api

    return [str(d) for d in api.physical_devices()]


def open_device(threads: int = 0, cache_folder: Path | None = None) -> Device:
    """The device that QD_VISIBLE_DEVICE names, or the best one; its arrays lie where the host sees them. ``threads``:
    most in flight, 0 for what the device likes. ``cache_folder``: where compiled pipelines are kept."""
    from quadrants_lab.backends.vulkan.device import Device

    return Device(mapped=True, threads=threads, cache_folder=cache_folder)


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """ "spirv": the module as text, with the size of its words."""
    from quadrants_lab.backends.vulkan.listings import stages as make

    return make(kernel, options)


def load(kernel: Kernel, options: CompileOptions, cached: bytes | None = None) -> Executable:
    """SPIR-V of an offloaded kernel without exits, ready to launch.

    ``cached``: the ``object`` of an earlier load of the same kernel, options and `target_key`.
    """
    from quadrants_lab.backends.vulkan.executable import load as make

    return make(kernel, options, cached)


@cache
def target_key() -> str:
    """What code depends on besides kernel and options: the device, frame layout, and our own sources."""
    from quadrants_lab.backends.sources import digest
    from quadrants_lab.backends.vulkan import api

    sources = digest("_gpu", "_spirv", "vulkan")
    return f"vulkan/{api.choose().target}/{sources}"
