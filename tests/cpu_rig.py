"""Runs IR on the CPU backend without the layers above it."""

from typing import Any

from rigs import EXACT, FAST, TYPES, Arrays, Rig

from quadrants_lab.backends import cpu
from quadrants_lab.backends.cpu.device import CpuDevice

__all__ = ["EXACT", "FAST", "TYPES", "bind", "device", "fresh", "load", "run"]


class HostRig(Rig):
    """A rig whose frames work on the arrays themselves; ``threads`` is an option of the shared device."""

    def bind(
        self, exe: Any, arrays: Arrays, args: dict[str, Any] | None = None, stacks: list[int] | None = None,
        on: Any = None, **threads: int,
    ) -> Any:  # fmt: skip
        frame = exe.frame(on or self.device(**threads))
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


RIG = HostRig(cpu.load, lambda threads=2: CpuDevice(threads))
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run
