"""What a Tape records: steps, segments of steps that are launched again, and what was kept for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from quadrants_lab.errors import Label, render
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.arguments.signature import memory_at
from quadrants_lab.runtime.launch.regions import Region, holds, whole
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.parts import Part

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.launch.scratch import KeptBuffers
    from quadrants_lab.runtime.tape.route import Route


@dataclass(slots=True)
class Step:
    """Something that changed memory: a launch, a function with a gradient of its own, writes from Python.

    ``gradient``: what runs its derivative, where it is not that of ``route``. ``repeat``: does it again (None: another
    step does). ``changes``: parts of memory, as they were, that gradients of earlier steps read. ``launch``: plan,
    arguments and number of a launch; ``write``: the memory that Python wrote to, which elements (indices into the
    array), and what.
    ``within``: such a launch of a function with a gradient of its own, whose step comes after it. ``route``: of a
    launch that can be made again from the same memory. ``kept``: what the launch itself kept for its gradient, ``own``
    bytes; ``cost``: with those that the step keeps of memory, or would if it stood alone. ``number``:
    in the program, where that is asked for.
    """

    gradient: Callable[[], None] | None = None
    repeat: Callable[[], None] | None = None
    changes: list[Part] = field(default_factory=list)
    launch: tuple[Plan, tuple[Any, ...], int] | None = None
    write: tuple[Memory, list[tuple[Any, npt.NDArray[Any]]]] | None = None
    route: Route | None = None
    kept: KeptBuffers = field(default_factory=dict)
    own: int = 0
    cost: int = 0
    number: int = -1
    within: tuple[Plan, tuple[Any, ...], int] | None = None

    @property
    def args(self) -> tuple[Any, ...]:
        """Of its launch."""
        assert self.launch is not None
        return self.launch[1]

    @property
    def can_be_made_again(self) -> bool:
        return self.route is not None or self.write is not None

    @property
    def differentiates(self) -> bool:
        return self.gradient is not None or (self.route is not None and self.route.reverse is not None)

    def bare(self) -> Step:
        """The step without what it keeps."""
        gradient = self.gradient if self.write is not None else None
        return Step(gradient, self.repeat, [], self.launch, self.write, self.route, {}, 0, self.cost, self.number)

    def overwrites(self) -> Iterator[tuple[Memory, Region]]:
        """Boxes around what it writes when it is made again."""
        if self.write is not None:
            yield self.write[0], whole(self.write[0].operand.shape)
        elif self.route is not None:
            for _, place, footprint, _ in self.route.writes:
                if footprint is not None:
                    yield memory_at(place, self.args), footprint.of(self.args)


def launch_gradient(reverse: Plan, args: tuple[Any, ...], number: int, kept: KeptBuffers) -> None:
    """Launches the gradient of the launch with that number, with what that kept."""
    gradient = reverse.owner
    with reverse.session.lock:  # another thread may differentiate launches of the same kernel
        gradient.replays, gradient.kept = number, kept
        try:
            gradient.launch_by(reverse, args)
        finally:
            gradient.replays, gradient.kept = 0, None


@dataclass(slots=True)
class Segment:
    """Steps that keep nothing: on the way back they are made again, from memory as it was before them.

    ``changes``: what they overwrote that they, or steps before them, read; each element as the first of them found it.
    ``start``: the same, where another segment keeps it. ``by_hand``: the user marked them.
    """

    steps: list[Step | Segment] = field(default_factory=list)
    changes: list[Part] = field(default_factory=list)
    start: list[Part] = field(default_factory=list)
    by_hand: bool = False
    saved: dict[int, list[Region]] = field(default_factory=dict)  # by memory

    def begun(self) -> Segment:
        """Another one that begins where this one does: what this one keeps is enough, and not kept twice. What
        was kept first stays in front: it is put back last."""
        return Segment(start=[*self.start, *self.changes], saved={at: list(boxes) for at, boxes in self.saved.items()})

    def holds(self, memory: Memory, region: Region) -> bool:
        """Whether what was there is kept."""
        return any(holds(r, region) for r in self.saved.get(id(memory), ()))

    def keep(self, part: Part) -> None:
        """Keeps what a later one of the steps overwrote."""
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
    """Values that the tape had to keep: ``elements`` of ``name``, which ``writer`` overwrote (a kernel, or Python, at
    ``written``) and the gradient of ``reader`` reads (at ``read``)."""

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
        """For the error where this is too much."""
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
