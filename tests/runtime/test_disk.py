"""The disk cache of every backend between processes: swapped, damaged or foreign entries and a full disk only cost a
compilation. `test_cache` has the cases one by one."""

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from child import Child
from sessions import in_turn, skips

from quadrants_lab.runtime.backend import backend

TESTS = Path(__file__).resolve().parents[1]
VALUES = [8.0] * 5 + [320.0] + [16.0] * 5
BY_NIGHT = ("cuda", "amdgpu")  # whose stand-ins keep files as Vulkan does


def on(*archs: str) -> pytest.MarkDecorator:
    slow = lambda arch: [pytest.mark.slow] if arch in BY_NIGHT and backend(arch).probe() else []
    params = [pytest.param(arch, id=arch, marks=[*skips(arch), *slow(arch)]) for arch in archs]
    return pytest.mark.parametrize("arch", params)


def on_one_of(*archs: str) -> pytest.MarkDecorator:
    """Runs the test on the CPU, and by day on one of the other backends."""
    return pytest.mark.parametrize("arch", in_turn([pytest.param(a, id=a, marks=skips(a)) for a in archs], archs[1:]))


on_every_backend = on_one_of("cpu", "cuda", "vulkan", "metal", "amdgpu", "wasm")


@dataclass
class Ran:
    """What a child did. ``compiled``: how many kernels and libraries; ``said``: its text on stderr."""

    compiled: int
    said: str


def start(arch: str, home: Path | None, code: str = "", **changes: Any) -> Child:
    """Starts `disk_child.py` with its caches in ``home``. ``changes`` of its environment: None removes a variable."""
    changes = {"XDG_CACHE_HOME": home, "QD_OFFLINE_CACHE_FILE_PATH": None, "PYTHONPATH": TESTS, **changes}
    env = {k: None if v is None else str(v) for k, v in changes.items()}
    return Child(sys.executable, TESTS / "runtime" / "disk_child.py", arch, code, env=env, cwd=TESTS)


def run(arch: str, home: Path | None, code: str = "", **changes: Any) -> Ran:
    """To its end, with the right values."""
    with start(arch, home, code, **changes) as child:
        done = child.finish()
    found = json.loads(done.stdout)
    assert found["values"] == VALUES
    return Ran(found["compiled"], done.stderr)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A cache folder that a process has filled. That the next one compiles nothing is seen where files are swapped."""
    made: dict[str, Path] = {}

    def make(arch: str) -> Path:
        if arch not in made:
            made[arch] = tmp_path_factory.mktemp(arch)
            assert run(arch, made[arch]).compiled > 0
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


@on_one_of("cpu", "cuda", "vulkan", "metal", "amdgpu", "c", "wasm")
def test_files_whose_names_are_swapped(arch: str, home: Path) -> None:
    for folder in folders(home):
        here = [p for p in files(home) if p.parent == folder]
        before = [p.read_bytes() for p in here]
        for path, content in zip(here, before[1:] + before[:1], strict=True):
            path.write_bytes(content)
    assert run(arch, home).compiled > 0
    assert run(arch, home).compiled == 0


@on("cpu", "metal")
def test_what_another_user_may_have_written(arch: str, home: Path) -> None:
    before = contents(home)
    for path in before:
        path.chmod(0o606)
    ran = run(arch, home)
    assert ran.compiled > 0
    assert ran.said.count("QL2034") == 1
    (named,) = (p for p in before if f"{p} is not used" in ran.said)
    assert f"chmod go-w {named}" in ran.said
    assert contents(home) == before


@on_every_backend
def test_modes_whatever_the_umask(arch: str, tmp_path: Path) -> None:
    home = tmp_path / "not" / "there"
    run(arch, home, "import os; os.umask(0)")
    outer = [] if arch == "vulkan" else [home.parent, home]  # which Mesa makes for a cache of its own
    assert {stat.S_IMODE(p.stat().st_mode) for p in (*outer, *folders(home))} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in files(home)} == {0o600}


def test_no_home() -> None:
    ran = run("cpu", None, "import pwd\ndef getpwuid(uid): raise KeyError\npwd.getpwuid = getpwuid", HOME=None)
    assert ran.compiled > 0
    assert ran.said.count("QL2035") == 1


MAGIC_OF_SPIRV = 0x07230203 .to_bytes(4, "little")
FULL = """
import errno, os, tempfile
tempfile.gettempdir()  # looks for it by writing
def full(*args, **options):
    raise OSError(errno.{0}, os.strerror(errno.{0}))
"""
OPEN = """
made = os.open
os.open = lambda path, flags, *a, **k: full() if flags & os.O_CREAT and "dir_fd" in k else made(path, flags, *a, **k)
"""


@on("metal")
def test_a_full_disk(arch: str, tmp_path: Path) -> None:
    """Nothing stays of what could not be written."""
    ran = run(arch, tmp_path, FULL.format("ENOSPC") + "os.replace = os.rename = full")
    assert ran.compiled > 0
    assert files(tmp_path) == []
    assert ran.said.count("QL2035") == 1


@on_every_backend
def test_a_folder_that_can_only_be_read(arch: str, home: Path) -> None:
    """What lies there is used, and nothing is put there."""
    kept = [p for p in files(home) if p.parent == folders(home)[0]]
    others = b"qd_launch", b"quadrants_lab.ir"  # what stands in the CPU's runtime, and in IR
    kernels = [p for p in kept if not any(mark in p.read_bytes() for mark in others)]
    if arch == "vulkan":  # a driver's own cache of its code may be larger
        kernels = [p for p in kernels if MAGIC_OF_SPIRV in p.read_bytes()]
    max(kernels, key=lambda p: p.stat().st_size).unlink()
    before = contents(home)
    ran = run(arch, home, FULL.format("EROFS") + OPEN)
    assert ran.compiled == 1
    assert contents(home) == before
    assert ran.said.count("QL2035") == 1


@on("cpu", "metal")
def test_files_of_a_killed_writer_are_removed_after_a_while(arch: str, tmp_path: Path) -> None:
    start(arch, tmp_path, "import os\nos.replace = os.rename = lambda *a, **k: os._exit(0)").finish()
    (left,) = files(tmp_path)
    os.utime(left, (1, 1))
    run(arch, tmp_path)
    assert not left.exists()


@on("cpu", "cuda", "amdgpu")
def test_processes_share_a_cache(arch: str, tmp_path: Path) -> None:
    """They write, read and evict at the same time: there is room for two kernels or one."""
    running = [start(arch, tmp_path, QD_OFFLINE_CACHE_MAX_SIZE_OF_FILES=room) for room in (9000, 4500, 9000)]
    for child in running:
        done = child.finish()
        assert json.loads(done.stdout)["values"] == VALUES
        assert done.stderr == ""
