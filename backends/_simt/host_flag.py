"""A flag in the host's memory that a kernel sets when it is done, if its last program has one thread.

The host sees the flag earlier than the driver reports the end of the launch. So the host polls the flag first if it
waits for such a launch and nothing else runs.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import programs, returns_or_fails
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.body import SimtBody

# the word of the frame that holds the flag's address; kernels that print use this word for the print block, and set no
# flag
AT = L.PRINTS
ALONE = 2  # the value of `SimtDevice.running` while a single launch runs, which will set the flag
_SPINS = 300  # polls of the flag before the driver is asked; they take about 15 us


def signals(kernel: N.Kernel) -> bool:
    """Whether the kernel sets the flag at its end."""
    made = programs(kernel)
    stacks = any(find(kernel.body, N.AdStackAlloca))
    return bool(made) and made[-1].kind == "serial" and not stacks and not returns_or_fails(kernel)


def signal(body: SimtBody) -> None:
    """Emits the store that sets the flag, after all earlier writes."""
    fn, space = body.fn, body.target.global_space
    address = fn.let(f"load i64, ptr {body.at(AT)}")
    kind = f"ptr addrspace({space})" if space else "ptr"
    fn.put(f"store atomic i32 1, {kind} {fn.let(f'inttoptr i64 {address} to {kind}')} release, align 4")


class HostFlag:
    """The flag, in memory that host and device access at the same address."""

    def __init__(self, address: int) -> None:
        self.address = address
        self._there = ctypes.c_uint32.from_address(address)

    def clear(self) -> None:
        self._there.value = 0

    def signaled(self) -> bool:
        """Whether the launch since `clear` has set the flag within a short wait."""
        there = self._there
        return any(there.value for _ in range(_SPINS))
