"""Runs IR on the CPU backend without the layers above it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from rigs import EXACT, FAST, TYPES

from quadrants_lab.backends import cpu
from quadrants_lab.backends.cpu.device import CpuDevice
from quadrants_lab.backends.cpu.executable import CpuExecutable, CpuFrame
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel

__all__ = ["EXACT", "FAST", "TYPES", "bind", "device", "fresh", "load", "run"]


@cache
def device(threads: int = 2) -> CpuDevice:
    return CpuDevice(threads)


def fresh() -> CpuDevice:
    """A device of one's own."""
    return CpuDevice(2)


def load(source: str | N.Kernel, options: CompileOptions = EXACT, **sizes: Any) -> CpuExecutable:
    """Compiles IR text; ``sizes`` is for `dataclasses.replace` on the options."""
    kernel = parse_kernel(source) if isinstance(source, str) else source
    return cpu.load(kernel, replace(options, **sizes))


def bind(
    exe: CpuExecutable, arrays: dict[str, np.ndarray[Any, Any]], args: dict[str, Any] | None = None,
    stacks: list[int] | None = None, threads: int = 2, on: CpuDevice | None = None,
) -> CpuFrame:  # fmt: skip
    """A frame with everything set."""
    frame = exe.frame(on or device(threads))
    for name, array in arrays.items():
        assert array.flags.c_contiguous
        frame.set_buffer(name, array.ctypes.data)
        if exe.kernel.buffers[name].kind == "ndarray":
            frame.set_extents(name, array.shape)
    for name, value in (args or {}).items():
        frame.set_arg(name, value)
    if exe.layout.stacks:
        frame.set_stacks(stacks if stacks is not None else [1] * len(exe.layout.stacks))
    return frame


def run(
    source: str | N.Kernel, arrays: dict[str, np.ndarray[Any, Any]], args: dict[str, Any] | None = None,
    stacks: list[int] | None = None, options: CompileOptions = EXACT, threads: int = 2,
) -> CpuFrame:  # fmt: skip
    """Compiles, binds and launches; the launch must end well."""
    frame = bind(load(source, options), arrays, args, stacks, threads)
    assert frame.launch() == 0
    return frame
