"""Vulkan: kernels are compiled to SPIR-V, for any device with Vulkan 1.2."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quadrants_lab.backends import Capabilities
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.ir.importing import lazily

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends import Stage
    from quadrants_lab.backends._spirv.target import Target
    from quadrants_lab.backends.vulkan.device import Device
    from quadrants_lab.ir.nodes import Kernel, Pass
    from quadrants_lab.ir.options import CompileOptions

STAGES = ("spirv",)  # the module as text, with the size of its binary
CAPABILITIES = Capabilities(ad_unroll=(4, 4))
load = lazily("backends.vulkan.executable", "load")


def probe() -> str:
    """Empty if kernels can run here, else a sentence that says why not."""
    from quadrants_lab.backends.vulkan import api

    try:
        api.package()
    except ImportError:
        return "The vulkan backend needs the package vulkan: pip install vulkan."
    except OSError:
        return "The vulkan backend needs the Vulkan loader (libvulkan1 on Debian, vulkan-loader in Homebrew)."
    try:
        api.choose()
    except (RuntimeError, MemoryError) as e:
        return f"The vulkan backend found no device: {getattr(e, 'message', e)}"
    return ""


def devices() -> list[str]:
    """Vulkan's devices, each with its name and kind; QD_VISIBLE_DEVICE is an index of this list."""
    from quadrants_lab.backends.vulkan import api

    return [str(d) for d in api.physical_devices()]


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    """Opens the device that QD_VISIBLE_DEVICE names, or the best one. ``threads``: the most threads in flight, 0 for
    the device's default. ``cache``: where compiled pipelines are stored."""
    from quadrants_lab.backends.vulkan.device import Device

    return Device(threads=threads, cache=cache)


def target() -> Target:
    """What the device can do that kernels would run on; without a device, typical capabilities."""
    from quadrants_lab.backends._spirv.target import GENERIC
    from quadrants_lab.backends.vulkan import api

    return GENERIC if probe() else api.choose().target


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    """SPIR-V as text, each line with its IR statement. It needs no device."""
    from quadrants_lab.backends._spirv.kernel import module
    from quadrants_lab.backends._spirv.listing import listing

    def spirv() -> Stage:
        size = len(module(kernel, options, target()).words())
        return listing(module(kernel, options, target(), lines=True), size)

    return {"spirv": spirv}


def lowering(options: CompileOptions) -> tuple[Pass, ...]:
    """The lowering passes for the device that kernels would run on."""
    return target().lowering(options)


@cache
def target_key() -> str:
    """The part of a cache key for everything besides kernel and options that the code depends on: the device's
    capabilities and our own sources."""
    from quadrants_lab.backends.disk_cache import digest
    from quadrants_lab.backends.vulkan import api

    sources = digest("_gpu", "_spirv", "vulkan")
    return f"vulkan/{api.choose().target}/{sources}"
