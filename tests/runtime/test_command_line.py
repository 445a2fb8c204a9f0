"""`python -m quadrants_lab`."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from child import run
from sessions import ended  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab.__main__ import main
from quadrants_lab.runtime.backend import names

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize(("command", "option", "says"), [
    ("inspect", "--arch=cpu,abacus", "no backend 'abacus': there are cpu"),
    ("inspect", "--kernel=nothing", "there are waves, other"),
    ("inspect", "--stage=nothing", "there are front end"),
    ("check", "--grad=z", "no such name after the program"),
    ("check", "--grad=x", "a loss is one"),
    ("check", "--grad=waves", "not a field"),
])
def test_what_there_is_not_is_named(program, capsys, command, option, says) -> None:
    assert main([command, program, option]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", [["inspect"], ["check", "--grad", "y"]])
@pytest.mark.parametrize(
    ("name", "why"),
    [("missing.py", "No such file or directory"), ("", "Is a directory"), ("a" * 300, "File name too long"),
     ("loop.py", "Too many levels of symbolic links"), ("locked.py", "Permission denied")],
)  # fmt: skip
def test_a_file_that_cannot_be_read(tmp_path, capsys, command, name, why) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "locked.py").touch(mode=0)
    if name == "locked.py" and os.access(tmp_path / name, os.R_OK):
        pytest.skip("this user may read any file")
    file = str(tmp_path / name) if name else str(tmp_path)
    assert main([command[0], file, *command[1:]]) == 2
    assert capsys.readouterr().err == f"{file}: {why}\n"


def test_check_of_a_right_gradient(program, capsys) -> None:
    assert main(["check", program, "--grad", "y"]) == 0
    assert "right   the gradient of x agrees with finite differences" in capsys.readouterr().out


def test_check_of_a_wrong_one(program, capsys) -> None:
    with open(program, "a") as file:
        file.write("x = qd.field(qd.f64, 4, needs_grad=True)\nh = qd.field(qd.f64, 4)\n")
        file.write("y = qd.field(qd.f64, (), needs_grad=True)\nx.fill(0.5)\n")
        file.write("@qd.kernel\ndef one():\n    for i in x:\n        h[i] = x[i] ** 2\n")
        file.write("@qd.kernel\ndef two():\n    for i in x:\n        y[None] += h[i] * x[i]\n")
        file.write("one()\ntwo()\n")
    with pytest.warns(qd.QuadrantsWarning):
        assert main(["check", program, "--grad", "y"]) == 1
    assert "wrong   the gradient of x: the gradient stops at h, which has none\n" in capsys.readouterr().out


def test_check_looks_at_the_last_session(program, capsys) -> None:
    text = Path(program).read_text()
    Path(program).write_text(f"{text}\nqd.init(arch=qd.cpu)\n{text}")
    assert main(["check", program, "--grad", "y"]) == 0
    assert "right   the gradient of x agrees with finite differences" in capsys.readouterr().out


LOCAL = """
import argparse, sys
import quadrants_lab as qd

def main():
    global y
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    qd.init(arch=qd.cpu, offline_cache=False)
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.data_oriented
    class Local:
        @qd.kernel
        def waves(self, n: qd.i32):
            for i in x:
                y[None] += qd.sin(x[i]) * n

    Local().waves(rounds)
    print("rounds:", rounds)
    return EXIT

sys.exit(main())
"""


@pytest.mark.parametrize("command", [["inspect"], ["check", "--grad", "y"], ["inspect", "--arch", "c"]])
@pytest.mark.parametrize(("words", "code", "status", "says"), [
    ([], "0", 0, "rounds: 1"),
    ([], "None", 0, "rounds: 1"),
    (["--", "--rounds", "7"], "0", 0, "rounds: 7"),
    (["--", "--bad"], "0", 1, "ended itself: sys.exit(2)"),
    ([], "'no data'", 1, "ended itself: sys.exit('no data')"),
    (["--rounds"], "0", 2, "unrecognized arguments: --rounds; a program's own arguments stand after --"),
])
def test_programs_with_a_main_function(tmp_path, capsys, command, words, code, status, says) -> None:
    """Their kernels are local, they read their own arguments, and end by sys.exit."""
    file = tmp_path / "local.py"
    file.write_text(LOCAL.replace("EXIT", code))
    try:
        found = main([command[0], str(file), *command[1:], *words])
    except SystemExit as e:
        found = e.code
    out, err = capsys.readouterr()
    assert found == status
    assert says in out + err
    if not status:
        assert ("right   the gradient of x" if command[0] == "check" else "kernel waves(n: i32) forward") in out


@pytest.mark.parametrize("words", [[], ["--code", "asm"], ["--beside", "c"], ["--json"]])
def test_kernels_that_the_program_does_not_launch(program, capsys, words) -> None:
    with open(program, "a") as file:
        file.write("@qd.kernel\ndef idle(a: qd.types.ndarray()):\n    for i in a:\n        a[i] = 1\n\nother()\n")
    with pytest.warns(qd.QuadrantsWarning):
        assert main(["inspect", program, *words]) == 0
    out, err = capsys.readouterr()
    assert re.match(r"error\[QL(2065|0700)\]: kernel idle ", err)
    assert len(out.splitlines()) > 9
    with pytest.warns(qd.QuadrantsWarning):
        assert main(["inspect", f"{program}:idle", *words]) == 1


def test_files_are_written_in_one_encoding(program, tmp_path) -> None:
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (["--html", str(tmp_path / "page.html")], ["--beside", "c"]):
        run(sys.executable, "-m", "quadrants_lab", "inspect", program, *words, env=plain)
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
    without = re.compile(r"\.(read|write)_text\((?!.*encoding)")
    product = [f for part in ("quadrants_lab", "backends") for f in (ROOT / part).rglob("*.py")]
    assert [f"{f}: {line}" for f in product for line in f.read_text("utf-8").splitlines() if without.search(line)] == []


@pytest.mark.parametrize("command", [["inspect"], ["check", "--grad", "y"]])
@pytest.mark.parametrize(("text", "says"), [
    ("1 / 0\n", '  File "{file}", line 1, in <module>\n    1 / 0\n'),
    ("def (\n", '  File "{file}", line 1\n    def (\n'),
    ("\0", "{file}: "),
])
def test_a_file_that_fails_is_told_without_our_frames(tmp_path, capsys, command, text, says) -> None:
    file = tmp_path / "fails.py"
    file.write_text(text)
    assert main([command[0], str(file), *command[1:]]) == 1
    err = capsys.readouterr().err
    assert err.startswith(says.format(file=file))
    assert "quadrants_lab" not in err


def test_a_kernel_that_cannot_be_compiled_is_told_as_its_diagnostic(program, capsys) -> None:
    with open(program, "a") as file:
        file.write("@qd.kernel\ndef wrong():\n    y[None] = nothing\n\nwrong()\n")
    assert main(["inspect", program]) == 1
    err = capsys.readouterr().err
    first, second, *others = (line for line in err.splitlines() if line.strip(" ~^"))  # Python 3.13 underlines the call
    assert (first, second) == (f'  File "{program}", line 26, in <module>', "    wrong()")
    assert others[0].startswith("quadrants_lab.errors.Quadr")
    assert "error[QL1301]" in err
    assert err.count("  File ") == 1


def test_an_inspector_that_cannot_be_written(program, capsys, tmp_path) -> None:
    (tmp_path / "taken").touch()
    assert main(["inspect", program, "--html", str(tmp_path / "taken" / "page.html")]) == 1
    assert "error[QL0712]: an inspector cannot be written to" in capsys.readouterr().err


def test_version(capsys) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"quadrants_lab {qd.__version__}\n"


def test_backends_as_json(capsys) -> None:
    assert main(["backends", "--json"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert found.keys() == set(names())
    assert found["cpu"]["runs"] is True
    assert found["cpu"]["why_not"] == ""


def test_a_kernel_behind_a_colon(program, capsys) -> None:
    assert main(["inspect", f"{program}:other"]) == 0
    out = capsys.readouterr().out
    assert "kernel other() forward" in out
    assert "waves" not in out
    assert main(["inspect", f"{program}:nothing"]) == 1
    assert "no kernel 'nothing'" in capsys.readouterr().err


def test_inspect_as_json(program, capsys) -> None:
    Path(program).write_text(Path(program).read_text() + "print('from the program')\n")
    assert main(["inspect", f"{program}:waves", "--json", "--code", "msl", "--arch", "cpu,metal"]) == 0
    out, err = capsys.readouterr()
    assert "from the program" in err
    found = json.loads(out)
    (kernel,) = found["kernels"]
    assert kernel["name"] == "waves"
    assert "metal_stdlib" in kernel["text"]["forward"]
    assert kernel["sizes"]["stacks"][0]["depth"] == 3
    assert [run["greatest"] for run in found["backends"]["waves, reverse"]][1] == "equal"


def test_check_as_json(program, capsys) -> None:
    with open(program, "a") as file:
        file.write("@qd.kernel\ndef root():\n    for i in x:\n        y[None] += qd.sqrt(x[i])\n\nroot()\n")
    assert main(["check", program, "--grad", "y", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["right"] is False
    (verdict,) = found["verdicts"]
    assert (verdict["field"], verdict["kind"], verdict["good"]) == ("x", "nonfinite", False)
    (cause,) = verdict["causes"]
    assert cause["statement"] == "y[None] += qd.sqrt(x[i])"
    assert cause["values"] == [["x[i]", 0.0]]


@pytest.mark.parametrize("name", ["cfg", "scc", "sizes"])
def test_a_graph_as_dot(program, capsys, name) -> None:
    Path(program).write_text(Path(program).read_text() + "print('from the program')\n")
    assert main(["inspect", program, "--dot", name]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("digraph ")
    assert out.endswith("}\n")
    assert "from the program" in err
    assert main(["inspect", program, "--dot", "flow"]) == 1
    assert "there are cfg, scc, sizes, program" in capsys.readouterr().err


def test_a_reader_that_goes_is_no_traceback(program) -> None:
    Path(program).write_text(Path(program).read_text() + "for n in range(20_000):\n    print('line', n)\n")
    for words in (["inspect", program], ["check", program, "--grad", "y"]):
        command = " ".join(map(shlex.quote, [sys.executable, "-m", "quadrants_lab", *words]))
        done = run("bash", "-c", f"{command} | head -n 1; exit ${{PIPESTATUS[0]}}", status=141)
        assert done.stdout == "line 0\n"
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr


def test_without_a_command_it_says_which_there_are(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage")
    assert "run a Python file and print the IR" in " ".join(err.split())
