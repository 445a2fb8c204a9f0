"""Runs a program again, as an optimiser does, and uses the recording of its last run.

This works as long as the launches are the same, in the same order, on the same memory; scalars may differ if no index
depends on them. What each launch overwrites is copied to where it was saved in the last run, and at the end only
gradients have to run. At the first difference, recording continues in the ordinary way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.facts import draws
from quadrants_lab.ir.temporary import holding
from quadrants_lab.ir.weak import weakly
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.memory.identity import derivative, memory_at, memory_of
from quadrants_lab.runtime.memory.memory import THREAD, Memory
from quadrants_lab.runtime.observe.observers import OBSERVERS, PUT_BACK, open_recording, refuse
from quadrants_lab.runtime.tape import backward
from quadrants_lab.runtime.tape.access_summary import AccessSummary
from quadrants_lab.runtime.tape.custom_ends import clear, ends
from quadrants_lab.runtime.tape.expected import NOTHING, Expected, expected
from quadrants_lab.runtime.tape.parts import Account, part_of
from quadrants_lab.runtime.tape.recording import Recording, equal
from quadrants_lab.runtime.tape.stand_ins import Found, StandIns, launch_by, restore
from quadrants_lab.runtime.tape.step import Step, called, launch_gradient, uses
from quadrants_lab.runtime.tape.timeline import FORWARD, GRADIENT
from quadrants_lab.runtime.tape.tracked import Tracked, attach, detach

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.keeper import Keeper
    from quadrants_lab.runtime.tape.parts import Part
    from quadrants_lab.runtime.tape.report import Result

MOST_GRAPHS = 1 << 10  # the most graphs that each consist of one launch
UNNUMBERED = -1  # in place of a launch number, where no recording needs it
_version = attrgetter("version")


# a step, and what to restore before its gradient, which copies replace the gradient's buffers, and what to restore
# after it
Way = tuple[Expected, Step, "Sequence[Part]", Found, "Sequence[Part]"]


def _given(summary: AccessSummary, args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments that may differ between two launches of a gradient: numbers, and the memory of arrays and of
    their derivatives."""
    beside = () if summary.reverse is None else summary.reverse.gradient_args
    memories = [memory_of(args[n]) for n in summary.arrays]
    memories += [memory_of(derivative(args[n], of)) for n, of, _ in beside]
    return *(args[n] for n in summary.numbers), *(m if m is None else m.serial for m in memories)


class Rerun(Recording):
    """Compares the launches of a run with the recorded ``steps``. ``launched``: the arguments of the launches that were
    the same so far; for a call of a function, the arguments of `Launches.insert`. ``beside``: index of a step that is
    not plain -> the number of its launch and the arguments of its gradient. ``then``: what each step must do.
    ``followed``: for what the run tracks, the memory, its watcher, and how many launches write it; a tracked memory has
    the version that it should have at the end of the run. ``result``: the result of the last gradients. Between two
    runs this object refers to plans, arrays and functions weakly; during a run ``held`` keeps the summaries of the
    launches alive."""

    def __init__(self, launches: Keeper, steps: Sequence[Step]) -> None:
        self.launches = launches
        self.steps = list(steps)
        self.launched: list[tuple[Any, ...]] = []
        self.beside: dict[int, tuple[int, tuple[Any, ...]]] = {}
        self.then = [*map(expected, steps), NOTHING]
        writes: Counter[int] = Counter()
        plans = []
        for step in steps:
            step.uses = uses(step, launches.names)
            if (summary := step.known) is not None:
                writes.update(id(memory_at(place, step.args)) for _, place, _, _ in summary.writes)
                plans += [plan for plan in (summary.plan, summary.reverse) if plan is not None]
                step.what = summary.name
            if step.by_data:  # other elements may be overwritten in the next run, so the whole boxes are saved
                step.changes = [part for part in step.changes if part.region is not None]
                step.changes += [part_of(memory, region, Account()) for memory, region in step.by_data]
                step.by_data = []
        super().__init__(plans[0].session if plans else S.current(), plans)
        kernels = [step.known.weak for step in steps if step.known is not None]
        self.kernels = list(dict.fromkeys(kernels))
        self.held: list[AccessSummary] = []
        self.calls = len(kernels) < len(steps)
        # functions of the program may wait for other threads, which may need the lock
        self.lock = nullcontext() if self.calls else self.session.lock
        self.takes_arrays = any(summary.arrays for summary in self.summaries)
        if self.calls or not all(summary.recomputable for summary in self.summaries):
            self.capture = None
        tracked = launches.tracked.values()
        self.followed = [
            (one, one.memory, (partial(weakly(self._interrupted), one),), writes[id(one.memory)]) for one in tracked
        ]
        self.puts_back = any(step.changes for step in steps)
        self.way: list[Way] = []  # the steps, last first, with what to do around each gradient
        # whether each gradient is only a call of its entry; and what the gradients write in that case
        self.straight, self.written = False, list[Memory]()
        # whether a recording may have one note for many of these launches; the memory that the gradient of each step
        # writes; and, in a run, the recording, its present note, and all its notes of the run
        self.in_runs, self.written_by = False, dict[int, list[Memory]]()
        self.tell: Any = None
        self.run: Any = None
        self.runs: list[Any] = []
        self.final: list[Part] = []  # copies of everything that the gradients restore
        self.result: Result | None = None
        # whether a launch may save values for its gradient in the memory of the last run, and no recording notes it
        self.lends = False

    @property
    def summaries(self) -> list[AccessSummary]:
        """The summaries of the launches, as far as they are alive."""
        return [summary for which in self.kernels if (summary := which()) is not None]

    def _made(self, at: int) -> tuple[int, tuple[Any, ...]]:
        """The number of the launch of step ``at``, and the arguments of its gradient."""
        return self.beside.get(at) or (self._number(at), self.launched[at])

    # --- the launches ----------------------------------------------------------------------------------------------

    def launch(self, dispatcher: Dispatcher, args: tuple[Any, ...]) -> Any:
        """Handles the call of a kernel: launches it if it is the next step of the recording; else returns
        NotImplemented."""
        with self.session.lock:
            at = len(self.launched)
            then = self.then[at]
            summary = then.summary()
            if summary is None or (plan := summary.plan).owner is not dispatcher:
                return NotImplemented
            if not ((then.changes == S.changes or then.holds(summary)) and then.same(*args)):
                return NotImplemented
            if (self.calls and then.inner is not (self.launches.paused > 0)) or not (at or self._watch()):
                return NotImplemented
            if plan.here.last_plan is not plan.weak or plan.noted.plan is not plan:
                dispatcher.note(plan)
            try:
                if not then.plain:
                    value = self._launch(then, summary, args)
                elif self.lends:
                    value = plan.call(*args)
                else:
                    value = self._in_run(then, summary, args)
            except BaseException:
                self.end()
                self.launches.failed(self.steps[at].changes)
                raise
            if value is NotImplemented:  # even without a launch, versions may have grown
                self.end()
            else:
                self.launched.append(args)
                self.held.append(summary)
            return value

    def _in_run(self, then: Expected, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        """Launches a plain step. A recording has one note for it and the steps before it, if possible."""
        run = self.run
        if run is None or run.late or len(run.events) != run.size:
            run = self._next_run(False, len(self.launched))
            if run is None:
                return self._launch(then, summary, args)
        clocks = run.clocks
        try:
            clocks.append(perf_counter())
            value = summary.plan.closures[0](*args)
            if value is NotImplemented:
                self.tell.missed()
            else:
                clocks.append(perf_counter())
        except BaseException:  # Ctrl-C may end any of these lines
            run.args, run.summaries = [*run.args, args], [*run.summaries, summary]
            self._interrupted_in(run)
            raise
        return value

    def _interrupted_in(self, run: Any) -> None:
        """Tells the recording that an error has ended the last launch of the note, if that launch has no end yet."""
        if len(run.clocks) % 2:
            self.tell.failed()

    def _next_run(self, back: bool, first: int) -> Any:
        """Tells the recording that launches will follow, with ``back`` gradients, from the step ``first`` on. Returns
        the note of these launches; None if the recording has to be told of each."""
        self.run, self.tell = None, open_recording()
        if self.tell is not None and self.in_runs:
            fields = [f for which in self.kernels if (s := which()) is not None
                      for plan in (s.plan, s.reverse) if plan is not None for f in plan.fields.values()]  # fmt: skip
            given = self.launched, self.held, self.runs, back, first
            self.run = self.tell.run(self.session, fields, *given)
            if self.run is not None and self.launches.tracing is not None:
                self.launches.tracing.runs.append(self.run)
        return self.run

    def _launch(self, then: Expected, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        """Launches a step that is not plain."""
        at, plan, launches, kept = len(self.launched), summary.plan, self.launches, args
        step, tracing = self.steps[at], launches.tracing
        if self.captured is not None and self._starts(at, step.changes, plan, args):
            return None
        for part in step.changes:
            part.keep()
        if summary.keeps and self.lends:
            plan.scratch.give(step.kept)
        if not summary.recomputable:
            kept = launches.copied(summary, args)[0]
        began = 0.0 if tracing is None else perf_counter()
        value = plan.call(*args)
        if value is NotImplemented:
            return value
        if tracing is not None:
            tracing.note(plan, FORWARD, began, at)
        if summary.keeps:
            step.kept = plan.scratch.take()
        self.beside[at] = 1 if self.lends and not then.draws else plan.frame.launch_number, kept
        return value

    def _starts(self, at: int, changes: Sequence[Part], plan: Plan, args: tuple[Any, ...]) -> bool:
        """Starts the launch of step ``at`` as one graph, together with copies of the values that it overwrites.
        Does nothing and returns False if the device cannot capture these as a graph."""
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
        """Whether the call of a function with a custom gradient is the next step; if it is not, the rerun ends. The
        parameters are those of `Launches.insert`."""
        then = self.then[len(self.launched)]
        if then.function() is not function or self.launches.paused or not (self.launched or self._watch()):
            self.end()
            return False
        if not then.touched.issuperset([field._memory.serial for field in touched]):
            self.end()
            return False
        self.launched.append((function, args, kwargs, touched))
        return True

    def _watch(self) -> bool:
        """Watches the memory from now on; returns False if other libraries may write to some of it."""
        launches, mine = self.launches, THREAD.number
        if self.session.exported and any(memory.foreign for _, memory, _, _ in self.followed):
            return False
        began = launches.began
        for tracked, memory, watcher, writes in self.followed:
            if memory.watchers:
                attach(memory, watcher)
            else:
                memory.watchers = watcher
            tracked.version = memory.version + writes
            if (grad := tracked.grad) is not None:
                if memory.unseen > began:
                    raise tracked.unseen()
                if grad.owner != mine:
                    launches.take(grad)
        return True

    def unwatch(self) -> None:
        for _, memory, watcher, _ in self.followed:
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
        """Runs the gradients of a run whose launches were the recorded ones, after ``seed()``. Returns False if
        something else has written memory, or if the gradients are watched: then the caller must call `end`."""
        if len(self.launched) < len(self.steps) or self.session.exported or self.result is None or OBSERVERS.get():
            return False
        for tracked, memory, _, _ in self.followed:
            if memory.version != tracked.version:
                return False
        self.unwatch()
        with self.lock:
            seed()
            if self.straight and self.lends:
                self._run_straight()
            elif self.run is not None:
                self._run_noted()
            elif self.capture is None or not self._started():
                self._ready()()
        self._rest()
        return True

    def _started(self) -> bool:
        """Starts the gradients as one graph; returns whether that was possible."""
        launched = [(then.summary(), args) for then, args in zip(self.then, self.launched, strict=False)]
        given = [_given(summary, args) for summary, args in launched if summary is not None]
        if not self.start(self._ready, given):
            return False
        for summary, args in launched:
            if summary is not None and summary.reverse is not None:
                summary.reverse.wrote(args)
        for _, memory, _, _ in self.followed:
            memory.version += 1
        return True

    def _ready(self) -> Callable[[], None]:
        """Allocates what the backward pass needs; returns a function that runs it."""
        if self.puts_back and not self.final:
            self.final = backward.snapshot(self.steps)
        if not self.way or (self.puts_back and self.takes_arrays):  # the gradients may be different ones now
            self._find_way()
        return self._differentiate

    def _find_way(self) -> None:
        self.way, now, written = [], StandIns(), dict[int, Memory]()
        for at in reversed(range(len(self.steps))):
            then, step = self.then[at], self.steps[at]
            summary, (_, args) = then.summary(), self._made(at)
            before = (now.flushed(), []) if summary is None else now.before(summary, args)
            self.way.append((then, step, *before, now.after(step.changes)))
            if summary is not None and summary.reverse is not None:
                self.written_by[at] = summary.reverse.written(args)
                written |= {id(memory): memory for memory in self.written_by[at]}
        self.straight = self.capture is None and not self.calls and all(then.entry for then in self.then[:-1])
        self.written = [*written.values()]
        plans = [summary.plan for summary in self.summaries]
        on_host = self.session.backend.CAPABILITIES.on_host
        self.in_runs = self.straight and on_host and not any(
            plan.scratch or plan.takes_arrays or plan.facts.of(draws) or plan.closures[0] is refuse for plan in plans
        )

    def _run_straight(self) -> None:
        """Runs the gradients, each only by a call of its entry (the start of its compiled code)."""
        for memory in self.written:
            memory.version += 1
        while self.launched:
            args, summary = self.launched.pop(), self.held.pop()
            if (reverse := summary.reverse) is None:
                continue
            if reverse.here.last_plan is not reverse.weak:
                reverse.owner.note(reverse)
            value = reverse.entry(*([args[n] for n in summary.numbers] if summary.templates else args))
            if value is NotImplemented:  # an argument is a number that the entry does not take
                launch_gradient(reverse, args, 1, {}, ours=True)
            elif value is not None:
                reverse.finish(*args)

    def _run_noted(self) -> None:
        """Like `_run_straight`, for a recording that has one note for the gradients, if possible."""
        for at in reversed(range(len(self.steps))):
            args, summary, run = self.launched[at], self.held[at], self.run
            if (reverse := summary.reverse) is None:
                continue
            if reverse.here.last_plan is not reverse.weak:
                reverse.owner.note(reverse)
            if run is None or not run.back or run.late or len(run.events) != run.size:
                run = self._next_run(True, at)
                if run is None:
                    launch_gradient(reverse, args, self._number(at), {}, ours=True)
                    continue
            try:
                run.clocks.append(perf_counter())
                for memory in self.written_by[at]:
                    memory.version += 1
                value = reverse.entry(*([args[n] for n in summary.numbers] if summary.templates else args))
                if value is NotImplemented:  # an argument is a number that the entry does not take
                    self.tell.missed()
                    launch_gradient(reverse, args, self._number(at), {}, ours=True)
                    continue
                if value is not None:
                    reverse.finish(*args)
                run.clocks.append(perf_counter())
            except BaseException:
                self._interrupted_in(run)
                raise

    def _differentiate(self) -> None:
        with holding(PUT_BACK, True) if self.calls else nullcontext():
            self._run_gradients()

    def _run_gradients(self) -> None:
        """Runs the gradients, last first, each on memory as its launch left it."""
        for part in self.final:
            part.keep()
        tracing, at, began = self.launches.tracing, len(self.way), 0.0
        try:
            for (then, step, before, found, after), args in zip(self.way, reversed(self.launched), strict=True):
                at, summary = at - 1, then.summary()
                if tracing is not None:
                    began = perf_counter()
                if before:
                    restore(before)
                if summary is None:
                    function, given, named, _ = args
                    function.grad(*given, **named)
                    clear(ends(self._inner_launches(at), then.touched))
                elif (reverse := summary.reverse) is not None:
                    number, kept = self._made(at)
                    if found:
                        launch_by(found, reverse, kept, number, step.kept)
                    else:
                        launch_gradient(reverse, kept, number, step.kept, ours=True)
                    if tracing is not None:
                        tracing.note(reverse, GRADIENT, began, at)
                if after:
                    restore(after)
        finally:
            if self.final:
                restore(self.final)

    def _number(self, at: int) -> int:
        """Stands for the number of the launch of step ``at``, which draws no random numbers."""
        return next((number for run in self.runs if (number := run.number(at))), UNNUMBERED)

    def _inner_launches(self, at: int) -> list[tuple[AccessSummary, tuple[Any, ...]]]:
        """The launches of the function with a custom gradient whose call is step ``at``."""
        first = at
        while first and self.then[first - 1].inner:
            first -= 1
        made = [(self.then[n].summary(), self._made(n)[1]) for n in range(first, at)]
        return [(summary, args) for summary, args in made if summary is not None]

    def end(self) -> None:
        """Records the steps that were the same, and continues recording after them."""
        launches, paused = self.launches, self.launches.paused
        launches.rerun = None
        self.unwatch()
        ended = len(self.launched) == len(self.steps)
        if not ended:
            launches.clear()
        for at, args in enumerate(self.launched):
            step, then = self.steps[at], self.then[at]
            launches.paused, summary = int(then.inner), then.summary()
            if summary is not None:
                number, kept = self._made(at)
                (launches.launched if ended else launches.repeated)(step, summary, args, number, kept)
            elif ended:
                called(step, *args[:3])
                step.ends = ends(self._inner_launches(at), then.touched)
            else:
                launches.insert(*args)
        launches.paused = paused
        if not ended:
            launches.mark_seen()
            return
        launches.finished_rerun = self
        for tracked in launches.tracked.values():
            attach(tracked.memory, (tracked.watch,))

    def let_go(self) -> None:
        """Refers to plans, arrays and functions only weakly until the steps are launched again; if one of them ends,
        the recording is of no use any more."""
        self._rest()
        for step in self.steps:
            step.launch = step.known = step.call = None
            step.gradient = step.repeat = None
            step.ends, step.unclear = [], []

    def _rest(self) -> None:
        # the recording may have the lists
        self.launched, self.held, self.runs, self.run = [], [], [], None
        self.beside.clear()

    def needs(self) -> list[Any]:
        """The objects to which it refers weakly, as long as the run keeps them alive."""
        found = [plan for one in self.summaries for plan in (one.plan, one.reverse) if plan is not None]
        objects = [of() for then in self.then for of in then.objects]
        objects += [then.function() for then in self.then]
        return [*found, *{id(x): x for x in objects if x is not None}.values()]
