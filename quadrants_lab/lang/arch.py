"""The architectures that kernels can run on."""

import platform
from enum import Enum


class Arch(Enum):
    """A device architecture; its value is the name of the backend, a folder in backends/."""

    x64 = "cpu"
    arm64 = "cpu "  # distinct values, or Enum would make one member an alias of the other
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
