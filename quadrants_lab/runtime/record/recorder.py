"""Records launches: each kernel's last forward launch and last gradient launch, and as many earlier launches as fit in
little memory.

    with recording() as recorder:
        ...launches...
    recorder.records()

Recording hardly slows the program, however long it runs and however large its memory is: launches are written to a log
(`log`), whose entries are called notes. Memory is copied only from time to time; a stretch between two copies takes
`SHARE` times as long as the copying. Records are made from copies and log when somebody asks for them (`rebuild`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from threading import RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.ir.temporary import holding
from quadrants_lab.ir.walk import of_kind
from quadrants_lab.runtime.arguments.slots import ArraySlot
from quadrants_lab.runtime.compile.specialisation import WATCHED
from quadrants_lab.runtime.launch.signature import Launch
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.memory.memory import PUT, SHARED, WROTE, Memory
from quadrants_lab.runtime.observe.observers import HIDDEN, OBSERVERS, hiding, recorded, refuse
from quadrants_lab.runtime.record.log import (
    BY_HAND,
    Array,
    Copies,
    Copy,
    Run,
    Stretch,
    Version,
    is_gradient,
    shown,
)
from quadrants_lab.runtime.record.noting import TIMER, Noted, note
from quadrants_lab.runtime.record.rebuild import MOST_PAST, PAST_BYTES, rebuild
from quadrants_lab.runtime.record.records import COPY_BYTES, LaunchRecord, first_elements, touched

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile.specialisation import Compiled
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.session import Session

SHARE, LEAST_SECONDS = 20, 0.02  # a stretch takes so many times as long as its copies, and at least so many seconds
# the recorder notes and times so many launches of a plan itself, before the plan's closures note launches
BY_HAND_FIRST = 4
# A plan's closures also time its launches if these take at least SLOW seconds. Launches that take at least LONG seconds
# are always noted by the recorder, not by closures.
SLOW, LONG = 2e-5, 1e-3
A_COPY, A_NOTE = 5e-10, 1e-7  # estimated seconds: to copy a byte, and for a closure to note a launch
MOST_LABELS = 200_000  # for at most so many launches under a Tape, a gradient's record can name its forward launch
_NUMBERS = (int, float, bool)


@dataclass(slots=True)
class Times:
    """How many seconds launches of the ``compiled`` code took: the first launch, if it was recorded, and others."""

    compiled: Compiled
    first: float | None = None
    warm: deque[float] = field(default_factory=lambda: deque(maxlen=10_000))


class Recorder:
    """A recording. ``tapes``: serial of the memory of a loss -> function that makes the report of the last Tape over
    it. ``now``: the stretch of the log to which launches are written. ``times``: id of compiled code -> its times.
    ``copies``: copies of memory. ``spent``: seconds spent on noting launches in this class, and on copying;
    ``repeated``: seconds spent on making records; ``took``: seconds of the whole `with` block."""

    def __init__(self, limit: int = COPY_BYTES) -> None:
        self.limit = limit
        self.tapes: dict[int, Callable[[], Any]] = {}
        self.now: Stretch | None = None
        self.times: dict[int, Times] = {}
        self.copies = Copies()
        self.spent = self.repeated = self.took = 0.0
        self._began = perf_counter()
        self._lock = RLock()
        self._last: dict[Dispatcher | None, Stretch] = {}  # kernel in a mode -> the stretch with its last launch
        self._recent: deque[Stretch] = deque()
        self._closed: Stretch | None = None  # the stretch that ended last
        self._ended = 0, 0  # how many launches ended stretches have, and how many of these are no gradients
        self._labels: dict[Version, int] = {}  # see `Stretch.end`
        self._heads: dict[Plan, Noted] = {}
        self._by_hand: dict[Plan, int] = {}  # plan -> how many of its launches this class has noted
        # plan -> until this time, no first elements are copied of its arrays that are too large to copy
        self._too_large: dict[Plan, float] = {}
        self._watched: dict[int, Memory] = {}
        self._made: dict[Stretch, dict[int, LaunchRecord]] = {}
        self._made_for = 0, 0  # the value of `_ended` when records were made last

    # --- launches --------------------------------------------------------------------------------------------------

    def launch(self, plan: Plan, how: Launch, *args: Any) -> Any:
        """Makes and records a launch that no closure notes."""
        with plan.session.lock, self._lock:
            if not HIDDEN.get():
                return self._launch(plan, how, args)
            for memory in plan.written(args):
                self._keep(memory)
            return how(*args)

    def _launch(self, plan: Plan, how: Launch, args: tuple[Any, ...]) -> Any:
        start = perf_counter()
        stretch = self._note(self._stretch(plan.session, start), plan, args)
        plan.summed = False
        begun = perf_counter()
        try:
            value = how(*args)
            if value is NotImplemented:
                stretch.missed()
                return value
            plan.session.finish()  # wait here, since a launch may return before it is done
        except BaseException:
            self.failed(args)
            raise
        seconds = perf_counter() - begun
        self._noted(stretch, plan, args, seconds)
        end = perf_counter()
        cost = end - start - seconds
        self._spend(stretch, cost)
        if stretch.first_elements is not None:
            self._too_large[plan] = end + SHARE * cost - SHARE * seconds
        return value

    def run(
        self, session: Session, used: Collection[Memory], args: list[tuple[Any, ...]], summaries: list[Any],
        runs: list[Run], back: bool, first: int,
    ) -> Run | None:  # fmt: skip
        """Notes that a Tape which repeats its last run is about to launch; see `Run`. ``used``: all memory that it
        uses. Returns None, without effect, if there is no room for its copies or launches are hidden."""
        with session.lock, self._lock:
            if hiding() or any(memory.foreign for memory in used):
                return None
            start = perf_counter()
            stretch = self._stretch(session, start)
            try:
                self._copy(stretch, used)
            except MemoryError:
                return None
            run = Run(args, summaries, runs, back, first)
            stretch.note_run(run)
            self._spend(stretch, perf_counter() - start)
            TIMER.watch(self)
            return run

    def missed(self) -> None:
        """Called when the last launch of a `Run` was none."""
        if self.now is not None:
            self.now.missed()

    def _spend(self, stretch: Stretch, cost: float) -> None:
        stretch.cost += cost
        self.spent += cost
        stretch.due = stretch.began + max(LEAST_SECONDS, SHARE * stretch.cost)

    def _stretch(self, session: Session, now: float) -> Stretch:
        """The stretch to which a launch is written: the present one, or a new one if that is due."""
        stretch = self.now
        if stretch is not None and (now > stretch.due or stretch.session is not session):
            self.pause()
        if self.now is None:
            self.now = self._begin(session, now)
        return self.now

    def _begin(self, session: Session, now: float) -> Stretch:
        stretch = Stretch(session, now)
        late, by_closure, note = stretch.late, stretch.by_closure, stretch.events.extend

        def wrote(memory: Memory, where: Any, values: Any) -> None:
            """Notes a write; called before Python or a Tape writes to memory that launches of the stretch use."""
            if late or where is SHARED or (not by_closure and perf_counter() > stretch.due):
                self._keep(memory)
            elif values.__class__ in _NUMBERS:
                note((WROTE, memory, (where, values)))
            else:
                copy = values.copy() if isinstance(values, np.ndarray) else values
                note((WROTE, memory, values.lent() if where is PUT else (where, copy)))
                self._holds(stretch, getattr(values, "nbytes", 0))

        stretch.hook = wrote
        return stretch

    def _note(self, stretch: Stretch, plan: Plan, args: tuple[Any, ...]) -> Stretch:
        """Copies memory that the stretch has no copy of, and notes the launch; if there is no room for the copies, in a
        separate stretch. Returns the stretch."""
        used, given, names = plan.memories(args), plan.given(), touched(plan)
        foreign = plan.numpy_arrays(args) | {name: m.values() for name, m in used.items() if m.foreign}
        copies: dict[str, Array] = {}
        try:
            self._copy(stretch, [memory for name, memory in used.items() if name not in foreign])
            for memory in given.values():
                self._find(plan, memory)
            same: dict[tuple[Any, ...], Array] = {}  # an array that is passed twice has one copy
            for name in (name for name in foreign if name in names):
                place = foreign[name].ctypes.data, foreign[name].shape, foreign[name].strides
                if place not in same:
                    same[place] = self._copied_array(stretch, foreign[name])
                copies[name] = same[place]
        except MemoryError:
            self.pause()
            stretch = self.now = self._begin(plan.session, perf_counter())
            none = stretch.began < self._too_large.get(plan, 0.0)
            stretch.first_elements = first_elements(plan, plan.arrays(args), used.keys(), none)
            copies.clear()
        stretch.taped |= bool(OBSERVERS.get() or plan.owner.replays)
        head = self._heads.setdefault(plan, Noted(plan, BY_HAND))
        stretch.heads[head] = tuple(map(shown, args))
        stretch.note(head, stretch.heads[head], None, plan.standing, plan.owner.replays, 0, copies, {}, given)
        return stretch

    def _noted(self, stretch: Stretch, plan: Plan, args: tuple[Any, ...], seconds: float) -> None:
        """Completes the note of a launch when it has ended."""
        at = stretch.last()
        values = dict(zip(BY_HAND, stretch.events[at + 1 :], strict=True))
        kept = {name: plan.scratch.memories[name] for name in plan.scratch.keeps}
        for memory in () if is_gradient(plan) else kept.values():
            memory.recorded = stretch.mark
        values |= {"depths": plan.stacks and plan.stacks.depths, "number": plan.frame.launch_number, "kept": kept}
        nbytes = sum(a.nbytes for a in values["copies"].values())
        if seconds > SHARE * A_COPY * nbytes and stretch.copied + nbytes <= self.limit:
            values["left"] = self._left(stretch, plan, args, values["copies"])
        stretch.events[at + 1 :] = values.values()
        stretch.seconds[at] = seconds
        times = self.times.setdefault(id(plan.compiled), Times(plan.compiled))
        if plan.compiled.trace is not None and not plan.compiled.clock.launched:
            stretch.firsts.add(at)
            times.first = seconds
        else:
            times.warm.append(seconds)
        plan.compiled.clock.launched = True
        memories = plan.memories(args)
        if stretch.first_elements is not None or plan.summed:
            self._detach(args)
            return
        self._by_hand[plan] = self._by_hand.get(plan, 0) + 1
        if self._by_hand[plan] >= BY_HAND_FIRST and seconds < LONG and _can_note(plan, args, memories):
            self._let_closures_note(stretch, plan, args, times)

    def _let_closures_note(self, stretch: Stretch, plan: Plan, args: tuple[Any, ...], times: Times) -> None:
        """From now on, until the stretch is late, the closures of the plan note its launches. The closure for launches
        under a Tape, and for calls whose arguments had other types at first, is made only when there are such launches.
        """
        events, closures = stretch.events, ["fast"]
        if plan in stretch.by_closure or stretch.taped:
            closures.append("call")
        if not stretch.by_closure:
            for copy in stretch.base.values():
                copy.memory.noted = events.extend
        stretch.by_closure.add(plan)
        # the fastest launch decides: a single slow one does not make a kernel slow
        timed = min(times.warm, default=times.first or 0.0) > SLOW and plan.session.backend.CAPABILITIES.on_host
        for closure in closures:
            head = note(
                plan, closure, timed, late=stretch.late, slowly=partial(self.launch, plan, plan.closures[0]),
                hook=stretch.hook, copied=partial(self._copied, stretch), note=events.append, notes=events.extend,
                missed=stretch.missed, failed=self.failed, borrowed_back=self._detach, took=times.warm.append,
                mark=stretch.mark, find=partial(self._find, plan),
            )  # fmt: skip
            stretch.heads[head] = args
        TIMER.watch(self)

    # --- copies ------------------------------------------------------------------------------------------------------

    def _copy(self, stretch: Stretch, memories: Collection[Memory]) -> None:
        """Copies memory that the stretch has no copy of yet; raises MemoryError if there is no room."""
        new = {m.serial: m for m in memories if m.serial not in stretch.base}
        needs = sum(m.operand.nbytes for m in new.values() if (m.serial, m.version) not in self.copies)
        # if necessary, the copies of earlier launches are dropped
        while needs and self.copies.held + needs > self.limit:
            if not self._recent:
                raise MemoryError
            self._recent.popleft()
            self._free()
        for memory in new.values():
            array = self._copied_memory(stretch, memory)
            stretch.base[memory.serial] = Copy(memory, memory.version, array)
            memory.recorded = stretch.hook
            memory.noted = stretch.events.extend if stretch.by_closure else None
            self._watched[memory.serial] = memory

    def _copied_memory(self, stretch: Stretch, memory: Memory) -> Array:
        """A copy of the memory; an existing one if it has the present version."""
        array, new = self.copies.of(memory)
        stretch.copied += array.nbytes * new
        return array

    def _copied_array(self, stretch: Stretch, array: Array) -> Array:
        if stretch.copied + array.nbytes > self.limit:
            raise MemoryError
        stretch.copied += array.nbytes
        return self.copies.counted(array.copy())

    def _copied(self, stretch: Stretch, array: Any) -> tuple[Array] | None:
        """What a closure notes for an array that other libraries may write to: a tuple with a copy. None for other
        arrays."""
        memory = memory_of(array)
        if memory is not None and not memory.foreign:
            return None
        copy: Array = (array if memory is None else memory).copy()
        self._holds(stretch, copy.nbytes)
        return (copy,)

    def _find(self, plan: Plan, memory: Memory) -> None:
        """Called when a gradient reads saved values from before the stretch: copies them. Values that a Tape has taken
        are not copied, since they do not change."""
        stretch = self.now
        if stretch is not None and memory.recorded is not stretch.mark:
            array = None if plan.owner.kept is not None else self._copied_array(stretch, memory.values())
            stretch.kept[memory.serial] = Copy(memory, stretch.kept_at(), array)
            memory.recorded = stretch.mark

    def _left(self, stretch: Stretch, plan: Plan, args: tuple[Any, ...], names: Collection[str]) -> dict[str, Array]:
        """Copies of the arrays that other libraries may write to, as they are after the launch."""
        arrays = plan.arrays(args)
        return {name: self._copied_array(stretch, arrays[name]) for name in names if name in plan.writes}

    def _holds(self, stretch: Stretch, nbytes: int) -> None:
        """Counts the bytes that the notes of the stretch keep alive; if these are many, the stretch ends."""
        stretch.copied += nbytes
        if stretch.copied > self.limit // 4:
            stretch.due = 0.0
            stretch.late.append(True)

    def _keep(self, memory: Memory) -> None:
        """Called before something that is not noted writes to the memory. Ends the present stretch if that uses the
        memory. If the stretch before it left the memory as it is now, copies the memory, because repeating the launches
        of that stretch may take long."""
        if self.now is not None and memory.serial in self.now.base:
            self.pause()
        stretch, version = self._closed, (memory.serial, memory.version)
        if self.now is not None or stretch is None or stretch.ends.get(memory.serial) != memory.version:
            return
        if version not in self.copies and self.copies.held + memory.operand.nbytes <= self.limit:
            stretch.left[version] = self._copied_memory(stretch, memory)

    def _free(self) -> None:
        """Frees the copies of stretches of which no record will be made."""
        alive = {*self._recent, *self._last.values(), *(s for s in (self.now, self._closed) if s is not None)}
        used = (a for s in alive for a in (*(copy.array for copy in s.base.values()), *s.left.values()))
        self.copies.free(used, again=not self._made)  # a record may refer to the arrays

    # --- ends --------------------------------------------------------------------------------------------------------

    def failed(self, args: tuple[Any, ...] = ()) -> None:
        """Called when an error has ended the last launch."""
        if self.now is not None:
            self.now.failed = True
            self._detach(args)

    def _detach(self, args: tuple[Any, ...] = ()) -> None:
        """Ends the stretch, because the last launch left memory in a state that no repetition would produce. ``args``:
        its arguments, if this class noted it."""
        stretch = self.now
        if stretch is not None and stretch.last() >= 0:
            stretch.detached = True
            last = stretch.last_launch()
            memories = last.plan.memories(last.args)
            if stretch.first_elements is not None:
                stretch.versions_left = {name: memory.version for name, memory in memories.items()}
            else:
                for name in last.plan.writes & memories.keys():
                    stretch.left[memories[name].serial, memories[name].version] = memories[name].copy()
            if args and last.values["copies"]:
                at = stretch.last() + 1 + BY_HAND.index("left")
                stretch.events[at] = self._left(stretch, last.plan, args, last.values["copies"])
        self.pause()

    def pause(self) -> None:
        """Ends the present stretch."""
        stretch, self.now = self.now, None
        if stretch is None:
            return
        stretch.late.append(True)
        for copy in stretch.base.values():
            copy.memory.noted = None
        stretch.took = perf_counter() - stretch.began
        stretch.end(self._ended, self._labels, self._last)
        self._ended, self._closed = stretch.next, stretch
        self._last |= dict.fromkeys(stretch.owners, stretch)
        self._recent.append(stretch)
        recent, later = self._recent, [s.wrote for s in self._recent][1:]
        while recent and (sum(s.copied for s in recent) > PAST_BYTES or sum(later) > PAST_BYTES
                          or stretch.next[0] - recent[0].next[0] > MOST_PAST):  # fmt: skip
            recent.popleft()
            del later[:1]
        self._free()
        while len(self._labels) > MOST_LABELS:
            self._labels.pop(next(iter(self._labels)))

    def end(self) -> None:
        """Called when the recording ends."""
        self.pause()
        self.took = perf_counter() - self._began
        for memory in self._watched.values():
            memory.recorded = None
        self._watched.clear()

    # --- records -----------------------------------------------------------------------------------------------------

    @property
    def launches(self) -> int:
        """How many launches there were."""
        self.pause()
        return self._ended[0]

    @property
    def cost(self) -> float:
        """About how many seconds of the `with` block were spent on recording."""
        return self.spent + A_NOTE * (self.launches - sum(self._by_hand.values()))

    @property
    def last(self) -> dict[Dispatcher, LaunchRecord]:
        """Maps each dispatcher, which stands for a kernel in a mode, to the record of its last launch."""
        return {record.plan.owner: record for record in self.records()}

    @property
    def past(self) -> list[LaunchRecord]:
        """Records of the latest launches that are not a kernel's last, in order."""
        last = {record.number for record in self.records()}
        made = (record for of_stretch in self._made.values() for record in of_stretch.values())
        return sorted((r for r in made if r.number not in last and r.inputs is not None), key=lambda r: r.number)

    def records(self) -> list[LaunchRecord]:
        """The record of each kernel's last launch in each mode, in the order of these launches."""
        self.pause()
        if self._made_for != self._ended:
            start = perf_counter()
            alive = {*self._recent, *self._last.values()}
            for stretch in alive:
                for compiled, took in stretch.expand():
                    self.times.setdefault(id(compiled), Times(compiled)).warm.append(took)
            owners = {stretch: {x for x in stretch.owners if self._last[x] is stretch} for stretch in alive}
            self._made = rebuild(owners, self.limit, self._made)
            for record in (r for of_stretch in self._made.values() for r in of_stretch.values()):
                times = self.times.get(id(record.plan.compiled))
                record.seconds = record.seconds or (median(times.warm) if times and times.warm else 0.0)
            self._made_for = self._ended
            self.repeated += perf_counter() - start
        last: dict[Dispatcher, LaunchRecord] = {}
        for record in sorted((r for s in self._made.values() for r in s.values()), key=lambda r: r.number):
            last[record.plan.owner] = record
        return sorted(last.values(), key=lambda r: r.number)


def _can_note(plan: Plan, args: tuple[Any, ...], memories: dict[str, Memory]) -> bool:
    """Whether the closure of the plan can note launches with these arguments."""
    if hiding() or plan.closures[0] is refuse or plan.scratch.marks:
        return False
    of_args = {slot.name for slot in of_kind(plan.slots, ArraySlot)}
    foreign = {name for name, memory in memories.items() if memory.foreign} | plan.numpy_arrays(args).keys()
    distinct = not plan.compiled.options.aliases  # copies of arrays that overlap would not overlap
    return not foreign or (foreign <= of_args and distinct and not plan.gradient_args)


@contextmanager
def recording(limit: int = COPY_BYTES, compiling: Callable[[str], None] = lambda now: None) -> Iterator[Recorder]:
    """A context manager that records the launches of this context; its copies take at most ``limit`` bytes.
    ``compiling`` is called with what is being compiled, in words."""
    recorder = Recorder(limit)
    try:
        with holding(WATCHED, compiling), recorded(recorder):
            yield recorder
    finally:
        recorder.end()
