"""Records the launches of a program and Python's writes between them, for their gradients.

If a later launch or Python overwrites memory that an earlier gradient will read, the old values are saved and restored
before that gradient runs (`back`). Values that Python writes over the result of a launch are constants: the gradient of
those elements ends there. With a budget, or in a segment that the user marked, launches are recomputed in the backward
pass instead (`recomputation`). Then the values that the launches themselves read must be saved too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.arguments.signature import memory_at
from quadrants_lab.runtime.compile.compiled import REVERSE
from quadrants_lab.runtime.launch.regions import add, volume, whole
from quadrants_lab.runtime.lint.cross_kernel import DeadPaths
from quadrants_lab.runtime.session import checking
from quadrants_lab.runtime.tape import backward, recomputation
from quadrants_lab.runtime.tape.access_summary import AccessSummaries, AccessSummary
from quadrants_lab.runtime.tape.keeper import Keeper
from quadrants_lab.runtime.tape.parts import Part, part_of
from quadrants_lab.runtime.tape.python_writes import record_python_writes
from quadrants_lab.runtime.tape.rerun import Rerun, steps_to_run_again
from quadrants_lab.runtime.tape.step import Segment, Step, launch_gradient
from quadrants_lab.runtime.tape.tracked import PendingWrite
from quadrants_lab.runtime.tape.written import Overwritten, Writes

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan

LONG = 4  # from this segment length on, a launch goes into a segment at once instead of being joined to one later


class Launches(Keeper):
    """An observer that records launches for `differentiate`.

    ``repeatable``: also copy all memory as it was before the first step, which `repeat` needs. ``memory``: the budget
    in bytes, beyond which launches are recomputed; None: everything is saved, up to `KEEP_BYTES`. ``joins``: whether
    this object joins steps to segments when the budget is full; otherwise its caller makes the segments.

    It records into ``steps`` until `clear`. `rest` keeps a recording for the next run of a program. During that run
    ``rerun`` compares each launch with ``steps``, which do not change. At the first difference `Rerun.end` calls
    `restart` with the steps that were the same, and recording continues after them. If all were the same, the rerun
    becomes ``finished_rerun``.
    """

    def __init__(self, repeatable: bool = False, memory: int | None = None, joins: bool = True) -> None:
        self.repeatable = repeatable
        self.memory = memory
        self.joins = joins
        self.writes = Writes()
        self.forget()
        self.clear()

    def clear(self) -> None:
        self._unwatch()
        self.forget()
        self.rerun: Rerun | None = None  # in progress
        self.finished_rerun: Rerun | None = None
        self.steps: list[Step | Segment] = []
        self.in_auto_segment = False  # whether the first open segment is one that the budget asked for
        self.fully_tracked: dict[AccessSummary, bool] = {}  # -> whether their own reads are tracked, too
        self.initial: dict[int, tuple[Any, npt.NDArray[Any]]] = {}  # id -> memory or array, its copy before any step
        self.made_again = 0  # steps recomputed in the last backward pass
        self.recomputed_times: Counter[int] = Counter()  # step number -> how often it was recomputed
        self.last_steps: list[Step | Segment] = []  # the steps before the last backward pass
        self.segment_length = 1  # length in steps of the segments that the budget makes
        self.largest_segment = 0  # bytes of the largest segment
        self.tail = 0  # number of single recomputable steps at the end
        self.names: dict[int, str] = {}  # id of a memory -> its name in the first kernel that used it
        self.paused = 0
        self.dead_paths = DeadPaths("grad")
        self.by_hand: dict[str, Plan] = {}  # by kernel, the gradients that were launched by hand
        self.constants: set[int] = set()  # serials of memory that Python overwrote
        self.overwritten = Overwritten("grad")
        self.writes.clear()

    def _unwatch(self) -> None:
        for tracked in self.tracked.values():
            tracked.unfollow()

    @property
    def differentiates(self) -> bool:
        return not self.paused

    # --- what happens ------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Launches until `resume` belong to a function with a custom gradient."""
        record_python_writes(self)
        self._end_auto_segment()
        if self.open:
            raise recomputation.not_recomputable("belongs to a function with a custom gradient")
        self.paused += 1

    def resume(self) -> None:
        record_python_writes(self)
        self.paused -= 1

    def insert(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], touched: Sequence[Any]) -> None:
        """Records the call of a Python function with a custom gradient, which ran between `pause` and `resume`.
        ``touched``: fields and ndarrays that its Python code read or wrote, which its gradient may read."""
        for field in touched:
            memory = field._memory
            name = self.names.get(id(memory), repr(field))
            add(self._track(memory, name, function.__name__).regions, whole(memory.operand.shape))
        if not self.paused:
            assert function.grad is not None
            self._end_auto_segment()
            run = partial(function.grad, *args, **kwargs)
            self.add(Step(run, partial(function.fn, *args, **kwargs)))

    @contextmanager
    def segment(self, known: Segment | None = None, by_hand: bool = True) -> Iterator[None]:
        """Steps recorded in the with block are one segment. It begins where ``known`` does, if that is given."""
        record_python_writes(self)
        self._end_auto_segment()
        segment = Segment(by_hand=by_hand) if known is None else known.begun()
        self.add(segment)
        self.open.append(segment)
        try:
            yield
            record_python_writes(self)
        finally:
            self.open.pop()
        if not segment.steps:
            self.under_way.pop()

    def again(self, dispatcher: Dispatcher, args: tuple[Any, ...]) -> Any:
        """Launches and records in the fast way, if a launch that differs at most in its scalars was recorded before;
        else NotImplemented."""
        summaries = dispatcher.summaries
        summary = None if summaries is None or self.paused or self.repeatable else summaries.find(args)
        if summary is None or any(self.dead_paths.follows(memory_at(p, args)) for p in summary.constants):
            return NotImplemented
        dispatcher.last = summary.plan.noted.plan = summary.plan
        if self.rerun is not None and (value := self.rerun.launch(summary, args)) is not NotImplemented:
            return value
        return self.launch(summary, args)

    def launch(self, summary: AccessSummary, args: tuple[Any, ...], number: int = 0) -> Any:
        """Launches and records. ``number``: the launch number that is repeated, 0 for a new launch."""
        plan, failed, value = summary.plan, True, None
        last = plan.last_launch if number else None
        with plan.session.lock:  # another thread may launch the same kernel, which has one frame
            record_python_writes(self)
            self._begin_auto_segment(summary)
            pending = self._before(summary, args)
            try:
                value = _again(plan.owner.launch, plan, args, number, summary.prints) if number else plan.call(*args)
                failed = False
            finally:
                if value is not NotImplemented:
                    self.add(self._ended(summary, args, pending, failed))
                    if last is not None:  # a gradient by hand is that of the last launch, and not of a repeated one
                        plan.last_launch = last
                else:  # nothing was launched
                    for write in pending:
                        write.tracked.version = write.tracked.memory.version
        return value

    def before(self, plan: Plan, args: tuple[Any, ...]) -> tuple[AccessSummary, list[PendingWrite]]:
        """Copies the values that this launch may overwrite and that will be read again."""
        record_python_writes(self)
        memories = plan.memories(args)
        for name, memory in memories.items():
            self.names.setdefault(id(memory), name)
        if self.repeatable:
            touched: list[Any] = [*memories.values(), *(a for a in args if isinstance(a, np.ndarray))]
            for one in touched:
                if id(one) not in self.initial:
                    self.initial[id(one)] = one, one.copy()
        summary = AccessSummary(plan, args)
        self._begin_auto_segment(summary)
        return summary, self._before(summary, args)

    def after(
        self, plan: Plan, args: tuple[Any, ...], token: tuple[AccessSummary, list[PendingWrite]], failed: bool
    ) -> None:
        summary, pending = token
        gradient, kept_args = plan.owner.gradient, args
        if not failed and not self.paused:
            self.dead_paths.launched(plan, args)
            if plan.compiled.mode == REVERSE and not plan.owner.constant:
                self.by_hand.setdefault(plan.kernel.name, plan)
            if gradient is not None and plan.differentiable:
                reverse = gradient.plan_for(plan.session, args)
                reverse.before_foreign(args)
                summary.differentiate(reverse, args)
                kept_args = _copied(reverse, args)
            if summary.fast:
                if plan.owner.summaries is None:
                    plan.owner.summaries = AccessSummaries(plan.owner)
                plan.owner.summaries.add(summary, args)
        step = self._ended(summary, args, pending, failed)
        if self.paused and not failed:
            step.inner_launch, step.launch, step.summary = step.launch, None, None
        elif not failed:
            number = plan.frame.launch_number
            step.repeat = partial(_repeated, plan.owner.launch_by, plan, args, number)
            if not summary.recomputable:
                step.summary = None
                if summary.reverse is not None:
                    step.gradient = partial(launch_gradient, summary.reverse, kept_args, number, step.kept)
                if self.open:
                    raise recomputation.not_recomputable(
                        f"of {plan.kernel.name} uses a numpy array or memory of another library"
                    )
        if self.paused:
            # a custom gradient may read anything that the function touched
            for name, memory in plan.memories(args).items():
                add(self._read(memory, name, plan, N.Access).regions, whole(memory.operand.shape))
        self.add(step)

    def rest(self) -> bool:
        """Ends one use of a recording. Returns whether the next use can compare its launches with it (`rerun`)."""
        rerun = self.finished_rerun
        if rerun is None or len(rerun.steps) != len(self.steps):
            steps = steps_to_run_again(self) if self.rerun is None else None
            if steps is None:
                self.clear()
                return False
            rerun = Rerun(self, steps)
        self._unwatch()
        rerun.at = 0
        self.rerun = rerun
        return True

    # --- what is done with it ------------------------------------------------------------------------------------

    def differentiate(self, forget: bool = False, after: Callable[[Step], None] | None = None) -> None:
        """Runs the gradients, the last step's first, and leaves memory as it was. ``forget``: drop each step after its
        gradient, which leaves more of the budget for recomputation. ``after`` is called after each step's gradient."""
        record_python_writes(self)
        self._end_auto_segment()
        rerun = self.finished_rerun
        if rerun is not None and len(rerun.steps) == len(self.steps) and rerun.differentiate():
            return
        self.last_steps = list(self.steps)
        self.recomputed_times.clear()
        if any(isinstance(item, Segment) for item in self.last_steps):
            for number, step in enumerate(self.leaves()):
                step.number = number
        with backward.restored_afterwards(self):
            backward.sweep(self, forget, after)

    def repeat(self) -> None:
        """Runs all steps again, on memory as it is."""
        for step in self.leaves():
            if step.repeat is not None:
                step.repeat()

    def repeat_guarded(self) -> None:
        """Runs all steps again with checked indices, because memory may hold values that the program cannot have."""
        for step in self.leaves():
            if step.launch is not None:
                plan, args, number = step.launch
                last = plan.owner.last
                try:
                    _repeated(plan.owner.launch, plan.bounds_checked, args, number, quiet=True)
                finally:
                    plan.owner.last = last
            elif step.repeat is not None:
                with checking("check_out_of_bound"):
                    step.repeat()

    def leaves(self) -> Iterator[Step]:
        """All steps, including those in segments."""
        return Segment(self.steps).leaves()

    @property
    def under_way(self) -> list[Step | Segment]:
        """The list to which steps are added now."""
        return self.open[-1].steps if self.open else self.steps

    # --- memory --------------------------------------------------------------------------------------------------

    @property
    def recomputes(self) -> bool:
        """Whether launches that are recorded now may be recomputed."""
        return self.memory is not None or bool(self.open)

    def add(self, item: Step | Segment) -> None:
        """Adds a step, or a segment that begins."""
        self.under_way.append(item)
        if not self.open:
            self.tail = self.tail + 1 if isinstance(item, Step) and item.recomputable else 0
        self._fit()

    def _fit(self) -> None:
        """Joins steps to segments if the budget is full."""
        if self.joins and self.memory is not None and not self.open and self.used > recomputation.segment_budget(self):
            recomputation.join(self)

    def _begin_auto_segment(self, summary: AccessSummary) -> None:
        """Opens a segment before a launch if steps would be joined to long segments anyway: less must be saved then."""
        fits = summary.recomputable and not self.paused
        if self.in_auto_segment and not (fits and len(self.open[0].steps) < self.segment_length):
            self._end_auto_segment()
        if fits and self.segment_length >= LONG and self.joins and not self.open:
            segment = Segment()
            self.steps.append(segment)
            self.open.append(segment)
            self.tail, self.in_auto_segment = 0, True

    def _end_auto_segment(self) -> None:
        """Closes the segment that `_begin_auto_segment` opened."""
        if self.in_auto_segment:
            self.in_auto_segment = False
            segment = self.open.pop()
            if not segment.steps:
                self.steps.pop()
            self.largest_segment = max(self.largest_segment, recomputation.item_bytes(segment))
            self._fit()

    def _before(self, summary: AccessSummary, args: Sequence[Any]) -> list[PendingWrite]:
        """Copies the values that the launch will overwrite and that will be read again."""
        if self.overwritten.names:
            self.overwritten.launched(summary.plan, args)
        if self.recomputes and not self.fully_tracked.get(summary):
            for name, place, elements in summary.own_reads:
                add(self._read(memory_at(place, args), name, summary.plan, N.Read).regions, elements(args))
        pending: list[PendingWrite] = []
        for _, place, footprint, span in summary.writes:
            tracked = self.tracked.get(id(memory_at(place, args)))
            if tracked is None:
                continue
            write = PendingWrite(tracked, span)
            pending.append(write)
            region = None if footprint is None else tracked.overlap(footprint.of(args))
            if footprint is not None and region is not None:
                memory = tracked.memory
                write.scattered = footprint.everywhere and not self.recomputes
                if self.recomputes:
                    write.bytes = memory.dtype.nbytes * volume(region)
                if not self.open or not self.open[0].holds(memory, region):
                    write.part = part_of(memory, region)
        return pending

    def _ended(self, summary: AccessSummary, args: tuple[Any, ...], pending: list[PendingWrite], failed: bool) -> Step:
        """The step of a launch that has ended. The step of a failed launch only holds the values that it overwrote."""
        if failed:
            self._end_auto_segment()
        plan, step = summary.plan, Step()
        for write in pending:
            self._overwrote(step, write, plan.kernel.name)
        self._track_launch(summary, args)
        if summary.keeps and not self.paused and (kept := plan.scratch.take()):
            self._count_kept(step, summary, kept)
            if not self.open:
                step.kept = kept
        if not failed:
            step.launch, step.summary = (plan, args, plan.frame.launch_number), summary
        return step

    def _track_launch(self, summary: AccessSummary, args: Sequence[Any]) -> None:
        """Tracks the memory that the gradient of this launch needs."""
        self.writes.kernels.append(summary.plan.kernel.name)
        if summary in self.fully_tracked and self.fully_tracked[summary] == self.recomputes:
            return
        written = self.writes.written
        for _, place, _, _ in summary.writes:
            memory = memory_at(place, args)
            written[id(memory)] = memory
        if summary.reverse is not None and not self.paused:
            for name, place, elements in summary.reads:
                add(self._read(memory_at(place, args), name, summary.reverse).regions, elements(args))
            for name, place in summary.derivatives:
                tracked = self.tracked.get(id(memory_at(place, args)))
                if tracked is None or tracked.grad is None:
                    self._track_derivative(summary, name, place, args)
        if not (summary.arrays or summary.scalars or self.paused):  # all its launches touch the same elements
            self.fully_tracked[summary] = self.recomputes

    def failed(self, changes: list[Part]) -> None:
        """Records a launch that failed and may have overwritten the memory of ``changes``."""
        self.add(Step(changes=changes))
        self.mark_seen()

    def restart(self, steps: list[Step]) -> None:
        """Records the first steps of an earlier recording, which have just been launched again unchanged."""
        self.clear()
        for step in steps:
            assert step.summary is not None
            assert step.launch is not None
            plan, args, _ = step.launch
            for part in step.changes:
                tracked = self.tracked[id(part.memory)]
                span = next(s for _, place, _, s in step.summary.writes if memory_at(place, args) is part.memory)
                self._count_part(tracked, part, plan.kernel.name, span)
            if step.kept:
                step.own = step.cost = 0
                self._count_kept(step, step.summary, step.kept)
            self._track_launch(step.summary, args)
            self.steps.append(step)
        self.mark_seen()


def _again(launch: Callable[..., Any], plan: Plan, args: tuple[Any, ...], number: int, quiet: bool = False) -> Any:
    """Repeats the launch ``number`` with the same random draws. ``launch``: the function that launches, with observers
    or without. ``quiet``: drop what the kernel prints."""
    with plan.session.lock, redirect_stdout(StringIO()) if quiet else nullcontext():
        plan.frame.replay(number)
        plan.owner.replays = number
        try:
            return launch(plan, args)
        finally:
            plan.frame.replay(0)
            plan.owner.replays = 0


def _repeated(launch: Callable[..., Any], plan: Plan, args: tuple[Any, ...], number: int, quiet: bool = False) -> Any:
    """`_again`, after which the last launch is what it was."""
    last = plan.last_launch
    try:
        return _again(launch, plan, args, number, quiet)
    finally:
        plan.last_launch = last


def _copied(reverse: Plan, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with copies of the foreign arrays that the gradient reads: writes to those cannot be tracked."""
    reads = reverse.primal_reads
    return tuple([
        arg.copy() if isinstance(arg, np.ndarray) and slot.name in reads else arg
        for slot, arg in zip(reverse.slots, args, strict=True)
    ])
