"""Launches that repeat an earlier one: the driver starts them all as one graph, in less time than one program.

A graph holds the frame's words as they were when it was made or last updated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.executable import SimtFrame

AFTER = 32  # equal launches in a row: making a graph takes about as long as it saves in a hundred


class GraphCache:
    """The graph of a frame. ``always``: from the first launch on (`qd.kernel(graph=True)`). ``made`` counts graphs."""

    def __init__(self, frame: SimtFrame) -> None:
        self.frame = frame
        self.always = False
        self.made = 0
        self._graph: Any = None
        self._held = b""  # the words that the graph holds
        self._last = b""  # those of the last launch
        self._equal = 0

    def drop(self) -> None:
        """The programs or their group counts are not those of the graph any more."""
        self._graph = None
        self._held = self._last = b""
        self._equal = 0

    def graph(self, words: bytes) -> Any:
        """The graph for a frame with these words; None where its programs are better started one by one."""
        if words == self._held:
            return self._graph
        if words != self._last:
            self._last = words
            self._equal = 0
        self._equal += 1
        if not self.always and self._equal <= AFTER:
            return None
        if self._graph is None:
            self._graph = self.frame.make_graph()
            self.made += 1
        else:
            self._graph.update()
        self._held = words
        return self._graph
