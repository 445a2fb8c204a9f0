"""The floors of docs/architecture.md: imports go downwards only, and nothing slow is imported early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, stdin=subprocess.DEVNULL)


def test_import_contracts_hold() -> None:
    done = run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout, done.stdout


def test_import_loads_nothing_slow() -> None:
    slow = ("llvmlite", "IPython", "ipywidgets", "anywidget", "jupyterlab", "torch", "graphviz", "pygments", "vulkan")
    code = f"import sys, quadrants_lab; print(*(m for m in {slow!r} if m in sys.modules))"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("folder", ["backends", "widgets", "kernels"])
def test_root_folders_are_no_packages_of_their_own(folder: str) -> None:
    done = run(sys.executable, "-c", f"import {folder}")
    assert done.returncode != 0
    assert f"quadrants_lab.{folder}" in done.stderr
