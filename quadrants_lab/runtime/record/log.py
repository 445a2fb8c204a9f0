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
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from quadrants_lab.runtime.compile.specialisation import REVERSE
from quadrants_lab.runtime.memory.memory import Head
from quadrants_lab.runtime.record.noting import Noted, of_launch

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile.specialisation import Compiled
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory
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


_serials = count(1)


class RanStep(NamedTuple):
    """A launch of a `Run`. ``at``: the index of its step under the Tape. ``label``: what becomes ``launch`` of its
    `LaunchRecord`. ``began``, ``ended``: when, in seconds."""

    at: int
    plan: Plan
    args: tuple[Any, ...]
    label: int
    began: float
    ended: float


class Run(Head):
    """One note for many launches of a Tape that repeats its last run (`tape.rerun`): those of the Tape's steps from
    ``first`` on, or with ``back`` the gradients of the steps from ``first`` down to 0. ``args`` and ``summaries`` have
    an item for each step of the Tape; ``runs`` has all such notes of the Tape. ``clocks``: when each launch began and
    ended; only a launch that failed has no end. ``label``: the label of the first launch.

    The note is complete as soon as ``late`` has an item, or ``events``, the log, has another ``size``: the next launch
    belongs to another note."""

    step = 1
    __slots__ = (
        "args", "back", "clocks", "events", "first", "label", "late", "runs", "serial", "size", "summaries",
    )  # fmt: skip
    by_serial: WeakValueDictionary[int, Run] = WeakValueDictionary()
    late: list[bool]
    events: list[Any]
    size: int

    def __init__(
        self, args: list[tuple[Any, ...]], summaries: list[Any], runs: list[Run], back: bool, first: int
    ) -> None:
        self.args, self.summaries, self.runs, self.back, self.first = args, summaries, runs, back, first
        self.label, self.clocks, self.serial = 0, list[float](), next(_serials)
        Run.by_serial[self.serial] = self
        runs.append(self)

    def __len__(self) -> int:
        return (len(self.clocks) + 1) // 2

    def number(self, at: int) -> int:
        """Stands for the launch number of step ``at``, if that is one of these launches; otherwise 0."""
        is_one = not self.back and 0 <= at - self.first < len(self)
        return -(self.serial << 32) - at - 1 if is_one else 0

    @staticmethod
    def label_of(number: int) -> int:
        """The label of the launch for which `number` stands; 0 if it is not known."""
        serial, at = divmod(-number - 1, 1 << 32)
        run = Run.by_serial.get(serial)
        return 0 if run is None else run.label + at - run.first

    def plans(self) -> list[Plan]:
        """The plan of each launch."""
        if self.back:
            found = [s.reverse for s in self.summaries[self.first :: -1]]
            return [plan for plan in found if plan is not None][: len(self)]
        return [s.plan for s in self.summaries[self.first : self.first + len(self)]]

    def launches(self) -> list[RanStep]:
        steps = list(range(self.first, self.first + len(self)))
        if self.back:
            steps = [n for n in range(self.first, -1, -1) if self.summaries[n].reverse is not None]
        labels = {run.first + n: run.label + n for run in self.runs if not run.back for n in range(len(run))}
        clocks = [*self.clocks, *self.clocks[-1:]]
        found = zip(steps, self.plans(), clocks[::2], clocks[1::2], strict=False)
        return [RanStep(n, p, self.args[n], labels.get(n, self.label), *times) for n, p, *times in found]


@dataclass(slots=True, eq=False)
class Stretch:
    """``events``: the items of all notes. ``base``: serial of a memory -> its copy. ``kept``: copies of values that
    launches before the stretch have saved for gradients, since their memory has no versions; values that are saved
    within the stretch have memory with its ``mark``. ``hook``: see `Memory.recorded`. ``heads``: the heads of notes
    that have all arguments of a launch. ``by_closure``: the plans whose closures note launches. They stop when ``late``
    has an item, which means that the stretch should end because it is ``due``. ``seconds``: index of a note -> seconds
    of the launch, if it was timed; ``firsts``: the first launches of their plans. ``cost``: seconds that the recording
    took; ``copied``: bytes that it copied. ``taped``: a Tape made some of the launches; ``runs``: its `Run` notes.

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
    runs: list[Run] = field(default_factory=list)
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

    def note_run(self, run: Run) -> None:
        self.taped = True
        self.runs.append(run)
        self.events.append(run)
        run.late, run.events, run.size = self.late, self.events, len(self.events)

    def last(self) -> int:
        """The index of the last note, which may be incomplete; -1 if there is none."""
        at = len(self.events) - 1
        while at >= 0 and not isinstance(self.events[at], Head):
            at -= 1
        return at

    def missed(self) -> None:
        """Replaces the last note: there was no such launch, although versions may have grown."""
        at = self.last()
        if self.events[at].__class__ is Run:
            del self.events[at].clocks[-1]
        else:
            del self.events[at:]
        self.events += (MISSED, self._versions())

    def _versions(self) -> dict[int, int]:
        return {serial: copy.memory.version for serial, copy in self.base.items()}

    def last_launch(self) -> PastLaunch:
        """The last launch of the stretch. If it was interrupted, its note (entry of the log) is completed first."""
        at = self.last()
        if self.events[at].__class__ is Run:
            last = self.events[at].launches()[-1]
            return PastLaunch(last.plan, last.args, {"copies": {}, "kept": {}}, at)
        self.events += [None] * (at + self.events[at].step - len(self.events))
        return self.launch(at)

    def expand(self) -> list[tuple[Compiled, float]]:
        """Replaces each `Run` by a note of each launch. Returns the code of these launches and their seconds."""
        if not self.runs:
            return []
        old, self.events = self.events, []
        labels, self.labels = iter(self.labels), []
        moved: dict[int, int] = {}
        heads: dict[Plan, Noted] = {}
        seconds: dict[int, float] = {}
        for at, head in self._notes(old):
            moved[at] = len(self.events)
            if head.__class__ is not Run:
                self.events += old[at : at + head.step]
                if head in self.heads:
                    self.labels.append(next(labels))
                continue
            for _, plan, args, label, began, ended in head.launches():
                if plan not in heads:
                    heads[plan] = made = Noted(plan, of_launch(plan), True)
                    self.heads[made] = args
                values = {f"a{n}": arg for n, arg in enumerate(args)} | {"standing": None}
                values["depths"] = plan.stacks and plan.stacks.depths
                seconds[len(self.events)] = ended - began
                self.labels.append(label)
                self.note(heads[plan], *(values[name] for name in heads[plan].names))
        self.seconds = {moved[at]: took for at, took in self.seconds.items()} | seconds
        self.firsts = {moved[at] for at in self.firsts}
        self.returned = {moved[at]: values for at, values in self.returned.items()}
        self.runs.clear()
        return [(self.events[at].plan.compiled, took) for at, took in seconds.items()]

    def notes(self) -> Iterator[tuple[int, Any]]:
        """The index and the head of each note."""
        return self._notes(self.events)

    @staticmethod
    def _notes(events: list[Any]) -> Iterator[tuple[int, Any]]:
        at, end = 0, len(events)
        while at < end:
            head = events[at]
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
        self.ends = self._versions()
        counts = Counter(head for _, head in self.notes())  # `list.count` would compare each note with each head
        self.heads = {head: args for head, args in self.heads.items() if counts[head]}
        self.wrote = sum(counts[head] * sum(m.operand.nbytes for m in head.plan.written(args))
                         for head, args in self.heads.items())  # fmt: skip
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
        if any(plan.compiled.returns for run in self.runs for plan in {*run.plans()}):
            self.expand()
        for plan in {head.plan for head in self.heads if head.plan.compiled.returns}:
            self.returned[self._last_of(plan)] = {name: plan.frame.ret(name) for name in plan.compiled.returns}

    def _count(self, known: dict[Version, int]) -> None:
        """Finds the labels of launches that a Tape made."""
        (number, label), latest, session = self.first, self.before, self.session.serial
        places = {head: (is_gradient(head.plan), head.plan.owner, head.place("replays"), head.place("number"))
                  for head in self.heads}  # fmt: skip
        for at, head in self.notes():
            if head.__class__ is Run:
                plans = head.plans()
                last = dict(zip(plans, range(label + 1, label + 1 + len(plans)), strict=True))
                head.label, number = label + 1, number + len(plans)
                if not head.back:
                    label += len(plans)
                    latest.update((plan.owner, n) for plan, n in last.items())
                for plan, many in Counter(plans).items():
                    self.owners.add(plan.owner)
                    self.wrote += many * sum(memory.operand.nbytes for memory in plan.written(head.args[0]))
            if head not in places:
                continue
            back, owner, replays, drew = places[head]
            of = self.events[at + replays] if replays else 0
            if back:
                found = Run.label_of(of) if of < 0 else known.get((session, of), 0)
                here = (found if of else latest.get(owner.forward, 0)) or label + 1
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
