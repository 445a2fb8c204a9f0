"""Runs IR on an AMD device, or on what stands in for one, without the layers above it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import hip_stand_in
from cuda_rig import EXACT, FAST, Bound

from quadrants_lab.backends import amdgpu
from quadrants_lab.backends._simt.executable import SimtExecutable as Executable
from quadrants_lab.backends.amdgpu.device import Device
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel

__all__ = ["EXACT", "FAST", "Bound", "bind", "device", "fresh", "load", "run"]

hip_stand_in.install()


@cache
def device() -> Device:
    return amdgpu.open_device()


def fresh() -> Device:
    """A device of one's own."""
    return amdgpu.open_device()


def load(source: str | N.Kernel, options: CompileOptions = EXACT, **changes: Any) -> Executable:
    """Compiles IR text; ``changes`` is for `dataclasses.replace` on the options."""
    kernel = parse_kernel(source) if isinstance(source, str) else source
    return amdgpu.load(kernel, replace(options, **changes))


def bind(
    exe: Executable, arrays: Any, args: Any = None, stacks: list[int] | None = None, on: Device | None = None
) -> Bound:
    """A frame with everything set."""
    frame = exe.frame(on or device())
    bound = Bound(frame, arrays)
    for name, value in (args or {}).items():
        frame.set_arg(name, value)
    if exe.layout.frame.stacks:
        frame.set_stacks(stacks if stacks is not None else [1] * len(exe.layout.frame.stacks))
    return bound


def run(
    source: str | N.Kernel, arrays: Any, args: Any = None, stacks: list[int] | None = None,
    options: CompileOptions = EXACT, on: Device | None = None,
) -> Bound:  # fmt: skip
    """Compiles, binds and launches; the launch must end well."""
    bound = bind(load(source, options), arrays, args, stacks, on)
    assert bound.launch() == 0
    return bound
