"""Keys for the source text of the compiler, on which compiled code depends besides its kernel."""

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from quadrants_lab import errors
from quadrants_lab.backends.disk_cache import STARTED

_HERE, _PACKAGE = Path(__file__).resolve().parent, Path(errors.__file__).resolve().parent
_LOWER = tuple(_HERE / "lower" / name for name in ("", "adstacks", "local_arrays"))
# the folders of the package whose code handles a kernel before it gets to a backend
_OF_IR = (
    "", "ir", "analysis", "passes", "pipelines", "autodiff", "adstack", "lang", "frontend", "frontend/library",
    "frontend/ops", "frontend/syntax", "frontend/values", "runtime", "runtime/compile", "runtime/arguments", "types",
)  # fmt: skip


def digest(*folders: str, also: bytes = b"") -> str:
    """A hash of the source text of this folder, of the ``folders`` within it, of lowerings, of the analyses and the
    tables of the IR that they use, and of ``also``."""
    made = hashlib.sha256(also)
    for folder in (_HERE, *_LOWER, _PACKAGE / "analysis", _PACKAGE / "ir", *(_HERE / name for name in folders)):
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
            with open(folder / name, "rb", buffering=0) as file:
                made.update(file.read())
    return made.hexdigest()


@cache
def of_ir() -> str:
    """A text that differs where Python, numpy or the sources that make the IR do. It holds the size and times of each
    file, because reading the files takes longer. "" where there are no sources, or they changed while this process
    runs, which may have imported the old ones."""
    parts = [sys.version, sys.modules["numpy"].__version__]
    for folder in (_HERE, *_LOWER, *(_PACKAGE / name for name in _OF_IR)):
        found = sorted((e.name, e.stat()) for e in os.scandir(folder) if e.name.endswith(".py"))
        if not found or any(status.st_mtime_ns >= STARTED for _, status in found):
            return ""
        parts += [f"{name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in found]
    return "\n".join((str(_PACKAGE), *parts))
