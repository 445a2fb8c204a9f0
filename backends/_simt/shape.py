"""Decides how programs are launched on a kind of device: how many threads a group has, how many groups start, and
how the launch frame (the arguments) is passed."""

from dataclasses import dataclass

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._gpu.schedule import GpuSchedule
from quadrants_lab.backends.layout import WORD, box_words
from quadrants_lab.backends.lower import devices
from quadrants_lab.backends.lower.math import MATH, LowerMath
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions


@dataclass(slots=True)
class Shape:
    """How programs are launched on a kind of device. ``group``: the threads of a group; ``block``: the most and the
    fewest threads of a group that runs a block of threads, powers of two; ``stacked_group``: the threads of a group
    with adstacks, equal to `_gpu.programs.GROUP`, since the heap has room for whole groups. ``waves``: the
    oversubscription factor: how many groups start for each that runs at a time. ``by_value``: a frame of at most so
    many bytes is a parameter of the launch; a longer one is copied to the device first. ``barriers``: the device
    has them. ``warp``: how many neighbouring threads are sure to form a warp, in which they aggregate atomics; 1 if
    unknown. ``local_arrays``: vectors with indices that are known only at run time lie in the thread's memory.
    ``near_sines``: see `_gpu.schedule`. ``functions``: the device has no library of elementary functions, so
    kernels call ours."""

    group: int
    block: tuple[int, int]
    waves: int
    stacked_group: int = 64
    by_value: int = 4000
    barriers: bool = True
    warp: int = 1
    local_arrays: bool = False
    near_sines: bool = False
    functions: bool = False

    def first(self, options: CompileOptions) -> tuple[N.Pass, ...]:
        """See `devices.first`."""
        fast = options.fast_math
        schedule = GpuSchedule(subgroup=self.warp if fast else 1, near_sines=self.near_sines and fast)
        most, least = self.block if self.barriers else (0, 0)
        return devices.first(schedule, most, least)

    def lowering(self, options: CompileOptions) -> tuple[N.Pass, ...]:
        """See `devices.simt`."""
        math = LowerMath(MATH, near=options.fast_math) if self.functions else LowerMath()
        return devices.simt(self.first(options), self.local_arrays, math, lower_failures, self.warp)

    def group_of(self, program: Program, stacked: bool) -> int:
        """How many threads a group of the program has; ``stacked``: whether its task stores values on adstacks."""
        if program.kind != "range":
            return 1
        if program.task.block_dim:
            return program.task.block_dim
        return self.stacked_group if stacked else self.group

    def passed_by_value(self, frame_bytes: int) -> bool:
        return frame_bytes <= self.by_value


class State:
    """The layout of the memory that programs write: status and failure, then "temp" and "ret" buffers, then the
    iteration ranges of tasks. ``zeroed``: how many bytes, from the start, are set to zero before a launch;
    ``size``: how many bytes it has."""

    head = L.SEED  # how many bytes status and failure take

    def __init__(self, kernel: N.Kernel) -> None:
        self.layout = L.gpu_layout(kernel)
        frame = self.layout.frame
        self.zeroed = self.head + frame.zero_bytes
        self._boxes: list[tuple[int, int, int]] = []  # for each box: begin and end in the frame, begin in the state
        at = self.zeroed
        for number, start in enumerate(frame.bounds):
            nbytes = box_words(kernel, number) * WORD
            self._boxes.append((start, start + nbytes, at))
            at += nbytes
        self.size = at

    def at(self, offset: int) -> int:
        """The offset in this memory of the word that lies at ``offset`` in the launch frame."""
        frame = self.layout.frame
        if offset < self.head:
            return offset
        if frame.zero_at <= offset < frame.zero_at + frame.zero_bytes:
            return self.head + offset - frame.zero_at
        start, _, here = next(box for box in self._boxes if box[0] <= offset < box[1])
        return here + offset - start
