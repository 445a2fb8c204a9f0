"""Code of backends, made in a process of its own: whoever waits for it can stop waiting, and what hangs or dies there
takes nothing with it.

The process starts when code is first asked for, makes one stage after the other, and ends with the one that started
it. Requests and answers are pickles over its standard input and output: the kernel's IR goes out, lines come back.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.room import call
from quadrants_lab.notebook.views import code_view, lines_of
from quadrants_lab.passes.pipeline import Step
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile.compile import lowering_trace
from quadrants_lab.widgets.model import CodeView

LOWERED = "lower adstacks"  # what of a lowering is of interest on any backend


@dataclass(frozen=True, slots=True)
class Job:
    """A stage of a backend's code for a kernel; ``file``: whose lines the code's lines are to lead to."""

    backend: str
    stage: str  # or `LOWERED`
    kernel: N.Kernel
    options: CompileOptions
    file: str


class CodeProcess:
    """Makes one job at a time; threads that bring another wait for its end."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._running: subprocess.Popen[bytes] | None = None

    def make(self, job: Job) -> Any:
        """Waits for the code (`made`), or for what the backend's lowering does to the kernel (`lowered`).
        QuadrantsRuntimeError where `stop` ended the process, or something else did."""
        with self._lock:
            process = self._process()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(job, process.stdin)
                process.stdin.flush()
                return pickle.load(process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError):
                self.stop()
                raise QuadrantsRuntimeError(
                    f"the code of {job.stage} was not made: its process was stopped",
                    code="QL0710",
                    help="ask for it again to start anew",
                ) from None
            except BaseException:  # an interrupt: the answer would meet the next question
                self.stop()
                raise

    def stop(self) -> None:
        """Ends the process, and with it what it makes."""
        process, self._running = self._running, None
        if process is not None:
            with suppress(OSError):
                process.kill()
            process.wait()

    def _process(self) -> subprocess.Popen[bytes]:
        if self._running is None or self._running.poll() is not None:
            paths = os.pathsep.join(p or os.getcwd() for p in sys.path)
            self._running = subprocess.Popen(
                [sys.executable, "-m", "quadrants_lab.notebook.code_process"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,  # Ctrl-C is for the kernel
            )  # fmt: skip
        return self._running


@cache
def _of(pid: int) -> CodeProcess:
    return CodeProcess()


def process() -> CodeProcess:
    """That of this process: after a fork the child has its own."""
    return _of(os.getpid())


# --- in the process -------------------------------------------------------------------------------------------------


def lowered(job: Job) -> list[Step]:
    """The steps of the lowering that are of interest; none where the backend cannot take the kernel."""
    with suppress(QuadrantsError):
        steps = lowering_trace(job.kernel, backend(job.backend), job.options).steps
        return [s for s in steps if s.name == LOWERED]
    return []


def made(job: Job) -> CodeView:
    """The code; what the backend cannot express is told in its place."""
    try:
        stage = call(backend(job.backend).stages(job.kernel, job.options)[job.stage])
        return code_view(stage, lines_of(job.kernel, backend(job.backend), job.options, job.file))
    except QuadrantsError as e:
        return CodeView([], [], str(e))
    except Exception as e:
        return CodeView([], [], f"{type(e).__name__}: {e}")


def serve(given: IO[Any], answers: IO[Any]) -> None:
    """Answers jobs until there are no more."""
    with suppress(EOFError):
        while True:
            job = pickle.load(given)
            pickle.dump(lowered(job) if job.stage == LOWERED else made(job), answers)
            answers.flush()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints is no answer
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    serve(sys.stdin.buffer, answers)
