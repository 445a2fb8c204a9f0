"""Finds NVIDIA's math library, assembler and disassembler. This package can be imported without them; a sentence says
what is missing."""

import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from quadrants_lab.backends import tools

_LIBDEVICE = "libdevice.10.bc"
# Python packages that may contain parts of a CUDA toolkit
_PACKAGES = ("nvidia", "triton", "cupy", "numba_cuda", "torch", "jaxlib")


def _toolkits() -> Iterator[Path]:
    """Folders that may be the root of a CUDA toolkit; those that environment variables name come first."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    nvcc = shutil.which("nvcc") or shutil.which("ptxas")
    if nvcc:
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    yield from (Path("/opt/cuda"), Path("/usr/lib/cuda"), Path("/usr/lib/nvidia-cuda-toolkit"))


def _packaged(*patterns: str) -> Iterator[Path]:
    for folder in tools.package_folders(*_PACKAGES):
        for pattern in patterns:
            yield from sorted(folder.glob(pattern))


@cache
def libdevice() -> Path | None:
    """The path of NVIDIA's math library (a bitcode file), or None."""
    for root in _toolkits():
        path = root / "nvvm" / "libdevice" / _LIBDEVICE
        if path.exists():
            return path
    inside = ("*/nvvm/libdevice", "nvvm/libdevice", "backends/nvidia/lib", "cuda_nvcc/nvvm/libdevice")
    return next((p for p in _packaged(*(f"{d}/{_LIBDEVICE}" for d in inside)) if p.exists()), None)


def missing_libdevice() -> str:
    """A sentence that says how to get the math library; "" if it is there."""
    if libdevice() is not None:
        return ""
    return (
        f"NVIDIA's math library, {_LIBDEVICE}, was not found: pip install nvidia-nvvm, or let CUDA_HOME be a CUDA "
        "toolkit."
    )


@cache
def tool(name: str) -> str:
    """The path of one of the toolkit's programs (ptxas, nvdisasm), or ""."""
    for root in _toolkits():
        path = root / "bin" / name
        if path.exists():
            return str(path)
    found = shutil.which(name)
    if found:
        return found
    inside = ("*/bin", "bin", "backends/nvidia/bin", "cuda_nvcc/bin")
    return next((str(p) for p in _packaged(*(f"{d}/{name}" for d in inside)) if os.access(p, os.X_OK)), "")
