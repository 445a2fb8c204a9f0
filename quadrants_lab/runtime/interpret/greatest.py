"""Finds the iteration of a gradient's launch that adds most to an element of a gradient."""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find
from quadrants_lab.runtime.interpret.interpreter import Box, Env, Lane
from quadrants_lab.runtime.interpret.interpreter_trace import StopReplay
from quadrants_lab.runtime.interpret.partial import Partial
from quadrants_lab.runtime.record.launch_data import LaunchData

MOST_STATEMENTS = 20_000  # the search repeats at most so many statements


@dataclass(frozen=True, slots=True)
class Part:
    """What iteration ``lane`` adds to an element of a gradient. ``whole``: this is the value of the whole element,
    because its value before the launch is not known."""

    value: float
    buffer: str
    index: Lane
    lane: Lane = ()
    whole: bool = False

    @property
    def size(self) -> float:
        return math.inf if math.isnan(self.value) else abs(self.value)


NOTHING = Part(0.0, "", ())


def greatest_part(launch: LaunchData, task: int) -> Part:
    """The greatest addition to an element of a gradient by an iteration of task ``task`` of the launch; NaN counts as
    the greatest. `NOTHING` if there is none, or if finding it takes too long.

    The indices of the writes may tell which iterations can have added to the element that changed most. If only one
    can, nothing is repeated. If the indices do not tell, all iterations of the task are repeated.
    """
    gradients = {b.grad for b in launch.kernel.buffers.values()}
    added = {s.buffer for s in find((launch.kernel.body[task],), N.Atomic)} & gradients
    parts = Partial(launch)
    lanes, most = None, NOTHING
    with suppress(QuadrantsError):  # of large arrays, not all elements are recorded
        single = all(sum(name in writes for writes in parts.writes) == 1 for name in added)
        most = _most_changed(launch, sorted(added)) if single else NOTHING
        lanes = parts.writers(task, most.buffer, most.index) if most is not NOTHING else None
        if lanes is not None and len(lanes) == 1 and not most.whole:
            return replace(most, lane=next(iter(lanes)))
    search = _Search(added, lanes)
    with suppress(StopReplay, QuadrantsError):
        parts.run(task, search.observe, search.iterations)
        return replace(most, lane=search.best.lane) if most.whole and lanes and search.best.size else search.best
    return NOTHING


def _most_changed(launch: LaunchData, names: Iterable[str]) -> Part:
    """The element of the buffers ``names`` that the launch changed most."""
    found = NOTHING
    for name in names:
        before, after = (
            x if isinstance(x, np.ndarray) else x.read() for x in (launch.before[name], launch.after[name])
        )
        unknown = 0 in before.strides
        change = after if unknown else after - before
        for k in (change.argmax(), change.argmin()):
            index = tuple(map(int, np.unravel_index(k, change.shape)))
            found = max(found, Part(float(change[index]), name, index, (), unknown), key=lambda part: part.size)
    return found


class _Search:
    """An observer of the interpreter that finds the greatest addition. ``lanes``: the iterations that are repeated,
    None for all."""

    def __init__(self, added: set[str], lanes: set[Lane] | None) -> None:
        self.added, self.lanes = added, lanes
        self.lane: Lane | None = None
        self.left = MOST_STATEMENTS
        self.best = NOTHING

    def iterations(self, task: N.Offload, box: Box) -> Iterator[Lane]:
        for lane in product(*box) if self.lanes is None else sorted(self.lanes):
            if all(k in axis for k, axis in zip(lane, box, strict=True)):
                self.lane = lane
                yield lane

    def observe(self, s: N.Stmt, value: Any, env: Env) -> None:
        self.left -= 1
        if self.left < 0:
            raise StopReplay
        if self.lane is not None and isinstance(s, N.Atomic) and s.buffer in self.added:
            part = Part(float(env[s.value]), s.buffer, tuple(int(env[i]) for i in s.index), self.lane)
            self.best = max(self.best, part, key=lambda part: part.size)
