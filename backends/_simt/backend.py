"""Implements the functions that each backend's ``__init__`` must have, for backends that launch LLVM's code through
`_simt.driver`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends.disk_cache import DiskCache, Keep, forget
from quadrants_lab.errors import QuadrantsRuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends import Stage
    from quadrants_lab.backends._simt.device import SimtDevice
    from quadrants_lab.backends._simt.executable import SimtExecutable
    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions


class SimtBackend:
    """A backend. ``name``: the name of its folder; ``driver``: the name of the folder's module that has `Device`,
    `current`, `probe`, `shown` and `stand_in`; ``device``: the kind of device in words. Modules are imported when they
    are needed."""

    def __init__(self, name: str, driver: str, device: str) -> None:
        self._name = name
        self._driver = driver
        self._device = device

    def _module(self, name: str) -> Any:
        return import_module(f"quadrants_lab.backends.{self._name}.{name}")

    def probe(self) -> str:
        """Empty if kernels can run here, else a sentence that says why not."""
        if find_spec("llvmlite") is None:
            return f"The {self._name} backend needs the package llvmlite: pip install llvmlite."
        return str(self._module(self._driver).probe())

    def probe_simulation(self) -> str:
        """Empty if a stand-in for a device is registered, else a sentence that says why not."""
        there = self._module(self._driver).stand_in() is not None
        return "" if there else f"Nothing stands in for {self._device} here."

    def open_device(self, threads: int = 0, cache: DiskCache | None = None, number: int | None = None) -> SimtDevice:
        """Opens the device with index ``number``; by default the one that QD_VISIBLE_DEVICE names, or the first.
        ``threads``: the most threads in flight, 0 for as many as the device has room for. ``cache`` is unused: the
        driver caches machine code.

        Raises QuadrantsRuntimeError if there is no such device.
        """
        why_not = self.probe()
        if why_not and self.probe_simulation():
            raise QuadrantsRuntimeError(why_not, code="QL3010")
        made: SimtDevice = self._module(self._driver).Device(threads, number)
        return made

    def stages(self, kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
        """The stages of code generation for the chip that the driver's function `shown` names."""
        chip = self._module(self._driver).shown()
        made: dict[str, Callable[[], Stage]] = self._module("listings").stages(kernel, options, chip)
        return made

    def load(
        self, kernel: Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = forget
    ) -> SimtExecutable:
        """Compiles a kernel that is split into tasks and has no exits; the driver loads the code when a device first
        needs it.

        ``cached``, ``keep``: see `quadrants_lab.runtime.backend.Backend`.
        """
        from quadrants_lab.backends._simt.executable import SimtExecutable

        return SimtExecutable(kernel, options, self._module(self._driver).current(), cached, keep)

    def key(self, also: bytes = b"") -> str:
        """The part of a cache key for everything besides kernel and options that the code depends on: the chip,
        LLVM, our own sources, and ``also``."""
        from quadrants_lab.backends.disk_cache import digest
        from quadrants_lab.backends.llvm_binding import version

        sources = digest("_gpu", "_llvm", "_simt", self._name, also=also)
        chip = self._module(self._driver).current().code_name
        return f"{self._name}/{chip}/llvm{version()}/{sources}"
