"""Child processes and threads of a test, each with a time limit.

A child process has SIGINT at its default, nothing to read unless it is given something, and a process group of its
own, which is killed when the child is over or its time is. Its output goes to files and not through pipes: a process
that outlives the child would keep a pipe open, and whoever reads from the pipe would wait for that process.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

LIMIT = 3600.0 if os.environ.get("QL_NIGHTLY") else 240.0  # seconds of a process, less than pytest-timeout's
ANSWER = 60.0  # seconds of one answer of a process, and of a thread
_PAUSE = 0.002  # seconds between two looks


def interruptible() -> None:
    """Lets SIGINT interrupt this process and, at its default, the children that it starts.

    nohup, a shell's ``command &`` and some CI runners start a process with SIGINT ignored. Python then installs no
    handler, and the children inherit the ignored signal: a test that sends Ctrl-C would wait for ever. A signal with a
    handler is at its default in a program that `exec` starts, so one handler here serves the children too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass
class Done:
    """How a process ended, and its output."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


class Child:
    """A running process; used with ``with``, at whose end it is killed.

    ``env`` is added to this process's environment, its PYTHONPATH before this process's; a value of None takes a
    variable away. ``given``: what it reads from stdin; "" for nothing, None for what `say` writes.
    """

    def __init__(
        self, *command: str | Path, env: Mapping[str, str | None] | None = None, cwd: Path | None = None,
        given: str | bytes | None = "",
    ) -> None:  # fmt: skip
        interruptible()
        self.command = [str(word) for word in command]
        self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self._last: tuple[str, str] | None = None  # its output, once it has ended
        self._read = 0  # bytes of stdout that `line` has handed out
        with tempfile.TemporaryFile() as words:
            words.write(given.encode() if isinstance(given, str) else given or b"")
            words.seek(0)
            stdin = subprocess.PIPE if given is None else words if given else subprocess.DEVNULL
            changed = {**os.environ, **(env or {})}
            if env and env.get("PYTHONPATH") and os.environ.get("PYTHONPATH"):
                changed["PYTHONPATH"] = f"{env['PYTHONPATH']}{os.pathsep}{os.environ['PYTHONPATH']}"
            self.process = subprocess.Popen(
                self.command, stdin=stdin, stdout=self._files[0], stderr=self._files[1], cwd=cwd,
                env={k: v for k, v in changed.items() if v is not None}, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    @property
    def output(self) -> str:
        """What it has written so far, stderr after stdout."""
        return "".join(self._texts())

    def _texts(self) -> tuple[str, str]:
        if self._last is not None:
            return self._last
        out, err = (self._written(n).decode(errors="replace") for n in (0, 1))
        return out, err

    def _written(self, which: int, begin: int = 0) -> bytes:
        file = self._files[which].fileno()
        return os.pread(file, os.fstat(file).st_size - begin, begin)

    def say(self, line: str, seconds: float = ANSWER) -> bool:
        """Writes a line to its stdin; False where it has ended, or does not read within ``seconds``."""
        assert self.process.stdin is not None
        pipe, rest, end = self.process.stdin.fileno(), f"{line}\n".encode(), time.monotonic() + seconds
        os.set_blocking(pipe, False)
        while rest:
            if not select.select([], [pipe], [], max(0.0, end - time.monotonic()))[1]:
                return False
            try:
                rest = rest[os.write(pipe, rest) :]
            except BrokenPipeError:
                return False
        return True

    def line(self, seconds: float = ANSWER, late: str | None = None) -> str:
        """The next line that it writes to stdout; "" where it ended without one. Where it writes none within
        ``seconds``, the result is ``late``; the test fails if that is None."""
        end = time.monotonic() + seconds
        while True:
            over = self.process.poll() is not None
            head, newline, _ = self._written(0, self._read).partition(b"\n")
            if newline:
                self._read += len(head) + 1
                return head.decode(errors="replace") + "\n"
            if over:
                return ""
            if time.monotonic() > end:
                if late is not None:
                    return late
                self.fail(f"wrote no line within {seconds:.0f} s")
            time.sleep(_PAUSE)

    def send(self, number: int = signal.SIGINT) -> None:
        """Sends it a signal: Ctrl-C, unless another one is named."""
        self.process.send_signal(number)

    def finish(self, seconds: float = LIMIT, status: int | None = 0) -> Done:
        """Waits for its end. The test fails, and shows the output, where the process takes longer than ``seconds``, or
        where it ends with another exit status than ``status`` (None: any will do)."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"did not end within {seconds:.0f} s")
        if status not in (None, code):
            self.fail(f"ended with {code}")
        self.end()
        return Done(code, *self._texts())

    def fail(self, what: str) -> NoReturn:
        """Ends it and the test."""
        self.end()
        shown = " ".join(self.command)
        pytest.fail(f"{shown[:400]}\n{what}; its output:\n{self.output or 'none'}")

    def end(self) -> None:
        """Kills what is left of its process group."""
        if self._last is not None:  # its number may be another process's by now
            return
        with suppress(ProcessLookupError, PermissionError):  # macOS says so of a group whose processes are all over
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(ANSWER)
        self._last = self._texts()
        for file in (*self._files, self.process.stdin):
            if file is not None:
                file.close()


def run(
    *command: str | Path, env: Mapping[str, str | None] | None = None, cwd: Path | None = None,
    given: str | bytes = "", seconds: float = LIMIT, status: int | None = 0,
) -> Done:  # fmt: skip
    """Runs a command to its end; see `Child` and `Child.finish`."""
    with Child(*command, env=env, cwd=cwd, given=given) as child:
        return child.finish(seconds, status)


class Worker(threading.Thread):
    """A thread that runs ``work``, from now on. It does not keep the process from ending."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as e:
            self._error = e

    def end(self, seconds: float = ANSWER) -> None:
        """Waits for its end and raises what the work raised. The test fails where it takes longer than ``seconds``."""
        self.join(seconds)
        if self.is_alive():
            pytest.fail(f"a thread did not end within {seconds:.0f} s: {self._work}")
        if self._error is not None:
            raise self._error


def together(*works: Callable[[], Any], seconds: float = ANSWER) -> None:
    """Runs each of them on a thread of its own, and waits for all."""
    for worker in [Worker(work) for work in works]:
        worker.end(seconds)


def interrupt_when(ready: Callable[[], Any]) -> None:
    """Sends this process SIGINT, as Ctrl-C does, as soon as ``ready`` says so, which it is to do before long."""
    end = time.monotonic() + ANSWER

    def work() -> None:
        while not ready():
            if time.monotonic() > end:
                return
            time.sleep(_PAUSE)
        os.kill(os.getpid(), signal.SIGINT)

    Worker(work)
