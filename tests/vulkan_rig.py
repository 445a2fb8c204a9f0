"""Runs IR on Vulkan without the layers above it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from functools import cache
from typing import Any

import child
import numpy as np
import pytest

from quadrants_lab.backends import vulkan
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel

EXACT = CompileOptions(fast_math=False)
FAST = CompileOptions()

why_not = vulkan.probe()
if why_not and not os.environ.get("QL_REQUIRE_ALL"):
    pytest.skip(why_not, allow_module_level=True)

from quadrants_lab.backends.vulkan.device import Device  # noqa: E402
from quadrants_lab.backends.vulkan.executable import Executable, Frame  # noqa: E402


@cache
def device(mapped: bool = True) -> Device:
    return Device(mapped=mapped)


def fresh() -> Device:
    """A device of one's own."""
    return Device()


def validate(code: bytes) -> None:
    """spirv-val finds nothing."""
    if shutil.which("spirv-val"):
        child.run("spirv-val", "--target-env", "vulkan1.2", "-", given=code)


def load(source: str | N.Kernel, options: CompileOptions = EXACT, **sizes: Any) -> Executable:
    """Compiles IR text; ``sizes`` is for `dataclasses.replace` on the options."""
    kernel = parse_kernel(source) if isinstance(source, str) else source
    return vulkan.load(kernel, replace(options, **sizes))


class Bound:
    """A frame with everything set, over copies of the arrays in device memory; `launch` copies them in and out."""

    def __init__(self, frame: Frame, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.frame = frame
        self.arrays = arrays
        own: dict[int, Any] = {}
        self.memories = {}
        for name, array in arrays.items():
            memory = own.setdefault(id(array), frame.device.allocate(array.shape, array.dtype))
            self.memories[name] = memory
            frame.set_buffer(name, memory.address)
            if frame.exe.kernel.buffers[name].kind == "ndarray":
                frame.set_extents(name, array.shape)

    def launch(self) -> int:
        for name, array in self.arrays.items():
            self.memories[name].write(array)
        status = self.frame.launch()
        for name, array in self.arrays.items():
            array[...] = self.memories[name].read()
        return status

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frame, name)


def bind(
    exe: Executable, arrays: dict[str, np.ndarray[Any, Any]], args: dict[str, Any] | None = None,
    stacks: list[int] | None = None, on: Device | None = None,
) -> Bound:  # fmt: skip
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
