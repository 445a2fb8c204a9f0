"""Lays out, as byte offsets, the CPU's launch frame (the arguments of a launch) and device block (the state of a
device). Compiled objects hold these offsets, no addresses.

runtime/runtime.h has the same words as struct Frame and struct Device, in this order, with a comment for each.
"""

from quadrants_lab.backends.layout import (
    STACK_AT,
    STACK_CAPACITY,
    STACK_LAST,
    VALUES,
    WORD,
    FrameLayout,
    frame_layout as make,
)
from quadrants_lab.ir import nodes as N

__all__ = ["STACK_AT", "STACK_CAPACITY", "STACK_LAST", "VALUES", "WORD", "FrameLayout"]

COPIES = 8  # the most buffers of a task that workers can have copies of, see `copies`

# the head of a frame
(
    DEVICE, ENTRY, STATUS, RELEASE_GIL, ZERO_AT, ZERO_BYTES, FAILED, FAIL_WHAT, FAIL_COUNT, FAIL_VALUES,
) = range(0, 10 * WORD, WORD)  # fmt: skip
_AT = FAIL_VALUES + VALUES * WORD
SLAB_BYTES, LANES, LAUNCH, REPLAY, COPIES_AT, COPIES_STRIDE, COPIES_SHIFT = range(_AT, _AT + 7 * WORD, WORD)
_AT = COPIES_SHIFT + COPIES * WORD
SHARES_AT, SHARE, MOVE, HEAD_BYTES = range(_AT, _AT + 4 * WORD, WORD)

# the device block
(
    CANCEL, HEAP, THREADS, PRINT_LOCK, PRINT_BYTES, PRINT_ROOM, PRINT_DATA, PRINT_LOST, RUNNING, AGE, THREAD_STATE,
    FP_MODE, NEXT, LAUNCHES, SEED, COPIES_ROOM, COPIES_BYTES, ADD_TO, ADD_FROM, ADD_STRIDE, ADD_COPIES,
) = range(0, 21 * WORD, WORD)  # fmt: skip
DEVICE_BYTES = 192


def frame_layout(kernel: N.Kernel) -> FrameLayout:
    """The layout of the kernel's frame; it depends on nothing but the kernel."""
    return make(kernel, HEAD_BYTES)
