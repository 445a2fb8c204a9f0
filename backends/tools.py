"""Running programs of the system that compile, link or list code."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path


def ran(*command: str, given: str = "", seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Runs a program with ``given`` as its input; returns its status and output. The program and all that it starts
    have ended when this call returns. Raises TimeoutExpired where it takes more than ``seconds``."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, 0, None, pipe, pipe, pipe, start_new_session=True) as process:
        try:
            out, err = process.communicate(given.encode(), seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    texts = (text.decode(errors="replace") for text in (out, err))
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def package_folders(*names: str) -> Iterator[Path]:
    """The folders of those of these packages that are installed, without importing them."""
    for name in names:
        spec = find_spec(name) if name not in sys.modules else sys.modules[name].__spec__
        if spec is not None and spec.submodule_search_locations:
            yield from (Path(p) for p in spec.submodule_search_locations)
