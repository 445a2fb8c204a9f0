"""Runs a few iterations of a parallel loop, to decide whether a race between two of them is certain.

Two iterations that race in a trial (`trials`) race in every launch. But arguments and shapes are unknown, so they take
several values in turn, and there is an error only if there is a race under each of these, because some programs pass an
offset that keeps two halves apart.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from quadrants_lab.analysis.accesses import Access
from quadrants_lab.analysis.trials import Ended, Trial
from quadrants_lab.errors import Label, QuadrantsCompilationError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import walk

RACE_CURE = (
    "run the loop serially (qd.loop_config(serialize=True) before it), write to a second field, or, to sum up, use += "
    "on the element, which is atomic"
)
# The values that arguments and shapes take, in the order in which they are read: a row for each trial; in some row each
# of them is the largest.
_SCALES = ((3, 11, 41, 150), (150, 41, 11, 3), (11, 3, 150, 41), (41, 150, 3, 11))


@dataclass(frozen=True, slots=True)
class Race:
    """A race: ``write`` in iteration ``first`` and ``other`` in iteration ``second`` of the task access the same
    ``element``."""

    write: N.Write
    other: N.Access
    element: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    task: N.Offload


def witness(kernel: N.Kernel, task: N.Offload, pairs: Sequence[tuple[Access, Access]]) -> Race | None:
    """A race by one of the pairs of accesses, if each trial has a race; else None."""
    found: Race | None = None
    valid = 0
    for scale in _SCALES:
        trial = _Trial(kernel, task, {a.stmt.id for p in pairs for a in p}, scale)
        if trial.iterations < 2:
            continue
        valid += 1
        found = trial.race(pairs)
        if found is None:
            return None
        if not trial.free:  # no value was assumed, so all trials would be the same
            return found
    return found if valid > 1 else None


class _Trial(Trial):
    """A trial that looks for races. ``touched``: wanted access -> element -> the first two iterations that access
    it. ``free``: what was read -> the value assumed for it: arguments, shapes, and bounds that are loaded."""

    def __init__(self, kernel: N.Kernel, task: N.Offload, wanted: set[int], scale: Sequence[int]) -> None:
        super().__init__(kernel, wanted, task.body)
        self.task, self.scale = task, scale
        self.free: dict[tuple[Any, ...], int] = {}
        self.touched: dict[int, dict[tuple[int, ...], list[tuple[int, ...]]]] = {i: {} for i in wanted}
        self.bounds = {s.id for s in walk(task.bounds)}
        self.iterations = self.run_task(task)

    def unknown(self, what: tuple[Any, ...]) -> int:
        return self.free.setdefault(what, self.scale[len(self.free) % len(self.scale)])

    def load(self, s: N.Load) -> int | None:
        assumed = s.id in self.bounds and s.type.is_int
        return self.unknown(("load", s.buffer, s.index)) if assumed else None

    def sees_assert(self, s: N.Assert) -> None:
        if self.env.get(s.cond) == 0:
            raise Ended

    def sees_access(self, s: N.Access) -> None:
        if s.id not in self.touched:
            return
        at = tuple([int(v) for i in s.index if (v := self.env.get(i)) is not None])
        if len(at) < len(s.index) or not self.is_inside(s.buffer, at):
            return
        iterations = self.touched[s.id].setdefault(at, [])
        if len(iterations) < 2 and self.here not in iterations:
            iterations.append(self.here)

    def is_inside(self, buffer: str, at: tuple[Any, ...]) -> bool:
        return all(0 <= i < (self.extent(buffer, n) or 0) for n, i in enumerate(at))

    def race(self, pairs: Iterable[tuple[Access, Access]]) -> Race | None:
        """A race by one of the pairs of accesses, or None."""
        for write, other in pairs:
            ours, theirs = self.touched[write.stmt.id], self.touched[other.stmt.id]
            for element in sorted(ours.keys() & theirs.keys()):
                for first, second in product(ours[element], theirs[element]):
                    if first != second:
                        assert isinstance(write.stmt, N.Write)
                        return Race(write.stmt, other.stmt, element, first, second, self.task)
        return None


def error(race: Race) -> QuadrantsCompilationError:
    """The compile-time error for a certain race."""

    def of(iteration: tuple[int, ...]) -> str:
        named = [f"{p.name or 'index'} = {i}" for p, i in zip(race.task.indices, iteration, strict=True)]
        return ", ".join(named)

    at = f"{race.write.buffer}[{', '.join(map(str, race.element)) or 'None'}]"
    does = "read" if race.other.loads else "written"
    labels = [Label(race.write.span, f"{at} is written here where {of(race.first)}")]
    if race.other is race.write:
        labels.append(Label(race.write.span, f"and where {of(race.second)}"))
    else:
        labels.append(Label(race.other.span, f"and {does} here where {of(race.second)}"))
    return QuadrantsCompilationError(
        f"iterations of a parallel loop race for {race.write.buffer}: what it holds depends on which comes first",
        code="QL1706",
        labels=tuple(labels),
        help=RACE_CURE,
    )
