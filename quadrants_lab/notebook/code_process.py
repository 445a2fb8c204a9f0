"""Makes the code of backends in a process of its own, so that a compiler that takes long, hangs or crashes can be
stopped without harm to the notebook.

The process starts at the first request, makes one stage after the other, and ends with the process that started it.
Requests (with the kernel's IR) and answers (with lines) are pickles over its standard input and output.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import IO, Any

from quadrants_lab.backends import Stage, forks
from quadrants_lab.errors import QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.deep_recursion import run_deep
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.notebook.views import code_view, lines_of
from quadrants_lab.passes.pipeline import Step
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile.compile import lowering_trace
from quadrants_lab.widgets.model import CodeView

LOWERED = "lower adstacks"  # the lowering pass that is shown for every backend


@dataclass(frozen=True, slots=True)
class Job:
    """A request for a stage of a backend's code for a kernel. ``file``: the source file to whose lines code is tied."""

    backend: str
    stage: str  # or `LOWERED`: asks for the steps of that pass
    kernel: N.Kernel
    options: CompileOptions
    file: str


class CodeProcess:
    """Does one job at a time; threads with other jobs wait."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._running: subprocess.Popen[bytes] | None = None

    def make(self, job: Job) -> Any:
        """Waits for the code (`make_code`) or the steps of the lowering (`lowering_steps`). QuadrantsRuntimeError if
        the process ended, for instance by `stop`."""
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
                    help="ask for the code again to start the process anew",
                ) from None
            except BaseException:  # after an interrupt the next job would get this answer
                self.stop()
                raise

    def stop(self) -> None:
        """Kills the process and so ends its job."""
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
                start_new_session=True,  # Ctrl-C must reach the notebook's kernel only
            )  # fmt: skip
        return self._running


@cache
def _of(pid: int) -> CodeProcess:
    return CodeProcess()


def process() -> CodeProcess:
    """The code process of this process; after a fork the child gets its own."""
    return _of(os.getpid())


# --- in the process -------------------------------------------------------------------------------------------------


def lowering_steps(job: Job) -> list[Step]:
    """The steps of the pass `LOWERED`; none if the backend cannot lower the kernel."""
    with suppress(QuadrantsError):
        steps = lowering_trace(job.kernel, backend(job.backend), job.options).steps
        return [s for s in steps if s.name == LOWERED]
    return []


@lru_cache(maxsize=1)  # the stages of a kernel share their first steps, and are made one after the other
def _stages(packed: bytes) -> tuple[Mapping[str, Callable[[], Stage]], dict[int, tuple[int, int]]]:
    """The stages of a backend's code for a kernel, and the ties of its statements."""
    name, kernel, options, file = pickle.loads(packed)
    return backend(name).stages(kernel, options), lines_of(kernel, backend(name), options, file)


def make_code(job: Job) -> CodeView:
    """The code as a view; if the backend cannot make it, a view with the problem."""
    try:
        stages, lines = _stages(pickle.dumps((job.backend, job.kernel, job.options, job.file)))
        return code_view(run_deep(stages[job.stage]), lines)
    except QuadrantsError as e:
        return CodeView([], [], str(e))
    except Exception as e:
        return CodeView([], [], f"{type(e).__name__}: {e}")


def serve(given: IO[Any], answers: IO[Any]) -> None:
    """Answers jobs until the input ends."""
    with suppress(EOFError):
        while True:
            job = pickle.load(given)
            pickle.dump(lowering_steps(job) if job.stage == LOWERED else make_code(job), answers)
            answers.flush()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints must not mix with the answers
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    serve(sys.stdin.buffer, answers)
