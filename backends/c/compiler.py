"""Calls the system's C compiler."""

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from quadrants_lab.backends import tools
from quadrants_lab.errors import QuadrantsRuntimeError

# These flags mean: integers wrap, floats are rounded after each operation, memory may be accessed as any dtype, and no
# code is emitted for unwinding. Functions of GCC's library for what a processor lacks, such as f16, are linked into the
# object.
_FLAGS = (
    "-std=c11", "-O2", "-fPIC", "-w", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing",
    "-fno-asynchronous-unwind-tables", *(("-c",) if sys.platform == "darwin" else ("-r", "-nostdlib")),
)  # fmt: skip
_LIBRARIES = () if sys.platform == "darwin" else ("-x", "none", "-lgcc")
_MOST_SECONDS = 300.0


@cache
def compiler() -> str:
    """The compiler's path, or ""."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), "")


def probe() -> str:
    missing = "The c backend needs a C compiler: apt install gcc, or xcode-select --install on a Mac."
    return "" if compiler() else missing


@cache
def version() -> str:
    """The first line of what the compiler prints about its version."""
    return _run("--version").partition("\n")[0] if compiler() else "no compiler"


def compiled(text: str) -> bytes:
    """Compiles a C source to object code."""
    with tempfile.TemporaryDirectory(prefix="quadrants-c-") as folder:
        path = Path(folder, "kernel.o")
        _run(*_FLAGS, "-x", "c", "-o", str(path), "-", *_LIBRARIES, given=text)
        return path.read_bytes()


def _run(*options: str, given: str = "") -> str:
    """Runs the compiler with ``given`` as its input; returns its output."""
    if probe():
        raise QuadrantsRuntimeError(probe(), code="QL3030")
    try:
        done = tools.ran(compiler(), *options, given=given, seconds=_MOST_SECONDS)
        words = (done.stdout + done.stderr).strip()[:2000]
        wrong = f"ended with {done.returncode}: {words}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        wrong = f"was still at work after {_MOST_SECONDS:g} s"
    if wrong:
        help = "kernel.code('c') shows the source; arch=qd.cpu needs no compiler"
        raise QuadrantsRuntimeError(f"{compiler()} {wrong}", code="QL3031", help=help)
    return done.stdout
