"""The launch frame of a GPU: 64-bit words in device memory, which all programs of a kernel read. Offsets in bytes.

Programs get the frame's device address and nothing else. Addresses in it are the device's. A value of a dtype lies in
the low bytes of its word; a u1 takes 32 bits there.
"""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.backends.layout import VALUES, WORD, FrameLayout, frame_layout
from quadrants_lab.ir import nodes as N

CUT = 1 << 16  # a bit of STATUS beside launch.Status: the driver ended a loop before its time

# the head
STATUS = 0  # u32: bits of launch.Status, set by atomic or
FAILED = 8  # u32: 0, or the Status bit of the recorded failure; the thread that changes it from 0 writes the rest
FAIL_WHAT = 16  # number of the assert or of the stack
FAIL_COUNT = 24  # how many values, or the depth that the stack would have needed
FAIL_VALUES = 32  # a word each, as `prints.value_of` reads it
SEED = FAIL_VALUES + VALUES * WORD
LAUNCH = SEED + 8  # number of the launch, for random draws
THREADS = LAUNCH + 8  # u32: lanes that each adstack has room for; slot s of lane t is element s * THREADS + t
LANES = THREADS + 8  # u32: the most threads of a task without adstacks
HEAP = LANES + 8  # address of the adstack heap; STACK_AT counts from it
PRINTS = HEAP + 8  # address of the print block
HEAD_BYTES = PRINTS + 8

# the print block: records of 64-bit words, each the number of its Print statement and then its values
PRINT_USED = 0  # u32: words taken, by atomic add; may exceed the room
PRINT_LOST = 4  # u32: prints that found no room
PRINT_ROOM = 8  # u32: words
PRINT_DATA = 16

GRID_WORDS = 2  # three u32: groups of a task's program in x, y and z


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """``frame``: what the kernel needs; ``grid``: a task, where its group counts are; ``size`` of it all."""

    frame: FrameLayout
    grid: tuple[int, ...]
    size: int


def gpu_layout(kernel: N.Kernel) -> GpuLayout:
    """The layout follows from the kernel alone."""
    frame = frame_layout(kernel, HEAD_BYTES)
    frame.buffers |= {"$status": STATUS, "$failed": FAILED, "$failure": FAIL_WHAT, "$prints": PRINTS}
    grid = tuple(frame.size + n * GRID_WORDS * WORD for n in range(len(kernel.body)))
    return GpuLayout(frame, grid, frame.size + len(kernel.body) * GRID_WORDS * WORD)
