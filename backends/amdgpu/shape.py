"""How programs are launched on AMD's GPUs."""

from __future__ import annotations

from quadrants_lab.backends._simt.shape import Shape

# A group has four waves, or eight. Flags are not used: whether the host sees one before the launch ends depends on the
# kind of its memory.
SHAPE = Shape(group=256, waves=4, signals=False)
