"""Limits how many launches are in flight (see `_gpu.device`), with only two calls of the driver for many launches.

Launches are grouped into parts. An event is recorded at the end of a part. The first launch of the next part waits for
the event of the part before the last, so at most two parts are in flight.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.device import LEAST, PART, Cost, learn


class Flight:
    """Limits the launches in flight. ``load``: the estimated nanoseconds of the current part's launches together;
    ``costs``: each launch's estimate. A launch adds its estimate to both; if ``load`` has reached `PART`, it calls
    `mark` first. ``clock``: returns the time in nanoseconds."""

    __slots__ = ("__weakref__", "_before", "_clock", "_driver", "_events", "_since", "costs", "load")

    def __init__(self, driver: Any, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._driver, self._clock = driver, clock
        self._events: tuple[Any, ...] = ()  # the event to record next, and the event at the end of the previous part
        self._before: list[Cost] = []  # the estimates of the launches of the previous part
        self._since = 0
        self.costs: list[Cost] = []
        self.load = 0

    def begin(self) -> None:
        """Call this before a launch if no other launch runs."""
        if self.costs or self._before:  # these remain from a launch whose caller waited for it
            self.costs.clear()
            self._before = []
        self.load = 0
        self._since = self._clock()

    def mark(self) -> None:
        """Ends the current part, and waits for the end of the previous one. If Ctrl-C ends the wait, nothing has
        changed."""
        driver = self._driver
        if not self._events:
            self._events = driver.new_event(), driver.new_event()
            for made in self._events:
                forks.finalize(self, driver.free_event, made)
        this, before = self._events
        driver.record_event(this)
        if self._before:
            driver.await_event(before, "running kernels")
        now = self._clock()
        if self._before:
            learn(self._before, now - self._since)
        self._since = now
        self._events = before, this
        self._before, self.costs = self.costs, []
        self.load = 0

    def end(self) -> None:
        """Updates the estimates from the time that has passed. Call this when all launches are done."""
        # there was more than one short launch, so the time says something about the estimates
        if self.load > LEAST or self._before:
            took = self._clock() - self._since
            if took > PART or self.load > LEAST * len(self.costs):
                learn(self._before + self.costs, took, at_most=took < PART)
            self._before = []
        self.costs.clear()
