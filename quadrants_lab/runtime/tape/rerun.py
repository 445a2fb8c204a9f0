"""Runs a program again, as an optimiser does, and reuses the recording of its last run.

This works as long as the launches are the same, in the same order, on the same memory; scalars may differ if no index
depends on them. What each launch overwrites is then copied to the place where it was saved last time. At the first
difference recording continues in the ordinary way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from quadrants_lab.runtime.arguments.slots import derivative, memory_at
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.observe.observers import CONSTANT, MODE, OBSERVERS, PUT_BACK
from quadrants_lab.runtime.observe.tape_numbers import TapeNumber, returned
from quadrants_lab.runtime.session import CHECKS, default
from quadrants_lab.runtime.tape import backward
from quadrants_lab.runtime.tape.access_summary import AccessSummary, context
from quadrants_lab.runtime.tape.graph_capture import GraphCapture
from quadrants_lab.runtime.tape.parts import Part
from quadrants_lab.runtime.tape.step import Step
from quadrants_lab.runtime.tape.tracked import Tracked

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.tape.recorder import Launches
    from quadrants_lab.runtime.tape.report import Report

MOST_BYTES = 1 << 28  # that a recording may keep for the next run
Then = tuple[Callable[[], AccessSummary | None], list[tuple[int, Any]], list[tuple[int, Any]]]


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
    steps = cast("list[Step]", launches.steps)
    places = ((n, s.args) for s in steps if s.summary is not None for n in s.summary.arrays)
    arrays = {id(m): m for m in (memory_at(n, args) for n, args in places)}
    total = sum(step.nbytes for step in steps) + sum(memory.operand.nbytes for memory in arrays.values())
    return steps if total <= MOST_BYTES else None


def _given(step: Step) -> tuple[Any, ...]:
    """What may differ between two launches of a step's gradient: its numbers, and the memory of its arrays and of
    their derivatives."""
    assert step.summary is not None
    args, reverse = step.args, step.summary.reverse
    beside = () if reverse is None else reverse.gradient_args
    memories = [memory_of(args[n]) for n in step.summary.arrays]
    memories += [memory_of(derivative(args[n], of)) for n, of, _ in beside]
    return *(args[n] for n in step.summary.numbers), *(m if m is None else m.serial for m in memories)


def _same(then: Then, summary: AccessSummary, args: Sequence[Any]) -> bool:
    """Whether the launch is that of a recorded step."""
    which, arrays, scalars = then
    if which() is not summary:
        return False
    for n, array in arrays:
        if args[n] is not array():
            return False
    for n, number in scalars:  # noqa: SIM110 - in each launch
        if args[n] != number:
            return False
    return True


def _differentiate(step: Step) -> None:
    """As `launch_gradient`, where the session's lock is held and no observer or memory of others is to be minded."""
    assert step.summary is not None
    assert step.launch is not None
    reverse = step.summary.reverse
    if reverse is None:
        return
    gradient, (_, args, number) = reverse.owner, step.launch
    gradient.replays, gradient.kept = number, step.kept
    gradient.last_plan, reverse.noted.plan = reverse.weak, reverse
    try:
        if reverse.call(*args) is NotImplemented:
            gradient.launch(reverse, args)
    finally:
        gradient.replays, gradient.kept = 0, None


class Rerun:
    """Compares the launches of a run with the recorded ``steps``. ``at``: how many were the same so far. ``then``: of
    each step its summary, its arrays, and the numbers that its indices depend on. ``needs``: weak references to the
    plans and arrays of all."""

    def __init__(self, launches: Launches, steps: list[Step]) -> None:
        self.launches = launches
        self.steps = list(steps)
        self.at = 0
        self.then: list[Then] = []
        self.needs: list[Callable[[], Any]] = []
        self.which: list[Callable[[], AccessSummary | None]] = []  # the summaries in ``then``, each once
        writes: Counter[int] = Counter()
        for step in steps:
            assert step.summary is not None
            writes.update(id(memory_at(place, step.args)) for _, place, _, _ in step.summary.writes)
        self.writes = writes  # id of a memory -> number of launches that write it
        self.versions: dict[int, int] = {}  # id of a memory -> its version before the run
        self.puts_back = any(step.changes for step in steps)
        self.report: Callable[[], Report] | None = None  # of the last gradients
        self.final: list[Part] = []
        summaries = [step.summary for step in steps if step.summary is not None]
        repeatable = all(r.plan.repeatable and (r.reverse is None or r.reverse.repeatable) for r in summaries)
        self.session = summaries[0].plan.session
        self.graph_capture = GraphCapture(self.session, repeatable)
        self.plain = [not (r.plan.compiled.reads or r.templates) for r in summaries]  # see `again`
        self.known = [False] * len(self.plain)  # whether `again` may launch each step
        self.context: tuple[Any, ...] = ()  # launch modes in which it may
        self.observers: tuple[Any, ...] = ()
        self.paths: list[Dispatcher] = []  # whose calls come to `again` now

    def begin(self) -> None:
        """Lets calls of the recorded kernels come to `again` until `leave`. To be called where the run is watched."""
        self.observers, now = OBSERVERS.get(), context()
        if now != self.context:
            self.context, self.known = now, [False] * len(self.plain)
        for which in self.which:
            summary = which()
            if summary is not None:
                owner = summary.plan.owner
                owner.call = partial(self.again, owner)
                self.paths.append(owner)

    def leave(self) -> None:
        for owner in self.paths:
            owner.call = owner.resolve
        self.paths.clear()

    def again(self, dispatcher: Dispatcher, *args: Any) -> Any:
        """A call of a kernel: if the next step was launched by the same kernel in an earlier run, without more than its
        arguments to decide by which plan, it is launched as that step. Anything else is the dispatcher's."""
        at, launches, session = self.at, self.launches, self.session
        here = at < len(self.steps) and self.known[at] and launches.rerun is self and not launches.paused
        same = here and OBSERVERS.get() is self.observers and default() is session
        if same and (MODE.get(), CONSTANT.get(), CHECKS.get()) == self.context:
            with session.lock:
                summary, dead_paths = self.then[at][0](), launches.dead_paths
                if summary is not None and summary.plan.owner is dispatcher and not (dead_paths.open or dead_paths.cut):
                    plan = summary.plan
                    fits = len(args) == len(plan.slots) and summary.placements == session.placements
                    if fits and not (summary.numbers and TapeNumber in map(type, args)):
                        dispatcher.last_plan, plan.noted.plan = plan.weak, plan
                        value = self.launch(summary, args)
                        if value is not NotImplemented:
                            return value if value is None else returned(value, plan)
        return dispatcher.resolve(*args)

    def let_go(self) -> list[Any]:
        """Keeps only weak references to plans and arrays until the steps are launched again, and returns them: without
        one of them the recording is of no use."""
        self.at = 0
        self.launches.fully_tracked.clear()
        if not self.then:
            self._note()
        needs = [one for of in self.needs if (one := of()) is not None]
        for step in self.steps:
            step.launch = step.summary = None
        return needs

    def _note(self) -> None:
        """Sets ``then`` and ``needs``."""
        needs: dict[int, Any] = {}
        for step in self.steps:
            summary, args = step.summary, step.args
            assert summary is not None
            arrays = [args[n] for n in summary.arrays]
            needs |= {id(x): ref(x) for x in (*arrays, summary.plan, summary.reverse) if x is not None}
            given = [(n, ref(args[n])) for n in summary.arrays], [(n, args[n]) for n in summary.scalars]
            self.then.append((summary.weak, *given))
            step.what, step.repeat = summary.name, None
        self.needs = list(needs.values())
        self.which = list(dict.fromkeys(which for which, _, _ in self.then))

    def launch(self, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        """Launches as the next step of the recording. If this is another launch, ends and returns NotImplemented."""
        at = self.at
        foreign = not at and self.session.exported and any(f.memory.foreign for f in self.launches.tracked.values())
        if foreign or at == len(self.steps) or not _same(self.then[at], summary, args):
            self.end()
            return NotImplemented
        if not at:
            self._watch()
        step, plan, value = self.steps[at], summary.plan, NotImplemented
        for part in step.changes:
            part.keep()
        try:
            value = plan.call(*args)
        except BaseException:
            self.end()
            self.launches.failed(step.changes)
            raise
        if value is NotImplemented:
            self.end()
            return value
        if summary.keeps:
            step.kept = plan.scratch.take()
        step.launch, step.summary = (plan, args, plan.frame.launch_number), summary
        if not self.known[at]:
            self.known[at] = self.plain[at] and OBSERVERS.get() is self.observers and context() == self.context
        self.at = at + 1
        return value

    def differentiate(self) -> bool:
        """Starts the gradients of all steps as one captured graph; False if the device cannot do that."""
        graph = self.graph_capture
        if graph.capture is None or not graph.start(self._ready, [_given(s) for s in self.steps]):
            return False
        for step in self.steps:
            if step.summary is not None and step.summary.reverse is not None:
                step.summary.reverse.wrote(step.args)
        for tracked in self.launches.tracked.values():
            tracked.memory.version += 1
            tracked.version = tracked.memory.version
        return True

    def finish(self, seed: Callable[[], None]) -> bool:
        """Runs the gradients of a run whose launches were the recorded ones, after ``seed()``. False, with nothing
        done, where more is to be done than one gradient after the other: memory is to be put back, something else has
        written it, the gradients are watched, or a device can start them as one graph."""
        session, tracked = self.session, self.launches.tracked.values()
        alone = not (self.puts_back or session.exported or OBSERVERS.get())
        if self.at < len(self.steps) or not alone or self.graph_capture.capture is not None:
            return False
        for one in tracked:
            if one.memory.version != self._version_after(one.memory):
                return False
        with session.lock:
            token = PUT_BACK.set(True)
            try:
                seed()
                for step in reversed(self.steps):
                    _differentiate(step)
            finally:
                PUT_BACK.reset(token)
        return True

    def _ready(self) -> Callable[[], None]:
        """Allocates what the captured sweep needs."""
        self.final = backward.snapshot(self.steps)
        return self._sweep

    def _sweep(self) -> None:
        for part in self.final:
            part.keep()
        backward.sweep(self.launches, self.launches.steps, forget=False)
        for part in self.final:
            part.put()

    def _watch(self) -> None:
        for tracked in self.launches.tracked.values():
            if tracked.grad is not None and tracked.memory.unseen > self.launches.began:
                raise tracked.unseen()
            tracked.interrupt = self._interrupted
            tracked.memory.watchers = (*tracked.memory.watchers, tracked.watch)
            self.versions[id(tracked.memory)] = tracked.memory.version
            if tracked.grad is not None:
                self.launches.take(tracked.grad)

    def _interrupted(self, tracked: Tracked, where: Any) -> None:
        """Called when Python is about to write to tracked memory."""
        self.end()
        now = self.launches.tracked.get(id(tracked.memory))
        if now is not None:
            now.watch(where)

    def end(self) -> None:
        """Continues recording after the steps that were the same."""
        launches = self.launches
        launches.rerun = None
        if self.at < len(self.steps):
            launches.restart(self.steps[: self.at])
            return
        launches.finished_rerun = self
        for tracked in launches.tracked.values():
            memory = tracked.memory
            tracked.interrupt = None
            tracked.version = self._version_after(memory)

    def _version_after(self, memory: Memory) -> int:
        """The version of tracked memory after all launches of the run."""
        return self.versions[id(memory)] + self.writes[id(memory)]
