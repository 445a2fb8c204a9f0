"""The disk cache: hits, misses, eviction, damage and access rights. `test_disk` has the same on every backend."""

import errno
import os
import pwd
import shutil
import socket
import stat
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child import Child

import quadrants_lab as qd
from quadrants_lab.backends import disk_cache
from quadrants_lab.backends.cpu import tasks
from quadrants_lab.backends.disk_cache import BEGIN, SUFFIX, TEMPORARY, DiskCache, default_path, key
from quadrants_lab.errors import QuadrantsWarning

ROOM = 1 << 20
A, B = key("a"), key("b")


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resets the process to a state in which it has not warned yet."""
    monkeypatch.setattr(disk_cache, "_warned", {})


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "deep" / "folder", ROOM)


def file_of(store: DiskCache, name: str) -> Path:
    assert store.folder is not None
    return Path(store.folder, store.below, name + SUFFIX)


# --- entries ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("below", ["", "below"])
def test_content_comes_back(store: DiskCache, below: str) -> None:
    store.below = below
    assert store.get(A) is None
    store.put(A, b"code")
    assert store.get(A) == b"code"
    store.keeper(A)(b"other code")
    assert store.get(A) == b"other code"
    assert os.listdir(file_of(store, A).parent) == [A + SUFFIX]


def test_without_a_folder_nothing_is_kept() -> None:
    store = DiskCache()
    store.put(A, b"code")
    assert store.get(A) is None


def test_a_file_with_any_byte_changed_is_absent(store: DiskCache) -> None:
    store.put(A, b"code")
    raw = file_of(store, A).read_bytes()
    for n in range(len(raw)):
        file_of(store, A).write_bytes(raw[:n] + bytes([raw[n] ^ 0x10]) + raw[n + 1 :])
        assert store.get(A) is None
    for damaged in (*(raw[:n] for n in range(len(raw))), raw + b"?", raw + raw):
        file_of(store, A).write_bytes(damaged)
        assert store.get(A) is None
    store.put(A, b"new")
    assert store.get(A) == b"new"


def test_a_file_in_the_place_of_another_is_absent(store: DiskCache) -> None:
    store.put(A, b"code")
    file_of(store, A).rename(file_of(store, B))
    assert store.get(A) is None
    assert store.get(B) is None


def test_a_file_that_claims_to_be_huge_is_not_read(store: DiskCache) -> None:
    store.put(A, b"code")
    os.truncate(file_of(store, A), 1 << 40)
    assert store.get(A) is None


def test_keys_depend_on_every_part_and_on_where_it_ends() -> None:
    assert key("ab", "c") != key("a", "bc")
    assert key("a") == key("a")


# --- room ---------------------------------------------------------------------------------------------------------

EACH = BEGIN + 150


def test_the_oldest_go_when_it_is_full(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1000 + 4 * BEGIN)
    for n in range(10):
        store.put(key(str(n)), bytes(150))
        os.utime(file_of(store, key(str(n))), (n, n))
    store.put(key("last"), bytes(150))
    assert store.get(key("last")) is not None
    assert store.get(key("0")) is None
    assert sum(f.stat().st_size for f in os.scandir(tmp_path)) <= store.max_bytes


def test_the_least_recently_used_entry_is_evicted_first(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 3 * EACH)
    for n, name in enumerate("abc"):
        store.put(key(name), bytes(150))
        os.utime(file_of(store, key(name)), (n, n))
    assert store.get(A) is not None
    store.put(key("d"), bytes(150))
    assert [name for name in "abcd" if store.get(key(name))] == ["a", "d"]


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_room_is_kept_though_few_writes_look_at_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """Each process knows only what it wrote itself."""
    store, looks = DiskCache(tmp_path, 400 * EACH), []
    known: list[dict[Any, int]] = [{} for _ in range(processes)]
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(folder) or scan(folder))
    for n in range(1000):
        monkeypatch.setattr(disk_cache, "_unlooked", known[n % processes])
        store.put(key(str(n)), bytes(150))
        if n % 10 == 0:
            with scan(tmp_path) as found:
                assert sum(1 for _ in found) <= 400
    assert processes <= len(looks) <= 200
    assert store.get(key("999")) is not None


def test_an_entry_larger_than_the_cache_evicts_nothing(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1000)
    store.put(A, bytes(150))
    store.put(B, bytes(1000))
    assert store.get(B) is None
    assert store.get(A) is not None


def test_files_that_are_being_written_take_room_and_are_left_alone(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 4 * EACH)
    store.put(A, bytes(150))
    os.utime(file_of(store, A), (1, 1))
    written = tmp_path / f".written{TEMPORARY}"
    written.write_bytes(bytes(2 * EACH))
    other = tmp_path / "not ours.tmp"
    other.write_bytes(bytes(10 * EACH))
    store.put(B, bytes(150))
    assert store.get(A) is not None
    store.put(key("c"), bytes(150))
    assert store.get(A) is None
    assert written.exists()
    os.utime(written, (1, 1))
    store.put(A, bytes(150))
    assert not written.exists()
    assert other.exists()


def socket_at(path: Path) -> None:
    """Its address is short, however long its path is."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("short")
    Path("short").rename(path)


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "folder": os.mkdir,
    "socket": socket_at,
    "loop": lambda p: p.symlink_to(p.name),
    "link to nothing": lambda p: p.symlink_to("nowhere"),
}
if os.geteuid() == 0:
    KINDS["device"] = lambda p: os.mknod(p, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeros without end


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", [A + SUFFIX, f".left{TEMPORARY}"])
def test_special_files_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = DiskCache(tmp_path, 2 * EACH)
    make(tmp_path / name)
    os.utime(tmp_path / name, (1, 1), follow_symlinks=False)
    assert store.get(A) is None
    for other in "bcd":
        store.put(key(other), bytes(150))
    assert store.get(key("d")) is not None


@pytest.mark.parametrize("make", [Path.touch, *(make for kind, make in KINDS.items() if kind != "folder")])
def test_a_path_that_is_no_folder_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "top")
    assert f"{tmp_path / 'top'}: " in told(DiskCache(tmp_path / "top", ROOM))


def no_room(*args: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def room_for_some(file: int, data: bytes, write: Any = os.write) -> int:
    if len(data) < 20:
        no_room()
    return int(write(file, data[:10]))


@pytest.mark.parametrize(
    "name, fails", [("mkdir", no_room), ("write", no_room), ("write", room_for_some), ("replace", no_room)]
)
def test_a_full_disk(store: DiskCache, monkeypatch: pytest.MonkeyPatch, name: str, fails: Any) -> None:
    """An entry that could not be written whole leaves nothing behind."""
    assert store.folder is not None
    if name != "mkdir":
        store.put(key("c"), b"code")
    with monkeypatch.context() as m:
        m.setattr(os, name, fails)
        assert "No space left on device" in told(store)
    assert sorted(Path(store.folder).glob("*")) == ([] if name == "mkdir" else [file_of(store, key("c"))])


@pytest.mark.parametrize("umask", [0, 0o777])
def test_modes_whatever_the_umask(store: DiskCache, umask: int) -> None:
    before = os.umask(umask)
    try:
        store.put(A, b"code")
    finally:
        os.umask(before)
    made = (file_of(store, A), file_of(store, A).parent, file_of(store, A).parent.parent)
    assert [stat.S_IMODE(p.stat().st_mode) for p in made] == [0o600, 0o700, 0o700]


@pytest.mark.parametrize("home", [None, "", "/dev/null/home"])
def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    for variable in ("XDG_CACHE_HOME", "QD_OFFLINE_CACHE_FILE_PATH", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.warns(QuadrantsWarning, match="QL2035"):
        assert default_path() is None
    disk_cache._warned.clear()
    if home is None:
        with pytest.warns(QuadrantsWarning, match="QL2035.*the home folder in ~/here is not known"):
            assert default_path("~/here") is None


def test_without_a_working_folder_relative_paths_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert default_path("here/") == f"{gone}/here/"
    gone.rmdir()
    with pytest.warns(QuadrantsWarning, match="QL2035.*there is no working folder, in which here would be"):
        assert default_path("here") is None
    assert default_path("/there") == "/there"


# --- what the user is told ----------------------------------------------------------------------------------------

def told(store: DiskCache) -> str:
    """The one warning of a process that uses the store."""
    disk_cache._warned.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert store.get(A) is None
            store.put(A, b"code")
            store.put(B, b"code")
    (warning,) = caught
    assert warning.category is QuadrantsWarning
    assert warning.filename == __file__
    return str(warning.message)


def test_warnings_name_file_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[Path, str], None]
) -> None:
    texts = {}
    store = DiskCache(tmp_path / "cache", ROOM, below="part")
    store.put(A, b"code")
    for mode in (0o702, 0o720):
        for name, path in {"the folder": tmp_path / "cache", "a folder below": tmp_path / "cache" / "part"}.items():
            path.chmod(mode)
            texts[f"others can write to {name}"] = told(store)
            path.chmod(0o700)
        file_of(store, A).chmod(mode - 0o100)
        texts["others can write to a file"] = told(store)
    with monkeypatch.context() as m:
        m.setattr(os, "geteuid", lambda: 12345)
        texts["another owner"] = told(store)
    (tmp_path / "file").touch()
    texts["no folder"] = told(DiskCache(tmp_path / "file", ROOM))
    disk_cache._warned.clear()
    for variable in ("XDG_CACHE_HOME", "QD_OFFLINE_CACHE_FILE_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/dev/null/home")
    with pytest.warns(QuadrantsWarning) as caught:
        assert default_path() is None
    texts["no home"] = str(caught[0].message)
    shown = "\n".join(f"--- {name}\n{text}\n" for name, text in texts.items())
    golden(Path(__file__).with_name("cache.txt"), shown.replace(str(tmp_path), "...").replace(A, "ENTRY"))


def test_nothing_is_written_where_others_could(store: DiskCache) -> None:
    store.put(A, b"code")
    before = file_of(store, A).read_bytes()
    file_of(store, A).chmod(0o620)
    with pytest.warns(QuadrantsWarning):
        store.put(A, b"other")
    assert file_of(store, A).read_bytes() == before
    file_of(store, A).unlink()
    store.put(A, b"other")
    assert store.get(A) == b"other"


def test_a_cache_folder_that_is_removed_meanwhile(store: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def urandom(n: int) -> bytes:
        shutil.rmtree(file_of(store, A).parent)
        return bytes(n)
    with monkeypatch.context() as m, warnings.catch_warnings():
        warnings.simplefilter("error")
        m.setattr(os, "urandom", urandom)
        store.put(A, b"code")
    assert store.get(A) is None
    store.put(A, b"code")
    assert store.get(A) == b"code"


def test_the_cache_folder_may_be_a_link_and_those_below_may_not(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("place")
    store = DiskCache(tmp_path / "link", ROOM)
    store.put(A, b"code")
    assert store.get(A) == b"code"
    (tmp_path / "place" / "below").symlink_to(tmp_path / "place")
    store.below = "below"
    assert store.get(A) is None


# --- where it is --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("environment, want", [
    ({"QD_OFFLINE_CACHE_FILE_PATH": "{here}/asked", "XDG_CACHE_HOME": "{here}"}, "{here}/asked"),
    ({"QD_OFFLINE_CACHE_FILE_PATH": "~/asked"}, "{here}/asked"),
    ({"XDG_CACHE_HOME": "{here}/shared"}, "{here}/shared/quadrants_lab"),
    ({"XDG_CACHE_HOME": "not absolute"}, "{here}/.cache/quadrants_lab"),
    ({}, "{here}/.cache/quadrants_lab"),
])
def test_the_environment_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], want: str
) -> None:
    for name in ("QD_OFFLINE_CACHE_FILE_PATH", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(here=tmp_path))
    assert str(default_path()) == want.format(here=tmp_path)


# --- many at a time -----------------------------------------------------------------------------------------------

CROWD = """
import random, sys
from pathlib import Path
from quadrants_lab.backends.disk_cache import DiskCache, key

def content(name, size):
    return (f"{name} {size} " * size).encode()[:size]

me, store = random.Random(sys.argv[2]), DiskCache(Path(sys.argv[1]), 12_000)
for _ in range(400):
    name = str(me.randrange(12))
    if me.random() < 0.5:
        store.put(key(name), content(name, me.randrange(3000)))
    elif (found := store.get(key(name))) is not None:
        assert found == content(name, len(found)), name
"""


def test_processes_write_read_and_evict_at_the_same_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CROWD, str(tmp_path)]
    for child in [Child(*command, str(n)) for n in range(4)]:
        assert child.finish().output == ""
    left = list(os.scandir(tmp_path))
    assert all(e.name.endswith(SUFFIX) for e in left)
    assert sum(e.stat().st_size for e in left) <= 12_000


# --- kernels ------------------------------------------------------------------------------------------------------

@qd.kernel
def kernel(x: qd.template(), n: qd.i32):
    for i in x:
        for _ in range(n):
            x[i] = x[i] * 2.0


def test_kernels_are_found_again_and_options_make_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(**options: Any) -> float:
        qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path), **options)
        x = qd.field(qd.f32, 2)
        x.fill(1)
        kernel(x, 3)
        return float(x[0])

    assert launch() == 8
    assert len(os.listdir(tmp_path)) == 1
    with monkeypatch.context() as m:
        m.setattr(tasks, "machine_code", lambda *a: pytest.fail("compiled again"))
        assert launch() == 8
    assert launch(fast_math=False) == 8
    assert len(os.listdir(tmp_path)) == 2
    for f in os.scandir(tmp_path):
        with open(f.path, "wb") as out:
            out.write(b"damaged")
    assert launch() == 8


def test_offline_cache_off_writes_nothing(tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, offline_cache_file_path=str(tmp_path))
    kernel(qd.field(qd.f32, 2), 1)
    assert os.listdir(tmp_path) == []
