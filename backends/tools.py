"""Programs of the system that compile, link or list code."""

from __future__ import annotations

import os
import signal
import subprocess


def ran(*command: str, given: str = "", seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
    """How a program ended and what it wrote. It and all that it starts end with this call; TimeoutExpired where it
    takes more than ``seconds``."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, 0, None, pipe, pipe, pipe, start_new_session=True) as process:
        try:
            out, err = process.communicate(given.encode(), seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    words = (text.decode(errors="replace") for text in (out, err))
    return subprocess.CompletedProcess(command, process.returncode, *words)
