"""What lands in site-packages: quadrants_lab and its metadata, whole, and nothing else."""

import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from child import run

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "MANIFEST.in", "quadrants_lab",
    "backends", "widgets", "kernels", "tests",
)  # fmt: skip
FOLDERS = ("backends", "widgets", "kernels")


def copy_of_sources(tree: Path) -> Path:
    """The folder, with a copy of what a build reads, so that no build folder is left in the project."""
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, tree / name)
    return tree


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = copy_of_sources(tmp_path_factory.mktemp("tree"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tree / "dist", tree)
    (built,) = (tree / "dist").glob("*.whl")
    return built


def modules(folder: Path, under: str) -> set[str]:
    files = (p for p in folder.rglob("*") if p.is_file() and p.suffix in (".py", ".js", ".css", ".html", ".h", ".ll"))
    return {f"{under}/{p.relative_to(folder).as_posix()}" for p in files}


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"quadrants_lab"}
    assert len(tops) == 2
    expected = modules(ROOT / "quadrants_lab", "quadrants_lab")
    for folder in FOLDERS:
        expected |= modules(ROOT / folder, f"quadrants_lab/{folder}")
    held = {n for n in names if n.startswith("quadrants_lab/")}
    assert expected - held == set()
    assert {n for n in held - expected if not n.endswith("py.typed")} == set()


def test_installed_wheel_imports_only_as_quadrants_lab(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    check = (
        "import importlib, importlib.util, sys\n"
        f"sys.path[:] = [{str(tmp_path / 'site')!r}] + [p for p in sys.path if p not in ('', {str(ROOT)!r})]\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
        "import quadrants_lab\n"
        f"assert quadrants_lab.__file__.startswith({str(tmp_path)!r}), quadrants_lab.__file__\n"
        f"for folder in {FOLDERS!r}:\n"
        "    importlib.import_module('quadrants_lab.' + folder)\n"
        "    assert importlib.util.find_spec(folder) is None, folder\n"
    )
    run(sys.executable, "-c", check, cwd=tmp_path)
