"""Finds LLVM's linker and disassembler and the HIP runtime. This package can be imported, and show assembly, without
them; a sentence says what is missing."""

import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from quadrants_lab.backends import tools

_RUNTIMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
_OLDEST_LINKER = 15  # the first version of LLVM that supports code object version 5
_PACKAGES = ("torch", "_rocm_sdk_core")  # Python packages that may contain parts of ROCm


def _installations() -> Iterator[Path]:
    """Folders that may be the root of a ROCm installation; those that environment variables name come first."""
    for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield Path("/opt/rocm")
    yield from sorted(Path("/opt").glob("rocm-*"), reverse=True)
    yield from tools.package_folders(*_PACKAGES)


def _candidates(name: str) -> Iterator[str]:
    """Paths at which one of LLVM's programs (ld.lld, llvm-objdump) may be: first ROCm's, then the others, newest first.
    """
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
    """The path of a linker that supports our code objects, or ""."""
    return next((path for path in _candidates("ld.lld") if _version(path) >= _OLDEST_LINKER), "")


def _version(path: str) -> int:
    """The major version of one of LLVM's programs."""
    found = re.search(r"(?:LLD|version) (\d+)", tools.ran(path, "--version").stdout)
    return int(found[1]) if found else 0


@cache
def disassembler() -> str:
    """The path of llvm-objdump, or "". An old version may not know the chip."""
    return next(_candidates("llvm-objdump"), "")


def missing_linker() -> str:
    """A sentence that says how to get the linker; "" if it is there."""
    if linker():
        return ""
    return (
        f"LLVM's linker, ld.lld {_OLDEST_LINKER} or newer, makes code objects and was not found: apt install lld-19, "
        "or let ROCM_PATH be the folder of a ROCm."
    )


@cache
def runtimes() -> tuple[str, ...]:
    """The names under which to look for the HIP runtime, best first."""
    found = [str(p) for root in _installations() for n in _RUNTIMES if (p := root / "lib" / n).exists()]
    return (*found, *_RUNTIMES)
