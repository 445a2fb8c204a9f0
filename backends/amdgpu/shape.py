"""How programs are launched on AMD's GPUs: threads of a group, and how a frame gets there."""

from __future__ import annotations

from quadrants_lab.backends._gpu.programs import Program

GROUP = 256  # threads of a group: four waves, or eight
STACKED_GROUP = 64  # where each has adstacks; as many as `_gpu.programs.GROUP`, of which they have room
SINGLE_GROUP = 1  # where one thread works
BY_VALUE = 4000  # bytes of a frame that goes along with a launch, as a parameter; a longer one is copied to the device
WAVES = 4  # groups of a task that are started for each that runs at a time
TELLS = False  # not tried: whether the host sees a word before the launch ends depends on the kind of its memory


def group_of(program: Program, stacked: bool) -> int:
    """Threads of a group of the program; ``stacked``: whether its task keeps values on adstacks."""
    if program.kind != "range":
        return SINGLE_GROUP
    return STACKED_GROUP if stacked else GROUP


def passed_by_value(frame_bytes: int) -> bool:
    return frame_bytes <= BY_VALUE
