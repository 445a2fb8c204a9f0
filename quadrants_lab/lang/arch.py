"""The architectures that kernels can run on, and which of them can be used on this machine."""

import platform
import warnings
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError, QuadrantsWarning
from quadrants_lab.lang.elsewhere import closest


class Arch(Enum):
    """A device architecture; its value is the name of the backend, a folder in backends/."""

    x64 = "cpu"
    arm64 = "cpu "  # with equal values Enum would make the members aliases
    c = "c"
    cuda = "cuda"
    vulkan = "vulkan"
    metal = "metal"
    amdgpu = "amdgpu"
    wasm = "wasm"

    @property
    def backend(self) -> str:
        return self.value.strip()

    def __repr__(self) -> str:
        return f"Arch.{self.name}"


x64 = x86_64 = Arch.x64
arm64 = Arch.arm64
c = Arch.c
cuda = Arch.cuda
vulkan = Arch.vulkan
metal = Arch.metal
amdgpu = Arch.amdgpu
wasm = Arch.wasm
cpu = Arch.arm64 if platform.machine().lower() in ("arm64", "aarch64") else Arch.x64
gpu = [cuda, metal, vulkan, amdgpu]


def find(asked: Any) -> Arch:
    """The arch that ``asked``, an `Arch` or the name of one, stands for."""
    names = {a.name: a for a in Arch} | {"cpu": cpu, "x86_64": x64}
    match asked:
        case Arch():
            return asked
        case str() if asked.lower() in names:
            return names[asked.lower()]
    close = closest(str(asked), names)
    hint = f"did you mean qd.{close}?" if close else "one of " + ", ".join(f"qd.{n}" for n in names)
    raise QuadrantsRuntimeTypeError(f"qd.init: {asked!r} is not an arch", code="QL2030", help=hint)


def usable(asked: Any, fallback: bool, simulate: bool) -> Arch:
    """The first usable arch among ``asked``, which is one arch or a list; the CPU for None."""
    if asked is None:
        return cpu
    wanted = [find(a) for a in (asked if isinstance(asked, (list, tuple)) else [asked])]
    if not wanted:
        raise QuadrantsRuntimeTypeError("qd.init: arch is an empty list", code="QL2030", help="name one, as qd.cpu")
    reasons = []
    for candidate in wanted:
        reason = why_not(candidate, simulate)
        if not reason:
            return candidate
        reasons.append(f"{candidate.name}: {reason}")
    message = "; ".join(reasons)
    if not fallback:
        raise QuadrantsRuntimeError(f"no arch that was asked for can be used: {message}", code="QL2032")
    warnings.warn(f"{message.rstrip('.')}; falling back to the CPU", QuadrantsWarning, stacklevel=4)
    return cpu


@cache
def _load_compiler() -> None:
    """Starts to import, in the background, the modules that a process needs for its first kernel. Meanwhile the caller
    waits for a device."""
    modules = "quadrants_lab.runtime.launch.gradient_plan", "quadrants_lab.runtime.compile.compile"
    forks.start(lambda: [import_module(name) for name in modules], name="imports")


def why_not(arch: Arch, simulate: bool) -> str:
    """The reason why kernels cannot run on this arch on this machine; "" if they can. With ``simulate`` a simulation of
    the arch is good enough."""
    if arch.backend == "cpu":
        return "" if arch is cpu else f"this machine's processor is {cpu.name}"
    name = f"quadrants_lab.backends.{arch.backend}"
    if find_spec(name) is None:
        return "this backend does not exist yet"
    _load_compiler()
    module = import_module(name)
    reason = str(module.probe())
    if reason and simulate and hasattr(module, "probe_simulation"):
        return str(module.probe_simulation())
    return reason
