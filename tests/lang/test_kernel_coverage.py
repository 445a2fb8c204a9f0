"""QD_KERNEL_COVERAGE=1: which lines of kernels and funcs ran, on every kind of device."""

import json
import sys
from pathlib import Path

import pytest
from child import run
from sessions import in_turn, skips

COVERAGE = """\
import json
class CoverageData:
    def __init__(self, basename):
        self.basename = basename
    def add_lines(self, lines):
        self.lines = lines
    def write(self):
        with open(self.basename, "w") as out:
            json.dump(self.lines, out)
"""
PROGRAM = '''\
import sys
import quadrants_lab as qd

@qd.func
def doubled(v):
    """A text is no statement."""
    if v > 100.0:
        return 0.0
    return v * 2.0

@qd.kernel
def fill(x: qd.template(), n: qd.i32):
    for i in x:
        if i > n:
            x[i] = 1.0
        elif i < -1:
            x[i] = 3.0
        else:
            x[i] = (i +
                    0.0)

@qd.kernel
def add(x: qd.template(), y: qd.template()):
    qd.loop_config(serialize=True)
    for i in x:
        y[None] += doubled(x[i])

@qd.kernel
def never(x: qd.template()):
    x[0] = 1.0

def test_values():
    for _ in range(2):
        qd.init(arch=ARCH, simulate=True, enable_fallback=False)
        x = qd.field(qd.f32, shape=3, needs_grad=True)
        y = qd.field(qd.f32, shape=(), needs_grad=True)
        fill(x, 5)
        with qd.ad.Tape(y):
            add(x, y)
        assert (y[None], x.grad[1]) == (6.0, 2.0)

if __name__ == "__main__":
    test_values()
'''
RAN = [7, 9, 13, 14, 16, 19, 24, 25, 26]

ARCHS = in_turn([pytest.param(arch, (), id=arch, marks=skips(arch)) for arch in ("cpu", "vulkan", "metal", "wasm")])
UNDER_PYTEST = "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "quadrants_lab.pytest_plugin"


@pytest.mark.parametrize(("arch", "way"), [*ARCHS, ("cpu", UNDER_PYTEST)])
def test_lines_that_ran(arch: str, way: tuple[str, ...], tmp_path: Path) -> None:
    """Lines count also in a session that has ended and in gradients; in a program, and under pytest."""
    (tmp_path / "coverage.py").write_text(COVERAGE)
    (tmp_path / "test_program.py").write_text(PROGRAM.replace("ARCH", f"qd.{arch}"))
    env = {"QD_KERNEL_COVERAGE": "1", "PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": None}
    run(sys.executable, *way, tmp_path / "test_program.py", env=env, cwd=tmp_path)
    (written,) = (*tmp_path.glob(".coverage.kernels.*"), *tmp_path.glob("_qd_kcov.*"))
    assert written.name.startswith(".coverage.kernels." if way else "_qd_kcov.")
    assert json.loads(written.read_text()) == {str(tmp_path / "test_program.py"): RAN}


def test_without_the_package_it_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "coverage.py").write_text("raise ImportError")
    env = {"QD_KERNEL_COVERAGE": "1", "PYTHONPATH": str(tmp_path)}
    said = run(sys.executable, "-c", "import quadrants_lab", env=env, status=1).output
    assert "QL2069" in said
    assert "pip install coverage" in said
