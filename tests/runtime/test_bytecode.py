"""`runtime.compile.bytecode`: the second process takes the compiler's modules from the file of the first."""

from __future__ import annotations

import sys
from pathlib import Path

import child
import pytest

PROGRAM = """
import importlib, inspect, sys
import quadrants_lab as qd
HEAD
qd.init(arch=qd.cpu, offline_cache=False)
x = qd.field(qd.f32, 4)

@qd.kernel
def wrong():
    for i in x:
        x[i] = missing

@qd.kernel
def fill():
    for i in x:
        x[i] = i + 0.5

if WRONG:
    try:
        wrong()
    except qd.QuadrantsCompilationError:
        pass
fill()
from quadrants_lab.frontend import lower
from quadrants_lab.runtime.compile import bytecode
taken = [m.__name__ for m in list(sys.modules.values()) if type(getattr(m, "__loader__", None)) is bytecode._Loader]
print(x.to_numpy().tolist(), lower.__file__ == inspect.getsourcefile(lower), "def lower(" in inspect.getsource(lower))
print(importlib.reload(lower).__cached__ == lower.__cached__, type(lower.__loader__) is bytecode._Loader)
print(len(taken) > 60, "quadrants_lab.backends.cpu.tasks" in taken)
"""
SAME = "[0.5, 1.5, 2.5, 3.5] True True\nTrue False\n"
TAKEN, IMPORTED = f"{SAME}True True\n", f"{SAME}False False\n"
CHANGED = """
from quadrants_lab.backends import disk_cache
stamp = disk_cache.stamp
disk_cache.stamp = lambda folder: stamp(folder) + ("changed" if folder.name == "passes" else "")
"""


def ran(folder: Path, head: str = "", wrong: bool = False) -> str:
    file = folder / "program.py"
    file.write_text(PROGRAM.replace("HEAD", head).replace("WRONG", str(wrong)))
    writes = {"PYTHONDONTWRITEBYTECODE": None, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    done = child.run(sys.executable, str(file), env=writes)
    assert not done.stderr
    return done.stdout


def files(folder: Path) -> list[Path]:
    return [*folder.rglob("runtime/compile/*.qlc")]


@pytest.mark.parametrize("wrong", [False, True], ids=["", "an error first"])
def test_a_second_process_takes_the_modules_from_a_file(tmp_path: Path, wrong: bool) -> None:
    """This holds even if the first kernel of the first process was not compiled to its end."""
    assert ran(tmp_path, wrong=wrong) == IMPORTED
    assert ran(tmp_path) == TAKEN


def test_a_file_of_other_sources_or_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    ran(tmp_path)
    assert ran(tmp_path, CHANGED) == IMPORTED
    assert ran(tmp_path, CHANGED) == TAKEN
    (file,) = files(tmp_path)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert (ran(tmp_path), ran(tmp_path)) == (IMPORTED, TAKEN)


def test_a_folder_that_is_gone_has_changed(tmp_path: Path) -> None:
    ran(tmp_path)
    gone = 'disk_cache.stamp = lambda folder: stamp(folder / "gone" if folder.name == "passes" else folder)'
    assert ran(tmp_path, CHANGED.rpartition("disk_cache.stamp =")[0] + gone) == IMPORTED


def test_no_file_is_written_where_a_source_has_changed(tmp_path: Path) -> None:
    """The process may have imported the old version of the source."""
    head = CHANGED.rpartition("disk_cache.stamp =")[0] + "disk_cache.stamp = lambda folder: ''"
    assert ran(tmp_path, head) == IMPORTED
    assert not files(tmp_path)
