"""Makes the report of a Tape: what it saved, what it recomputed, and why. It has one row for each step, in the
order of the program.

Its text counts steps and stretches from 1, as launches are counted everywhere; its data have indices from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from quadrants_lab.runtime.tape.program_graph import ProgramGraph, program_graph
from quadrants_lab.runtime.tape.step import Kept, Segment, Step, StepRow, Uses, uses
from quadrants_lab.runtime.tape.timeline import Ran, Tracing
from quadrants_lab.runtime.tape.tracked import Tracked

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.keeper import Keeper


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the program: ``steps`` steps, from index ``first`` on, that were recomputed together. ``bytes``:
    the size of the memory saved from before them."""

    first: int
    steps: int
    bytes: int
    by_hand: bool


@dataclass(slots=True)
class Report:
    """The report of a Tape. ``budget``: in bytes, None if there was none. ``kept_bytes``: the most bytes that were
    saved at a time. ``made_again``: how many steps were recomputed. ``at_end``: whether all steps were run once
    more after the last gradient, because there was no room for a copy of the final memory. ``ran``: the launches
    and gradients with their times, if they were timed. In a notebook `widgets.timeline` shows it."""

    budget: int | None = None
    kept_bytes: int = 0
    made_again: int = 0
    steps: list[StepRow] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    at_end: bool = False
    ran: list[Ran] = field(default_factory=list)

    def why(self) -> str:
        """Says in a sentence why steps were recomputed, or why none were."""
        by_hand = sum(s.by_hand for s in self.stretches)
        if not self.stretches:
            kept = "what gradients read and later steps overwrite is kept"
            return kept if self.kept_bytes else "no step overwrites what gradients read"
        if self.budget is None:
            return f"qd.ad.checkpoint marks {by_hand} stretches, which keep only where they begin"
        more = f", {by_hand} of them by qd.ad.checkpoint" if by_hand else ""
        more += "; in the end all steps are, to leave memory as it was" if self.at_end else ""
        return f"to keep all would take more than the budget, so {len(self.stretches)} stretches are run again{more}"

    def kept(self) -> str:
        """What was saved and recomputed, in numbers."""
        return f"at most {self.kept_bytes:,} bytes kept, {_steps(self.made_again)} run again"

    def title(self) -> str:
        """How many steps there were, what was saved and recomputed, and the budget."""
        budget = "" if self.budget is None else f", budget {self.budget:,} bytes"
        return f"{_steps(len(self.steps))}: {self.kept()}{budget}"

    def program(self) -> ProgramGraph:
        """Fields and launches of the program as a graph, with repeated launches folded."""
        return program_graph(self.steps)

    def __str__(self) -> str:
        budget = "no budget" if self.budget is None else f"a budget of {self.budget:,} bytes"
        lines = [f"{_steps(len(self.steps))} under {budget}: {self.kept()}" if self.steps else self.kept(), self.why()]
        for n, s in enumerate(self.stretches, 1):
            times = [row.times for row in self.steps[s.first : s.first + s.steps]]
            often = "once" if max(times) == 1 else f"{min(times)} to {max(times)} times"
            where = f"steps {s.first + 1} to {s.first + s.steps}, from {s.bytes:,} bytes"
            lines.append(f"  stretch {n}: {where}; each run again {often}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


class Result(NamedTuple):
    """What a Tape reports about its last gradient: a function that makes the report, the most bytes that were saved
    at a time, how many launches and writes from Python ran again, and what was saved, most bytes first."""

    report: Callable[[], Report] = Report
    kept_bytes: int = 0
    made_again: int = 0
    kept: Sequence[Kept] = ()


NO_RESULT = Result()


def _steps(n: int) -> str:
    return f"{n} step{'s' * (n != 1)}"


Rows = tuple[list[StepRow], list[Stretch]]


def rows(launches: Keeper) -> Callable[[], Rows]:
    """Returns a function that makes the rows of the steps as they are now, as if none had run again. Without a budget,
    the function refers to the steps until it is called."""
    items, tracked, first, names = list(launches.steps), launches.tracked, launches.names, _Names()
    known: dict[Any, tuple[Uses, ...]] = {}

    @cache
    def listed() -> Rows:
        found: Rows = [], []
        for item in items:
            stretch, why, leaves = -1, "", list(item.leaves())
            if isinstance(item, Segment):
                stretch, size = len(found[1]), item.nbytes
                found[1].append(Stretch(len(found[0]), len(leaves), size, item.by_hand))
                by = "qd.ad.checkpoint" if item.by_hand else "the budget"
                why = f"in stretch {stretch + 1}, which {by} lets begin again from {size:,} bytes"
            for leaf in leaves:
                what = leaf.launch[0].kernel.name if leaf.launch is not None else leaf.what
                own = leaf.nbytes if stretch < 0 else 0
                used = _used(leaf, first, names, known)
                found[0].append(StepRow(what, own, stretch, 0, why or _why(leaf, tracked), used))
        items.clear()
        known.clear()
        return found

    if launches.memory is not None:
        listed()
    return listed


class _Names:
    """A name for each memory: its name in the first kernel that used it, with a number if another memory has that name.
    """

    def __init__(self) -> None:
        self.known: dict[int, str] = {}  # serial -> name
        self.taken: set[str] = set()

    def of(self, serial: int, name: str) -> str:
        if serial not in self.known:
            numbered = (name, *(f"{name} ({n})" for n in range(2, len(self.taken) + 3)))
            self.known[serial] = next(n for n in numbered if n not in self.taken)
            self.taken.add(self.known[serial])
        return self.known[serial]


def _used(
    step: Step, first: Mapping[int, str], names: _Names, known: dict[Any, tuple[Uses, ...]]
) -> tuple[Uses, ...]:
    """What a step uses, with names that are unique, and what was saved of it. ``known``: plan -> the same without what
    was saved, for plans that use the same memory in each launch."""
    plan = None if step.launch is None or step.launch[0].takes_arrays else step.launch[0]
    if plan not in known or plan is None:
        known[plan] = tuple([replace(use, name=names.of(use.serial, use.name)) for use in uses(step, first)])
    used, kept = known[plan], Counter[int]()
    for part in step.changes:
        kept[part.memory.serial] += part.nbytes
    if step.kept:  # the launch itself saved values that it overwrites
        kept.update({use.serial: step.own for use in [use for use in used if use.writes][:1]})
    return tuple([replace(use, kept=kept[use.serial]) for use in used]) if kept else used


def timed(tracing: Tracing, report: Callable[[], Report]) -> Report:
    """The report with times. A repeated program holds everything that it saves from the beginning on, so the bytes held
    at a launch are computed as the sum over the steps up to it."""
    found = report()
    sums = list(accumulate(row.bytes for row in found.steps))
    ran = (replace(x, kept=sums[x.of]) if isinstance(x.of, int) and x.of < len(sums) else x for x in tracing.ran)
    return replace(found, ran=list(ran))


def report(launches: Keeper) -> Callable[[], Report]:
    """Returns a function that makes the report of the last backward pass."""
    numbers = launches.memory, launches.account.most, launches.made_again
    at_end, listed, times = launches.at_end, launches.rows, dict(launches.recomputed_times)

    @cache
    def made() -> Report:
        steps, stretches = listed()
        rows = [replace(row, times=times[n]) if n in times else row for n, row in enumerate(steps)]
        return Report(*numbers, rows, stretches, at_end)

    return made if launches.tracing is None else cache(partial(timed, launches.tracing, made))


def _why(step: Step, tracked: dict[int, Tracked]) -> str:
    """Which values the step saves, and for which gradient."""
    reasons = []
    for key in dict.fromkeys(id(part.memory) for part in step.changes):
        known = tracked.get(key)
        if known is not None:
            line = f" at line {known.span.line}" if known.span is not None else ""
            reader = f", which the gradient of {known.reader} reads{line}" if known.reader else ""
            reasons.append(f"it overwrites {known.name}{reader}")
    if step.kept:
        reasons.append("it overwrites what its own gradient reads")
    return "; ".join(reasons) or "it overwrites nothing that a gradient reads"
