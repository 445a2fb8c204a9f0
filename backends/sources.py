"""Keys for the source text of the compiler: compiled code depends on it, besides its kernel."""

import os
import sys
from functools import cache
from pathlib import Path

from quadrants_lab import errors
from quadrants_lab.backends.disk_cache import STARTED, hashed

_HERE, _PACKAGE = Path(__file__).resolve().parent, Path(errors.__file__).resolve().parent
_LOWER = tuple(_HERE / "lower" / name for name in ("", "adstacks", "local_arrays"))
# the folders of the package whose code handles a kernel before a backend gets it
_OF_IR = (
    "", "ir", "analysis", "passes", "pipelines", "autodiff", "adstack", "lang", "frontend", "frontend/library",
    "frontend/ops", "frontend/syntax", "frontend/values", "runtime", "runtime/compile", "runtime/arguments",
)  # fmt: skip


def digest(*folders: str, also: bytes = b"") -> str:
    """A hash for the sources of this folder, its ``folders``, the lowerings, and the analyses and tables of the IR that
    they use, and for ``also``. A folder counts by its `_stamp`, or by its text if it has none."""
    made = hashed(also)
    for folder in (_HERE, *_LOWER, _PACKAGE / "analysis", _PACKAGE / "ir", *(_HERE / name for name in folders)):
        made.update((_stamp(folder) or _text(folder)).encode())
    return made.hexdigest()


def _text(folder: Path) -> str:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def _stamp(folder: Path) -> str:
    """The size and times of each source in the folder, because reading the texts takes longer. "" if there are no
    sources, or if they changed while this process runs: it may have imported the old ones."""
    found = sorted((e.name, e.stat()) for e in os.scandir(folder) if e.name.endswith(".py"))
    if any(status.st_mtime_ns >= STARTED for _, status in found):
        return ""
    return "\n".join(f"{name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in found)


@cache
def of_ir() -> str:
    """A text that changes with Python, numpy or the sources that make the IR; "" if one of their folders has no
    `_stamp`. """
    stamps = [_stamp(folder) for folder in (_HERE, *_LOWER, *(_PACKAGE / name for name in _OF_IR))]
    parts = (sys.version, sys.modules["numpy"].__version__, str(_PACKAGE), *stamps)
    return "\n".join(parts) if all(stamps) else ""
