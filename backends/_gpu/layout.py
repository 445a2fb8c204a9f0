"""Lays out the launch frame of a GPU: 64-bit words in device memory, from which all programs of a kernel read their
arguments. Offsets are in bytes.

The frame's device address is the only argument of a program. Addresses in the frame are device addresses. A value lies
in the low bytes of its word; a u1 takes 32 bits.
"""

from dataclasses import dataclass

from quadrants_lab.backends.layout import VALUES, WORD, FrameLayout, box_words, frame_layout
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u8, u32

CUT = 1 << 16  # a bit of STATUS that `launch.Status` lacks: the driver ended a loop too early

# the head
STATUS = 0  # u32: bits of launch.Status, set by atomic or
# u32: 0, or the Status bit of the recorded failure; the thread that changes it from 0 stores the next three words
FAILED = 8
FAIL_WHAT = 16  # the index, in the kernel, of the assert or of the adstack
FAIL_COUNT = 24  # how many values are recorded, or the depth that the adstack needs
FAIL_VALUES = 32  # one word for each value, which `launch.value_of` reads
SEED = FAIL_VALUES + VALUES * WORD
LAUNCH = SEED + 8  # the index of the launch, on which random draws depend
THREADS = LAUNCH + 8  # u32: for so many threads each adstack has room; slot s of thread t is element s * THREADS + t
LANES = THREADS + 8  # u32: the most threads of a task without adstacks
HEAP = LANES + 8  # the address of the adstack heap; STACK_AT is relative to it
PRINTS = HEAP + 8  # the address of the print block
HEAD_BYTES = PRINTS + 8

# the print block: records of 64-bit words. A record is the index of a Print statement and then its values.
PRINT_USED = 0  # u32: how many words are reserved, by atomic add; may exceed PRINT_ROOM
PRINT_LOST = 4  # u32: how many prints were lost because the block was full
PRINT_ROOM = 8  # u32: how many words the block has
PRINT_DATA = 16

GRID_WORDS = 2  # three u32: how many groups a task's program has in x, y and z


def stored(b: N.Buffer) -> DType:
    """The dtype of an element in memory: a u1 takes one byte, or 32 bits if the buffer lies in the frame."""
    if b.dtype is not u1:
        return b.dtype
    return u32 if b.kind in ("temp", "ret") else u8


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """The layout of a kernel's launch frame. ``frame``: the offsets of the words that the kernel needs; ``grid``:
    the offset of each task's group counts; ``size``: the frame's size in bytes."""

    frame: FrameLayout
    grid: tuple[int, ...]
    size: int


def gpu_layout(kernel: N.Kernel) -> GpuLayout:
    """Lays out the kernel's frame; the result depends on nothing else."""
    frame = frame_layout(kernel, HEAD_BYTES)
    frame.buffers |= {"$status": STATUS, "$failed": FAILED, "$failure": FAIL_WHAT, "$prints": PRINTS}
    frame.buffers |= {"$threads": THREADS, "$lanes": LANES}
    grid = tuple(frame.size + n * GRID_WORDS * WORD for n in range(len(kernel.body)))
    for number, (at, groups) in enumerate(zip(frame.bounds, grid, strict=True)):
        extents = at + box_words(kernel, number) // 2 * WORD
        frame.buffers |= {f"$begins{number}": at, f"$extents{number}": extents, f"$groups{number}": groups}
    return GpuLayout(frame, grid, frame.size + len(kernel.body) * GRID_WORDS * WORD)
