"""A kernel loaded on an AMD device."""

from __future__ import annotations

from typing import ClassVar

from quadrants_lab.backends._simt.executable import Shape, SimtExecutable
from quadrants_lab.backends._simt.executable import SimtFrame as Frame
from quadrants_lab.backends.amdgpu import hip, shape
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

__all__ = ["Executable", "Frame", "load"]


class Executable(SimtExecutable):
    """``object``: a code object."""

    shape: ClassVar[Shape] = shape


def load(kernel: N.Kernel, options: CompileOptions, cached: bytes | None) -> Executable:
    return Executable(kernel, options, cached if cached is not None else hip.current().build(kernel, options))
