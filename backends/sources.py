"""Keys for the source text of the compiler, on which compiled code depends besides its kernel."""

import os
import sys
from functools import cache
from pathlib import Path

from quadrants_lab import errors
from quadrants_lab.backends.disk_cache import STARTED, hashed

_HERE, _PACKAGE = Path(__file__).resolve().parent, Path(errors.__file__).resolve().parent
_LOWER = tuple(_HERE / "lower" / name for name in ("", "adstacks", "local_arrays"))
# the folders of the package whose code handles a kernel before it gets to a backend
_OF_IR = (
    "", "ir", "analysis", "passes", "pipelines", "autodiff", "adstack", "lang", "frontend", "frontend/library",
    "frontend/ops", "frontend/syntax", "frontend/values", "runtime", "runtime/compile", "runtime/arguments", "types",
)  # fmt: skip


def digest(*folders: str, also: bytes = b"") -> str:
    """A hash of what identifies the sources of this folder, of the ``folders`` within it, of lowerings, of the analyses
    and the tables of the IR that they use, and of ``also``: their `_stamp`, or their text where they have none."""
    made = hashed(also)
    for folder in (_HERE, *_LOWER, _PACKAGE / "analysis", _PACKAGE / "ir", *(_HERE / name for name in folders)):
        made.update((_stamp(folder) or _text(folder)).encode())
    return made.hexdigest()


def _text(folder: Path) -> str:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def _stamp(folder: Path) -> str:
    """The size and times of each source in the folder, because reading them takes longer. "" where there are no
    sources, or they changed while this process runs, which may have imported the old ones."""
    found = sorted((e.name, e.stat()) for e in os.scandir(folder) if e.name.endswith(".py"))
    if any(status.st_mtime_ns >= STARTED for _, status in found):
        return ""
    return "\n".join(f"{name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in found)


@cache
def of_ir() -> str:
    """A text that differs where Python, numpy or the sources that make the IR do; "" where one of their folders has no
    `_stamp`."""
    stamps = [_stamp(folder) for folder in (_HERE, *_LOWER, *(_PACKAGE / name for name in _OF_IR))]
    parts = (sys.version, sys.modules["numpy"].__version__, str(_PACKAGE), *stamps)
    return "\n".join(parts) if all(stamps) else ""
