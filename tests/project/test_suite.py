"""The suite itself: nothing in it waits for ever, and what fails shows what it got."""

import fcntl
import re
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from child import Child, Worker, run
from conformance import tasks as conformance_tasks
from conftest import ROOT

HANDLER = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
# Ignores SIGINT, as nohup and some CI runners do, and becomes another program.
IGNORING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])"
# Holds a lock, as does a process that it starts, and goes on for ever.
HANGING = """
import fcntl, subprocess, sys, time
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], pass_fds=[file.fileno()])
print("told", file=sys.stderr, flush=True)
print("locked", flush=True)
time.sleep(1000)
"""


def test_children_can_be_interrupted_where_this_process_ignores_it() -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run(sys.executable, "-c", HANDLER).stdout == "True\n"
    finally:
        signal.signal(signal.SIGINT, handler)


def test_children_read_nothing_but_what_they_are_given() -> None:
    code = "import sys; print(repr(sys.stdin.read()))"
    assert run(sys.executable, "-c", code).stdout == "''\n"
    assert run(sys.executable, "-c", code, given="two\nlines").stdout == "'two\\nlines'\n"


def test_a_child_that_hangs_is_killed_with_its_own_children_and_its_output_is_shown(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    child = Child(sys.executable, "-c", HANGING, lock)
    assert child.line() == "locked\n"
    with pytest.raises(pytest.fail.Exception, match=r"did not end within 1 s; its output:\nlocked\ntold\n"):
        child.finish(1)
    with open(lock) as file:
        for _ in range(1000):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.01)
    pytest.fail("a child of the child goes on")


def test_a_child_that_is_silent_or_fails_ends_the_test() -> None:
    with (
        Child(sys.executable, "-c", "input()", given=None) as child,
        pytest.raises(pytest.fail.Exception, match="wrote no line within 1 s"),
    ):
        child.line(1)
    with pytest.raises(pytest.fail.Exception, match=r"ended with 3; its output:\nwords\n"):
        run(sys.executable, "-c", "print('words'); raise SystemExit(3)")


def test_a_thread_that_hangs_or_fails_ends_the_test() -> None:
    with pytest.raises(pytest.fail.Exception, match="did not end within 0 s"):
        Worker(lambda: time.sleep(1000)).end(0.01)
    with pytest.raises(ZeroDivisionError):
        Worker(lambda: 1 / 0).end()


@pytest.mark.parametrize("names", [
    pytest.param("backends/test_cpu_process.py", marks=pytest.mark.slow), "runtime/test_launch.py",
])  # fmt: skip
def test_ctrl_c_is_tested_where_sigint_is_ignored(names: str) -> None:
    pytest_of = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "ctrl_c or interrupt"]
    done = run(sys.executable, "-c", IGNORING, *pytest_of, ROOT / "tests" / names, cwd=ROOT)
    assert re.search(r"[1-9]\d* passed", done.stdout)


def test_an_assertion_in_a_shared_module_shows_what_it_got() -> None:
    """A rig that computes nothing: y stays as it was."""
    rig = SimpleNamespace(run=lambda *args, **options: None, FAST=None)
    with pytest.raises(AssertionError, match=r"array_equal.*\(array\(\[ +0\., +1\., +2\."):
        conformance_tasks.test_overlapping_ndarrays(rig)


def test_processes_are_started_in_one_place() -> None:
    bare = re.compile(r"\bsubprocess\.(?:run|Popen|call|check_\w+)\(")
    here = {"child.py", Path(__file__).name}
    assert [p.name for p in (ROOT / "tests").rglob("*.py") if p.name not in here and bare.search(p.read_text())] == []
