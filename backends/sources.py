"""What compiled code depends on besides its kernel: the sources of the compiler."""

from __future__ import annotations

import hashlib
from pathlib import Path

from quadrants_lab.analysis import ranges


def digest(*folders: str, also: bytes = b"") -> str:
    """A number for the source text of this folder, of those within it that are named, of lowerings, and of the analysis
    that they ask; and for what else is given."""
    here = Path(__file__).resolve().parent
    made = hashlib.sha256(also)
    analysis = Path(ranges.__file__).resolve().parent
    for folder in (here, here / "lower", analysis, *(here / name for name in folders)):
        for path in sorted(folder.glob("*.py")):
            made.update(path.read_bytes())
    return made.hexdigest()
