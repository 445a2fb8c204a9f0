"""C: kernels become readable C11, which the system's compiler compiles and the calling thread runs.

Memory, launches, prints and failures are handled by the CPU backend. `quadrants_lab.runtime.backend.Backend` documents
the functions here.
"""

import platform
from collections.abc import Callable
from functools import cache

from quadrants_lab.backends import Capabilities, Stage, cpu
from quadrants_lab.backends.c import compiler, emitter
from quadrants_lab.backends.disk_cache import DiskCache, Keep, digest, forget
from quadrants_lab.backends.launch import Device, Executable
from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.options import CompileOptions

STAGES = ("c",)
CAPABILITIES = Capabilities(on_host=True, pages=True)


def probe() -> str:
    return cpu.probe() or compiler.probe()


def devices() -> list[str]:
    return [f"{platform.machine()}, 1 thread, {compiler.version()}"]


def open_device(threads: int = 0, cache: DiskCache | None = None) -> Device:
    return cpu.open_device(1, cache)


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    return {"c": lambda: emitter.stage(kernel, options)}


def lowering(options: CompileOptions) -> tuple[Pass, ...]:
    return emitter.LOWERING


def load(
    kernel: Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = forget
) -> Executable:
    """Compiles and loads a kernel. Raises QuadrantsRuntimeError if the compiler is missing, rejects the source or takes
    too long."""
    from quadrants_lab.backends.cpu.executable import load as make

    def compiled() -> bytes:
        return compiler.compiled("\n".join(line for line, _ in emitter.emitted(kernel, options)))

    return make(kernel, options, cached, keep, compiled)


@cache
def target_key() -> str:
    return f"c/{platform.machine()}/{compiler.version()}/{digest('c', '_clike', 'cpu')}"
