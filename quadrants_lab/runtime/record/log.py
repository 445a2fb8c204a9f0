"""What a recording notes: what happened since a checkpoint.

A `Stretch` has copies of the memory that its launches use, each from before the first of them, and after that notes
only: which plan was launched with which arguments, and what Python or a Tape wrote in between. From these any launch of
the stretch can be made again (`rebuild`). So a launch costs no copy, and no object: notes are items of one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quadrants_lab.runtime.launch.closure import Noted

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.session import Session

Array = npt.NDArray[Any]
Write = Callable[[Array], None]  # writes to an array of the memory's shape
Version = tuple[int, int]  # of memory: its serial and its version


class Mark(Noted):
    """Heads a note of something else than a launch."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.step = 1 + len(names)


WROTE = Mark("memory", "write")  # Python or a Tape wrote to the memory
MISSED = Mark("versions")  # a launch was not made after all, and left these versions, by serial
# Of a launch that is noted by hand. ``args``: all arguments. ``copies``: by buffer, arrays that others may write to
# unnoticed, ``left``: of some of them, what the launch left. ``kept``: by buffer, the memory of values that it keeps for
# its gradient, or finds.
BY_HAND = ("args", "depths", "standing", "replays", "number", "copies", "left", "kept")


class Copy(NamedTuple):
    """Memory as it was at a version. ``array``: None where it still is so."""

    memory: Memory
    version: int
    array: Array | None


class PastLaunch(NamedTuple):
    """One launch of a stretch. ``at``: the index of its note. ``values``: by the names of its head. ``number`` and
    ``label``: as ``number`` and ``launch`` of a `LaunchRecord`."""

    plan: Plan
    args: tuple[Any, ...]
    values: dict[str, Any]
    at: int
    number: int = 0
    label: int = 0

    def memories(self) -> dict[str, Memory]:
        """Of all its buffers but `kept`, and those that others may write to."""
        copies, used = self.values.get("copies"), self.plan.memories(self.args)
        return {name: memory for name, memory in used.items() if name not in copies} if copies else used

    @property
    def kept(self) -> dict[str, Memory]:
        """The memory of values that it keeps for its gradient, or finds."""
        kept: dict[str, Memory] | None = self.values.get("kept")
        return {name: self.values[f"kept {name}"] for name in self.plan.scratch.keeps} if kept is None else kept


@dataclass(slots=True, eq=False)
class Stretch:
    """``due``: the time when it should end; then ``late`` gets an item, and the closures of plans, which look at it, note
    no more launches. ``kept``: the memory of values that launches before it kept for gradients, which have no versions:
    what is kept in the stretch has its ``mark``, and `kept_at`. ``known``: the ids of ``arrays``, which they may be given. ``heads``: of the notes, with all arguments of one
    launch. ``by_closure``: the plans whose closures note launches. ``seconds``: of launches that were timed, by the index of their note. ``cost``: seconds that the recording
    took, ``copied``: bytes that it copied. ``taped``: a Tape made some of the launches.

    When it has ended: ``took``: its seconds, ``wrote``: bytes of the memory that its launches wrote. ``first``: the number of its first launch, and how many launches that are no gradients were
    before it; ``next``: the same for the stretch after it. ``owners``: of its launches. ``labels``: those of its
    launches, where it is ``taped``. ``before``: of kernels whose gradients are launched by hand, the label of the last
    launch before it (where it is ``taped``, before its end). ``ends``: the versions of memory. ``returned``: by the
    index of its note, what the last launch of a plan returned. ``apart``: the last launch cannot be made again, and left
    memory as in ``left``; ``failed``: because it failed. ``first_elements``: in place of copies for which there was no
    room; ``versions_left`` is then what the launch left, by buffer."""

    session: Session
    began: float
    events: list[Any] = field(default_factory=list)
    base: dict[int, Copy] = field(default_factory=dict)
    kept: dict[int, Copy] = field(default_factory=dict)
    mark: object = field(default_factory=object)
    serial: int = field(default_factory=count(1).__next__)
    due: float = inf
    late: list[bool] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    arrays: list[Any] = field(default_factory=list)
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
    before: dict[Dispatcher, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    apart: bool = False
    failed: bool = False
    left: dict[Version, Array] = field(default_factory=dict)
    returned: dict[int, dict[str, Any]] = field(default_factory=dict)
    first_elements: dict[str, Array] | None = None
    versions_left: dict[str, int] = field(default_factory=dict)

    def kept_at(self, at: int = -1) -> int:
        """In place of a version, for the values that a launch kept. ``at``: the index of its note; -1 before all."""
        return -((self.serial << 32) + at + 1)

    def note(self, head: Noted, *values: Any) -> None:
        self.events.extend((head, *values))

    def last(self) -> int:
        """The index of the last note, which need not be complete; -1 without any."""
        at = len(self.events) - 1
        while at >= 0 and not isinstance(self.events[at], Noted):
            at -= 1
        return at

    def missed(self) -> None:
        """Replaces the last note: there was no such launch, though versions may have grown."""
        del self.events[self.last() :]
        self.note(MISSED, {serial: copy.memory.version for serial, copy in self.base.items()})

    def last_launch(self) -> PastLaunch:
        """The last note, filled up if its launch was broken off."""
        at = self.last()
        head = self.events[at]
        self.events += [None] * (at + head.step - len(self.events))
        return self._launch(at, head)

    def _launch(self, at: int, head: Noted) -> PastLaunch:
        values = dict(zip(head.names, self.events[at + 1 : at + head.step], strict=True))
        args = values.get("args")
        if args is None:
            args = tuple(values.get(f"a{n}", arg) for n, arg in enumerate(self.heads[head]))
        return PastLaunch(head.plan, args, values, at)

    def launches(self) -> Iterator[tuple[Noted, list[Any]] | PastLaunch]:
        """What happened, in order. A launch that a Tape repeats has the number of the next launch, and label 0."""
        events, at = self.events, 0
        number, label = self.first
        labels, latest = iter(self.labels), dict(self.before)
        while at < len(events):
            head = events[at]
            if isinstance(head, Mark):
                yield head, events[at + 1 : at + head.step]
            else:
                made = self._launch(at, head)
                if self.taped:
                    here = next(labels)
                elif is_gradient(head.plan):
                    here = latest.get(head.plan.owner.forward, label + 1)
                else:
                    here = label = latest[head.plan.owner] = label + 1
                yield made._replace(number=number, label=here)
                number += here > 0
            at += head.step

    def end(self, first: tuple[int, int], labels: dict[Version, int], last: Mapping[Dispatcher, Stretch]) -> None:
        """Counts the launches. ``labels``: by session and number of launches under a Tape, which grow; ``last``: the
        stretches with each kernel's last launch before this one."""
        self.first = first
        self.ends = {serial: copy.memory.version for serial, copy in self.base.items()}
        counts = {head: self.events.count(head) for head in self.heads}
        self.wrote = sum(n * sum(m.operand.nbytes for m in written(head.plan, self.heads[head]).values())
                         for head, n in counts.items())  # fmt: skip
        self.heads = {head: args for head, args in self.heads.items() if counts[head]}
        for plan in {head.plan for head in self.heads if head.plan.compiled.returns}:
            self.returned[self._last_of(plan)] = {name: plan.frame.ret(name) for name in plan.compiled.returns}
        self.taped |= any({"replays", "number"} <= set(h.names) and "args" not in h.names for h in self.heads)
        for head in self.heads:
            forward = head.plan.owner.forward
            if is_gradient(head.plan) and forward in last:
                self.before[forward] = last[forward].label_of_last(forward)
        if self.taped:
            self._count(labels)
        else:
            self.owners = {head.plan.owner for head in self.heads}
            forward_launches = sum(n for head, n in counts.items() if not is_gradient(head.plan))
            self.next = first[0] + sum(counts.values()), first[1] + forward_launches

    def _count(self, known: dict[Version, int]) -> None:
        """Finds the labels of launches that a Tape made."""
        events, latest, session = self.events, self.before, self.session.serial
        (number, label), at, end = self.first, 0, len(self.events)
        places = {head: (head.step, is_gradient(head.plan), head.plan.owner, head.place("replays"), head.place("number"))
                  for head in self.heads}  # fmt: skip
        while at < end:
            place = places.get(events[at])
            if place is None:
                at += events[at].step
                continue
            step, back, owner, replays, drew = place
            of = events[at + replays] if replays else 0
            if back:
                here = known.get((session, of), 0) if of else latest.get(owner.forward, 0)
                here = here or label + 1
            elif of:
                here = 0
            else:
                here = label = latest[owner] = label + 1
                if drew:
                    known[session, events[at + drew]] = here
            if here:
                number += 1
                self.owners.add(owner)
            self.labels.append(here)
            at += step
        self.next = number, label

    def label_of_last(self, owner: Dispatcher) -> int:
        """The label of the last launch of a kernel."""
        if self.taped:
            return self.before[owner]
        until = self.events[: max(self._last_of(h.plan) for h in self.heads if h.plan.owner is owner) + 1]
        return self.first[1] + sum(until.count(head) for head in self.heads if not is_gradient(head.plan))

    def _last_of(self, plan: Plan) -> int:
        """The index of its last note."""
        heads = [head for head in self.heads if head.plan is plan]
        at = len(self.events) - 1
        while not any(self.events[at] is head for head in heads):
            at -= 1
        return at


def written(plan: Plan, args: tuple[Any, ...]) -> dict[str, Memory]:
    """The memory that a launch writes."""
    return {name: memory for name, memory in plan.memories(args).items() if name in plan.writes}


def is_gradient(plan: Plan) -> bool:
    return plan.owner.mode == "reverse"


def frozen(where: Any, values: Any) -> tuple[Write, int]:
    """A write of Python, which does not change with the arrays that it came from, and the bytes that it holds."""
    if isinstance(where, tuple):
        where = tuple(x.copy() if isinstance(x, np.ndarray) else x for x in where)
    elif isinstance(where, np.ndarray):
        where = where.copy()
    nbytes = 0
    if isinstance(values, np.ndarray):
        values = values.copy()
        nbytes = values.nbytes

    def write(array: Array) -> None:
        array[where] = values

    return write, nbytes
