"""Makes the graph of a program under a Tape, as data: fields and launches, what each launch reads and writes, and
what the Tape saved of a field because a launch overwrote it. Repeated launches are folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.step import StepRow

LONGEST = 16  # the longest pattern, in steps, that is searched for


@dataclass(frozen=True, slots=True)
class Fold:
    """A pattern that is drawn once: ``length`` launches, from index ``first`` on, that are repeated ``times``
    times."""

    first: int
    length: int
    times: int


@dataclass(slots=True)
class LaunchNode:
    """A launch, or several that are folded: ``steps`` are their indices in the report. ``what``: the kernel, or
    "Python". ``again``: how often they were recomputed, in all."""

    what: str
    steps: list[int] = field(default_factory=list)
    again: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """A launch (an index) reads or writes a field. ``kept``: how many bytes the Tape saved of the field's overwritten
    values. ``differentiable``: a derivative flows back along this edge."""

    launch: int
    field: str
    writes: bool
    kept: int
    differentiable: bool


@dataclass(slots=True)
class ProgramGraph:
    """The graph of a program. ``fields``: name -> whether it has a gradient."""

    launches: list[LaunchNode] = field(default_factory=list)
    fields: dict[str, bool] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)


def program_graph(rows: Sequence[StepRow]) -> ProgramGraph:
    """Makes the graph of the steps in a Tape's report."""
    graph, keys = ProgramGraph(), [(row.what, [(u.name, u.reads, u.writes) for u in row.uses]) for row in rows]
    for first, length, times in _repeats(keys):
        at = len(graph.launches)
        if times > 1:
            graph.folds.append(Fold(at, length, times))
        for n in range(length):
            steps = list(range(first + n, first + length * times, length))
            graph.launches.append(LaunchNode(rows[first + n].what, steps, sum(rows[k].times for k in steps)))
            row, kept = rows[first + n], Counter[str]()
            for k in steps:
                kept.update({use.name: use.kept for use in rows[k].uses})
            for writes in (False, True):  # a launch may use a memory under several names
                for name, has in {u.name: u.differentiable for u in row.uses if (u.reads, u.writes)[writes]}.items():
                    graph.fields[name] = graph.fields.get(name, False) or has
                    graph.uses.append(Use(at + n, name, writes, kept[name] if writes else 0, has))
    return graph


def _repeats(keys: Sequence[object]) -> Iterator[tuple[int, int, int]]:
    """Splits the sequence into patterns; for each returns its begin, its length and how often it is repeated. At each
    place the pattern is chosen that covers most of what follows; among equals, the shortest."""
    at = 0
    while at < len(keys):
        best = 1, 1
        for length in range(1, min(LONGEST, (len(keys) - at) // 2) + 1):
            if keys[at] != keys[at + length]:
                continue
            end = at + length
            while end < len(keys) and keys[end] == keys[end - length]:
                end += 1
            times = (end - at) // length
            if times > 1 and times * length > best[0] * best[1]:
                best = length, times
        yield at, *best
        at += best[0] * best[1]
