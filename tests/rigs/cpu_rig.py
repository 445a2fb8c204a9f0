"""Runs IR on the CPU backend without the layers above it."""

from typing import Any

from quadrants_lab.backends import cpu
from quadrants_lab.backends.cpu.device import CpuDevice
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from rigs import EXACT, FAST, TYPES, Arrays, Rig

__all__ = ["EXACT", "FAST", "TYPES", "bind", "device", "fresh", "load", "parsed", "run"]


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


def parsed(body: str, iterations: int = 64) -> tuple[N.Kernel, N.Offload]:
    """A kernel of one parallel task with this body, and the task."""
    kernel = parse_kernel(f"""
    kernel k(a: f32) forward {{
      buffer @x: field f32[64]
      buffer @n: field i32[64]
      buffer @m: field f32[64x64]
      buffer @near: field i32[64x64]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const {iterations}
        yield %1, %2
      }} do (%3: i32 'i') {{
        {body}
        yield
      }}
    }}""")
    (task,) = kernel.body
    assert isinstance(task, N.Offload)
    return kernel, task
