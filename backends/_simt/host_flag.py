"""A flag in memory of the host that kernels set when they are done.

Kernels whose last program is one thread do so. The host sees the flag sooner than the driver knows of the end: a wait
for such a launch, where nothing else runs, looks at the flag first.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import answers, programs
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.body import SimtBody

AT = L.PRINTS  # where a frame has the flag's address: a kernel that prints is waited for in any case
ALONE = 2  # what `SimtDevice.running` is while nothing but such a launch runs
_LOOKS = 300  # about 15 us


def signals(kernel: N.Kernel) -> bool:
    """Whether the kernel sets the flag."""
    made = programs(kernel)
    stacks = any(isinstance(s, N.AdStackAlloca) for s in walk(kernel.body))
    return bool(made) and made[-1].kind == "serial" and not stacks and not answers(kernel)


def signal(body: SimtBody) -> None:
    """Sets the flag, after all that was written."""
    fn, space = body.fn, body.target.global_space
    address = fn.let(f"load i64, ptr {body.at(AT)}")
    kind = f"ptr addrspace({space})" if space else "ptr"
    fn.put(f"store atomic i32 1, {kind} {fn.let(f'inttoptr i64 {address} to {kind}')} release, align 4")


class HostFlag:
    """The flag, at an address of the host that programs know too."""

    def __init__(self, address: int) -> None:
        self.address = address
        self._there = ctypes.c_uint32.from_address(address)

    def clear(self) -> None:
        self._there.value = 0

    def signaled(self) -> bool:
        """Whether the launch since `clear` is done, as far as a short wait can tell."""
        there = self._there
        return any(there.value for _ in range(_LOOKS))
