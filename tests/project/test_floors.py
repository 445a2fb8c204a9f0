"""The floors of docs/architecture.md: imports go downwards only, and nothing slow is imported early."""

import ast
import sys
from pathlib import Path

import child
import pytest

from quadrants_lab.runtime.backend import names

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, status: int | None = 0) -> child.Done:
    return child.run(*command, cwd=ROOT, status=status)


def test_import_contracts_hold() -> None:
    done = run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache")
    assert "0 broken" in done.stdout, done.stdout


def test_import_loads_nothing_slow() -> None:
    slow = ("llvmlite", "IPython", "ipywidgets", "anywidget", "jupyterlab", "torch", "pygments", "vulkan", "dask",
            "distributed", "_hashlib",
            *(f"quadrants_lab.{name}" for name in ("pipelines", "frontend.lower", "ir.nodes", "autodiff.reverse",
                                                   "distributed")))  # fmt: skip
    code = f"import sys, quadrants_lab; print(*(m for m in {slow!r} if m in sys.modules))"
    done = run(sys.executable, "-c", code)
    assert done.stdout.split() == []


FIRST_KERNEL = """
import sys
import quadrants_lab as qd

qd.init(arch=qd.cpu, offline_cache=False)
x, a = qd.Vector.field(2, qd.f32, shape=8), qd.field(qd.f32, shape=8)

@qd.kernel
def rotate():
    for i in x:
        c, s = qd.cos(a[i]), qd.sin(a[i])
        x[i] = qd.Matrix([[c, -s], [s, c]]) @ x[i]

before = set(sys.modules)
rotate()
print(*(name.removeprefix("quadrants_lab.") for name in set(sys.modules) - before))
"""


def test_a_first_kernel_imports_only_what_it_needs(tmp_path: Path) -> None:
    """Imports take half of the time of a first kernel."""
    unused = {
        "frontend.syntax.printing", "frontend.values.packed", "frontend.ops.spaces", "frontend.ops.static",
        "frontend.ops.numbers", "frontend.library", "backends._llvm.atomics", "backends.lower.random", "ir.draws",
        "backends.lower.local_arrays.arrays", "autodiff", "adstack", "analysis.trials",
        "analysis.race_trials", "passes.check_bounds", "passes.out_of_bounds", "passes.watch_races", "llvmlite",
    }  # fmt: skip
    (tmp_path / "first.py").write_text(FIRST_KERNEL)  # the source of a kernel is read from its file
    run(sys.executable, str(tmp_path / "first.py"))  # the first one of this CPU's makes the runtime, too
    imported = {*run(sys.executable, str(tmp_path / "first.py")).stdout.split()}
    assert "backends._llvm.body" in imported  # LLVM has compiled it
    assert imported & unused == set()
    assert len(imported) <= 122


def test_no_file_of_the_runtime_names_a_backend() -> None:
    """Files ask for `backends.Capabilities` instead."""
    def named(node: ast.AST) -> object:
        if isinstance(node, ast.ImportFrom):
            return (node.module or "").removeprefix("quadrants_lab.backends.").split(".")[0]
        return node.value if isinstance(node, ast.Constant) else None
    for file in (ROOT / "quadrants_lab" / "runtime").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            assert named(node) not in names(), f"{file.name}, line {node.lineno}"


@pytest.mark.parametrize("folder", ["backends", "widgets", "kernels"])
def test_root_folders_are_no_packages_of_their_own(folder: str) -> None:
    done = run(sys.executable, "-c", f"import {folder}", status=None)
    assert done.returncode != 0
    assert f"quadrants_lab.{folder}" in done.stderr


@pytest.mark.parametrize("folder", "backends benchmarks kernels quadrants_lab scripts tests widgets".split())
def test_no_file_is_longer_than_500_lines(folder: str) -> None:
    files = (f for f in (ROOT / folder).rglob("*") if f.suffix in (".py", ".js", ".c", ".h"))
    assert {f.name: n for f in files if (n := len(f.read_text().splitlines())) > 500} == {}
