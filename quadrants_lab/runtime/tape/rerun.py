"""Runs a program again, as an optimiser does, and reuses the recording of its last run.

This works as long as the launches are the same, in the same order, on the same memory; scalars may differ if no index
depends on them. What each launch overwrites is then copied to the place where it was saved last time, and at the end
only gradients run. At the first difference recording continues in the ordinary way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

from quadrants_lab.ir.weak import weakly
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.memory.identity import derivative, memory_at, memory_of
from quadrants_lab.runtime.memory.memory import THREAD
from quadrants_lab.runtime.observe.observers import OBSERVERS, PUT_BACK, open_recording
from quadrants_lab.runtime.observe.tape_numbers import returned
from quadrants_lab.runtime.tape import backward
from quadrants_lab.runtime.tape.access_summary import AccessSummary
from quadrants_lab.runtime.tape.expected import Expected, expected
from quadrants_lab.runtime.tape.parts import Account, part_of
from quadrants_lab.runtime.tape.recording import Recording, equal
from quadrants_lab.runtime.tape.stand_ins import Found, StandIns, launch_by, restore
from quadrants_lab.runtime.tape.step import Step, called, uses
from quadrants_lab.runtime.tape.tracing import FORWARD, GRADIENT, Tracing
from quadrants_lab.runtime.tape.tracked import Tracked, attach, detach

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.keeper import Keeper
    from quadrants_lab.runtime.tape.parts import Part
    from quadrants_lab.runtime.tape.report import Report

MOST_GRAPHS = 1 << 10  # of single launches
_version = attrgetter("version")


Way = tuple[Step, "Sequence[Part]", Found, "Sequence[Part]"]


def _given(summary: AccessSummary, args: Sequence[Any]) -> tuple[Any, ...]:
    """What may differ between two launches of a gradient: its numbers, and the memory of its arrays and of their
    derivatives."""
    beside = () if summary.reverse is None else summary.reverse.gradient_args
    memories = [memory_of(args[n]) for n in summary.arrays]
    memories += [memory_of(derivative(args[n], of)) for n, of, _ in beside]
    return *(args[n] for n in summary.numbers), *(m if m is None else m.serial for m in memories)


class Rerun(Recording):
    """Compares the launches of a run with the recorded ``steps``. ``at``: how many were the same so far; ``launched``:
    the summary, arguments and number of each of them, and the arguments of its gradient; of a call, no summary and the
    arguments of `Launches.insert`. ``then``: what was recorded. ``memories``: what the run tracks, ``followed``: with
    its gradient, its watcher, and how many launches write it; each has the version ``after`` when the run ends.
    ``report``: of the last gradients. Between two runs it refers weakly to plans, arrays and functions."""

    def __init__(self, launches: Keeper, steps: Sequence[Step]) -> None:
        self.launches = launches
        self.steps = list(steps)
        self.at = 0
        self.launched: list[tuple[AccessSummary | None, tuple[Any, ...], int, tuple[Any, ...]]] = []
        self.then = [expected(step) for step in steps]
        writes: Counter[int] = Counter()
        plans = []
        for step in steps:
            step.uses = uses(step, launches.names)
            summary, launch = step.known, step.launch or step.inner_launch
            if summary is not None and launch is not None:
                writes.update(id(memory_at(place, launch[1])) for _, place, _, _ in summary.writes)
                plans += [plan for plan in (summary.plan, summary.reverse) if plan is not None]
                step.what = summary.name
            if step.by_data:  # the data may decide otherwise now
                step.changes = [part for part in step.changes if part.region is not None]
                step.changes += [part_of(memory, region, Account()) for memory, region in step.by_data]
                step.by_data = []
        super().__init__(plans[0].session if plans else S.current(), plans)
        kernels = [then.summary for then in self.then if then.function is None]
        self.kernels = list(dict.fromkeys(kernels))
        self.calls = len(kernels) < len(steps)
        # functions of the program may wait for other threads
        self.lock = nullcontext() if self.calls else self.session.lock
        self.takes_arrays = any(then.objects and summary.arrays for then, summary in self._summaries())
        if self.calls or not all(summary.recomputable for _, summary in self._summaries()):
            self.capture = None
        tracked = launches.tracked.values()
        self.memories = [one.memory for one in tracked]
        self.followed = [
            (one, one.memory, one.grad, (partial(weakly(self._interrupted), one),), writes[id(one.memory)])
            for one in tracked
        ]
        self.after: list[int] = []
        self.puts_back = any(step.changes for step in steps)
        # the steps, last first, with what to restore before a gradient, its stand-ins, and what to restore after it
        self.way: list[Way] = []
        self.traced: list[Any] = []  # the kernels of the steps, once they were timed
        self.final: list[Part] = []  # copies of all that the gradients restore
        self.report: Callable[[], Report] | None = None
        self.observers: tuple[Any, ...] = ()
        self.changes = -1  # `session.changes` when all that the launches depend on held
        self.until = 0  # how many steps `again` may launch
        self.lends = False  # whether a launch may write what it keeps for its gradient to the memory of the last run
        self.paths: list[Dispatcher] = []  # whose calls come to `again` now

    def _summaries(self) -> list[tuple[Expected, AccessSummary]]:
        """Those of the launches, as long as the run has them."""
        return [(then, summary) for then in self.then if (summary := then.summary()) is not None]

    # --- the launches ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Lets calls of the recorded kernels come to `again` until `leave`, unless there are other observers, which are
        to see them. To be called where the run is watched, in the launch modes of the last run."""
        self.observers, self.lends, known = OBSERVERS.get(), open_recording() is None, self.changes == S.changes
        if len(self.observers) > 1:
            return
        self.changes = S.changes
        for which in self.kernels:
            summary = which()
            if summary is None or not (known or summary.holds()):
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
                summary = then.summary()
                if (
                    summary is not None and summary.plan.owner is dispatcher and len(args) == then.arity
                    and ((then.steady and S.changes == self.changes) or summary.holds()) and then.same(*args)
                ):  # fmt: skip
                    value = self._launch(then, summary, args)
                    if value is not NotImplemented:
                        return value if value is None else returned(value, summary.plan)
        return dispatcher.resolve(*args)

    def launch(self, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        """Launches as the next step of the recording. If this is another launch, ends and returns NotImplemented."""
        then = self.then[self.at] if self.at < len(self.then) else None
        if then is None or then.summary() is not summary or not then.same(*args):
            self.end()
            return NotImplemented
        return self._launch(then, summary, args)

    def _launch(self, then: Expected, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        at, plan, launches = self.at, summary.plan, self.launches
        if then.inner is not (launches.paused > 0) or not (at or self._watch()):
            self.end()
            return NotImplemented
        if plan.here.last_plan is not plan.weak or plan.noted.plan is not plan:
            plan.owner.note(plan)
        kept, step = args, None
        if not then.plain:
            step = self.steps[at]
            if self.captured is not None and self._starts(at, step.changes, plan, args):
                self.launched.append((summary, args, 1, args))
                self.at = at + 1
                return None
            for part in step.changes:
                part.keep()
            if summary.keeps and self.lends:
                plan.scratch.give(step.kept)
            if not summary.recomputable:
                kept = launches.copied(summary, args)[0]
        tracing = launches.tracing
        began = 0.0 if tracing is None else perf_counter()
        try:
            value = plan.call(*args)
        except BaseException:
            changes = self.steps[at].changes
            self.end()
            launches.failed(changes)
            raise
        if value is NotImplemented:  # though versions may have grown
            self.end()
            return value
        if tracing is not None:
            tracing.again.append((FORWARD, began, perf_counter(), at))
        if step is not None and summary.keeps:
            step.kept = plan.scratch.take()
        number = 1 if self.lends and not then.draws else plan.frame.launch_number
        self.launched.append((summary, args, number, kept))
        self.at = at + 1
        return value

    def _starts(self, at: int, changes: Sequence[Part], plan: Plan, args: tuple[Any, ...]) -> bool:
        """Starts the copies of what the launch of a step overwrites, and the launch, as one graph; False, with nothing
        done, where the device cannot capture them."""
        known = self.parts.get(at)
        if known is None and at < MOST_GRAPHS and self.lends and not any(part.is_lent for part in changes):
            written = plan.written(args)
            versions, launched = list(map(_version, written)), list[bool]()

            def run() -> None:
                for part in changes:
                    part.keep()
                launched.append(plan.call(*args) is not NotImplemented)

            graph = self.capture(run)  # type: ignore[misc]  # the gradients were captured
            known = self.parts[at] = args, graph if launched == [True] else None, written
            for memory, version in zip(written, versions, strict=True):
                memory.version = version
        if known is None or known[1] is None or not self.lends:
            return False
        given, graph, written = known
        if not (equal([args], [given]) and graph.holds()):
            del self.parts[at]
            return False
        graph.launch()
        for memory in written:
            memory.version += 1
        if plan.read_versions:
            plan.launched = plan.read_versions.now(*args)
        return True

    def insert(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], touched: Sequence[Any]) -> bool:
        """Whether the call of a function with a custom gradient is the next step; if it is not, this ends. The
        arguments are those of `Launches.insert`."""
        then = self.then[self.at] if self.at < len(self.then) else None
        known = then is not None and then.function is not None and then.function() is function
        if not known or then is None or self.launches.paused or not (self.at or self._watch()):
            self.end()
            return False
        if not then.touched.issuperset([field._memory.serial for field in touched]):
            self.end()
            return False
        self.launched.append((None, (function, args, kwargs, touched), 0, ()))
        self.at += 1
        return True

    def _watch(self) -> bool:
        """Follows the memory from now on; False where others may write to some of it."""
        launches, mine, after = self.launches, THREAD.number, self.after
        if self.session.exported and any(memory.foreign for memory in self.memories):
            return False
        began = launches.began
        for tracked, memory, grad, watcher, writes in self.followed:
            if memory.watchers:
                attach(memory, watcher)
            else:
                memory.watchers = watcher
            after.append(memory.version + writes)
            if grad is not None:
                if memory.unseen > began:
                    raise tracked.unseen()
                if grad.owner != mine:
                    launches.take(grad)
        return True

    def unwatch(self) -> None:
        self.after.clear()
        for _, memory, _, watcher, _ in self.followed:
            if memory.watchers is watcher:
                memory.watchers = ()
            else:
                detach(memory, watcher)

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
        if self.at < len(self.then) or self.session.exported or self.report is None or OBSERVERS.get():
            return False
        for memory, version in zip(self.memories, self.after, strict=False):
            if memory.version != version:
                return False
        with self.lock:
            seed()
            if self.capture is None or not self._started():
                self._ready()()
        self.unwatch()
        if self.launches.tracing is not None:
            self.tell(self.launches.tracing)
        self.at = 0
        self.launched.clear()
        return True

    def _started(self) -> bool:
        """Whether the gradients run as one graph."""
        given = [_given(summary, args) for summary, args, _, _ in self.launched if summary is not None]
        if not self.start(self._ready, given):
            return False
        for summary, args, _, _ in self.launched:
            if summary is not None and summary.reverse is not None:
                summary.reverse.wrote(args)
        for memory in self.memories:
            memory.version += 1
        return True

    def _ready(self) -> Callable[[], None]:
        """Allocates what the backward pass needs."""
        if self.puts_back and not self.final:
            self.final = backward.snapshot(self.steps)
        if not self.way or (self.puts_back and self.takes_arrays):  # whose gradients may be others now
            self.way, now = [], StandIns()
            for step, (summary, _, _, args) in zip(reversed(self.steps), reversed(self.launched), strict=True):
                before = (now.flushed(), []) if summary is None else now.before(summary, args)
                self.way.append((step, *before, now.after(step.changes)))
        return self._differentiate

    def _differentiate(self) -> None:
        """Runs the gradients, last first, each on memory as its launch left it."""
        for part in self.final:
            part.keep()
        token, tracing = PUT_BACK.set(True) if self.calls else None, self.launches.tracing
        try:
            at = len(self.way)
            for (step, before, found, after), of in zip(self.way, reversed(self.launched), strict=True):
                summary, args, number, kept = of
                if tracing is not None:
                    at, began = at - 1, perf_counter()
                if before:
                    restore(before)
                if summary is None:
                    function, given, named, _ = args
                    function.grad(*given, **named)
                elif found and summary.reverse is not None:
                    launch_by(found, summary.reverse, kept, number, step.kept)
                elif (reverse := summary.reverse) is not None:
                    gradient = reverse.owner
                    gradient.replays, gradient.kept = number, step.kept
                    if gradient.here.last_plan is not reverse.weak or reverse.noted.plan is not reverse:
                        gradient.note(reverse)
                    try:
                        if reverse.call(*kept) is NotImplemented:
                            gradient.launch(reverse, kept)
                    finally:
                        gradient.replays, gradient.kept = 0, None
                if tracing is not None and summary is not None and summary.reverse is not None:
                    tracing.again.append((GRADIENT, began, perf_counter(), at))
                if after:
                    restore(after)
        finally:
            if token is not None:
                PUT_BACK.reset(token)
            if self.final:
                restore(self.final)

    def tell(self, tracing: Tracing) -> None:
        """Gives the tracing the kernels of the steps."""
        if len(self.traced) != len(self.launched):
            of = (summary for summary, *_ in self.launched)
            self.traced = [None if x is None else x.plan.compiled.lowered.kernel for x in of]
        tracing.kernels = self.traced

    def end(self) -> None:
        """Continues recording after the steps that were the same."""
        launches, paused = self.launches, self.launches.paused
        if launches.tracing is not None:
            self.tell(launches.tracing)
        launches.rerun, after = None, [*self.after]
        self.leave()
        self.unwatch()
        ended = self.at == len(self.steps)
        if not ended:
            launches.clear()
        for step, then, launched in zip(self.steps, self.then, self.launched, strict=False):
            summary, args, number, kept = launched
            launches.paused = int(then.inner)
            if summary is not None:
                (launches.launched if ended else launches.repeated)(step, summary, args, number, kept)
            elif ended:
                called(step, *args[:3])
            else:
                launches.insert(*args)
        launches.paused = paused
        if not ended:
            launches.mark_seen()
            return
        launches.finished_rerun = self
        for tracked, version in zip(launches.tracked.values(), after, strict=True):
            attach(tracked.memory, (tracked.watch,))
            tracked.version = version

    def let_go(self) -> None:
        """Keeps only weak references to plans, arrays and functions until the steps are launched again: without one of
        them the recording is of no use."""
        self.at = 0
        self.launched.clear()
        for step in self.steps:
            step.launch = step.inner_launch = step.summary = step.known = step.call = None
            step.gradient = step.repeat = None

    def needs(self) -> list[Any]:
        """What it refers to weakly, as long as the run has it."""
        summaries = [summary for _, summary in self._summaries()]
        found = [plan for one in summaries for plan in (one.plan, one.reverse) if plan is not None]
        objects = [of() for then in self.then for of in then.objects]
        objects += [then.function() for then in self.then if then.function is not None]
        return [*found, *{id(x): x for x in objects if x is not None}.values()]
