"""The disk cache of compiled kernels: one file a kernel, named by the hash of everything that shapes its code.

A file holds the object code and nothing else that would be trusted: a header with the hash of the rest guards against
torn and damaged files, which count as absent. Writers replace files atomically, so processes may share a folder. Only
bytes are kept, never pickles: a damaged or foreign file cannot do more than miss.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

MAGIC = b"QLC1"
SUFFIX = ".qlc"


def default_path() -> Path:
    """QD_OFFLINE_CACHE_FILE_PATH, or quadrants_lab in the user's cache folder."""
    asked = os.environ.get("QD_OFFLINE_CACHE_FILE_PATH")
    if asked:
        return Path(asked).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quadrants_lab"


def key(*parts: str) -> str:
    """The name under which code made from these texts is kept."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


class DiskCache:
    """At most ``max_bytes`` of files in ``folder``, the least recently used ones go first. A folder that cannot be
    read or written behaves like an empty one."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes

    def get(self, name: str) -> bytes | None:
        path = self.folder / (name + SUFFIX)
        with suppress(OSError):
            raw = path.read_bytes()
            body = raw[36:]
            if raw[:4] == MAGIC and hashlib.sha256(body).digest() == raw[4:36]:
                with suppress(OSError):
                    os.utime(path)
                return body
        return None

    def put(self, name: str, body: bytes) -> None:
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # code is run from here
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(MAGIC + hashlib.sha256(body).digest() + body)
                os.replace(temporary, self.folder / (name + SUFFIX))
            except BaseException:
                os.unlink(temporary)
                raise
            self._trim()

    def _trim(self) -> None:
        """Removes the least recently used files until the rest fits; leaves a quarter free, so as not to come back
        at once."""
        entries = [(e.stat(), e.path) for e in os.scandir(self.folder) if e.name.endswith(SUFFIX)]
        total = sum(s.st_size for s, _ in entries)
        if total <= self.max_bytes:
            return
        for stat, path in sorted(entries, key=lambda e: e[0].st_mtime):
            with suppress(OSError):
                os.unlink(path)
            total -= stat.st_size
            if total <= self.max_bytes * 3 // 4:
                return
