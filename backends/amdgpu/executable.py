"""A kernel loaded on an AMD device."""

from __future__ import annotations

from typing import ClassVar

from quadrants_lab.backends._simt.executable import Shape, SimtExecutable
from quadrants_lab.backends._simt.executable import SimtFrame as Frame
from quadrants_lab.backends.amdgpu import hip, shape
from quadrants_lab.backends.disk_cache import Keep, Kept
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

__all__ = ["Executable", "Frame", "load"]


class Executable(SimtExecutable):
    """``object``: a code object."""

    shape: ClassVar[Shape] = shape

    def is_whole(self, code: bytes) -> bool:
        return bool(hip.current().is_whole(code))


def load(kernel: N.Kernel, options: CompileOptions, cached: Kept | None, keep: Keep) -> Executable:
    return Executable(kernel, options, hip.current(), cached, keep)
