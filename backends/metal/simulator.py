"""Simulates Metal by a C++ compiler, behind the same interface as `apple`. Kernels run when a command buffer is
committed, on the calling thread, one thread of the grid after the other."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from quadrants_lab.backends import disk_cache, tools
from quadrants_lab.backends.disk_cache import DiskCache, default_path
from quadrants_lab.backends.host import Block
from quadrants_lab.backends.metal.apple import COMPLETED

_FLAGS = (
    "-std=c++17", "-x", "c++", "-O1", "-shared", "-fPIC", "-w", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing",
    "-fsigned-char", "-ffp-contract=off", "-fno-math-errno",
)  # fmt: skip
_KERNEL = re.compile(r"^kernel void (\w+)\((.*)\) \{$", re.MULTILINE)


@cache
def compiler() -> str:
    """The C++ compiler's path, or ""."""
    return next((path for name in ("g++", "clang++", "c++") if (path := shutil.which(name))), "")


def probe() -> str:
    """The empty string if a simulation can run here, else a sentence that says why not."""
    return "" if compiler() else "Simulating a Metal GPU needs a C++ compiler such as g++."


# --- building -------------------------------------------------------------------------------------------------------


def _key(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:24]


@cache
def _disk() -> DiskCache:
    return DiskCache(default_path(), below="simulated-metal")


@cache
def _shim() -> Path:
    return Path(__file__).resolve().parent / "shim.h"


@cache
def _version() -> str:
    """A hash of what a built library depends on besides its sources."""
    words = tools.ran(compiler(), "--version").stdout
    return _key(words + platform.machine() + " ".join(_FLAGS) + _shim().read_text(encoding="utf-8"))


_loaded: dict[str, ctypes.CDLL] = {}  # key of a source -> the loaded library with its kernels


def build(sources: Sequence[str]) -> None:
    """Compiles several sources at once, which is faster than one by one. Raises RuntimeError with the compiler's
    message."""
    new = {_key(s): s for s in sources if _key(s) not in _loaded}
    if not new:
        return
    name = disk_cache.key(_version(), *new)
    library, kept = None, _disk().get(name)
    if kept is not None:
        with suppress(OSError):  # a library for another system, or no disk space
            library = _opened(kept)
    if library is None:
        made = _compiled("\n".join(_unit(key, s) for key, s in new.items()))
        _disk().put(name, made)
        library = _opened(made)
    for key in new:
        _loaded[key] = library


def _symbol(key: str, name: str) -> str:
    return f"qd_run_{key}_{name}"


def _unit(key: str, source: str) -> str:
    """A source as C++, in a namespace of its own, with functions that run its kernels. Lines keep their numbers."""
    head, _, rest = source.partition("\n")
    assert head == "#include <metal_stdlib>", head
    runs = [
        f"{'QD_RUN_MANY' if 'lane' in params else 'QD_RUN_ONCE'}({_symbol(key, name)}, {name})"
        for name, params in _KERNEL.findall(source)
    ]
    includes = f'#include "{_shim()}"\n#line 1 "program_source"\n'
    return "\n".join([f"{includes}namespace k{key} {{", rest, *runs, "}"])


def _compiled(text: str) -> bytes:
    """Compiles C++ to the content of a library's file."""
    with tempfile.TemporaryDirectory(prefix="simulated-metal-") as folder:
        path = Path(folder) / "kernels.so"
        done = tools.ran(compiler(), *_FLAGS, "-o", str(path), "-", "-lm", given=text)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return path.read_bytes()


def _opened(made: bytes) -> ctypes.CDLL:
    """Loads a library from the content of its file."""
    with tempfile.NamedTemporaryFile(prefix="simulated-metal-", suffix=".so") as file:
        file.write(made)
        file.flush()
        return ctypes.CDLL(file.name)


# --- Metal's objects ------------------------------------------------------------------------------------------------


class Simulator:
    """See `apple.System`."""

    simulated = True

    def __init__(self, threads: int = 256) -> None:
        self.threads = threads
        self.device = _Device()

    def compile_options(self, fast_math: bool) -> Any:
        return None

    def pool(self) -> AbstractContextManager[Any]:
        return nullcontext()


class _Device:
    def name(self) -> str:
        return "simulated Metal GPU"

    def maxBufferLength(self) -> int:
        return 1 << 40

    def recommendedMaxWorkingSetSize(self) -> int:
        return 1 << 32

    def newCommandQueue(self) -> Any:
        return SimpleNamespace(commandBuffer=_CommandBuffer)

    def newBufferWithLength_options_(self, nbytes: int, options: int) -> _Buffer | None:
        try:
            return _Buffer(nbytes)
        except MemoryError:
            return None

    def newLibraryWithSource_options_error_(self, source: str, options: Any, error: None) -> tuple[Any, Any]:
        try:
            build([source])
        except RuntimeError as e:
            words = str(e)
            return None, SimpleNamespace(localizedDescription=lambda: words)
        return SimpleNamespace(newFunctionWithName_=partial(_function, _key(source))), None

    def newComputePipelineStateWithFunction_error_(self, function: Any, error: None) -> tuple[Any, Any]:
        return SimpleNamespace(function=function, maxTotalThreadsPerThreadgroup=lambda: 1024), None


def _function(key: str, name: str) -> Any:
    """The function that runs a kernel."""
    function = _loaded[key][_symbol(key, name)]
    function.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
    function.restype = None
    return function


class _Buffer:
    def __init__(self, nbytes: int) -> None:
        self._block = Block(nbytes)

    def contents(self) -> _Buffer:
        return self

    def as_buffer(self, nbytes: int) -> memoryview:
        return self._block.view[:nbytes]

    def gpuAddress(self) -> int:
        return self._block.address


class _CommandBuffer:
    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []
        self._status = 0

    def computeCommandEncoder(self) -> _Encoder:
        return _Encoder(self.work)

    def commit(self) -> None:
        for step in self.work:
            step()
        self._status = COMPLETED

    def status(self) -> int:
        return self._status

    def error(self) -> None:
        return None

    def waitUntilCompleted(self) -> None:
        return None


class _Encoder:
    def __init__(self, work: list[Callable[[], None]]) -> None:
        self._work = work
        self._frame = 0
        self._function: Any = None

    def setBuffer_offset_atIndex_(self, buffer: _Buffer, offset: int, index: int) -> None:
        assert index == 0
        self._frame = buffer.gpuAddress() + offset

    def useResource_usage_(self, buffer: _Buffer, usage: int) -> None:
        return None

    def setComputePipelineState_(self, pipeline: Any) -> None:
        self._function = pipeline.function

    def dispatchThreadgroups_threadsPerThreadgroup_(
        self, groups: tuple[int, int, int], threads: tuple[int, int, int]
    ) -> None:
        function, frame = self._function, self._frame
        self._work.append(lambda: function(frame, groups[0], threads[0]))

    def dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(
        self, buffer: _Buffer, offset: int, threads: tuple[int, int, int]
    ) -> None:
        function, frame = self._function, self._frame
        at = buffer.gpuAddress() + offset

        def run() -> None:
            x, y, z = (ctypes.c_uint32 * 3).from_address(at)
            assert (y, z) == (1, 1)
            function(frame, x, threads[0])

        self._work.append(run)

    def memoryBarrierWithScope_(self, scope: int) -> None:
        return None

    def endEncoding(self) -> None:
        return None
