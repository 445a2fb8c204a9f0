"""What processes of one user keep for each other on disk: object code, drivers' pipelines, compiled simulations.

An entry is a file that is named by a hash of everything that shapes its content (`key`). It begins with that key, with
its length and with a checksum, so a file that is damaged, or that lies where another belongs, counts as absent. Code is
run from here: a folder or file counts as absent, too, where another user owns it or can write to it.

Writers replace whole files, so processes may share a folder. A failure of the cache is no error of the program: the
cache then holds less, and the user is told once.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from quadrants_lab.errors import render, warn

Keep = Callable[[bytes], None]  # takes what was compiled, for later processes

STARTED = time.time_ns()  # before most of this package was imported
MOST_BYTES = 100 << 20
SUFFIX = ".qlc"
TEMPORARY = ".qlc-new"
ABANDONED = 600.0  # a temporary file that is older, in seconds, is the remains of a process that ended
_MAGIC, _VERSION = b"QLC\n", 3
_HEAD = struct.Struct("<4sI32sQ")  # magic, version, key, bytes of the content; a checksum of all that follows
BEGIN = _HEAD.size + hashlib.sha256().digest_size
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY  # a FIFO or a device does not block
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def key(*parts: str) -> str:
    """The name under which what is made from these texts is kept."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def forget(code: bytes) -> None:
    """A `Keep` that does not."""


def default_path(asked: str | os.PathLike[str] = "") -> Path | None:
    """The folder that was asked for, by the argument or QD_OFFLINE_CACHE_FILE_PATH; else quadrants_lab in the user's
    cache folder. None, with a warning, where there is no home folder for it."""
    asked = asked or os.environ.get("QD_OFFLINE_CACHE_FILE_PATH", "")
    shared, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "~")
    with suppress(RuntimeError, OSError):  # no home, no working folder
        if asked:
            return Path(asked).expanduser().absolute()
        if os.path.isabs(shared):
            return Path(shared) / "quadrants_lab"
        home = os.path.expanduser(home)
        if os.path.isabs(home) and os.path.isdir(home):
            return Path(home) / ".cache" / "quadrants_lab"
    _tell_unusable(f"there is no home folder for it (HOME is {os.environ.get('HOME', 'not set')!r})")
    return None


class DiskCache:
    """At most ``max_bytes`` of files in ``folder``, or in the folder ``below`` it; the least recently used ones go
    first. Without a folder it is always empty. What it makes has the modes 0700 and 0600, whatever the umask."""

    def __init__(self, folder: Path | None = None, max_bytes: int = MOST_BYTES, below: str = "") -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.below = below

    def get(self, name: str) -> bytes | None:
        """What was put under a `key`, and None where nothing was, or nothing that can be believed."""
        if self.folder is None:
            return None
        try:
            with self._opened() as folder:
                return self._read(folder, name)
        except _NotOurs as e:
            _tell_not_ours(e)
        except (OSError, ValueError):  # ValueError: no path at all
            pass
        return None

    def keeper(self, name: str) -> Keep:
        """Takes what was compiled, and keeps it under a `key`."""
        return partial(self.put, name)

    def put(self, name: str, content: bytes) -> None:
        """Keeps the content under a `key`."""
        if self.folder is None or BEGIN + len(content) > self.max_bytes:
            return
        try:
            with self._opened(make=True) as folder, suppress(FileNotFoundError):  # somebody has removed the folder
                self._write(folder, name, entry(name, content))
                self._trim(folder)
        except _NotOurs as e:
            _tell_not_ours(e)
        except (OSError, ValueError) as e:
            place = Path(self.folder, self.below, str(getattr(e, "filename2", None) or ""))
            _tell_unusable(f"{place}: {getattr(e, 'strerror', e)}")

    # --- the folder ---------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, make: bool = False) -> Iterator[int]:
        """The folder of the entries, as a descriptor. Raises OSError."""
        assert self.folder is not None
        folder = os.open(_made(self.folder) if make else self.folder, _FOLDER)
        try:
            _must_be_ours(os.fstat(folder), self.folder)
            if self.below:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(self.below, 0o700, dir_fd=folder)
                        os.chmod(self.below, 0o700, dir_fd=folder)
                outer, folder = folder, os.open(self.below, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(outer)
                _must_be_ours(os.fstat(folder), self.folder, self.below)
            yield folder
        finally:
            os.close(folder)

    # --- entries ------------------------------------------------------------------------------------------------

    def _read(self, folder: int, name: str) -> bytes | None:
        file = os.open(name + SUFFIX, _READ, dir_fd=folder)
        try:
            status = os.fstat(file)
            size = status.st_size
            if not stat.S_ISREG(status.st_mode) or size > self.max_bytes:
                return None
            _must_be_ours(status, self.folder, self.below, name + SUFFIX)
            raw = os.read(file, size)
            while len(raw) < size and (more := os.read(file, size - len(raw))):
                raw += more
            content = raw[BEGIN:]
            if raw != entry(name, content):
                return None
            with suppress(OSError):
                os.utime(file)
            return content
        finally:
            os.close(file)

    def _write(self, folder: int, name: str, made: bytes) -> None:
        """Atomically; whatever happens, no part of it stays."""
        with suppress(FileNotFoundError):
            before = os.stat(name + SUFFIX, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISLNK(before.st_mode):
                _must_be_ours(before, self.folder, self.below, name + SUFFIX)
        new = f".{os.urandom(8).hex()}{TEMPORARY}"
        try:
            file = os.open(new, _WRITE, 0o600, dir_fd=folder)
            try:
                os.fchmod(file, 0o600)
                left = memoryview(made)
                while left:
                    left = left[os.write(file, left) :]
            finally:
                os.close(file)
            os.replace(new, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(new, dir_fd=folder)
            raise

    def _trim(self, folder: int) -> None:
        """Removes what killed writers left, and the least recently used files until the rest fits; then a quarter stays
        free, so as not to come back at once."""
        abandoned = time.time() - ABANDONED
        total, entries = 0, []
        with os.scandir(folder) as found:
            for e in found:
                if e.name.endswith((SUFFIX, TEMPORARY)):
                    with suppress(FileNotFoundError):  # another process trims, too
                        status = e.stat(follow_symlinks=False)
                        temporary = e.name.endswith(TEMPORARY)
                        if temporary and status.st_mtime < abandoned and _removed(folder, e.name):
                            continue
                        if stat.S_ISREG(status.st_mode):
                            total += status.st_size
                            if not temporary:
                                entries.append((status.st_mtime_ns, status.st_size, e.name))
        if total <= self.max_bytes:
            return
        for _, size, name in sorted(entries):
            if _removed(folder, name):
                total -= size
            if total <= self.max_bytes * 3 // 4:
                return


def entry(name: str, content: bytes) -> bytes:
    """A whole entry."""
    head = _HEAD.pack(_MAGIC, _VERSION, bytes.fromhex(name), len(content))
    checksum = hashlib.sha256(head)
    checksum.update(content)
    return b"".join((head, checksum.digest(), content))


def _removed(folder: int, name: str) -> bool:
    """Whether a file is gone, after an attempt."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _made(path: Path) -> Path:
    """Makes the folder and those that it lies in, where they are not there."""
    missing = []
    while not os.path.isdir(path) and path != path.parent:
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)
    return missing[0] if missing else path


# --- what the user is told --------------------------------------------------------------------------------------

_told: dict[str, object] = {}


class _NotOurs(OSError):
    """Another user owns what lies there, or can write to it."""

    def __init__(self, path: Path, owned: bool) -> None:
        super().__init__(str(path))
        self.path = path
        self.owned = owned


def _must_be_ours(status: os.stat_result, folder: Path | None, *below: str) -> None:
    owned = status.st_uid == os.geteuid()
    if not owned or status.st_mode & _OTHERS_WRITE:
        raise _NotOurs(Path(folder or "", *below), owned)


def _tell_not_ours(e: _NotOurs) -> None:
    if _first("not ours"):
        cure = f"chmod go-w {e.path}" if e.owned else "remove it"
        warn(
            render(
                "QL2034",
                f"{e.path} is not used: another user {'can write to it' if e.owned else 'owns it'}, and code would be "
                "run from there",
                help=f"{cure}, or name a folder of your own in QD_OFFLINE_CACHE_FILE_PATH",
                kind="warning",
            )
        )


def _tell_unusable(why: str) -> None:
    if _first("unusable"):
        warn(
            render(
                "QL2035",
                f"nothing is kept on disk, so each process compiles its kernels anew: {why}",
                help="name a folder that you can write to in QD_OFFLINE_CACHE_FILE_PATH, or take "
                "qd.init(offline_cache=False)",
                kind="warning",
            )
        )


def _first(what: str) -> bool:
    """Whether this is said for the first time in the process."""
    me = object()
    return _told.setdefault(what, me) is me
