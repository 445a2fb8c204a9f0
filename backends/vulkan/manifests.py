"""Checks the driver manifests that environment variables name. Vulkan's loader reports most faults in them only as a
missing driver, and some as a lack of memory; a truncated library crashes it."""

import json
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# the first of these variables that is set is used
VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
_ELF = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_LOADED = 1  # the type of a segment that is mapped (PT_LOAD)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a manifest. ``words``: file and fault in words. ``crashes``: whether the loader would crash.
    """

    words: str
    crashes: bool = False


def faults() -> list[Fault]:
    """The faults of all manifests that environment variables name."""
    variable = next((v for v in VARIABLES if os.environ.get(v)), "")
    files = [Path(p) for p in os.environ.get(variable, "").split(os.pathsep) if p]
    found = []
    for path in (p for f in files for p in (sorted(f.glob("*.json")) if f.is_dir() else [f])):
        found += [Fault(f"{path} (from {variable}) {x.words}", x.crashes) for x in _of_manifest(path)]
    return found


def _of_manifest(path: Path) -> Iterator[Fault]:
    try:
        library = json.loads(path.read_bytes())["ICD"]["library_path"]
    except OSError as e:
        yield Fault(f"cannot be read ({e.strerror})")
    except ValueError:
        yield Fault("is no JSON")
    except (LookupError, TypeError):
        yield Fault("names no library (ICD.library_path)")
    else:
        if not isinstance(library, str):
            yield Fault("names no library (ICD.library_path)")
        elif "/" in library:  # the system searches for a bare name
            yield from _of_library(path.parent / library)


def _of_library(path: Path) -> Iterator[Fault]:
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
            size = os.fstat(file.fileno()).st_size
    except OSError as e:
        yield Fault(f"names the library {path}, which cannot be read ({e.strerror})")
        return
    if sys.platform != "linux":
        return
    if not head.startswith(b"\x7fELF"):
        yield Fault(f"names the library {path}, which is no shared library")
    elif head.startswith(_ELF) and size < (whole := _mapped_bytes(head)):
        yield Fault(f"names the library {path}, which was cut short ({size} of {whole} bytes or more)", True)


def _mapped_bytes(head: bytes) -> int:
    """Where the last segment that is mapped into memory ends in an ELF file, in bytes."""
    try:
        (table,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        ends = [64]
        for n in range(count):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, table + n * size)
            if kind == _LOADED:
                ends.append(offset + length)
        return max(ends)
    except struct.error:  # the table itself is cut off
        return 1 << 16
