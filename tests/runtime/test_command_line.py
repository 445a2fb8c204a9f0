"""`python -m quadrants_lab`."""

from __future__ import annotations

import re

import pytest

import quadrants_lab as qd
from quadrants_lab.__main__ import main
from quadrants_lab.runtime.backend import names

PROGRAM = """
import quadrants_lab as qd

qd.init(arch=qd.cpu, offline_cache=False)
x = qd.field(qd.f32, 4, needs_grad=True)
y = qd.field(qd.f32, (), needs_grad=True)

@qd.kernel
def waves(n: qd.i32):
    for i in x:
        v = x[i]
        for _ in range(n):
            v = qd.sin(v)
        y[None] += v

@qd.kernel
def other():
    y[None] = 0.0

waves(3)
waves.grad(3)
"""


@pytest.fixture(autouse=True)
def no_session():
    yield
    qd.reset()


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_backends(capsys) -> None:
    assert main(["backends"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^cpu      \S+, \d+ threads?$", out, re.MULTILINE)
    for name in names():
        assert re.search(rf"^{name} +\S", out, re.MULTILINE)


def test_inspect_prints_ir_and_sizes(program, capsys) -> None:
    assert main(["inspect", program]) == 0
    out = capsys.readouterr().out
    assert "kernel waves(n: i32) forward" in out
    assert "kernel waves(n: i32) reverse" in out
    assert "kernel other() forward" in out
    assert "evaluated before the launch" in out


def test_inspect_one_stage_of_one_kernel(program, capsys) -> None:
    assert main(["inspect", program, "--kernel", "other", "--code", "llvm"]) == 0
    out = capsys.readouterr().out
    assert "define" in out
    assert "waves" not in out


def test_inspect_compares_backends(program, capsys) -> None:
    assert main(["inspect", program, "--kernel", "waves", "--code", "msl", "--arch", "cpu,metal"]) == 0
    out = capsys.readouterr().out
    assert "metal_stdlib" in out
    assert "define" not in out
    for title in ("waves, forward", "waves, gradient"):
        assert title in out
    assert len(re.findall(r"^metal, simulated .* (?:equal|in )", out, re.MULTILINE)) == 2
    assert re.search(r"times\s+say\s+nothing\s+of\s+a\s+GPU", out)


def test_inspect_knows_the_backends(program, capsys) -> None:
    assert main(["inspect", program, "--arch", "cpu,abacus"]) == 1
    assert "no backend 'abacus': there are cpu" in capsys.readouterr().err


def test_inspect_says_what_is_there(program, capsys) -> None:
    assert main(["inspect", program, "--kernel", "nothing"]) == 1
    assert "there are waves, other" in capsys.readouterr().err
    assert main(["inspect", program, "--stage", "nothing"]) == 1
    assert "there are front end" in capsys.readouterr().err


def test_no_command_is_an_error(capsys) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "usage" in capsys.readouterr().err
