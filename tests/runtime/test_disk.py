"""The disk cache of every backend, from process to process: what is swapped, damaged, another user's, full or no file
at all costs compilation and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from child import Child
from child import run as finish
from sessions import skips

from quadrants_lab.runtime.backend import backend

TESTS = Path(__file__).resolve().parents[1]
VALUES = [8.0] * 5 + [320.0] + [16.0] * 5
ARCHS = ("cpu", "cuda", "vulkan", "metal", "amdgpu")


def marks(arch: str) -> list[Any]:
    """By night only: CUDA where a stand-in has to do, which keeps files as Vulkan does."""
    return [*skips(arch), *([pytest.mark.slow] if arch == "cuda" and backend(arch).probe() else [])]


def on(*archs: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("arch", [pytest.param(arch, marks=marks(arch)) for arch in archs])


on_every_backend = on(*ARCHS)


def on_the_cpu_and(*everywhere: str, of: Iterable[str]) -> pytest.MarkDecorator:
    """``arch`` and ``case``: all cases on the CPU, some on every backend, which share what is tested."""
    return pytest.mark.parametrize(
        "arch, case",
        [pytest.param(arch, c, marks=marks(arch)) for arch in ARCHS for c in of if arch == "cpu" or c in everywhere],
    )


@dataclass
class Ran:
    """``compiled``: how many kernels and libraries; ``said``: on stderr."""

    compiled: int
    said: str


def start(arch: str, home: Path | None, code: str = "", **changes: Any) -> Child:
    """`disk_child.py` in a process whose caches lie in ``home``; ``changes`` of its environment: None takes away."""
    changes = {"XDG_CACHE_HOME": home, "QD_OFFLINE_CACHE_FILE_PATH": None, **changes}
    env = {k: None if v is None else str(v) for k, v in changes.items()}
    return Child(sys.executable, TESTS / "disk_child.py", arch, code, env=env, cwd=TESTS)


def run(arch: str, home: Path | None, code: str = "", **changes: Any) -> Ran:
    """To its end, with the right values."""
    with start(arch, home, code, **changes) as child:
        done = child.finish()
    found = json.loads(done.stdout)
    assert found["values"] == VALUES
    return Ran(found["compiled"], done.stderr)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder of caches in which a process has left all that the next one needs."""
    made: dict[str, Path] = {}

    def make(arch: str) -> Path:
        if arch not in made:
            made[arch] = tmp_path_factory.mktemp(arch)
            assert run(arch, made[arch]).compiled > 0
            assert run(arch, made[arch]).compiled == 0
        return made[arch]

    return make


@pytest.fixture
def home(warm: Callable[[str], Path], arch: str, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(warm(arch), tmp_path / "home"))


def folders(home: Path) -> list[Path]:
    top = home / "quadrants_lab"
    return [top, *(p for p in top.rglob("*") if p.is_dir())]


def files(home: Path) -> list[Path]:
    return [p for p in folders(home)[0].rglob("*") if p.is_file() and not p.is_symlink()]


def contents(home: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in files(home)}


# --- entries ------------------------------------------------------------------------------------------------------


@on(*ARCHS, "c")
def test_files_whose_names_are_swapped(arch: str, home: Path) -> None:
    for folder in folders(home):
        here = [p for p in files(home) if p.parent == folder]
        before = [p.read_bytes() for p in here]
        for path, content in zip(here, before[1:] + before[:1], strict=True):
            path.write_bytes(content)
    assert run(arch, home).compiled > 0
    assert run(arch, home).compiled == 0


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda b: b"",
    "a byte less": lambda b: b[:-1],
    "half": lambda b: b[: len(b) // 2],
    "twice": lambda b: b + b,
    "zeros": lambda b: bytes(len(b)),
    "noise": lambda b: bytes(n * n % 251 for n in range(len(b))),
    "another processor's": lambda b: b[:18] + b"\x08" + b[19:],
}


@on_the_cpu_and("half", "noise", of=CHANGES)
def test_code_that_does_not_load_is_made_anew(arch: str, home: Path, case: str) -> None:
    """Although its checksum is right."""
    from quadrants_lab.backends.disk_cache import BEGIN, entry

    for path, raw in contents(home).items():
        path.write_bytes(entry(path.stem, CHANGES[case](raw[BEGIN:])))
    assert run(arch, home).compiled > 0
    if case == "half":
        assert run(arch, home).compiled == 0


@on("cpu", "metal")
def test_files_that_are_cut(arch: str, home: Path) -> None:
    for path in files(home):
        os.truncate(path, path.stat().st_size * 2 // 3)
    assert run(arch, home).compiled > 0


# --- another user's -----------------------------------------------------------------------------------------------

root = os.geteuid() == 0  # root alone gives files away and makes devices
SPOILED: dict[str, tuple[Callable[[Path], list[Path]], Callable[[Path], None], str]] = {
    "folders, group": (folders, lambda p: os.chmod(p, 0o770), "chmod go-w {}"),
    "folders, all": (folders, lambda p: os.chmod(p, 0o707), "chmod go-w {}"),
    "files, group": (files, lambda p: os.chmod(p, 0o660), "chmod go-w {}"),
    "files, all": (files, lambda p: os.chmod(p, 0o606), "chmod go-w {}"),
}
if root:
    SPOILED["folders, owner"] = folders, lambda p: os.chown(p, 12345, -1), "remove it"
    SPOILED["files, owner"] = files, lambda p: os.chown(p, 12345, -1), "remove it"


@on_the_cpu_and("folders, group", "files, all", of=SPOILED)
def test_what_another_user_may_have_written(arch: str, home: Path, case: str) -> None:
    which, spoil, cure = SPOILED[case]
    before, spoiled = contents(home), which(home)
    for path in spoiled:
        spoil(path)
    ran = run(arch, home)
    assert ran.compiled > 0
    assert ran.said.count("QL2034") == 1
    (named,) = (p for p in spoiled if f"{p} is not used" in ran.said)
    assert cure.format(named) in ran.said
    assert contents(home) == before


@on("cpu", "metal")
def test_links_to_elsewhere(arch: str, home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in files(home):
        path.rename(outside / path.name)
        path.symlink_to(outside / path.name)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in outside.iterdir()}
    assert run(arch, home).compiled > 0
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in outside.iterdir()} == before


@on_the_cpu_and("0", of=("0", "0o777"))
def test_modes_whatever_the_umask(arch: str, tmp_path: Path, case: str) -> None:
    home = tmp_path / "not" / "there"
    run(arch, home, f"import os; os.umask({case})")
    outer = [] if arch == "vulkan" else [home.parent, home]  # which Mesa makes for a cache of its own
    assert {stat.S_IMODE(p.stat().st_mode) for p in (*outer, *folders(home))} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in files(home)} == {0o600}


# --- what is no file ----------------------------------------------------------------------------------------------


def bind(path: Path) -> None:
    """A socket; its address is short, however long its path is."""
    code = "import os, socket, sys; os.chdir(sys.argv[1]); socket.socket(socket.AF_UNIX).bind(sys.argv[2])"
    short = "socket"
    finish(sys.executable, "-c", code, path.parent, short)
    (path.parent / short).rename(path)


KINDS: dict[str, Callable[[Path], Any]] = {
    "fifo": os.mkfifo,
    "folder": os.mkdir,
    "socket": bind,
    "loop": lambda p: p.symlink_to(p.name),
}
if root:
    KINDS["device"] = lambda p: os.mknod(p, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeros without end


@on_the_cpu_and("fifo", of=KINDS)
def test_what_is_no_file_in_the_place_of_entries(arch: str, home: Path, case: str) -> None:
    for path in files(home):
        path.unlink()
        KINDS[case](path)
    assert run(arch, home).compiled > 0


@on_the_cpu_and("fifo", of=KINDS)
def test_what_is_no_folder_in_the_place_of_the_cache(arch: str, tmp_path: Path, case: str) -> None:
    top = tmp_path / "quadrants_lab"
    if case == "folder":
        top.touch()
    else:
        KINDS[case](top)
    ran = run(arch, tmp_path)
    assert ran.compiled > 0
    assert ran.said.count("QL2035") == 1
    assert f"{top}: " in ran.said


# --- no place, no room --------------------------------------------------------------------------------------------

NOBODY = "import pwd\ndef getpwuid(uid): raise KeyError\npwd.getpwuid = getpwuid"


HOMES: dict[str, tuple[str, dict[str, str | None]]] = {
    "none": (NOBODY, {"HOME": None}),
    "nonexistent": ("", {"HOME": "/nonexistent"}),
    "empty": ("", {"HOME": ""}),
    "not writable": ("", {"HOME": "/proc"}),
    "asked for": (NOBODY, {"HOME": None, "QD_OFFLINE_CACHE_FILE_PATH": "~/here"}),
}


@on_the_cpu_and("none", of=HOMES)
def test_no_home(arch: str, case: str) -> None:
    code, environment = HOMES[case]
    ran = run(arch, None, code, **environment)
    assert ran.compiled > 0
    assert ran.said.count("QL2035") == 1
    assert "QD_OFFLINE_CACHE_FILE_PATH" in ran.said
    assert not Path("/nonexistent").exists()


FULL = """
import errno, os, stat, tempfile
tempfile.gettempdir()  # looks for it by writing
write = os.write
def full(*args, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
"""
OPEN = """
made = os.open
os.open = lambda path, flags, *a, **k: full() if flags & os.O_CREAT and "dir_fd" in k else made(path, flags, *a, **k)
"""
WRITE = """
most = {}
def less(file, data):
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return write(file, data)
    return most.pop(0)(file, data)
os.write = less
"""
MKDIR = """
made = os.mkdir
os.mkdir = lambda path, *a, **k: made(path, *a, **k) if "simulated-metal-" in str(path) else full()
"""
# what fails, and how; a write may do some of what is asked before there is no room
FAILS = {
    "mkdir": MKDIR, "open": OPEN, "write": WRITE.format("[full] * 99"),
    "half a write": WRITE.format("[lambda file, data: write(file, data[:10]), full] * 99"),
    "replace": "os.replace = os.rename = full",
}  # fmt: skip


@on_the_cpu_and("replace", of=FAILS)
def test_a_full_disk(arch: str, tmp_path: Path, case: str) -> None:
    """Nothing stays of what could not be written."""
    top = tmp_path / "quadrants_lab"
    if case != "mkdir":
        (top / "simulated-metal").mkdir(parents=True, mode=0o700)
        top.chmod(0o700)
    ran = run(arch, tmp_path, FULL + FAILS[case])
    assert ran.compiled > 0
    assert files(tmp_path) == []
    assert ran.said.count("QL2035") == 1
    assert f"{top}: No space left on device" in ran.said


@on_every_backend
def test_a_folder_that_can_only_be_read(arch: str, home: Path) -> None:
    """What lies there is used, and nothing is put there."""
    kept = [p for p in files(home) if p.parent == folders(home)[0]]
    kernels = [p for p in kept if b"qd_launch" not in p.read_bytes()]  # that is the CPU's runtime
    max(kernels, key=lambda p: p.stat().st_size).unlink()
    before = contents(home)
    ran = run(arch, home, FULL.replace("ENOSPC", "EROFS") + OPEN)
    assert ran.compiled == 1
    assert contents(home) == before
    assert ran.said.count("QL2035") == 1


# --- many processes -----------------------------------------------------------------------------------------------


@on_every_backend
def test_what_a_killed_writer_left_goes_after_a_while(arch: str, tmp_path: Path) -> None:
    start(arch, tmp_path, "import os\nos.replace = os.rename = lambda *a, **k: os._exit(0)").finish()
    (left,) = files(tmp_path)
    os.utime(left, (1, 1))
    run(arch, tmp_path)
    assert not left.exists()


@on_every_backend
def test_processes_share_a_cache(arch: str, tmp_path: Path) -> None:
    """They write, read and evict at the same time: there is room for two kernels or one."""
    running = [start(arch, tmp_path, QD_OFFLINE_CACHE_MAX_SIZE_OF_FILES=room) for room in (9000, 4500, 9000)]
    for child in running:
        done = child.finish()
        assert json.loads(done.stdout)["values"] == VALUES
        assert done.stderr == ""
