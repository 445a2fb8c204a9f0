"""What a Tape kept, what it made again, and why: a row a step, in the order of the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadrants_lab.runtime.tape.segments import item_bytes
from quadrants_lab.runtime.tape.step import Segment, Step

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.recorder import Launches


@dataclass(frozen=True, slots=True)
class StepRow:
    """``what``: the kernel, or "Python" for its writes. ``bytes``: kept for this step alone. ``stretch``: which one of
    the report's it belongs to, -1 for none. ``times``: how often it was made again."""

    what: str
    bytes: int
    stretch: int
    times: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that are made again, from the ``first`` on. ``bytes``: of memory as it was before them."""

    first: int
    steps: int
    bytes: int
    by_hand: bool


@dataclass(slots=True)
class Report:
    """``budget``: bytes, None where there was none; ``kept_bytes``: the most at a time; ``made_again``: steps. In a
    notebook `widgets.timeline` shows it.
    """

    budget: int | None = None
    kept_bytes: int = 0
    made_again: int = 0
    steps: list[StepRow] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)

    def why(self) -> str:
        """In a sentence, why steps were made again or were not."""
        by_hand = sum(s.by_hand for s in self.stretches)
        if not self.stretches:
            kept = "what gradients read and later steps overwrite is kept"
            return kept if self.kept_bytes else "no step overwrites what gradients read"
        if self.budget is None:
            return f"qd.ad.checkpoint marks {by_hand} stretches, which keep only where they begin"
        more = f", {by_hand} of them by qd.ad.checkpoint" if by_hand else ""
        return f"to keep all would take more than the budget, so {len(self.stretches)} stretches are made again{more}"

    def __str__(self) -> str:
        budget = "no budget" if self.budget is None else f"a budget of {self.budget} bytes"
        kept = f"at most {self.kept_bytes} bytes kept, {self.made_again} steps made again"
        lines = [f"{len(self.steps)} steps under {budget}: {kept}" if self.steps else kept, self.why()]
        for n, s in enumerate(self.stretches):
            times = [row.times for row in self.steps[s.first : s.first + s.steps]]
            often = "once" if max(times) == 1 else f"{min(times)} to {max(times)} times"
            where = f"steps {s.first} to {s.first + s.steps - 1}, from {s.bytes} bytes"
            lines.append(f"  stretch {n}: {where}; each made again {often}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def report(launches: Launches) -> Report:
    """Of the last way back; steps are listed where some could be made again."""
    made = Report(launches.memory, launches.most, launches.made_again)
    listed = launches.memory is not None or any(isinstance(item, Segment) for item in launches.items)
    for item in launches.items if listed else ():
        stretch, leaves = -1, [item] if isinstance(item, Step) else list(item.leaves())
        if isinstance(item, Segment):
            stretch = len(made.stretches)
            made.stretches.append(Stretch(len(made.steps), len(leaves), item_bytes(item), item.by_hand))
        for leaf in leaves:
            what = leaf.launch[0].kernel.name if leaf.launch is not None else "Python"
            alone = item_bytes(leaf) if stretch < 0 else 0
            made.steps.append(StepRow(what, alone, stretch, launches.times[leaf.number]))
    return made
