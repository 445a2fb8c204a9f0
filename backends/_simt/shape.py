"""How an API launches programs: threads of a group, how many groups, and how a frame gets to the device."""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends.lower.blocks import lower_blocks
from quadrants_lab.backends.lower.long_sums import lower_long_sums
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions


@dataclass(slots=True)
class Shape:
    """``group``: threads of a group; ``stacked_group`` where each has adstacks, as many as `_gpu.programs.GROUP`, of
    which they have room. ``waves``: oversubscription, how many groups of a task start for each that runs at a time.
    ``signals``: whether kernels may set a flag in memory of the host when they are done (`_simt.host_flag`).
    ``by_value``: bytes of a frame that goes along with a launch, as a parameter; a longer one is copied to the device
    first. ``waits``: the threads of a group can wait for each other. ``together``: how many neighbouring threads run
    together, and can shuffle; 1 where it is not known."""

    group: int
    waves: int
    signals: bool
    stacked_group: int = 64
    by_value: int = 4000
    waits: bool = True
    together: int = 1

    def first(self, options: CompileOptions) -> tuple[N.Pass, ...]:
        """What is done to a kernel before all else, on the host's side too: it decides how many threads there are."""
        blocks = lower_blocks(self.group if self.waits else 0)
        return blocks, lower_long_sums(self.together if options.fast_math else 1)

    def group_of(self, program: Program, stacked: bool) -> int:
        """Threads of a group of the program; ``stacked``: whether its task keeps values on adstacks."""
        if program.kind != "range":
            return 1
        if program.task.block_dim:
            return program.task.block_dim
        return self.stacked_group if stacked else self.group

    def passed_by_value(self, frame_bytes: int) -> bool:
        return frame_bytes <= self.by_value
