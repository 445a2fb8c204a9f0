"""What a Tape records: steps, segments of steps that are recomputed, and the report of what was saved for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from quadrants_lab.errors import Label, render
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.arguments.signature import memory_at
from quadrants_lab.runtime.launch.regions import Region, contains, whole
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.parts import Part

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.launch.scratch import KeptBuffers
    from quadrants_lab.runtime.tape.access_summary import AccessSummary


@dataclass(slots=True)
class Step:
    """Something that changed memory: a launch, a function with a custom gradient, or writes from Python.

    ``gradient``: runs its derivative, unless ``summary`` does. ``repeat``: repeats the step (None: another step does).
    ``changes``: overwritten values that gradients of earlier steps read; ``by_data``: the data decided which of them a
    launch overwrote. ``launch``: plan, arguments and number.
    ``inner_launch``: the same of a launch within a function with a custom gradient, whose own step follows. ``write``:
    the memory that Python wrote to, and (index into the array, values) of each write. ``summary``: set for a launch
    that can be repeated on the same memory. ``kept``: buffers that the launch saved for its gradient, ``own`` bytes.
    ``cost``: bytes that the step saves, or would save if it were in no segment. ``number``: position in the program,
    set when there are segments. ``what``: what the report calls a step that is no launch, or is one no more.
    """

    gradient: Callable[[], None] | None = None
    repeat: Callable[[], None] | None = None
    changes: list[Part] = field(default_factory=list)
    launch: tuple[Plan, tuple[Any, ...], int] | None = None
    write: tuple[Memory, list[tuple[Any, npt.NDArray[Any]]]] | None = None
    summary: AccessSummary | None = None
    kept: KeptBuffers = field(default_factory=dict)
    own: int = 0
    cost: int = 0
    number: int = -1
    inner_launch: tuple[Plan, tuple[Any, ...], int] | None = None
    by_data: bool = False
    what: str = "Python"

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of its launch."""
        assert self.launch is not None
        return self.launch[1]

    @property
    def recomputable(self) -> bool:
        return self.summary is not None or self.write is not None

    @property
    def differentiates(self) -> bool:
        return self.gradient is not None or (self.summary is not None and self.summary.reverse is not None)

    def bare(self) -> Step:
        """The step without saved values."""
        gradient = self.gradient if self.write is not None else None
        return Step(gradient, self.repeat, [], self.launch, self.write, self.summary, {}, 0, self.cost, self.number)

    def overwrites(self) -> Iterator[tuple[Memory, Region]]:
        """Boxes around what it writes when it is repeated."""
        if self.write is not None:
            yield self.write[0], whole(self.write[0].operand.shape)
        elif self.summary is not None:
            for _, place, footprint, _ in self.summary.writes:
                if footprint is not None:
                    yield memory_at(place, self.args), footprint.of(self.args)


def launch_gradient(reverse: Plan, args: tuple[Any, ...], number: int, kept: KeptBuffers) -> None:
    """Launches the gradient of launch ``number``; ``kept``: the buffers that the launch saved."""
    gradient = reverse.owner
    with reverse.session.lock:  # another thread may differentiate launches of the same kernel
        gradient.replays, gradient.kept = number, kept
        try:
            gradient.launch_by(reverse, args)
        finally:
            gradient.replays, gradient.kept = 0, None


@dataclass(slots=True)
class Segment:
    """Steps that save nothing: the backward pass recomputes them, from memory as it was before them.

    ``changes``: the values before the first step of all that the steps overwrote and that they or earlier steps read.
    ``start``: the same, if another segment owns them. ``by_hand``: the user marked the segment.
    """

    steps: list[Step | Segment] = field(default_factory=list)
    changes: list[Part] = field(default_factory=list)
    start: list[Part] = field(default_factory=list)
    by_hand: bool = False
    saved: dict[int, list[Region]] = field(default_factory=dict)  # id of a memory -> boxes that are saved

    def begun(self) -> Segment:
        """A segment that begins where this one does and uses its saved values. Those saved first stay first, because
        they are restored last."""
        return Segment(start=[*self.start, *self.changes], saved={at: list(boxes) for at, boxes in self.saved.items()})

    def holds(self, memory: Memory, region: Region) -> bool:
        """Whether the region's old values are saved."""
        return any(contains(r, region) for r in self.saved.get(id(memory), ()))

    def keep(self, part: Part) -> None:
        """Saves what one of the steps overwrote, unless an earlier step did and that is saved."""
        if part.region is None:
            self.changes.append(part)
        elif not self.holds(part.memory, part.region):
            self.changes.append(part)
            self.saved.setdefault(id(part.memory), []).append(part.region)

    def leaves(self) -> Iterator[Step]:
        for item in self.steps:
            if isinstance(item, Segment):
                yield from item.leaves()
            else:
                yield item


Item = Step | Segment


@dataclass(slots=True)
class Kept:
    """A row of the report: values of ``name`` that ``writer`` (a kernel, or "Python") overwrote at ``written`` and that
    the gradient of ``reader`` reads at ``read``."""

    name: str
    reader: str
    writer: str
    read: Span | None
    written: Span | None
    elements: int = 0
    bytes: int = 0

    def labels(self) -> tuple[Label, ...]:
        read = Label(self.read, "read here, and again for the gradient")
        return (Label(self.written, "overwritten here"), *([read] if self.read else []))

    def what(self) -> tuple[str, tuple[Label, ...]]:
        """Text and labels for the error that there is no room for them."""
        return f"{self.name}, which the gradient of kernel {self.reader} reads", self.labels() if self.written else ()

    def __str__(self) -> str:
        return render(
            "QL2100",
            f"the Tape kept {self.elements} value{'s' * (self.elements != 1)} ({self.bytes} bytes) of {self.name}: the "
            f"gradient of {self.reader} reads what {self.writer} overwrote",
            self.labels(),
            "nothing is wrong; write each step to elements of its own to save the memory",
            kind="note",
        )
