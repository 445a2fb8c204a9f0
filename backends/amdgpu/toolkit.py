"""Where things of ROCm and LLVM lie: the linker, the disassembler, the HIP runtime. None of them is needed to import
this package or to show ISA; what is missing is said in a sentence."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_RUNTIMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
_PACKAGES = ("torch", "_rocm_sdk_core")  # those that carry parts of ROCm


def _installations() -> Iterator[Path]:
    """Folders that look like ROCm, the one asked for first."""
    for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield Path("/opt/rocm")
    yield from sorted(Path("/opt").glob("rocm-*"), reverse=True)
    for name in _PACKAGES:
        spec = find_spec(name) if name not in sys.modules else sys.modules[name].__spec__
        if spec is not None and spec.submodule_search_locations:
            yield from (Path(p) for p in spec.submodule_search_locations)


@cache
def tool(name: str) -> str:
    """Path of one of LLVM's programs (ld.lld, llvm-objdump): ROCm's own, else the newest; "" where there is none."""
    for root in _installations():
        for folder in ("llvm/bin", "lib/llvm/bin"):
            if os.access(root / folder / name, os.X_OK):
                return str(root / folder / name)
    numbered: list[tuple[int, str]] = []
    for place in os.environ.get("PATH", "").split(os.pathsep):
        for path in Path(place or ".").glob(f"{name}-[0-9]*"):
            version = re.fullmatch(r"[\d.]+", path.name[len(name) + 1 :])
            if version and os.access(path, os.X_OK):
                numbered.append((int(version[0].split(".")[0]), str(path)))
    return max(numbered)[1] if numbered else shutil.which(name) or ""


def missing_linker() -> str:
    """"" or what to do about it."""
    if tool("ld.lld"):
        return ""
    return (
        "LLVM's linker, ld.lld, makes code objects and was not found: apt install lld-19, or let ROCM_PATH be the "
        "folder of a ROCm."
    )


@cache
def runtimes() -> tuple[str, ...]:
    """What the HIP runtime may be loaded as, best first."""
    found = [str(p) for root in _installations() for n in _RUNTIMES if (p := root / "lib" / n).exists()]
    return (*found, *_RUNTIMES)
