"""Bounds the launches that a device has not done yet; see `_gpu.flight`.

Launches are counted in parts. An event marks the end of a full part, and the launch that begins the next part waits for
the end of the part before. So at most two parts are under way, at two calls of the driver a part.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.flight import LEAST, PART, Cost, learn


class Flight:
    """``load``: nanoseconds that the launches of the last part are expected to take; ``costs``: theirs. A launch adds
    itself, after `mark` where ``load`` has come to `PART`."""

    __slots__ = ("__weakref__", "_before", "_driver", "_marks", "_since", "costs", "load")

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._marks: tuple[Any, ...] = ()  # the next one, and that at the end of the part before
        self._before: list[Cost] = []  # launches of the part before
        self._since = 0
        self.costs: list[Cost] = []
        self.load = 0

    def begin(self) -> None:
        """To be called before a launch while nothing runs."""
        if self.costs or self._before:  # of a launch that was waited for by itself
            self.costs.clear()
            self._before = []
        self.load = 0
        self._since = perf_counter_ns()

    def mark(self) -> None:
        """Ends a part, and waits for the end of the one before. Ctrl-C ends the waiting and changes nothing."""
        driver = self._driver
        if not self._marks:
            self._marks = driver.new_mark(), driver.new_mark()
            for made in self._marks:
                forks.finalize(self, driver.drop_mark, made)
        this, before = self._marks
        driver.set_mark(this)
        if self._before:
            driver.await_mark(before, "running kernels")
        now = perf_counter_ns()
        if self._before:
            learn(self._before, now - self._since)
        self._since = now
        self._marks = before, this
        self._before, self.costs = self.costs, []
        self.load = 0

    def end(self) -> None:
        """Learns from the time that has passed; to be called when all launches are done."""
        if self.load > LEAST or self._before:  # not one launch that is known to be short
            took = perf_counter_ns() - self._since
            if took > PART or self.load > LEAST * len(self.costs):
                learn(self._before + self.costs, took, at_most=took < PART)
            self._before = []
        self.costs.clear()
