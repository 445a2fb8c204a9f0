"""The backends as the runtime sees them: one module a folder in backends/, found by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import quadrants_lab.backends as folder
from quadrants_lab.ir.record import dataclass

if TYPE_CHECKING:
    from quadrants_lab.backends.capabilities import Capabilities
    from quadrants_lab.backends.disk_cache import DiskCache, Keep
    from quadrants_lab.backends.launch import Device, Executable
    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel, Pass
    from quadrants_lab.ir.options import CompileOptions


class Backend(Protocol):
    """What the ``__init__`` of a backend's folder has. ``STAGES`` are the names of `stages`, in order.
    ``CAPABILITIES``: what it can do and others cannot."""

    STAGES: tuple[str, ...]
    CAPABILITIES: Capabilities

    def probe(self) -> str:
        """Empty when kernels can run here, else the sentence why not."""
        ...

    def devices(self) -> list[str]:
        """The devices in words; not to be called where `probe` says that there is none."""
        ...

    def open_device(self, threads: int = 0, cache: DiskCache | None = None, **number: int) -> Device:
        """A device of this backend. ``threads``: most threads of a launch, 0 for as many as are good. ``cache``: for
        what the device makes of code. ``number``: of the device, where there can be `Capabilities.many`."""
        ...

    def stages(self, kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]: ...

    def load(
        self, kernel: Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = ...
    ) -> Executable:
        """A kernel ready to launch. ``cached``: what ``keep`` was given in an earlier process for the same kernel,
        options and `target_key`; if that is of no use, now or on a device, code is made anew. ``keep``: called with
        code that was made."""
        ...

    def lowering(self, options: CompileOptions) -> tuple[Pass, ...]:
        """The passes that stand between a kernel and the emitter: what has no spelling on the device is written in
        terms of what has one. `stages` and `load` run them; the ids of a stage's lines are of the kernel after them."""
        ...

    def target_key(self) -> str: ...


@cache
def names() -> tuple[str, ...]:
    """The backends that there are; the first is the default one."""
    from pkgutil import iter_modules

    found = [m.name for m in iter_modules(folder.__path__) if m.ispkg and m.name != "lower" and m.name[0] != "_"]
    return tuple(sorted(found, key=lambda name: (name != folder.DEFAULT, name)))


@cache
def backend(name: str) -> Backend:
    module: Any = import_module(f"quadrants_lab.backends.{name}")
    return cast(Backend, module)


@dataclass(frozen=True, slots=True)
class Available:
    """What there is of a backend here. ``devices``: in words. ``why_not``: why it has none, "" where it has.
    ``simulated``: kernels can run without one, on a simulation."""

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
    """Stage name -> the backend that makes it; of several the first."""
    made: dict[str, str] = {}
    for name in names():
        for stage in backend(name).STAGES:
            made.setdefault(stage, name)
    return made
