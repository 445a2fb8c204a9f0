"""What a version says of itself in several files, and that its wheel and its sdist need only what they declare."""

import re
import sys
import tarfile
import zipfile
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from child import run
from project.test_wheel import ROOT, copy_of_sources

import quadrants_lab

PROGRAM = """
import sys
sys.path[:0] = [sys.argv[1]]
import numpy as np
import quadrants_lab as qd

assert qd.__file__.startswith(sys.argv[1]), qd.__file__
qd.init(arch=qd.cpu, offline_cache=False)
x = qd.field(qd.f32, shape=4, needs_grad=True)
loss = qd.field(qd.f32, shape=(), needs_grad=True)

@qd.kernel
def powers(n: qd.i32):
    for i in x:
        v = 1.0
        for _ in range(n):
            v *= x[i]
        loss[None] += v

x.from_numpy(np.array([0.5, 1.0, 1.5, 2.0], np.float32))
powers(5)
loss.grad[None] = 1.0
powers.grad(5)
np.testing.assert_allclose(x.grad.to_numpy(), [0.3125, 5.0, 25.3125, 80.0])
print(qd.__version__)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By suffix, what `python -m build` makes of a copy of the tree: an sdist, and a wheel from that sdist."""
    tree = copy_of_sources(tmp_path_factory.mktemp("tree"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", tree)
    return {".whl" if p.suffix == ".whl" else ".tar.gz": p for p in (tree / "dist").iterdir()}


def project() -> Any:
    """The project's part of pyproject.toml."""
    return pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text())["project"]  # not in Python 3.10


def declared(wheel: Path) -> set[str]:
    """The distributions that the wheel's metadata name, and those that they need in turn."""
    archive = zipfile.ZipFile(wheel)
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    found: set[str] = set()
    todo = message_from_string(archive.read(name).decode()).get_all("Requires-Dist", [])
    while todo:
        needed = re.split(r"[^\w.-]", todo[0])[0]
        if ";" not in todo.pop(0) and needed not in found:
            found.add(needed)
            todo += distribution(needed).requires or []
    return found


def test_the_version_is_the_same_everywhere() -> None:
    version = quadrants_lab.__version__
    assert project()["dynamic"] == ["version"]
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == version
    for file in ("CITATION.cff", "conda/recipe.yaml"):
        assert re.findall(r"^ *version: (\S+)", (ROOT / file).read_text(), re.MULTILINE) == [version], file
    for file in ("README.md", "docs/start.md", "docs/index.md", "conda/recipe.yaml"):
        assert set(re.findall(r"quadrants_lab-(\d+\.\d+\.\d+)", (ROOT / file).read_text())) == {version}, file


def test_the_conda_package_needs_what_the_wheel_needs() -> None:
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    run_part = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    needs = {line.strip("- ").replace("msgpack-python", "msgpack").replace(" ", "") for line in run_part.splitlines()}
    assert needs == {f"python{project()['requires-python']}", *project()["dependencies"]}


def test_the_sdist_has_the_files_of_the_wheel_and_those_of_a_release(made: dict[str, Path]) -> None:
    with tarfile.open(made[".tar.gz"]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wheel = {n for n in zipfile.ZipFile(made[".whl"]).namelist() if n.startswith("quadrants_lab/")}
    assert wheel <= held
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml"} <= held


def test_the_wheel_runs_beside_nothing_but_what_it_declares(made: dict[str, Path], tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(made[".whl"]).extractall(site)
    for name in declared(made[".whl"]):
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(sys.executable, "-I", "-S", program, site, cwd=tmp_path)
    assert done.stdout.split() == [quadrants_lab.__version__]
