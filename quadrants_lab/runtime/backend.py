"""Finds backends by name, and defines the functions that each must have. Each folder in backends/ is one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import quadrants_lab.backends as folder
from quadrants_lab.ir.record import dataclass

if TYPE_CHECKING:
    from quadrants_lab.backends import Capabilities, Stage
    from quadrants_lab.backends.disk_cache import DiskCache, Keep
    from quadrants_lab.backends.launch import Device, Executable
    from quadrants_lab.ir.nodes import Kernel, Pass
    from quadrants_lab.ir.options import CompileOptions


class Backend(Protocol):
    """What the ``__init__`` module of a backend's folder contains. ``STAGES``: the names of the stages of code
    generation, in order; ``CAPABILITIES``: in what the backend differs from others."""

    STAGES: tuple[str, ...]
    CAPABILITIES: Capabilities

    def probe(self) -> str:
        """The empty string if kernels can run on this machine, else a sentence that says why not."""
        ...

    def devices(self) -> list[str]:
        """Descriptions of the devices. Do not call this if `probe` says that there is none."""
        ...

    def open_device(self, threads: int = 0, cache: DiskCache | None = None, **number: int) -> Device:
        """Opens a device. ``threads``: the most threads of a launch, 0 for the backend's choice. ``cache``: where the
        device stores what it makes from code. ``number``: the index of the device, on backends with
        `Capabilities.many`."""
        ...

    def stages(self, kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]: ...

    def load(
        self, kernel: Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = ...
    ) -> Executable:
        """Compiles and loads a kernel. ``keep`` is called with the machine code that was generated. ``cached`` is such
        code from an earlier process, for the same kernel, options and `target_key`; it is ignored if it is invalid."""
        ...

    def will_load(self) -> None:
        """Announces that `load` will need code, while the front end and the passes are still running."""
        ...

    def lowering(self, options: CompileOptions) -> tuple[Pass, ...]:
        """The passes that replace what the device lacks; the emitter comes after them. `stages` and `load` run them;
        the statement ids of a stage's lines refer to the kernel after them."""
        ...

    def target_key(self) -> str: ...


@cache
def names() -> tuple[str, ...]:
    """The names of all backends, the default one first."""
    from pkgutil import iter_modules

    found = [m.name for m in iter_modules(folder.__path__) if m.ispkg and m.name != "lower" and m.name[0] != "_"]
    return tuple(sorted(found, key=lambda name: (name != folder.DEFAULT, name)))


@cache
def backend(name: str) -> Backend:
    module: Any = import_module(f"quadrants_lab.backends.{name}")
    return cast(Backend, module)


@dataclass(frozen=True, slots=True)
class Available:
    """Whether a backend can run kernels on this machine. ``devices``: descriptions of its devices; ``why_not``: why
    there is none, or ""; ``simulated``: kernels can run on a simulated device."""

    name: str
    devices: tuple[str, ...]
    why_not: str
    simulated: bool

    @property
    def runs(self) -> bool:
        return not self.why_not or self.simulated


def available(name: str) -> Available:
    module: Any = backend(name)
    why_not = str(module.probe())
    if not why_not:
        return Available(name, tuple(module.devices()), "", False)
    simulation = getattr(module, "probe_simulation", None)
    return Available(name, (), why_not, simulation is not None and not simulation())


def all_stages() -> dict[str, str]:
    """Maps each name of a stage to the backend that makes it; if several do, to the first of them."""
    made: dict[str, str] = {}
    for name in names():
        for stage in backend(name).STAGES:
            made.setdefault(stage, name)
    return made
