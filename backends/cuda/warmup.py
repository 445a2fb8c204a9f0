"""Work in background threads for which the first kernel of a process would otherwise wait: importing LLVM, loading
NVIDIA's compiler, making a code generator, and extracting the math library's functions."""

from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError

_EMPTY = """\
.version {version}
.target sm_{chip}
.address_size 64
.visible .entry nothing() {{ ret; }}
"""


@cache
def begin() -> None:
    """Starts the work that needs no device."""
    forks.start(import_module, "quadrants_lab.backends.cuda.nvptx", name="imports")


@cache
def start(driver: Any) -> None:
    """Starts the rest, once for each driver. Errors are ignored, because they recur where the result is needed."""
    for work in (_load_compiler, _make_generator):
        forks.start(work, driver, name="warm-up")


def _load_compiler(driver: Any) -> None:
    from quadrants_lab.backends.cuda.nvptx import PTX_VERSIONS, chip_for

    with suppress(QuadrantsRuntimeError, MemoryError):
        chip = chip_for(driver.capability)
        version = f"{PTX_VERSIONS[chip] // 10}.{PTX_VERSIONS[chip] % 10}"
        driver.enter()
        driver.unload(driver.load(_EMPTY.format(version=version, chip=chip).encode(), "nothing"))


def _make_generator(driver: Any) -> None:
    from quadrants_lab.backends.cuda import libdevice
    from quadrants_lab.backends.cuda.nvptx import chip_for, machine

    with suppress(QuadrantsRuntimeError):
        libdevice.prepare(machine(chip_for(driver.capability)))
