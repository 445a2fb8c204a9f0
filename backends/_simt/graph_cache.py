"""Repeated launches with equal words become a graph of the driver, which starts faster than a single program.

A graph contains the frame's words at the time when it was made or last updated.
"""

from collections.abc import Callable
from typing import Any

AFTER = 32  # equal launches in a row before a graph is made, which takes as long as it saves in about a hundred


class GraphCache:
    """The graph of a frame, which ``make`` captures. ``always``: launch by graph from the first launch on
    (`qd.kernel(graph=True)`). ``made`` counts the graphs that were made."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.always = False
        self.made = 0
        self._graph: Any = None
        self._held = b""  # the words in the graph
        self._last = b""  # the words of the last launch
        self._equal = 0

    def drop(self) -> None:
        """Drops the graph, because the programs or their group counts have changed."""
        self._graph = None
        self._held = self._last = b""
        self._equal = 0

    def graph(self, words: bytes) -> Any:
        """The graph for these words; None where the programs are to be launched one by one."""
        if words == self._held:
            return self._graph
        if words != self._last:
            self._last = words
            self._equal = 0
        self._equal += 1
        if not self.always and self._equal <= AFTER:
            return None
        if self._graph is None:
            self._graph = self._make()
            self.made += 1
        else:
            self._graph.update()
        self._held = words
        return self._graph
