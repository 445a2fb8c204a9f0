"""Knows which memory a Tape tracks, and what the Tape has saved of it for the gradients that need it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import numpy.typing as npt

from quadrants_lab.adstack.report import kept_rows
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import of_kind
from quadrants_lab.runtime.memory.identity import Place, memory_at
from quadrants_lab.runtime.memory.memory import THREAD, TIMES, Memory
from quadrants_lab.runtime.tape.access_summary import AccessSummary
from quadrants_lab.runtime.tape.dead_paths import DeadPaths
from quadrants_lab.runtime.tape.parts import Account, Full, Hold, Part, part_of
from quadrants_lab.runtime.tape.step import Item, Kept, Segment, Step
from quadrants_lab.runtime.tape.tracked import PendingWrite, Tracked, follow
from quadrants_lab.runtime.tape.written import Overwritten, Writes, span_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.frames import KeptBuffers
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.timeline import Tracing

KEEP_BYTES = 1 << 30  # the most bytes that a Tape without a budget saves


class Keeper:
    """The base class of the recorder, with everything that it records. ``repeatable``: see `Launches`. ``memory``: the
    budget in bytes, None for `KEEP_BYTES`. ``account``: counts the saved bytes. ``steps``: the recorded steps and
    segments. ``tracked``: id of a memory -> its `Tracked`. ``open``: the nested segments that are being recorded,
    outermost first. While there are any, saved values belong to the outermost segment."""

    trusted: tuple[type, ...] = ()  # kinds of foreign memory that count their writes, so they need not be compared
    clears = False  # whether gradients are set to 0 when they are first used
    tracing: Tracing | None = None  # measures when launches run
    # methods of the recorder that the modules which it imports need
    add: Callable[[Step], None]
    clear: Callable[[], None]
    copied: Callable[..., tuple[tuple[Any, ...], list[Hold]]]
    end_rerun: Callable[[], None]
    failed: Callable[[list[Part]], None]
    insert: Callable[..., None]
    launched: Callable[..., None]
    make_again: Callable[..., Step]
    make_room: Callable[[int], bool]
    repeated: Callable[..., None]

    def __init__(self, repeatable: bool, memory: int | None) -> None:
        self.repeatable = repeatable
        self.memory = memory
        self.free = [True]  # empty while an open Tape records into this object
        self.writes = Writes()
        self.forget()

    def forget(self) -> None:
        """Forgets everything that was recorded."""
        self.account = Account(KEEP_BYTES if self.memory is None else self.memory, self.memory is not None)
        self.steps: list[Item] = []
        self.tracked: dict[int, Tracked] = {}
        self.open: list[Segment] = []
        self.kept: dict[tuple[str, str, str], Kept] = {}
        # the most bytes with which a step or segment begins, and the most that a launch saves for its own gradient
        self.state, self.own = 1, 0
        self.began = next(TIMES)
        self.rerun: Any = None  # see `Launches`
        self.finished_rerun: Any = None
        # summaries of launches -> whether what the launches themselves read is tracked, too
        self.fully_tracked: dict[AccessSummary, bool] = {}
        # id -> (memory or array, its copy from before all steps)
        self.initial: dict[int, tuple[Any, npt.NDArray[Any]]] = {}
        self.recomputed_times: Counter[int] = Counter()  # index of a step -> how often it was run again
        self.swept = False  # whether a backward pass has run
        self.rows: Callable[[], Any] = lambda: ([], [])  # the result of `report.rows` for the last backward pass
        self.at_end = False  # whether all steps were run once more after the last gradient
        self.names: dict[int, str] = {}  # id of a memory -> its name in the first kernel that used it
        self.paused = 0
        self.dead_paths = DeadPaths("grad")
        self.by_hand: dict[str, Plan] = {}  # name of a kernel -> its gradient that the program launched by itself
        self.nested = False  # whether a function with a custom gradient was called within another
        self.constants: set[int] = set()  # serials of memory whose values Python has overwritten with constants
        self.overwritten = Overwritten("grad")
        self.writes.clear()

    def leaves(self) -> Iterator[Step]:
        """All steps, including those in segments."""
        return Segment(self.steps).leaves()

    def number(self) -> None:
        """Sets the index in the program of each recorded step."""
        for number, step in enumerate(self.leaves()):
            step.number = number

    @property
    def made_again(self) -> int:
        """How many steps the last backward pass ran again."""
        return self.recomputed_times.total()

    @property
    def recomputes(self) -> bool:
        """Whether launches that are recorded now may be recomputed."""
        return self.memory is not None or bool(self.open)

    def report(self) -> list[Kept]:
        """What the Tape had to save, most bytes first."""
        return sorted(self.kept.values(), key=lambda k: -k.bytes)

    def room(self, nbytes: int, what: Callable[[], tuple[str, tuple[Label, ...]]]) -> Account:
        """Returns the account if it has room for so many bytes. Otherwise it raises QL2093 if there is no budget
        (``what`` says what the bytes are needed for); if the budget is too small, bytes are only counted from now
        on."""
        account = self.account
        if not account.fits(nbytes):
            if self.memory is None:
                raise _too_much(*what())
            if not self.make_room(nbytes):
                account.give_up()
        return account

    def derivatives(self) -> set[int]:
        """The ids of the memory of gradients."""
        return {id(tracked.grad) for tracked in self.tracked.values()}

    def _keep_buffers(self, step: Step, summary: AccessSummary, kept: KeptBuffers, hold: Hold | None) -> None:
        """Stores in the step the values that the launch itself saved for its gradient."""
        name = summary.plan.kernel.name
        step.holds.append(hold or self.room(step.own, lambda: (f"kernel {name}", ())).hold(step.own))
        if not self.account.short:
            step.kept = kept
        self._count_buffers(step, summary)

    def _count_buffers(self, step: Step, summary: AccessSummary) -> None:
        shapes = {slot: memory.operand.shape for slot, memory in step.kept.items()}
        if shapes and summary.reverse is not None:
            kernel = summary.plan.kernel.name
            for row in kept_rows(summary.reverse.facts, shapes):
                self._count(Kept(row.name, kernel, kernel, None, row.span, row.elements, row.bytes))

    def _read(self, memory: Memory, name: str, plan: Plan, kind: type[N.Stmt] = N.Load) -> Tracked:
        """Tracks memory that launches of the plan read. ``kind``: the kind of statement that reads it."""
        found = self.tracked.get(id(memory))
        if found is None or not found.reader:
            found = self._track(memory, name, plan.kernel.name, span_of(plan, name, kind))
        return found

    def mark_seen(self) -> None:
        """Marks all writes to memory up to now as known."""
        for tracked in self.tracked.values():
            tracked.version = tracked.memory.version

    def take(self, grad: Memory) -> None:
        """Makes a gradient that another thread has used belong to this thread; with `clears` it is then set to 0.
        Raises an error if an open Tape of another thread uses it."""
        if not self.clears or grad.owner == THREAD.number or grad.foreign:
            return
        tapes = [one for one in of_kind(grad.session.holders, Keeper) if not one.free]
        for other in tapes:
            if other is not self and any(f.grad is grad for f in list(other.tracked.values())):
                raise QuadrantsRuntimeError(
                    f"a Tape of another thread is open and uses {self._name_of(grad)}, whose gradient this one would "
                    "set to 0",
                    code="QL2092",
                    help="give each thread fields of its own; or give clear_gradients=False, and set to 0 the "
                    "gradients of this thread's fields",
                )
        grad.write(..., 0)

    def _name_of(self, grad: Memory) -> str:
        return next((f.name for f in self.tracked.values() if f.grad is grad), "a field")

    def _track_derivative(self, summary: AccessSummary, name: str, place: Place, args: Sequence[Any]) -> None:
        """Tracks a buffer that has a gradient and that the launch accessed."""
        grad = summary.plan.gradient_of(name, args)
        if grad is not None:
            tracked = self._track(memory_at(place, args), name)
            if tracked.memory.unseen > self.began:
                raise tracked.unseen()
            tracked.grad = grad
            self.take(grad)
            tangent = summary.plan.gradient_of(name, args, "dual") if summary.plan.owner.second else None
            tracked.tangent = None if tangent is None else self._track(tangent, f"{name}.tangent")

    def _track(self, memory: Memory, name: str, reader: str = "", span: Span | None = None) -> Tracked:
        key = id(memory)
        found = self.tracked.get(key)
        if found is None:
            if not self.tracked:
                memory.session.holders.add(self)
            room = partial(_room, WeakMethod(self.room), name)
            found = self.tracked[key] = follow(memory, name, self.trusted, room)
        if reader and not found.reader:
            found.name, found.reader, found.span = name, reader, span
        return found

    def _save(self, write: PendingWrite, into: Segment | None, writer: str) -> None:
        """Saves the values that the kernel ``writer`` is about to overwrite and that will be read again; in the segment
        ``into`` if there is one."""
        memory, region = write.tracked.memory, write.region
        assert region is not None
        account = Account() if write.scattered else self.account
        parts = write.parts = []
        for piece in [region] if into is None else into.missing(memory, region):
            try:
                parts.append(part_of(memory, piece, account))
            except Full as full:
                self.room(full.nbytes, partial(_what, write, writer))
                parts.append(part_of(memory, piece, account))

    def _overwrote(self, step: Step, item: Item, write: PendingWrite, writer: str) -> None:
        """Call this after the launch of kernel ``writer``: stores the values that `_save` saved in the ``item`` (the
        step, or the segment that the step is in)."""
        tracked = write.tracked
        tracked.version = tracked.memory.version
        tracked.update_shadow()
        for part in write.parts:
            kept = part
            if write.scattered:  # such a launch often changes only a few elements, or none
                kept = part.changed(partial(self.room, what=partial(_what, write, writer)))
                if kept is not part and part.region is not None:
                    step.by_data.append((part.memory, part.region))
            self.keep(item, tracked, kept, writer, write.span)

    def keep(self, item: Item, tracked: Tracked, part: Part, writer: str, written: Span | None) -> None:
        if part.size:
            self._count_part(tracked, part, writer, written)
            if isinstance(item, Segment):
                item.take(part, self.account)
            else:
                item.changes.append(part)

    def _count_part(self, tracked: Tracked, part: Part, writer: str, written: Span | None) -> None:
        """Counts a saved part of tracked memory."""
        size = part.size, part.nbytes
        self._count(Kept(tracked.name, tracked.reader, writer, tracked.span, written, *size))

    def _count(self, kept: Kept) -> None:
        """Adds a saved value to the report."""
        known = self.kept.setdefault((kept.name, kept.reader, kept.writer), kept)
        if known is not kept:
            known.elements += kept.elements
            known.bytes += kept.bytes


def _room(room: WeakMethod[Any], name: str, nbytes: int) -> Account:
    """Calls `Keeper.room` through a weak reference. Watchers of memory hold this function, and must not keep the Tape
    alive."""
    make = room()
    if make is None:
        return Account()
    found: Account = make(nbytes, lambda: (f"{name}, which Python or another library writes to", ()))
    return found


def _what(write: PendingWrite, writer: str) -> tuple[str, tuple[Label, ...]]:
    tracked = write.tracked
    return Kept(tracked.name, tracked.reader, writer, tracked.span, write.span).what()


def _too_much(what: str, labels: tuple[Label, ...]) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"the Tape would have to keep more than {KEEP_BYTES >> 20} MB of overwritten values; the last ones are "
        f"of {what}",
        code="QL2093",
        labels=labels,
        help="write each step to elements of its own, u[t + 1, i] from u[t, i]; or give the Tape a budget, "
        "qd.ad.Tape(loss, memory=2**30), within which it repeats launches instead of keeping their values",
    )
