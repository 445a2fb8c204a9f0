"""Runs IR on the simulated Metal device without the layers above it.

Metal has no f64: tests that need it are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from quadrants_lab.backends import metal
from quadrants_lab.backends.metal import simulator
from quadrants_lab.backends.metal.device import Device
from quadrants_lab.backends.metal.executable import Executable, MetalFrame
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import f64
from quadrants_lab.ir.walk import types_of

EXACT = CompileOptions(fast_math=False)
FAST = CompileOptions()


@cache
def device() -> Device:
    return Device(simulator.Simulator())


def fresh() -> Device:
    """A device of one's own."""
    return Device(simulator.Simulator())


def load(source: str | N.Kernel, options: CompileOptions = EXACT, **changes: Any) -> Executable:
    """Compiles IR text; ``changes`` is for `dataclasses.replace` on the options."""
    kernel = parse_kernel(source) if isinstance(source, str) else source
    if any(t is f64 for t in types_of(kernel.body).values()):
        pytest.skip("Metal has no f64")
    return metal.load(kernel, replace(options, **changes))


def build(executables: Iterable[Executable]) -> None:
    """Compiles all of them at once, for the launches to come."""
    simulator.build([e.source for e in executables])


class Bound:
    """A frame with everything set; the arrays' copies on the device go back to the arrays after a launch."""

    def __init__(self, frame: MetalFrame, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.frame = frame
        self.arrays = arrays
        own: dict[int, Any] = {}  # an array under two names is one memory
        self.memory = {}
        for name, a in arrays.items():
            m = self.memory[name] = own.setdefault(id(a), frame.device.allocate(a.shape, a.dtype))
            frame.set_buffer(name, m.address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frame, name)

    def launch(self) -> int:
        for name, m in self.memory.items():
            m.write(self.arrays[name])
        status = self.frame.launch()
        for name, m in self.memory.items():
            self.arrays[name][...] = m.read()
        return status


def bind(
    exe: Executable, arrays: dict[str, np.ndarray[Any, Any]], args: dict[str, Any] | None = None,
    stacks: list[int] | None = None, on: Device | None = None,
) -> Bound:  # fmt: skip
    """A frame with everything set."""
    frame = exe.frame(on or device())
    for name, array in arrays.items():
        if exe.kernel.buffers[name].kind == "ndarray":
            frame.set_extents(name, array.shape)
    for name, value in (args or {}).items():
        frame.set_arg(name, value)
    if exe.layout.frame.stacks:
        frame.set_stacks(stacks if stacks is not None else [1] * len(exe.layout.frame.stacks))
    return Bound(frame, arrays)


def run(
    source: str | N.Kernel, arrays: dict[str, np.ndarray[Any, Any]], args: dict[str, Any] | None = None,
    stacks: list[int] | None = None, options: CompileOptions = EXACT, on: Device | None = None,
) -> Bound:  # fmt: skip
    """Compiles, binds and launches; the launch must end well."""
    bound = bind(load(source, options), arrays, args, stacks, on)
    assert bound.launch() == 0
    return bound
