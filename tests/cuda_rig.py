"""Runs IR on a CUDA device, or on what stands in for one, without the layers above it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import cuda_stand_in
import numpy as np

from quadrants_lab.backends import cuda
from quadrants_lab.backends._simt.executable import SimtExecutable as Executable
from quadrants_lab.backends._simt.executable import SimtFrame as Frame
from quadrants_lab.backends.cuda.device import Device
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel

EXACT = CompileOptions(fast_math=False)
FAST = CompileOptions()

cuda_stand_in.install()


@cache
def device() -> Device:
    return cuda.open_device()


def fresh() -> Device:
    """A device of one's own."""
    return cuda.open_device()


def load(source: str | N.Kernel, options: CompileOptions = EXACT, **changes: Any) -> Executable:
    """Compiles IR text; ``changes`` is for `dataclasses.replace` on the options."""
    kernel = parse_kernel(source) if isinstance(source, str) else source
    return cuda.load(kernel, replace(options, **changes))


class Bound:
    """A frame with everything set, over copies of the arrays in device memory; `launch` copies them in and out."""

    def __init__(self, frame: Frame, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.frame = frame
        self.arrays = arrays
        own: dict[int, Any] = {}  # an array under two names is one memory
        self.memory = {}
        for name, a in arrays.items():
            m = self.memory[name] = own.setdefault(id(a), frame.device.allocate(a.shape, a.dtype))
            frame.set_buffer(name, m.address)
            if frame.exe.kernel.buffers[name].kind == "ndarray":
                frame.set_extents(name, a.shape)

    def launch(self) -> int:
        for name, a in self.arrays.items():
            self.memory[name].write(a)
        status = self.frame.launch()
        for name, a in self.arrays.items():
            a[...] = self.memory[name].read()
        return status

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frame, name)


def bind(
    exe: Executable, arrays: dict[str, np.ndarray[Any, Any]], args: dict[str, Any] | None = None,
    stacks: list[int] | None = None, on: Device | None = None,
) -> Bound:  # fmt: skip
    """A frame with everything set."""
    frame = exe.frame(on or device())
    bound = Bound(frame, arrays)
    for name, value in (args or {}).items():
        frame.set_arg(name, value)
    if exe.layout.frame.stacks:
        frame.set_stacks(stacks if stacks is not None else [1] * len(exe.layout.frame.stacks))
    return bound


def run(
    source: str | N.Kernel, arrays: dict[str, np.ndarray[Any, Any]], args: dict[str, Any] | None = None,
    stacks: list[int] | None = None, options: CompileOptions = EXACT, on: Device | None = None,
) -> Bound:  # fmt: skip
    """Compiles, binds and launches; the launch must end well."""
    bound = bind(load(source, options), arrays, args, stacks, on)
    assert bound.launch() == 0
    return bound
