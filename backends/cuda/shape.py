"""How programs are launched on CUDA: threads of a group, and how a frame gets there."""

from __future__ import annotations

from quadrants_lab.backends._gpu.programs import Program

GROUP = 128  # threads of a group
STACKED_GROUP = 64  # where each has adstacks; as many as `_gpu.programs.GROUP`, of which they have room
SINGLE_GROUP = 1  # where one thread works
BY_VALUE = 4000  # bytes of a frame that goes along with a launch, as a parameter; a longer one is copied to the device
WAVES = 64  # groups of a task that are started for each that runs at a time: most iterations have a thread of their own
TELLS = True  # memory of the host is the device's too
# threads of a multiprocessor with adstacks, where these take more than LARGE_HEAP bytes: enough for most of the speed
FEW = 448
LARGE_HEAP = 64 << 20


def group_of(program: Program, stacked: bool) -> int:
    """Threads of a group of the program; ``stacked``: whether its task keeps values on adstacks."""
    if program.kind != "range":
        return SINGLE_GROUP
    return STACKED_GROUP if stacked else GROUP


def passed_by_value(frame_bytes: int) -> bool:
    return frame_bytes <= BY_VALUE
