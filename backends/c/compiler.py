"""The system's C compiler: source to an object, which is linked as the CPU backend's are."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from quadrants_lab.backends.c.kernel import source
from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.executable import Executable
from quadrants_lab.backends.cpu.tasks import ENTRY_NAME
from quadrants_lab.backends.disk_cache import Keep, Kept
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

# Integers wrap, floats are rounded after each operation, memory may be seen as any dtype; nothing in here is unwound.
# GCC has functions for what a processor lacks, such as f16: what is called of them becomes part of the object.
FLAGS = (
    "-std=c11", "-O2", "-fPIC", "-w", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing",
    "-fno-asynchronous-unwind-tables", *(("-c",) if sys.platform == "darwin" else ("-r", "-nostdlib")),
)  # fmt: skip
_LIBRARIES = () if sys.platform == "darwin" else ("-x", "none", "-lgcc")
_MOST_SECONDS = 300.0
_MOST_WORDS = 2000  # characters of the compiler's message


@cache
def compiler() -> str:
    """The compiler's path, or ""."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), "")


def probe() -> str:
    """Empty when kernels can be compiled here, else the sentence why not."""
    if compiler():
        return ""
    return "The c backend needs a C compiler: apt install gcc, or xcode-select --install on a Mac."


@cache
def version() -> str:
    """What the compiler says of itself."""
    return _run([compiler(), "--version"]).partition("\n")[0] if compiler() else "no compiler"


def load(kernel: N.Kernel, options: CompileOptions, cached: Kept | None, keep: Keep) -> Executable:
    """See `quadrants_lab.backends.c.load`. What this process did not compile itself is believed by its seal alone."""
    obj, code = b"", None
    if cached is not None and cached.sealed:
        obj, code = cached.content, jit.relink(cached, ENTRY_NAME, jit.kernel_imports())
    if code is None:
        obj = compiled(source(kernel, options))
        try:
            code = jit.link(obj, (ENTRY_NAME,), jit.kernel_imports())
        except RuntimeError as e:  # LLVM's
            raise _refused(f"kernel '{kernel.name}' does not link: {e}") from e
        keep(obj)
    return Executable(kernel, L.frame_layout(kernel), [0] * len(kernel.body), obj, code)


def compiled(text: str) -> bytes:
    """The object of a C source."""
    if probe():
        raise QuadrantsRuntimeError(probe(), code="QL3030")
    with tempfile.TemporaryDirectory(prefix="quadrants-c-") as folder:
        path = Path(folder, "kernel.o")
        _run([compiler(), *FLAGS, "-x", "c", "-o", str(path), "-", *_LIBRARIES], text)
        return path.read_bytes()


def _run(command: list[str], given: str = "") -> str:
    """What a command writes. It and all that it starts end with this call.

    Raises QuadrantsRuntimeError where it fails or takes too long.
    """
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=both, start_new_session=True) as process:
        try:
            words: str = process.communicate(given.encode(), _MOST_SECONDS)[0].decode(errors="replace")
        except BaseException as e:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(e, subprocess.TimeoutExpired):
                raise _refused(f"{command[0]} was still at work after {_MOST_SECONDS:g} s") from None
            raise
    if process.returncode:
        raise _refused(f"{command[0]} ended with {process.returncode}: {words.strip()[:_MOST_WORDS]}")
    return words


def _refused(words: str) -> QuadrantsRuntimeError:
    help = "kernel.code('c') shows the source; arch=qd.cpu needs no compiler"
    return QuadrantsRuntimeError(words, code="QL3031", help=help)
