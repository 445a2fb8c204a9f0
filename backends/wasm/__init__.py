"""WebAssembly: kernels become modules, which wasmtime runs in this process, and which browsers run unchanged.

Each access is checked against the bounds of its own field or array, also in release builds, so untrusted code can
damage nothing. `quadrants_lab.runtime.backend.Backend` documents the functions here.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from quadrants_lab.backends import Capabilities
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.ir.importing import importing, lazily

if TYPE_CHECKING:
    from quadrants_lab.backends.wasm.device import Device

STAGES = ("wat",)  # the module as text, with the size of its bytes
CAPABILITIES = Capabilities(checks_bounds=True, slots=True)
stages = lazily("backends.wasm.emitter", "stages")
lowering = lazily("backends.wasm.emitter", "lowering")
load = lazily("backends.wasm.executable", "Executable")


def probe() -> str:
    """The empty string if kernels can run on this machine, else the reason why not."""
    return "" if find_spec("wasmtime") else "The wasm backend needs the package wasmtime: pip install wasmtime."


def devices() -> list[str]:
    return [f"wasmtime {version('wasmtime')} on {platform.machine()}, 1 thread, 32-bit addresses"]


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    """Opens a device with its own memory. Launches run on the calling thread."""
    with importing():
        from quadrants_lab.backends.wasm.device import Device

    return Device()


@cache
def target_key() -> str:
    from quadrants_lab.backends.disk_cache import digest

    return f"wasm/{platform.machine()}/{version('wasmtime')}/{digest('wasm', '_gpu')}"
