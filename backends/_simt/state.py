"""The words of a frame that programs write, side by side in memory of their own."""

from __future__ import annotations

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends.layout import WORD, box_words
from quadrants_lab.ir import nodes as N


class State:
    """First status and failure, then "temp" and "ret" buffers, which begin each launch as zeros, then the boxes of
    tasks. ``zeroed``: bytes that begin as zeros; ``size``: bytes of it all."""

    head = L.SEED  # bytes of status and failure

    def __init__(self, kernel: N.Kernel) -> None:
        self.layout = L.gpu_layout(kernel)
        frame = self.layout.frame
        self.zeroed = self.head + frame.zero_bytes
        self._boxes: list[tuple[int, int, int]] = []  # offset in the frame, its end, and where it is here
        at = self.zeroed
        for task, start in zip(kernel.tasks, frame.bounds, strict=True):
            nbytes = box_words(task) * WORD
            self._boxes.append((start, start + nbytes, at))
            at += nbytes
        self.size = at

    def at(self, offset: int) -> int:
        """Where a word is whose place in the frame is ``offset``."""
        frame = self.layout.frame
        if offset < self.head:
            return offset
        if frame.zero_at <= offset < frame.zero_at + frame.zero_bytes:
            return self.head + offset - frame.zero_at
        start, _, here = next(box for box in self._boxes if box[0] <= offset < box[1])
        return here + offset - start
