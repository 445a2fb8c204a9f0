"""Caches object code, drivers' pipelines and compiled simulations on disk, for all processes of one user.

An entry is a file whose name is a hash of everything that its content depends on (`key`). The file begins with that
key, the length of the content and a checksum, so a damaged or misplaced file counts as absent. Because code from the
cache is executed, a folder or file that another user owns or can write to counts as absent, too.

Writers replace whole files, so processes may share a folder. A failure of the cache is not an error of the program:
entries are treated as absent, and the user is warned once.
"""

import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.util import cache_from_source
from pathlib import Path

from quadrants_lab import errors
from quadrants_lab.errors import render, warn
from quadrants_lab.ir.importing import blake2b

Keep = Callable[[bytes], None]  # stores compiled code for later processes

STARTED = time.time_ns()  # the time in ns; this module is imported before most of the package
MOST_BYTES = 100 << 20
SUFFIX = ".qlc"
TEMPORARY = ".qlc-new"
ABANDONED = 600.0  # after so many seconds, the process that wrote a temporary file is assumed to have ended
_MAGIC, _VERSION = b"QLC\n", 4
_HEAD = struct.Struct("<4sI32sQ")  # magic, version, key, bytes of the content; a checksum of head and content follows
_HASH_BYTES = 32
BEGIN = _HEAD.size + _HASH_BYTES
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY  # with these flags a FIFO or a device does not block
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# path, device and inode of a folder -> how many bytes this process may write to it before it measures the folder again
_unlooked: dict[tuple[str, str, int], int] = {}


def hashed(data: bytes = b"") -> "blake2b":
    """A blake2b hash of the bytes; more bytes can be added with ``update``."""
    return blake2b(data, digest_size=_HASH_BYTES)


def key(*parts: str) -> str:
    """The name of the cache entry for something that was made from these texts."""
    digest = hashed()
    for part in parts:
        raw = part.encode(errors="surrogatepass")  # the path of a file may contain bytes that are not valid UTF-8
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def forget(code: bytes) -> None:
    """A `Keep` that stores nothing."""


def default_path(asked: str | os.PathLike[str] = "") -> str | None:
    """The folder of the cache: ``asked`` or QD_OFFLINE_CACHE_FILE_PATH if one of them names it, else quadrants_lab in
    the user's cache folder. If there is none, warns and returns None."""
    path = os.path.expanduser(asked or os.environ.get("QD_OFFLINE_CACHE_FILE_PATH", ""))
    shared, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser(os.environ.get("HOME", "~"))
    if path.startswith("~"):
        why = f"the home folder in {path} is not known"
    elif path:
        try:
            return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        except OSError:
            why = f"there is no working folder, in which {path} would be"
    elif os.path.isabs(shared):
        return os.path.join(shared, "quadrants_lab")
    elif os.path.isabs(home) and os.path.isdir(home):
        return os.path.join(home, ".cache", "quadrants_lab")
    else:
        why = f"there is no home folder for it (HOME is {os.environ.get('HOME', 'not set')!r})"
    _warn_unusable(why)
    return None


def beside_bytecode(source: str) -> "DiskCache | None":
    """A cache in the folder of Python's bytecode for the module ``source``; None if that folder is another user's or
    Python may not write there."""
    folder = os.path.dirname(cache_from_source(source))
    with suppress(OSError):
        _must_be_ours(os.stat(folder), folder)
        if not sys.dont_write_bytecode and os.access(folder, os.W_OK):
            return DiskCache(folder)
    return None


class DiskCache:
    """A cache of at most ``max_bytes`` in the files of ``folder``, or of its subfolder ``below``; the least recently
    used files are removed first. Without a folder the cache is always empty. Folders get the mode 0700 and files 0600,
    whatever the umask."""

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, max_bytes: int = MOST_BYTES, below: str = ""
    ) -> None:
        self.folder = None if folder is None else os.fspath(folder)
        self.max_bytes = max_bytes
        self.below = below

    def get(self, name: str) -> bytes | None:
        """The content of the entry with the key ``name``; None if there is none, or if it cannot be trusted."""
        if self.folder is None:
            return None
        try:
            with self._opened() as folder:
                return self._read(folder, name)
        except _NotOurs as e:
            e.warn()
        except (OSError, ValueError):  # ValueError: the folder's name is not a path
            pass
        return None

    def keeper(self, name: str) -> Keep:
        """A `Keep` that stores code in the entry with the key ``name``."""
        return partial(self.put, name)

    def put(self, name: str, content: bytes) -> None:
        """Writes ``content`` to the entry with the key ``name``."""
        if self.folder is None or BEGIN + len(content) > self.max_bytes:
            return
        try:
            # FileNotFoundError: another process has removed the folder
            with self._opened(make=True) as folder, suppress(FileNotFoundError):
                self._write(folder, name, entry(name, content))
                self._trim(folder, BEGIN + len(content))
        except _NotOurs as e:
            e.warn()
        except (OSError, ValueError) as e:
            place = _joined(self.folder, self.below, str(getattr(e, "filename2", None) or ""))
            _warn_unusable(f"{place}: {getattr(e, 'strerror', e)}")

    # --- the folder ---------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, make: bool = False) -> Iterator[int]:
        """A file descriptor of the folder of the entries; with ``make``, the folder is made first. Raises OSError."""
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
        with open(name + SUFFIX, "rb", opener=lambda path, _: os.open(path, _READ, dir_fd=folder)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > self.max_bytes:
                return None
            _must_be_ours(status, self.folder, self.below, name + SUFFIX)
            front, content = file.read(BEGIN), file.read(status.st_size)
            if front != _front(name, content):
                return None
            with suppress(OSError):
                os.utime(file.fileno())
            return content

    def _write(self, folder: int, name: str, made: bytes) -> None:
        """Writes an entry atomically; after a failure no file remains."""
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

    def _trim(self, folder: int, written: int) -> None:
        """Removes temporary files that a dead process left. If the other files take too much room, removes the least
        recently used ones until a quarter of the room is free. Listing thousands of files takes longer than compiling a
        kernel. So this process lists the folder again only when it has written an eighth of the room that was left; not
        later, because other processes write too."""
        place = str(self.folder), self.below, self.max_bytes
        if written < (left := _unlooked.get(place, 0)):
            _unlooked[place] = left - written
            return
        abandoned = time.time() - ABANDONED
        total, entries = 0, []
        with os.scandir(folder) as found:
            for e in found:
                if e.name.endswith((SUFFIX, TEMPORARY)):
                    with suppress(FileNotFoundError):  # another process may trim at the same time
                        status = e.stat(follow_symlinks=False)
                        temporary = e.name.endswith(TEMPORARY)
                        if temporary and status.st_mtime < abandoned and _removed(folder, e.name):
                            continue
                        if stat.S_ISREG(status.st_mode):
                            total += status.st_size
                            if not temporary:
                                entries.append((status.st_mtime_ns, status.st_size, e.name))
        most = self.max_bytes if total <= self.max_bytes else self.max_bytes * 3 // 4
        for _, size, name in sorted(entries) if total > most else ():
            if _removed(folder, name):
                total -= size
            if total <= most:
                break
        _unlooked[place] = (self.max_bytes - total) // 8


def entry(name: str, content: bytes) -> bytes:
    """The bytes of the file of an entry."""
    return _front(name, content) + content


def _front(name: str, content: bytes) -> bytes:
    """The bytes of the file of an entry that precede the content."""
    head = _HEAD.pack(_MAGIC, _VERSION, bytes.fromhex(name), len(content))
    checksum = hashed(head)
    checksum.update(content)
    return head + checksum.digest()


def _removed(folder: int, name: str) -> bool:
    """Tries to remove a file; returns whether the file no longer exists."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _made(path: str) -> str:
    """Makes the folder ``path``, and its parents, unless they exist; returns the outermost folder that it made, or
    ``path``."""
    missing = []
    while not os.path.isdir(path) and path != os.path.dirname(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)
    return missing[0] if missing else path


# --- warnings -------------------------------------------------------------------------------------------------------

_warned: dict[str, object] = {}  # code of a warning that this process has shown -> the thread that showed it


class _NotOurs(OSError):
    """Another user owns the file or folder, or can write to it."""

    def __init__(self, path: str, owned: bool) -> None:
        super().__init__(path)
        self.path = path
        self.owned = owned

    def warn(self) -> None:
        danger = "can write to it" if self.owned else "owns it"
        cure = f"chmod go-w {self.path}" if self.owned else "remove it"
        _warn_once(
            f"{self.path} is not used: another user {danger}, and code would be run from there",
            code="QL2034",
            help=f"{cure}, or name a folder of your own in QD_OFFLINE_CACHE_FILE_PATH",
        )


def _joined(*names: str) -> str:
    return os.path.join("", *filter(None, names))  # joined this way, an empty name adds no slash


def _must_be_ours(status: os.stat_result, folder: str | None, *below: str) -> None:
    owned = status.st_uid == os.geteuid()
    if not owned or status.st_mode & _OTHERS_WRITE:
        raise _NotOurs(_joined(folder or "", *below), owned)


def _warn_unusable(why: str) -> None:
    _warn_once(
        f"nothing is kept on disk, so each process compiles its kernels anew: {why}",
        code="QL2035",
        help="name a folder that you can write to in QD_OFFLINE_CACHE_FILE_PATH, or take qd.init(offline_cache=False)",
    )


def _warn_once(text: str, code: str, help: str) -> None:
    me = object()
    if _warned.setdefault(code, me) is me:  # only the thread that entered the code itself shows the warning
        warn(render(code, text, help=help, kind="warning"))


# --- keys for the sources of the compiler: compiled code depends on them, besides its kernel --------------------

_HERE, _PACKAGE = Path(__file__).resolve().parent, Path(errors.__file__).resolve().parent
_LOWER = tuple(_HERE / "lower" / name for name in ("", "adstacks", "local_arrays"))
# the folders of the package whose code transforms a kernel before a backend gets it
_OF_IR = (
    "", "ir", "analysis", "passes", "pipelines", "autodiff", "adstack", "lang", "frontend", "frontend/library",
    "frontend/ops", "frontend/syntax", "frontend/values", "runtime", "runtime/compile", "runtime/arguments",
)  # fmt: skip


def digest(*folders: str, also: bytes = b"") -> str:
    """A hash of the sources of ``backends/``, of its subfolders ``folders``, of the lowering passes, of the analyses
    and tables of the IR that they use, and of ``also``. A folder is hashed by its `stamp`, or by the text of its files
    if it has none."""
    made = hashed(also)
    for folder in (_HERE, *_LOWER, _PACKAGE / "analysis", _PACKAGE / "ir", *(_HERE / name for name in folders)):
        made.update((stamp(folder) or _text(folder)).encode())
    return made.hexdigest()


def _text(folder: Path) -> str:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def stamp(folder: Path) -> str:
    """A text with the size and times of each source file in the folder; this is faster to get than the files' text. ""
    if there are no sources, or if they changed while this process runs: it may have imported the old ones."""
    found = []
    with suppress(FileNotFoundError):
        found = sorted((e.name, e.stat()) for e in os.scandir(folder) if e.name.endswith(".py"))
    if any(status.st_mtime_ns >= STARTED for _, status in found):
        return ""
    return "\n".join(f"{name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in found)


@cache
def of_ir() -> str:
    """A text that changes with Python, with numpy, and with the sources that make the IR; "" if one of their folders
    has no `stamp`."""
    stamps = [stamp(folder) for folder in (_HERE, *_LOWER, *(_PACKAGE / name for name in _OF_IR))]
    parts = (sys.version, sys.modules["numpy"].__version__, str(_PACKAGE), *stamps)
    return "\n".join(parts) if all(stamps) else ""
