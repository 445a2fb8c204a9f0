"""Where things of ROCm and LLVM lie: the linker, the disassembler, the HIP runtime. None of them is needed to import
this package or to show ISA; what is missing is said in a sentence."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from quadrants_lab.backends import tools

_RUNTIMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
_OLDEST_LINKER = 15  # LLVM's version; those before do not know code object version 5
_PACKAGES = ("torch", "_rocm_sdk_core")  # those that carry parts of ROCm


def _installations() -> Iterator[Path]:
    """Folders that look like ROCm, the one asked for first."""
    for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield Path("/opt/rocm")
    yield from sorted(Path("/opt").glob("rocm-*"), reverse=True)
    yield from tools.package_folders(*_PACKAGES)


def _candidates(name: str) -> Iterator[str]:
    """Paths of one of LLVM's programs (ld.lld, llvm-objdump): ROCm's own, then the newest."""
    for root in _installations():
        for folder in ("llvm/bin", "lib/llvm/bin"):
            if os.access(root / folder / name, os.X_OK):
                yield str(root / folder / name)
    numbered: list[tuple[int, str]] = []
    for place in os.environ.get("PATH", "").split(os.pathsep):
        for path in Path(place or ".").glob(f"{name}-*"):
            version = path.name[len(name) + 1 :]
            if version.isdigit() and os.access(path, os.X_OK):
                numbered.append((int(version), str(path)))
    yield from (path for _, path in sorted(numbered, reverse=True))
    found = shutil.which(name)
    if found:
        yield found


@cache
def linker() -> str:
    """Path of a linker that knows our code objects, "" where there is none."""
    return next((path for path in _candidates("ld.lld") if _version(path) >= _OLDEST_LINKER), "")


def _version(path: str) -> int:
    """Major version of one of LLVM's programs."""
    found = re.search(r"(?:LLD|version) (\d+)", tools.ran(path, "--version").stdout)
    return int(found[1]) if found else 0


@cache
def disassembler() -> str:
    """Path of llvm-objdump, "" where there is none. An old one does not know all chips."""
    return next(_candidates("llvm-objdump"), "")


def missing_linker() -> str:
    """"" or what to do about it."""
    if linker():
        return ""
    return (
        f"LLVM's linker, ld.lld {_OLDEST_LINKER} or newer, makes code objects and was not found: apt install lld-19, "
        "or let ROCM_PATH be the folder of a ROCm."
    )


@cache
def runtimes() -> tuple[str, ...]:
    """What the HIP runtime may be loaded as, best first."""
    found = [str(p) for root in _installations() for n in _RUNTIMES if (p := root / "lib" / n).exists()]
    return (*found, *_RUNTIMES)
