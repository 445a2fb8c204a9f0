"""Keeps the log of a recording: what has happened since memory was last copied.

The log is cut into stretches. A `Stretch` begins with a copy of each memory that its launches use; after that it
has only entries, called notes: which plan was launched with which arguments, and what Python or a Tape wrote in
between. From copies and notes, any launch of the stretch can be repeated (`rebuild`). So a launch needs no copy and
no object of its own: all notes are items of one list. A note is a head, an object that says what follows, and then
values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quadrants_lab.runtime.compile.specialisation import REVERSE
from quadrants_lab.runtime.memory.memory import Head

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.record.noting import Noted
    from quadrants_lab.runtime.session import Session

Array = npt.NDArray[Any]
# (index, values) that were written, or a function that writes to an array
Write = tuple[Any, Any] | Callable[[Array], None]
Version = tuple[int, int]  # a state of a memory: (its serial, its version)


class _Missed(Head):
    step = 2


MISSED = _Missed()  # head of a note that a launch did not happen after all; the versions of memory follow, by serial
# The values in the note of a launch that no closure notes. ``args``: all arguments. ``copies``: name of a buffer ->
# copy, for arrays that other libraries may write to unnoticed; ``left``: for some of these, their content after the
# launch. ``kept``: name of a buffer -> the memory of values that the launch saves for its gradient, or of saved values
# that a gradient reads.
BY_HAND = ("args", "depths", "standing", "replays", "number", "copies", "left", "kept")


MOST_SPARE = 2  # so many free arrays of one shape and dtype are kept for later copies


class Copy(NamedTuple):
    """The content of a memory at a version. ``array``: None if the memory still has that content."""

    memory: Memory
    version: int
    array: Array | None


class Copies:
    """Copies of memory by version. Memory that did not change is copied only once, and arrays of old copies are used
    again. ``held``: bytes of the present copies. ``made``: how many copies were made so far, ``nbytes``: their bytes.
    """

    def __init__(self) -> None:
        self.held = self.made = self.nbytes = 0
        self._known: dict[Version, Array] = {}
        self._spare: dict[Any, list[Array]] = {}

    def __contains__(self, version: Version) -> bool:
        return version in self._known

    def of(self, memory: Memory) -> tuple[Array, bool]:
        """A copy of the memory's present content, and whether the copy was made now."""
        version = memory.serial, memory.version
        known = self._known.get(version)
        if known is not None:
            return known, False
        shape, dtype = memory.operand.shape, np.dtype(memory.dtype.numpy)
        spare = self._spare.get((shape, dtype), [])
        if memory.cleared == memory.version:  # as gradients are when a Tape begins: it takes no memory until it is read
            array = np.zeros(shape, dtype)
        elif spare:  # writing to new pages takes ten times as long as copying
            array = spare.pop()
            np.copyto(array, memory.values())
        else:
            array = memory.copy()
        self.held += array.nbytes
        self._known[version] = self.counted(array)
        return array, True

    def counted(self, array: Array) -> Array:
        """Adds an array that was copied elsewhere to the counts; returns it."""
        self.made += 1
        self.nbytes += array.nbytes
        return array

    def free(self, used: Iterable[Array | None], again: bool) -> None:
        """Drops all copies except those that are ``used``. ``again``: nothing else refers to the dropped copies, so
        their arrays may be used for later copies."""
        kept = {id(array) for array in used}
        for version in [version for version, array in self._known.items() if id(array) not in kept]:
            array = self._known.pop(version)
            self.held -= array.nbytes
            spare = self._spare.setdefault((array.shape, array.dtype), [])
            if again and len(spare) < MOST_SPARE:
                spare.append(array)


class PastLaunch(NamedTuple):
    """One launch of a stretch. ``at``: the index of its note. ``values``: name -> value in the note. ``number`` and
    ``label``: what becomes ``number`` and ``launch`` of its `LaunchRecord`."""

    plan: Plan
    args: tuple[Any, ...]
    values: dict[str, Any]
    at: int
    number: int = 0
    label: int = 0

    def memories(self) -> dict[str, Memory]:
        """Maps the name of each buffer to its memory, except `kept` and arrays that other libraries may write to."""
        copies, used = self.copies, self.plan.memories(self.args)
        return {name: memory for name, memory in used.items() if name not in copies} if copies else used

    @property
    def copies(self) -> dict[str, Array]:
        """Maps the name of a buffer to its content before the launch, for arrays that other libraries may write to
        unnoticed."""
        copies: dict[str, Array] | None = self.values.get("copies")
        if copies is not None or not self.plan.takes_arrays:
            return copies or {}
        slots = zip(self.plan.slots, map(self.values.get, (f"a{n}" for n in range(len(self.args)))), strict=True)
        return {slot.name: value[0] for slot, value in slots if isinstance(value, tuple)}

    @property
    def kept(self) -> dict[str, Memory]:
        """Maps the name of a buffer to the memory of values that the launch saves for its gradient, or of saved values
        that a gradient reads."""
        kept: dict[str, Memory] | None = self.values.get("kept")
        return {name: self.values[f"kept {name}"] for name in self.plan.scratch.keeps} if kept is None else kept


@dataclass(slots=True, eq=False)
class Stretch:
    """A stretch of the log, from one copy of memory to the next. ``events``: the items of all notes. ``base``:
    serial of a memory -> its copy. ``kept``: copies of values that launches before the stretch have saved for
    gradients, since their memory has no versions; values that are saved within the stretch have memory with its
    ``mark``. ``hook``: see `Memory.recorded`. ``heads``: the heads of notes that have all arguments of a launch.
    ``by_closure``: the plans whose closures note launches. They stop when ``late`` has an item, which means that
    the stretch should end because it is ``due``. ``seconds``: index of a note -> seconds of the launch, if it was
    timed; ``firsts``: the first launches of their plans. ``cost``: seconds that the recording took; ``copied``:
    bytes that it copied. ``taped``: a Tape made some of the launches.

    Set when the stretch has ended: ``took``: its seconds. ``wrote``: bytes of the memory that its launches wrote.
    ``first``: the index of its first launch, and how many launches that are no gradients came before; ``next``: the
    same for the next stretch. ``owners``: the kernels of its launches. ``labels``: labels of its launches, if it is
    ``taped``. ``before``: for kernels whose gradients are launched by hand, the label of their last launch before the
    stretch, or before its end if it is ``taped``. ``ends``: the versions of memory. ``returned``: index of a note ->
    what the launch returned, if it is the last one of its plan. ``detached``: the last launch cannot be repeated, and
    left memory as in ``left``; ``failed``: because it failed. ``first_elements``: stand for copies for which there was
    no room; the launch left ``versions_left``.
    """

    session: Session
    began: float
    events: list[Any] = field(default_factory=list)
    base: dict[int, Copy] = field(default_factory=dict)
    kept: dict[int, Copy] = field(default_factory=dict)
    mark: object = field(default_factory=object)
    serial: int = field(default_factory=count(1).__next__)
    due: float = inf
    late: list[bool] = field(default_factory=list)
    hook: Any = None
    heads: dict[Noted, tuple[Any, ...]] = field(default_factory=dict)
    by_closure: set[Plan] = field(default_factory=set)
    seconds: dict[int, float] = field(default_factory=dict)
    firsts: set[int] = field(default_factory=set)
    cost: float = 0.0
    copied: int = 0
    taped: bool = False
    wrote: int = 0
    took: float = 0.0
    first: tuple[int, int] = 0, 0
    next: tuple[int, int] = 0, 0
    owners: set[Dispatcher] = field(default_factory=set)
    labels: list[int] = field(default_factory=list)
    before: dict[Dispatcher | None, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    detached: bool = False
    failed: bool = False
    left: dict[Version, Array] = field(default_factory=dict)
    returned: dict[int, dict[str, Any]] = field(default_factory=dict)
    first_elements: dict[str, Array] | None = None
    versions_left: dict[str, int] = field(default_factory=dict)

    def kept_at(self, at: int = -1) -> int:
        """Stands for a version, for values that a launch saved for its gradient. ``at``: the index of the launch's
        note; -1 for values from before all launches."""
        return -((self.serial << 32) + at + 1)

    def note(self, head: Noted, *values: Any) -> None:
        self.events.extend((head, *values))

    def last(self) -> int:
        """The index of the last note, which may be incomplete; -1 if there is none."""
        at = len(self.events) - 1
        while at >= 0 and not isinstance(self.events[at], Head):
            at -= 1
        return at

    def missed(self) -> None:
        """Replaces the last note: there was no such launch, although versions may have grown."""
        del self.events[self.last() :]
        self.events += (MISSED, {serial: copy.memory.version for serial, copy in self.base.items()})

    def last_launch(self) -> PastLaunch:
        """The last launch of the stretch. If it was interrupted, its note (entry of the log) is completed first."""
        at = self.last()
        self.events += [None] * (at + self.events[at].step - len(self.events))
        return self.launch(at)

    def notes(self) -> Iterator[tuple[int, Any]]:
        """The index and the head of each note."""
        at, end = 0, len(self.events)
        while at < end:
            head = self.events[at]
            yield at, head
            at += head.step

    def launch(self, at: int, number: int = 0, label: int = 0) -> PastLaunch:
        """The launch whose note (entry of the log) has this index."""
        head = self.events[at]
        values = dict(zip(head.names, self.events[at + 1 : at + head.step], strict=True))
        args = values.get("args")
        if args is None:
            found = (values.get(f"a{n}", arg) for n, arg in enumerate(self.heads[head]))
            args = tuple(shown(arg[0]) if isinstance(arg, tuple) else arg for arg in found)
        return PastLaunch(head.plan, args, values, at, number, label)

    def launches(self) -> list[tuple[int, int, int]]:
        """For each launch that is not a repetition by a Tape: the index of its note, its number and its label."""
        found: list[tuple[int, int, int]] = []
        number, label = self.first
        labels, latest = iter(self.labels), dict(self.before)
        backs = {head: head.plan.owner.forward if is_gradient(head.plan) else None for head in self.heads}
        for at, head in self.notes():
            if head not in backs:
                continue
            if self.taped:
                here = next(labels)
            elif (forward := backs[head]) is not None:
                here = latest.get(forward, label + 1)
            else:
                here = label = latest[head.plan.owner] = label + 1
            if here:
                found.append((at, number, here))
                number += 1
        return found

    def end(
        self, first: tuple[int, int], labels: dict[Version, int], last: Mapping[Dispatcher | None, Stretch]
    ) -> None:
        """Gives launches their numbers and labels. ``labels``: (session, launch number) -> label, for launches under a
        Tape; more are added. ``last``: kernel -> the stretch with its last launch before this one."""
        self.first = first
        self.ends = {serial: copy.memory.version for serial, copy in self.base.items()}
        counts = Counter(head for _, head in self.notes())  # `list.count` would compare each note with each head
        self.heads = {head: args for head, args in self.heads.items() if counts[head]}
        self.wrote = sum(counts[head] * sum(m.operand.nbytes for m in head.plan.written(args))
                         for head, args in self.heads.items())  # fmt: skip
        for plan in {head.plan for head in self.heads if head.plan.compiled.returns}:
            self.returned[self._last_of(plan)] = {name: plan.frame.ret(name) for name in plan.compiled.returns}
        self.taped |= any(head.under_tape for head in self.heads)
        for head in self.heads:
            forward = head.plan.owner.forward
            if is_gradient(head.plan) and forward in last:
                self.before[forward] = last[forward].label_of_last(forward)
        if self.taped:
            self._count(labels)
        else:
            self.owners = {head.plan.owner for head in self.heads}
            launches = sum(counts[head] for head in self.heads)
            self.next = first[0] + launches, first[1] + sum(counts[h] for h in self.heads if not is_gradient(h.plan))

    def _count(self, known: dict[Version, int]) -> None:
        """Finds the labels of launches that a Tape made."""
        (number, label), latest, session = self.first, self.before, self.session.serial
        places = {head: (is_gradient(head.plan), head.plan.owner, head.place("replays"), head.place("number"))
                  for head in self.heads}  # fmt: skip
        for at, head in self.notes():
            if head not in places:
                continue
            back, owner, replays, drew = places[head]
            of = self.events[at + replays] if replays else 0
            if back:
                here = (known.get((session, of), 0) if of else latest.get(owner.forward, 0)) or label + 1
            elif of:
                here = 0
            else:
                here = label = latest[owner] = label + 1
                if drew:
                    known[session, self.events[at + drew]] = here
            if here:
                number += 1
                self.owners.add(owner)
            self.labels.append(here)
        self.next = number, label

    def label_of_last(self, owner: Dispatcher | None) -> int:
        """The label of the last launch of a kernel."""
        if self.taped:
            return self.before[owner]
        until = self.events[: max(self._last_of(h.plan) for h in self.heads if h.plan.owner is owner) + 1]
        return self.first[1] + sum(until.count(head) for head in self.heads if not is_gradient(head.plan))

    def _last_of(self, plan: Plan) -> int:
        """The index of the plan's last note."""
        heads = [head for head in self.heads if head.plan is plan]
        at = len(self.events) - 1
        while not any(self.events[at] is head for head in heads):
            at -= 1
        return at


def is_gradient(plan: Plan) -> bool:
    return plan.compiled.mode == REVERSE


def shown(arg: Any) -> Any:
    """An argument in the form in which a record shows it. Arrays of other libraries are among the record's inputs."""
    return f"<numpy {arg.dtype} {arg.shape}>" if isinstance(arg, np.ndarray) else arg


def write(how: Write, array: Array) -> None:
    if isinstance(how, tuple):
        array[how[0]] = how[1]
    else:
        how(array)
