"""Runs a program again, as an optimiser does, and reuses the recording of its last run.

This works as long as the launches are the same, in the same order, on the same memory; scalars may differ if no index
depends on them. What each launch overwrites is then copied to the place where it was saved last time, and at the end
only gradients run. At the first difference recording continues in the ordinary way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import ref

from quadrants_lab.ir.weak import has_weak, weakly
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.arguments.slots import TemplateSlot
from quadrants_lab.runtime.memory.identity import derivative, memory_at, memory_of
from quadrants_lab.runtime.memory.memory import THREAD
from quadrants_lab.runtime.observe.observers import OBSERVERS
from quadrants_lab.runtime.observe.tape_numbers import TapeNumber, returned
from quadrants_lab.runtime.tape import backward
from quadrants_lab.runtime.tape.access_summary import AccessSummary
from quadrants_lab.runtime.tape.recording import Recording, modes
from quadrants_lab.runtime.tape.stand_ins import Found, StandIns, launch_by, restore
from quadrants_lab.runtime.tape.step import Step, uses
from quadrants_lab.runtime.tape.tracked import Tracked

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.tape.parts import Part
    from quadrants_lab.runtime.tape.recorder import Launches
    from quadrants_lab.runtime.tape.report import Report

MOST_BYTES = 1 << 28  # that a recording may keep for the next run
_version = attrgetter("version")


class Launch(NamedTuple):
    """A recorded launch with ``arity`` arguments. ``objects``: its arrays, and fields and objects among its template
    arguments, by position, as weak references; ``numbers``: those on which its indices depend. ``quick``: these and
    what its `Depends` lists decide by which plan it is launched; ``steady``: it reads no attributes."""

    summary: Callable[[], AccessSummary | None]
    objects: Sequence[tuple[int, Callable[[], Any]]]
    numbers: Sequence[tuple[int, Any]]
    arity: int
    quick: bool
    steady: bool


def _launch(summary: AccessSummary, args: Sequence[Any]) -> Launch:
    templates = [n for n, slot in enumerate(summary.plan.slots) if isinstance(slot, TemplateSlot)]
    known = [n for n in templates if _by_identity(args[n])]
    objects = [(n, ref(args[n])) for n in (*summary.arrays, *known)]
    numbers = [(n, args[n]) for n in summary.scalars]
    steady = not summary.depends.reads
    return Launch(summary.weak, objects, numbers, len(args), len(known) == len(templates), steady)


def _by_identity(value: Any) -> bool:
    """Whether a template argument is the same if it is the same object: see `template_key`."""
    kind = type(value)
    return getattr(kind, "__qd_field__", False) or (getattr(kind, "__qd_data_oriented__", "") and has_weak(value))


def steps_to_run_again(launches: Launches) -> list[Step] | None:
    """The steps of a recording with which the next run can be compared; None if some are not plain launches, or
    gradients launched by hand, or if they would hold too much memory."""
    plain = (
        isinstance(item, Step) and item.summary is not None and item.summary.fast and item.gradient is None
        and not item.by_data
        for item in launches.steps
    )  # fmt: skip
    if not launches.steps or launches.memory is not None or launches.repeatable or launches.by_hand or not all(plain):
        return None
    if launches.dead_paths.open or launches.dead_paths.cut or launches.dead_paths.lost:
        return None
    steps = cast("list[Step]", launches.steps)
    places = ((n, s.args) for s in steps if s.summary is not None for n in s.summary.arrays)
    arrays = {id(m): m for m in (memory_at(n, args) for n, args in places)}
    total = sum(step.nbytes for step in steps) + sum(memory.operand.nbytes for memory in arrays.values())
    return steps if total <= MOST_BYTES else None


def _given(summary: AccessSummary, args: Sequence[Any]) -> tuple[Any, ...]:
    """What may differ between two launches of a gradient: its numbers, and the memory of its arrays and of their
    derivatives."""
    beside = () if summary.reverse is None else summary.reverse.gradient_args
    memories = [memory_of(args[n]) for n in summary.arrays]
    memories += [memory_of(derivative(args[n], of)) for n, of, _ in beside]
    return *(args[n] for n in summary.numbers), *(m if m is None else m.serial for m in memories)


class Rerun(Recording):
    """Compares the launches of a run with the recorded ``steps``. ``at``: how many were the same so far; ``launched``:
    the summary, arguments and number of each of them. ``then``: the recorded launches. ``memories``: what the run
    tracks; each is written by so many launches (``writes``), and has the version ``after`` when the run ends.
    ``report``: of the last gradients. Between two runs it refers weakly to plans and arrays."""

    def __init__(self, launches: Launches, steps: Sequence[Step]) -> None:
        self.launches = launches
        self.steps = list(steps)
        self.at = 0
        self.launched: list[tuple[AccessSummary, tuple[Any, ...], int]] = []
        self.then: list[Launch] = []
        writes: Counter[int] = Counter()
        plans = []
        for step in steps:
            summary, args = step.summary, step.args
            assert summary is not None
            writes.update(id(memory_at(place, args)) for _, place, _, _ in summary.writes)
            plans += [plan for plan in (summary.plan, summary.reverse) if plan is not None]
            self.then.append(_launch(summary, args))
            step.what, step.uses, step.repeat = summary.name, uses(step, launches.names), None
        super().__init__(plans[0].session, plans)
        self.kernels = list(dict.fromkeys(launch.summary for launch in self.then))
        tracked = launches.tracked.values()
        self.memories = [one.memory for one in tracked]
        self.writes = [writes[id(memory)] for memory in self.memories]
        self.followed = [(one, (partial(weakly(self._interrupted), one),)) for one in tracked]
        self.after: list[int] = []
        self.puts_back = any(step.changes for step in steps)
        # of each gradient, the last first, what to restore before it, its stand-ins, and what to restore after it
        self.way: list[tuple[Sequence[Part], Found, Sequence[Part]]] = []
        self.final: list[Part] = []  # copies of all that the gradients restore
        self.report: Callable[[], Report] | None = None
        self.observers: tuple[Any, ...] = ()
        self.changes, self.modes = -1, modes()  # `session.changes` and modes in which all that it depends on held
        self.until = 0  # how many steps `again` may launch
        self.paths: list[Dispatcher] = []  # whose calls come to `again` now

    # --- the launches ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Lets calls of the recorded kernels come to `again` until `leave`. To be called where the run is watched."""
        self.observers, known = OBSERVERS.get(), self.changes == S.changes and self.modes == modes()
        if not known:
            self.changes, self.modes = S.changes, modes()
        for which in self.kernels:
            summary = which()
            if summary is None or not (known or summary.depends.holds()):
                self.changes = -1
            if summary is None:
                return
            owner = summary.plan.owner
            owner.call = partial(self.again, owner)
            self.paths.append(owner)
        self.until = len(self.then)

    def leave(self) -> None:
        self.until = 0
        for owner in self.paths:
            owner.call = owner.resolve
        self.paths.clear()

    def again(self, dispatcher: Dispatcher, *args: Any) -> Any:
        """A call of a kernel: if it is the next step, it is launched as that. Anything else is the dispatcher's."""
        if self.at < self.until and OBSERVERS.get() is self.observers:
            with self.session.lock:
                then = self.then[self.at]
                which, objects, numbers, arity, quick, steady = then
                summary = which()
                if quick and summary is not None and summary.plan.owner is dispatcher and len(args) == arity:
                    holds = (steady and S.changes == self.changes) or summary.depends.holds()
                    known = not (objects or numbers) or _same(then, args)
                    if holds and known and not (summary.numbers and TapeNumber in map(type, args)):
                        plan = summary.plan
                        dispatcher.note(plan)
                        value = self._launch(summary, args)
                        if value is not NotImplemented:
                            return value if value is None else returned(value, plan)
        return dispatcher.resolve(*args)

    def launch(self, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        """Launches as the next step of the recording. If this is another launch, ends and returns NotImplemented."""
        then = self.then[self.at] if self.at < len(self.then) else None
        if then is None or then.summary() is not summary or not _same(then, args):
            self.end()
            return NotImplemented
        return self._launch(summary, args)

    def _launch(self, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        at, plan = self.at, summary.plan
        if not at and not self._watch():
            self.end()
            return NotImplemented
        step = self.steps[at]
        for part in step.changes:
            part.keep()
        try:
            value = plan.call(*args)
        except BaseException:
            self.end()
            self.launches.failed(step.changes)
            raise
        if value is NotImplemented:  # though versions may have grown
            self.end()
            return value
        if summary.keeps:
            step.kept = plan.scratch.take()
        self.launched.append((summary, args, plan.frame.launch_number))
        self.at = at + 1
        return value

    def _watch(self) -> bool:
        """Follows the memory from now on; False where others may write to some of it."""
        launches, mine = self.launches, THREAD.number
        if self.session.exported and any(tracked.memory.foreign for tracked, _ in self.followed):
            return False
        for tracked, watcher in self.followed:
            memory, grad = tracked.memory, tracked.grad
            memory.watchers = (*memory.watchers, *watcher) if memory.watchers else watcher
            if grad is not None:
                if memory.unseen > launches.began:
                    raise tracked.unseen()
                if grad.owner != mine:
                    launches.take(grad)
        self.after = list(map(add, map(_version, self.memories), self.writes))
        return True

    def unwatch(self) -> None:
        self.after.clear()
        for tracked, watcher in self.followed:
            memory = tracked.memory
            if memory.watchers is watcher:
                memory.watchers = ()
            else:
                memory.watchers = tuple([one for one in memory.watchers if one is not watcher[0]])

    def _interrupted(self, tracked: Tracked, where: Any) -> None:
        """Called when Python is about to write to tracked memory."""
        launches = self.launches
        if launches.rerun is self:
            self.end()
        now = launches.tracked.get(id(tracked.memory))
        if now is not None:
            now.watch(where)

    # --- the end ---------------------------------------------------------------------------------------------------

    def finish(self, seed: Callable[[], None]) -> bool:
        """Runs the gradients of a run whose launches were the recorded ones, after ``seed()``. False, with nothing
        done, where something else has written memory, or the gradients are watched."""
        if self.at < len(self.then) or self.session.exported or OBSERVERS.get():
            return False
        if list(map(_version, self.memories)) != self.after:
            return False
        with self.session.lock:
            seed()
            if self.capture is None or not self.start(self._ready, [_given(s, args) for s, args, _ in self.launched]):
                self._ready()()
                return True
            for summary, args, _ in self.launched:
                if summary.reverse is not None:
                    summary.reverse.wrote(args)
            for memory in self.memories:
                memory.version += 1
        return True

    def _ready(self) -> Callable[[], None]:
        """Allocates what the sweep needs."""
        if not self.puts_back:
            return self._differentiate
        if not self.final:
            self.final = backward.snapshot(self.steps)
        if not self.way or any(summary.arrays for summary, _, _ in self.launched):  # whose gradients may be others now
            self.way, now = [], StandIns()
            for step, (summary, args, _) in zip(reversed(self.steps), reversed(self.launched), strict=True):
                self.way.append((*now.before(summary, args), now.after(step.changes)))
        return self._sweep

    def _differentiate(self) -> None:
        """Launches the gradients, last first."""
        for step, (summary, args, number) in zip(reversed(self.steps), reversed(self.launched), strict=True):
            reverse = summary.reverse
            if reverse is None:
                continue
            gradient = reverse.owner
            gradient.replays, gradient.kept = number, step.kept
            gradient.note(reverse)
            try:
                if reverse.call(*args) is NotImplemented:
                    gradient.launch(reverse, args)
            finally:
                gradient.replays, gradient.kept = 0, None

    def _sweep(self) -> None:
        """`_differentiate`, where each gradient is to see memory as its launch left it."""
        for part in self.final:
            part.keep()
        try:
            way = zip(self.way, reversed(self.steps), reversed(self.launched), strict=True)
            for (before, found, after), step, (summary, args, number) in way:
                restore(before)
                if summary.reverse is not None:
                    launch_by(found, summary.reverse, args, number, step.kept)
                restore(after)
        finally:
            restore(self.final)

    def end(self) -> None:
        """Continues recording after the steps that were the same."""
        launches = self.launches
        launches.rerun, after = None, [*self.after]
        self.leave()
        self.unwatch()
        for step, (summary, args, number) in zip(self.steps, self.launched, strict=False):
            step.launch, step.summary = (summary.plan, args, number), summary
        if self.at < len(self.steps):
            launches.restart(self.steps[: self.at])
            return
        launches.finished_rerun = self
        for tracked, version in zip(launches.tracked.values(), after, strict=True):
            tracked.memory.watchers = (*tracked.memory.watchers, tracked.watch)
            tracked.version = version

    def let_go(self) -> None:
        """Keeps only weak references to plans and arrays until the steps are launched again: without one of them the
        recording is of no use."""
        self.at = 0
        self.launched.clear()
        if self.steps[0].summary is not None:
            for step in self.steps:
                step.launch = step.summary = None

    def needs(self) -> list[Any]:
        """What it refers to weakly, as long as the run has it."""
        summaries = [one for which in self.kernels if (one := which()) is not None]
        found = [plan for one in summaries for plan in (one.plan, one.reverse) if plan is not None]
        return [*found, *{id(x): x for then in self.then for _, of in then.objects if (x := of()) is not None}.values()]


def _same(then: Launch, args: Sequence[Any]) -> bool:
    """Whether the arguments are those of a recorded launch."""
    for n, of in then.objects:
        if args[n] is not of():
            return False
    for n, number in then.numbers:  # noqa: SIM110 - in each launch
        if args[n] != number:
            return False
    return True
