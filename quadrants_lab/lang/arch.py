"""Lists the architectures that kernels can run on."""

import platform
from enum import Enum
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeTypeError
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
