"""The launch frame: one block of 64-bit words that compiled code reads everything from. Offsets are in bytes.

Compiled objects hold these offsets and no addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

WORD = 8
VALUES = 8  # raw 64-bit values that a failed assert reports

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
LAUNCH = SLAB_BYTES + 8  # number of the launch on its device, for random draws
REPLAY = LAUNCH + 8  # 0, or the number of the launch whose draws this one repeats
HEAD_BYTES = REPLAY + 8

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
DEVICE_BYTES = 128

# words of one adstack
STACK_CAPACITY, STACK_LAST, STACK_AT, STACK_ADJOINTS_AT = 0, 8, 16, 24
STACK_WORDS = 4


@dataclass(slots=True)
class FrameLayout:
    """Where a kernel's frame keeps what: offsets by name. ``stacks`` are the kernel's AdStackAllocas in order."""

    buffers: dict[str, int] = field(default_factory=dict)  # an address; temp and ret: the value itself
    extents: dict[str, int] = field(default_factory=dict)  # ndim words
    args: dict[str, int] = field(default_factory=dict)
    stacks: list[N.AdStackAlloca] = field(default_factory=list)
    stack_at: dict[int, int] = field(default_factory=dict)
    adjoint_stacks: set[int] = field(default_factory=set)  # ids of stacks that need adjoint slots
    asserts: list[N.Assert] = field(default_factory=list)
    prints: list[N.Print] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)  # a task: begin and extent of each axis
    zero_at: int = 0
    zero_bytes: int = 0
    size: int = 0


def frame_layout(kernel: N.Kernel) -> FrameLayout:
    """The layout follows from the kernel alone."""
    out = FrameLayout()
    at = HEAD_BYTES

    def take(words: int) -> int:
        nonlocal at
        at += words * WORD
        return at - words * WORD

    for b in kernel.buffers.values():
        if b.kind in ("field", "ndarray"):
            out.buffers[b.name] = take(1)
        if b.kind == "ndarray":
            out.extents[b.name] = take(b.ndim)
    for a in kernel.args:
        out.args[a.name] = take(1)
    for task in kernel.body:
        if not isinstance(task, N.Offload):
            raise TypeError(f"kernel {kernel.name} is not offloaded: {type(task).__name__} at top level")
        out.bounds.append(take(2 * len(task.indices)))
        for s in walk((task,)):
            if isinstance(s, N.AdStackAlloca):
                out.stacks.append(s)
                out.stack_at[s.id] = take(STACK_WORDS)
            elif isinstance(s, (N.AdStackLoadTopAdj, N.AdStackAccAdjoint)):
                out.adjoint_stacks.add(s.stack)
            elif isinstance(s, N.Assert):
                out.asserts.append(s)
            elif isinstance(s, N.Print):
                out.prints.append(s)
    out.zero_at = at
    for b in kernel.buffers.values():
        if b.kind in ("temp", "ret"):
            out.buffers[b.name] = take(1)
    out.zero_bytes = at - out.zero_at
    out.size = at
    return out
