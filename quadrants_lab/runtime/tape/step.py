"""Defines what a Tape records: steps, segments of steps that are recomputed, and the rows of its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.regions import Region, add, common, contains, minus, overlap, whole
from quadrants_lab.errors import Label, render
from quadrants_lab.ir.show import unprinted
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import of_kind
from quadrants_lab.runtime.memory.identity import memory_at
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.parts import Account, CellPart, Hold, Part, box, bytes_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.frames import KeptBuffers
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.access_summary import AccessSummary
    from quadrants_lab.runtime.tape.tracked import PendingWrite


# boxes are kept separate up to this number, because a box around several of them would have other elements, too
MANY = 1 << 30


@dataclass(frozen=True, slots=True)
class Uses:
    """How a launch uses a memory: the memory's serial, and its name in the first kernel that used it; in a report, a
    name that no other memory has, and how many bytes the Tape ``kept`` of the values that the launch overwrote."""

    serial: int
    name: str
    reads: bool
    writes: bool
    differentiable: bool
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Unclear:
    """Elements that a call overwrote, although its kernels store them only if the data say so. ``grad``: the memory of
    their adjoints; ``box``: a box around them, and ``changed``: which elements of the box they are; ``plan`` and
    ``buffer``: the launch that stored them, and the kernel's name for them."""

    grad: Memory
    box: Region
    changed: npt.NDArray[np.bool_]
    plan: Plan
    buffer: str

    def adjoints(self) -> npt.NDArray[Any]:
        """Their adjoints, and 0 for the other elements of the box."""
        return np.where(self.changed, part(self.grad, self.box), 0)


def part(memory: Memory, box: Region) -> npt.NDArray[Any]:
    """A copy of the elements of the box."""
    return np.array(memory.part(tuple(slice(*ends) for ends in box)))


@dataclass(slots=True)
class Step:
    """Something that changed memory: a launch, a call of a function with a custom gradient, or writes from Python.

    ``gradient``: a function that runs its derivative, unless ``summary`` does. ``repeat``: a function that repeats the
    step (None: another step does). ``changes``: overwritten values that gradients of earlier steps read; ``by_data``:
    boxes in which the launch overwrote elements that only the data decided. ``launch``: (plan, arguments, number), with
    the summary ``known``. ``inner``: it is a launch within a function with a custom gradient, whose call is a later
    step; that step has ``call``: the function, and the serials of the memory that its Python code accessed; and
    ``ends`` and ``unclear``: see `custom_ends`. ``write``: the memory that Python wrote to, and (index into the array,
    values) of each write. ``kept``: buffers that the launch saved for its gradient, of ``own`` bytes. ``cost``: bytes
    of the ``changes``, if the step is in no segment. ``number``: the index in the program, set if there are segments.
    ``what``: the report's name for a step that is no launch, or whose launch is forgotten; ``uses``: what such a launch
    used.
    """

    gradient: Callable[[], None] | None = None
    repeat: Callable[[], object] | None = None
    changes: list[Part] = field(default_factory=list)
    launch: tuple[Plan, tuple[Any, ...], int] | None = None
    write: tuple[Memory, list[tuple[Any, Any]]] | None = None
    known: AccessSummary | None = None
    kept: KeptBuffers = field(default_factory=dict)
    holds: list[Hold] = field(default_factory=list)
    own: int = 0
    cost: int = 0
    number: int = -1
    inner: bool = False
    by_data: list[tuple[Memory, Region]] = field(default_factory=list)
    call: tuple[Any, frozenset[int]] | None = None
    ends: Boxes = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)
    what: str = "Python"
    uses: tuple[Uses, ...] = ()

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of the step's launch."""
        assert self.launch is not None
        return self.launch[1]

    @property
    def summary(self) -> AccessSummary | None:
        """The summary of a launch that can be repeated on the same memory; None for any other step."""
        known = self.known
        return None if known is None or self.inner or not known.recomputable else known

    @property
    def recomputable(self) -> bool:
        return self.write is not None or self.summary is not None

    @property
    def differentiates(self) -> bool:
        return self.gradient is not None or ((summary := self.summary) is not None and summary.reverse is not None)

    @property
    def nbytes(self) -> int:
        """How many bytes are saved for this step alone."""
        return (self.own if self.kept else 0) + sum(part.nbytes for part in self.changes)

    def leaves(self) -> Iterator[Step]:
        yield self

    def bare(self) -> Step:
        """A copy of the step without saved values."""
        written = self.write is not None
        gradient, holds = (self.gradient, self.holds) if written else (None, [])
        step = Step(gradient, self.repeat, [], self.launch, self.write, self.known, {}, holds)
        step.own, step.cost, step.number = self.own, self.cost, self.number
        return step

    def overwrites(self) -> Iterator[tuple[Memory, Region]]:
        """Boxes around the elements that the step writes when it is repeated."""
        if self.write is not None:
            memory, elements = self.write
            for where, _ in elements:
                yield memory, box(where, memory.operand.shape) or whole(memory.operand.shape)
        elif (summary := self.summary) is not None:
            for _, place, footprint, _ in summary.writes:
                if footprint is not None:
                    yield memory_at(place, self.args), footprint.of(self.args)

    def reads(self, own: bool) -> Iterator[tuple[Memory, Region]]:
        """Boxes around the elements that the step reads when it is repeated (``own``), or that its gradient reads."""
        if (summary := self.summary) is not None:
            for _, place, elements in summary.own_reads if own else summary.reads:
                yield memory_at(place, self.args), elements(self.args)


def called(step: Step, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Makes the step a call of a function with a custom gradient."""
    step.gradient, step.repeat = partial(function.grad, *args, **kwargs), partial(function.fn, *args, **kwargs)


def uses(step: Step, names: Mapping[int, str]) -> tuple[Uses, ...]:
    """What a step uses. ``names``: id of a memory -> its name in the first kernel that used it."""
    if step.launch is None:
        memory = None if step.write is None else step.write[0]
        named = () if memory is None else (Uses(memory.serial, names.get(id(memory), "a field"), False, True, False),)
        return step.uses or named
    plan, args, _ = step.launch
    return tuple([
        Uses(memory.serial, names.get(id(memory), buffer), buffer in plan.reads, buffer in plan.writes,
             plan.gradient_of(buffer, args) is not None)
        for buffer, memory in plan.memories(args).items()
    ])  # fmt: skip


def launch_gradient(
    reverse: Plan, args: tuple[Any, ...], number: int, kept: KeptBuffers, ours: bool = False
) -> None:
    """Launches the gradient of launch ``number``. ``kept``: the buffers that the launch saved. ``ours``: no other
    library shares any of the memory, and nobody observes launches."""
    gradient = reverse.owner
    with reverse.session.lock:  # another thread may differentiate launches of the same kernel
        gradient.replays, gradient.kept = number, kept
        try:
            if ours:
                gradient.note(reverse)
            if not ours or reverse.call(*args) is NotImplemented:
                gradient.launch_by(reverse, args)
        finally:
            gradient.replays, gradient.kept = 0, None


def again(
    launch: Callable[[Plan, tuple[Any, ...]], Any], plan: Plan, args: tuple[Any, ...], number: int,
    quiet: bool = False, keep: bool = False,
) -> KeptBuffers:
    """Repeats launch ``number`` with the same random draws; the repetition does not count as the kernel's last launch.
    ``launch``: the function that launches, with observers or without. ``quiet``: discard what the kernel prints.
    ``keep``: return what the launch saved for its gradient."""
    # a gradient that the program launches belongs to the program's own last launch, not to a repeated one
    last = plan.last_launch
    with plan.session.lock, unprinted() if quiet else nullcontext():
        try:
            plan.frame.replay(number)
            plan.owner.replays = number
            launch(plan, args)
            return plan.scratch.take() if keep else {}
        finally:
            plan.frame.replay(0)
            plan.owner.replays = 0
            plan.last_launch = last


@dataclass(slots=True)
class Segment:
    """Consecutive steps that save nothing themselves: the backward pass runs them again, from the memory before the
    first of them.

    ``changes``: the values before the first step of everything that the steps overwrite and that they, or gradients of
    earlier steps, read. ``saved``: id of a memory -> the boxes of these values. ``by_hand``: the user marked the
    segment. ``cost``: the sum of its steps' costs; the next launch joins the segment as long as this is less than
    ``until``.
    """

    steps: list[Step | Segment] = field(default_factory=list)
    changes: list[Part] = field(default_factory=list)
    by_hand: bool = False
    saved: dict[int, list[Region]] = field(default_factory=dict)
    cost: int = 0
    until: int = 0

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.changes)

    @property
    def recomputable(self) -> bool:
        return True

    @property
    def own(self) -> int:
        """The most bytes that one of its launches saves for its own gradient."""
        return max((step.own for step in self.leaves()), default=0)

    def missing(self, memory: Memory, region: Region) -> list[Region]:
        """Boxes with those elements of the region that are not saved yet."""
        saved = self.saved.get(id(memory))
        return minus(region, saved) if saved else [region]

    def keep(self, part: Part) -> None:
        """Adds a saved part. If some of its elements are saved already, their older values count."""
        if part.region is not None:
            add(self.saved.setdefault(id(part.memory), []), part.region, most=MANY)
        self.changes.append(part)

    def join(self, item: Item, account: Account) -> None:
        """Appends a step or segment, which follows this one, to this segment. What the item has saved is dropped."""
        self.cost += item.cost
        self.by_hand, self.until = False, 0
        parts, item.changes = item.changes[::-1], []
        if isinstance(item, Step):
            self.steps.append(item.bare())
            item.kept, item.holds = {}, []
        else:
            self.steps += item.steps
        while parts:
            self.take(parts.pop(), account)

    def take(self, part: Part, account: Account) -> None:
        """Saves those elements of ``part``, which was saved before a later step, that this segment has not saved. The
        account may have no room left for copies."""
        memory, region = part.memory, part.region
        missing = None if region is None else self.missing(memory, region)
        if missing == []:
            return
        if region is not None and missing is not None and missing != [region] and not isinstance(part, CellPart):
            others = [(p, p.region) for p in self.changes if p.memory is memory]
            inside = [p for p, r in others if r is not None and contains(region, r) and part.absorbs(p)]
            if len(inside) == sum(r is None or overlap(r, region) for _, r in others):
                # for an element that was saved twice, the value saved first is restored last
                for older in reversed(inside):
                    part.absorb(older)
                self.changes = [p for p in self.changes if p not in inside]
            elif len(missing) == 1 and part.shrink(missing[0]):
                pass
            elif account.fits(sum(bytes_of(memory, piece, account) for piece in missing)):
                for piece in missing:
                    self.keep(part.cut(piece, account))
                return
        self.keep(part)

    def leaves(self) -> Iterator[Step]:
        for item in self.steps:
            yield from item.leaves()


Item = Step | Segment
Boxes = list[tuple[Memory, Region]]


class Reads:
    """Collects boxes (ranges along each axis) around the elements that were read, by the id of the memory.
    ``grown``: how often the boxes grew."""

    def __init__(self) -> None:
        self.boxes: dict[int, list[Region]] = {}
        self.grown = 0

    def add(self, places: Iterable[tuple[Memory, Region]]) -> None:
        for memory, region in places:
            boxes = self.boxes.setdefault(id(memory), [])
            if not any(contains(known, region) for known in boxes):
                add(boxes, region)
                self.grown += 1

    def of(self, places: Iterable[tuple[Memory, Region]]) -> Boxes:
        """Boxes with the elements of these places that were read."""
        found = ((memory, common(region, self.boxes.get(id(memory), ()))) for memory, region in places)
        return [(memory, region) for memory, region in found if region is not None]


def overwritten(items: Iterable[Item], own: bool) -> Iterator[Boxes]:
    """For each item, boxes around the elements that it overwrites and that were read since the first item: by
    gradients, and with ``own`` also by the launches themselves."""
    reads = Reads()
    known: dict[AccessSummary | None, tuple[int, Boxes]] = {}  # for launches that all access the same elements
    for item in items:
        found: Boxes = []
        for step in item.leaves():
            summary = step.summary
            grown, boxes = known.get(summary, (-1, []))
            if grown != reads.grown:
                if own or step is not item:
                    reads.add(step.reads(own=True))
                boxes = reads.of(step.overwrites())
                if summary is not None and not (summary.arrays or summary.scalars):
                    known[summary] = reads.grown, boxes
                reads.add(step.reads(own=False))
            found += boxes
        yield found


def state(items: Iterable[Item]) -> Boxes:
    """What must be saved to run the items again: boxes that do not overlap."""
    found: dict[int, tuple[Memory, list[Region]]] = {}
    for memory, region in chain.from_iterable(overwritten(items, own=True)):
        boxes = found.setdefault(id(memory), (memory, []))[1]
        for piece in minus(region, boxes):
            add(boxes, piece, most=MANY)
    return [(memory, region) for memory, regions in found.values() for region in regions]


def restored(items: Sequence[Item], gradients: AbstractSet[int] = frozenset()) -> tuple[list[Part], Boxes]:
    """What a backward pass over the items changes: saved parts that are no boxes, and boxes around the other elements.
    Elements that only one step overwrites are left out, because they have their value again when the step has been run
    again. ``gradients``: ids of memory to leave out."""
    found: dict[int, tuple[Memory, list[Region]]] = {}
    once: dict[int, list[Region]] = {}
    others: list[Part] = []
    known = all(item.recomputable for item in items)  # whether it is known which elements are written
    for item in items:
        for part in item.changes:
            if part.region is None:
                others.append(part)
            else:
                add(found.setdefault(id(part.memory), (part.memory, []))[1], part.region)
    for item in items if any(of_kind(items, Segment)) else ():
        for step in item.leaves():
            for memory, region in step.overwrites():
                before = once.setdefault(id(memory), [])
                again = common(region, before) if known else region if isinstance(item, Segment) else None
                if again is not None and id(memory) not in gradients:
                    add(found.setdefault(id(memory), (memory, []))[1], again)
                add(before, region)
    return others, [(memory, region) for memory, regions in found.values() for region in regions]


@dataclass(slots=True)
class Kept:
    """A row of the report on saved values: the kernel ``writer`` (or "Python") overwrote values of ``name`` at
    ``written``, which the gradient of ``reader`` reads at ``read``."""

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
        """Text and labels for the error that there is no room for these values."""
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


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row of the report for a step. ``what``: the kernel, or "Python" for writes from Python. ``bytes``: how many
    were saved for this step alone. ``stretch``: its index in the report's stretches, -1 if it is in none. ``times``:
    how often it was recomputed. ``why``: why it was saved or recomputed. ``uses``: what it reads and writes."""

    what: str
    bytes: int
    stretch: int
    times: int
    why: str
    uses: tuple[Uses, ...] = ()


class Pending(NamedTuple):
    """A launch that is about to start. ``into``: the segment that saves what it overwrites, None if its step does. That
    would be ``cost`` bytes. ``hold``: for what the launch keeps itself, if its size is known already. ``began`` and
    ``ended``: when, if that is wanted."""

    writes: list[PendingWrite]
    into: Segment | None
    cost: int
    hold: Hold | None
    began: float = 0.0
    ended: float = 0.0
