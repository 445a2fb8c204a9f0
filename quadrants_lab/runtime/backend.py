"""The backends as the runtime sees them: one module a folder in backends/, found by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol, cast

import quadrants_lab.backends as folder

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Device, Executable
    from quadrants_lab.backends.stage import Stage
    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions


class Backend(Protocol):
    """What the ``__init__`` of a backend's folder has. ``STAGES`` are the names of `stages`, in order."""

    STAGES: tuple[str, ...]

    def probe(self) -> str: ...

    def open_device(self, threads: int = 0, cache_folder: Path | None = None) -> Device:
        """A device of this backend. ``threads``: most threads of a launch, 0 for as many as are good."""
        ...

    def stages(self, kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]: ...

    def load(self, kernel: Kernel, options: CompileOptions, cached: bytes | None = None) -> Executable: ...

    def target_key(self) -> str: ...


@cache
def names() -> tuple[str, ...]:
    """The backends that there are; the first is the default one."""
    found = [m.name for m in iter_modules(folder.__path__) if m.ispkg and not m.name.startswith("_")]
    return tuple(sorted(found, key=lambda name: (name != "cpu", name)))


@cache
def backend(name: str) -> Backend:
    module: Any = import_module(f"quadrants_lab.backends.{name}")
    return cast(Backend, module)


def all_stages() -> dict[str, str]:
    """Stage name -> the backend that makes it."""
    return {stage: name for name in names() for stage in backend(name).STAGES}
