"""`scripts/setup.sh`: what it does where there is no network."""

import os
import re
import shutil
from pathlib import Path

import pytest
from child import run
from conftest import ROOT

TOOLS = ("bash", "cat", "cksum", "cut", "dirname", "find", "grep", "ls", "mkdir", "rm", "sed", "tr", "uname")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The parts of the project that `make demo` needs before it can install anything."""
    folder = tmp_path / "project"
    (folder / "scripts").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE", "scripts/setup.sh"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_failed_apt_is_remembered_where_nobody_else_can_put_a_link(project: Path, tmp_path: Path) -> None:
    """In a shared folder another user could plant one, and have this user write wherever it leads."""
    programs, shared, victim, calls = (tmp_path / n for n in ("bin", "shared", "victim", "calls"))
    programs.mkdir()
    shared.mkdir()
    for name in TOOLS:
        (programs / name).symlink_to(shutil.which(name) or name)
    script(programs / "id", "echo 0")
    script(programs / "apt-get", f"echo called >>{calls}; exit 1")
    script(programs / "python3", "exit 1")
    (shared / "quadrants-lab-apt-failed-0").symlink_to(victim)
    for _ in range(2):
        env = {"PATH": str(programs), "TMPDIR": str(shared), "QL_NO_APT": ""}
        done = run("scripts/setup.sh", "test", cwd=project, env=env, status=1)
        assert "missing: spirv" in done.stdout
    assert not victim.exists()
    assert calls.read_text() == "called\n"
    assert os.listdir(shared) == ["quadrants-lab-apt-failed-0"]


@pytest.mark.parametrize("setting", [
    "PIP_NO_INDEX=1", pytest.param("PIP_INDEX_URL=http://127.0.0.1:9", marks=pytest.mark.slow),
])  # fmt: skip
def test_without_a_package_index_demo_says_so_in_a_line(project: Path, setting: str) -> None:
    name, _, value = setting.partition("=")
    outer = {"MAKEFLAGS": None, "MAKELEVEL": None}  # of a make that runs the tests
    env = {"QL_NO_APT": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", name: value, **outer}
    done = run("make", "demo", cwd=project, env=env, status=2)
    said = done.stdout.splitlines()
    assert said[-1].startswith("setup: the package index cannot be reached")
    assert [line.split(":")[0] for line in said] == ["setup"] * len(said)


def test_demo_installs_what_its_page_is_made_with() -> None:
    """The page that demo writes computes, so its kernels become WebAssembly."""
    extras = re.search(r"demo\) extras=(\S+)", (ROOT / "scripts" / "setup.sh").read_text())
    assert extras is not None
    assert set(extras[1].split(",")) == {"notebook", "wasm"}
