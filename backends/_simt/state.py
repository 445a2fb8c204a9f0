"""The words of a frame that programs write, in device memory of their own."""

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends.layout import WORD, box_words
from quadrants_lab.ir import nodes as N


class State:
    """Status and failure, then "temp" and "ret" buffers, then the boxes of tasks. ``zeroed``: the bytes, from the
    start, that are zero when a launch begins; ``size``: all bytes."""

    head = L.SEED  # the bytes of status and failure

    def __init__(self, kernel: N.Kernel) -> None:
        self.layout = L.gpu_layout(kernel)
        frame = self.layout.frame
        self.zeroed = self.head + frame.zero_bytes
        self._boxes: list[tuple[int, int, int]] = []  # begin and end in the frame, begin in the state
        at = self.zeroed
        for number, start in enumerate(frame.bounds):
            nbytes = box_words(kernel, number) * WORD
            self._boxes.append((start, start + nbytes, at))
            at += nbytes
        self.size = at

    def at(self, offset: int) -> int:
        """The offset in the state of the word that has ``offset`` in the frame."""
        frame = self.layout.frame
        if offset < self.head:
            return offset
        if frame.zero_at <= offset < frame.zero_at + frame.zero_bytes:
            return self.head + offset - frame.zero_at
        start, _, here = next(box for box in self._boxes if box[0] <= offset < box[1])
        return here + offset - start
