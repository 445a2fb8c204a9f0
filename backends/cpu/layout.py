"""The launch frame: one block of 64-bit words that compiled code reads everything from. Offsets are in bytes.

Compiled objects hold these offsets and no addresses.
"""

from __future__ import annotations

from quadrants_lab.backends.layout import STACK_AT, STACK_CAPACITY, STACK_LAST, VALUES, WORD, FrameLayout
from quadrants_lab.backends.layout import frame_layout as make
from quadrants_lab.ir import nodes as N

__all__ = ["STACK_AT", "STACK_CAPACITY", "STACK_LAST", "VALUES", "WORD", "FrameLayout"]

# the fixed head of a frame
DEVICE = 0  # address of the device block
ENTRY = 8  # address of the kernel's code
STATUS = 16  # Status bits of the launch
RELEASE_GIL = 24  # whether a launch releases the GIL
ZERO_AT = 32  # offset and size of what a launch zeroes first
ZERO_BYTES = 40
FAILED = 48  # 0, or the Status bit of the failure that is recorded
FAIL_WHAT = 56  # number of the assert or of the stack
FAIL_COUNT = 64  # how many values, or the depth that the stack would have needed
FAIL_VALUES = 72
SLAB_BYTES = FAIL_VALUES + VALUES * WORD  # of the adstack heap, a worker
LANES = SLAB_BYTES + 8  # most iterations that a worker's slab has room for
LAUNCH = LANES + 8  # number of the launch on its device, for random draws
REPLAY = LAUNCH + 8  # 0, or the number of the launch whose draws this one repeats
COPIES = 8  # the most buffers of a task that workers have copies of, see `copies`
COPIES_AT = REPLAY + 8  # where the copies of the running task begin, 0 where it has none
COPIES_STRIDE = COPIES_AT + 8  # bytes of a worker's copies
COPIES_SHIFT = COPIES_STRIDE + 8  # by buffer, where in a worker's copies its element 0 would be, in bytes
SHARES_AT = COPIES_SHIFT + COPIES * WORD  # where the shares of the running task are, see `shares`
SHARE = SHARES_AT + 8  # how far a share's iterations count
HEAD_BYTES = SHARE + 8

# the device block
CANCEL = 0  # i32: 1 stop, 2 the launching thread should look for signals
HEAP = 8
THREADS = 16
PRINT_LOCK = 24
PRINT_BYTES = 32
PRINT_ROOM = 40
PRINT_DATA = 48
PRINT_LOST = 56
RUNNING = 64  # 1 while a launch is in flight
AGE = 72  # ticks of the monitor since it began
THREAD_STATE = 80  # the PyThreadState that the launch gave back, 0 while it holds the GIL
FP_MODE = 88  # the caller's floating-point mode
NEXT = 96  # the device made before
LAUNCHES = 104
SEED = 112
COPIES_ROOM = 120  # what the workers' copies lie in, zero but while a task runs
COPIES_BYTES = 128
ADD_TO = 136  # of the addition of copies that runs: elements, first copy, bytes of a worker's copies, how many of them
ADD_FROM = 144
ADD_STRIDE = 152
ADD_COPIES = 160
DEVICE_BYTES = 192


def frame_layout(kernel: N.Kernel) -> FrameLayout:
    """The layout follows from the kernel alone."""
    return make(kernel, HEAD_BYTES)
