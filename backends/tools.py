"""Runs programs of the system that compile, link or disassemble code."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from quadrants_lab.errors import QuadrantsRuntimeError


def ran(*command: str, given: str = "", seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Runs a program with ``given`` as its input; returns its status and output after the program and all processes
    that it started have ended. Raises TimeoutExpired after ``seconds``."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, 0, None, pipe, pipe, pipe, start_new_session=True) as process:
        try:
            out, err = process.communicate(given.encode(), seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    texts = (text.decode(errors="replace") for text in (out, err))
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def made(program: str, given: bytes, refusal: str, *options: str) -> tuple[bytes, str]:
    """Runs a program on a file with the bytes ``given``. Returns the file that the program makes, and the program's
    output. If it makes no file, raises QuadrantsRuntimeError with ``refusal`` and the output."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "given", Path(folder) / "made"
        source.write_bytes(given)
        done = ran(program, *options, "-o", str(out), str(source))
        if done.returncode:
            raise QuadrantsRuntimeError(f"{refusal}: {done.stderr.strip()[:2000]}", code="QL3012")
        return out.read_bytes(), done.stderr


def listed(program: str, given: bytes, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that disassembles a file with the bytes ``given``; its output is the listing."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(given)
        file.flush()
        return ran(program, *options, file.name)


def package_folders(*names: str) -> Iterator[Path]:
    """The folders of those of the given packages that are installed; the packages are not imported."""
    for name in names:
        spec = find_spec(name) if name not in sys.modules else sys.modules[name].__spec__
        if spec is not None and spec.submodule_search_locations:
            yield from (Path(p) for p in spec.submodule_search_locations)
