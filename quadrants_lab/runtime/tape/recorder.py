"""Records the launches of a program and Python's writes between them, for their gradients.

If a later launch, or Python, overwrites memory that the gradient of an earlier launch will read, the old values are
saved, and restored before that gradient runs (`backward`). Values that Python writes over the result of a launch are
constants: the gradient of these elements ends there. With a budget, or in a segment that the user marked, launches are
recomputed in the backward pass instead (`recomputation`). Then the values that the launches themselves read must be
saved, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.regions import add, common, whole
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import of_kind
from quadrants_lab.runtime.compile.specialisation import REVERSE
from quadrants_lab.runtime.memory.identity import memory_at
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.session import checking
from quadrants_lab.runtime.tape import backward, recomputation
from quadrants_lab.runtime.tape.access_summary import AccessSummaries, AccessSummary
from quadrants_lab.runtime.tape.custom_ends import Overwriting, ends, inner_launches
from quadrants_lab.runtime.tape.expected import steps_to_run_again
from quadrants_lab.runtime.tape.keeper import Keeper
from quadrants_lab.runtime.tape.parts import Account, Hold, Part, bytes_of
from quadrants_lab.runtime.tape.python_writes import record_python_writes, write_elements
from quadrants_lab.runtime.tape.report import rows
from quadrants_lab.runtime.tape.rerun import Rerun
from quadrants_lab.runtime.tape.step import Item, Pending, Segment, Step, again, called, launch_gradient
from quadrants_lab.runtime.tape.timeline import FORWARD
from quadrants_lab.runtime.tape.tracked import PendingWrite

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan


class Launches(Keeper):
    """An observer that records launches; `differentiate` runs their gradients.

    ``repeatable``: also copy all memory from before the first step, which `repeat` needs. ``memory``: the budget in
    bytes; if it is exceeded, launches are recomputed; None: everything is saved, up to `KEEP_BYTES`.

    Launches are recorded into ``steps`` until `clear`. `for_the_next_run` prepares a recording for the next run of a
    program. During that run, ``rerun`` compares each launch with ``steps``, which do not change. At the first
    difference `Rerun.end` records the steps that were the same (`repeated`), and recording continues after them. If all
    were the same, the rerun becomes ``finished_rerun``.
    """

    rerun: Rerun | None
    finished_rerun: Rerun | None

    def __init__(self, repeatable: bool = False, memory: int | None = None) -> None:
        super().__init__(repeatable, memory)
        self.clear()

    def ended(self) -> None:
        """Call this when an object has ended that the recording would need for another run. Reports still have its
        steps."""
        if self.free:
            for part in [part for step in self.leaves() for part in step.changes]:
                del part.values
            self.clear()

    session_ended = ended

    def take_up(self) -> bool:
        """Claims this object for a Tape; returns whether that was possible. Only one Tape may record into it at a time,
        until it is ``free`` again."""
        try:
            return self.free.pop()  # one operation, since other threads may try the same
        except IndexError:
            return False

    def clear(self) -> None:
        self._unwatch()
        self.overwriting = Overwriting()
        self.forget()

    def _unwatch(self) -> None:
        if self.rerun is not None:
            self.rerun.unwatch()
            return
        for tracked in self.tracked.values():
            tracked.unfollow()

    @property
    def differentiates(self) -> bool:
        return not self.paused

    # --- what happens ------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Marks the launches from now until `resume` as belonging to a function with a custom gradient."""
        if self.rerun is None or not self.rerun.calls:
            record_python_writes(self)
        if self.open:
            raise recomputation.not_recomputable("belongs to a function with a custom gradient")
        if not self.paused:
            self.overwriting.begin()
        self.paused += 1

    def resume(self) -> None:
        if self.rerun is None:
            record_python_writes(self)
        self.paused -= 1

    def insert(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], touched: Sequence[Any]) -> None:
        """Records the call of a Python function with a custom gradient, which ran between `pause` and `resume`.
        ``touched``: fields and ndarrays that its Python code accessed, which its gradient may read."""
        if self.rerun is not None and self.rerun.insert(function, args, kwargs, touched):
            return
        record_python_writes(self)
        for field in touched:
            memory = field._memory
            name = self.names.get(id(memory), repr(field))
            add(self._track(memory, name, function.__name__).regions, whole(memory.operand.shape))
        if self.paused:
            self.nested = True
        else:
            serials = frozenset([field._memory.serial for field in touched])
            step, inner = Step(call=(function, serials)), inner_launches(self.steps)
            called(step, function, args, kwargs)
            step.ends = ends(inner, serials)
            step.unclear = self.overwriting.call(inner, serials)
            self.add(step)

    @contextmanager
    def segment(self) -> Iterator[None]:
        """Makes a ``with`` whose recorded steps are one segment."""
        record_python_writes(self)
        if self.account.short:
            yield
            return
        segment = Segment(by_hand=True)
        self.under_way.append(segment)
        self.open.append(segment)
        try:
            yield
            record_python_writes(self)
        finally:
            segment = self.open.pop()
        if not segment.steps:
            self.under_way.pop()

    def end_rerun(self) -> None:
        """Stops comparing, if the program was the same until now, and records from now on."""
        if self.rerun is not None:
            self.rerun.end()

    def again(self, dispatcher: Dispatcher, args: tuple[Any, ...]) -> Any:
        """Launches and records in the fast way, if a launch was recorded before that differs at most in its scalars;
        otherwise returns NotImplemented."""
        if self.rerun is not None and (value := self.rerun.launch(dispatcher, args)) is not NotImplemented:
            return value
        summaries, inner = dispatcher.here.summaries, self.paused > 0
        summary = None if summaries is None or self.repeatable else summaries.find(args, inner)
        if summary is None or (self.open and not summary.recomputable):
            return NotImplemented
        if not inner and self.dead_paths.goes_on(summary.constants, summary.recomputable, args):
            return NotImplemented
        dispatcher.note(summary.plan)
        return self.launch(summary, args)

    def launch(self, summary: AccessSummary, args: tuple[Any, ...]) -> Any:
        """Launches and records the launch."""
        plan, failed, value = summary.plan, True, None
        with plan.session.lock:  # another thread may launch the same kernel, and both use its frame
            record_python_writes(self)
            pending = self._before(summary, args)
            try:
                value = plan.call(*args)
                failed = False
            finally:
                if value is not NotImplemented:
                    step = self._ended(summary, args, pending, failed)
                    if not failed:
                        kept, copies = self.copied(summary, args)
                        step.holds += copies
                        self.launched(step, summary, args, plan.frame.launch_number, kept)
                    self._add(step, pending)
                else:  # nothing was launched
                    for write in pending.writes:
                        write.tracked.version = write.tracked.memory.version
        return value

    def before(self, plan: Plan, args: tuple[Any, ...]) -> tuple[AccessSummary, Pending]:
        """Saves the values that this launch may overwrite and that will be read again."""
        record_python_writes(self)
        memories = plan.memories(args)
        for name, memory in memories.items():
            self.names.setdefault(id(memory), name)
        if self.repeatable:
            touched: list[Any] = [*memories.values(), *plan.numpy_arrays(args).values()]
            for one in touched:
                if id(one) not in self.initial:
                    self.initial[id(one)] = one, one.copy()
        summary = AccessSummary(plan, args)
        return summary, self._before(summary, args)

    def after(
        self, plan: Plan, args: tuple[Any, ...], token: tuple[AccessSummary, Pending], failed: bool
    ) -> None:
        summary, pending = token
        if self.tracing is not None:  # the gradient may be compiled now
            pending = pending._replace(ended=self.tracing.now(plan))
        gradient, kept_args, copies = plan.owner.gradient, args, list[Hold]()
        if not failed and not self.paused:
            self.dead_paths.launched(plan, args)
            if plan.compiled.mode == REVERSE and not plan.owner.constant:
                self.by_hand.setdefault(plan.kernel.name, plan)
            if gradient is not None and plan.differentiable:
                reverse = gradient.plan_for(plan.session, args)
                reverse.foreign.before(args, True)
                summary.differentiate(reverse, args)
                kept_args, copies = self.copied(summary, args)
        if not failed and summary.repeats(self.paused > 0):
            if plan.here.summaries is None:
                plan.here.summaries = AccessSummaries(plan.owner, plan.session)
            plan.here.summaries.add(summary, args, self.paused > 0)
        step = self._ended(summary, args, pending, failed)
        step.holds += copies
        if not failed:
            number = plan.frame.launch_number
            self.launched(step, summary, args, number, kept_args)
            if not self.paused:
                step.repeat = partial(again, plan.owner.launch_by, plan, args, number)
                if self.open and not summary.recomputable:
                    raise recomputation.not_recomputable(
                        f"of {plan.kernel.name} uses a numpy array or memory of another library"
                    )
        self._add(step, pending)

    def launched(
        self, step: Step, summary: AccessSummary, args: tuple[Any, ...], number: int, kept: tuple[Any, ...]
    ) -> None:
        """Stores in its step what was launched. ``kept``: the arguments of its gradient."""
        step.launch, step.known, step.inner = (summary.plan, args, number), summary, self.paused > 0
        if step.inner:
            self._track_inner(summary, args)
        elif summary.reverse is not None and not summary.recomputable:
            step.gradient = partial(launch_gradient, summary.reverse, kept, number, step.kept)

    def _track_inner(self, summary: AccessSummary, args: Sequence[Any]) -> None:
        """Tracks the memory that a launch within a function with a custom gradient accesses. All of it counts as read,
        because the custom gradient may read it."""
        if summary in self.fully_tracked:
            return
        for name, place in summary.places:
            memory = memory_at(place, args)
            add(self._read(memory, name, summary.plan, N.Access).regions, whole(memory.operand.shape))
        if not summary.arrays:
            self.fully_tracked[summary] = False

    def copied(self, summary: AccessSummary, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Hold]]:
        """The arguments, with copies of those foreign arrays that the gradient reads, because writes to them cannot be
        tracked."""
        reverse = summary.reverse
        if reverse is None or summary.recomputable:
            return args, []
        copied = {n: a for n, a in reverse.numpy_arrays(args).items() if n in reverse.primal_reads}
        if not copied:
            return args, []
        nbytes = sum(array.nbytes for array in copied.values())
        name = reverse.kernel.name
        account = self.room(nbytes, lambda: (f"arrays, which the gradient of kernel {name} reads", ()))
        hold = account.hold(nbytes)
        if account.short:
            return args, [hold]
        slots = zip(reverse.slots, args, strict=True)
        return tuple([arg.copy() if slot.name in copied else arg for slot, arg in slots]), [hold]

    def for_the_next_run(self) -> Rerun | None:
        """Ends one use of a recording. Returns an object that compares the launches of the next use with it; None if
        the recording cannot be used again."""
        rerun, self.finished_rerun = self.finished_rerun, None
        if rerun is None or len(rerun.steps) != len(self.steps):
            steps = steps_to_run_again(self)
            if steps is None:
                self.clear()
                return None
            rerun = Rerun(self, steps)
        self._unwatch()
        self.fully_tracked.clear()
        self.overwriting = Overwriting()
        self.rerun = rerun
        return rerun

    # --- what is done with it ------------------------------------------------------------------------------------

    def differentiate(self, forget: bool = False, after: Callable[[Step], None] | None = None) -> None:
        """Runs the gradients, the last step's first, and restores memory. ``forget``: drop each step after its
        gradient, which leaves more of the budget for recomputation. ``after`` is called after each step's gradient."""
        record_python_writes(self)
        if self.account.short:
            raise recomputation.too_little(self)
        if self.swept:
            self.recomputed_times.clear()
        self.swept = True
        if self.memory is not None or any(of_kind(self.steps, Segment)):
            self.number()
        with backward.restored_afterwards(self, forget):
            self.rows = rows(self)
            backward.reverse_sweep(self, self.steps, forget, after)

    def make_again(self, step: Step, keep: bool = False) -> Step:
        """Runs a step again; returns it. ``keep``: also save what its gradient needs."""
        self.recomputed_times[step.number] += 1
        if step.write is not None:
            write_elements(*step.write, counts=True)
        elif (summary := step.summary) is None or step.launch is None:
            raise recomputation.not_recomputable("of them failed")
        else:
            hold = self.account.hold(step.own)
            launch = step.launch[0].owner.launch if self.tracing is None else self.tracing.launch
            kept = again(launch, *step.launch, quiet=summary.prints, keep=step.own > 0)
            if keep:
                step.kept, step.holds = kept, [hold]
        return step

    def repeat(self) -> None:
        """Runs all steps again, on memory as it is now."""
        for step in self.leaves():
            if step.repeat is not None:
                step.repeat()

    def repeat_guarded(self) -> None:
        """Runs all steps again with checked indices, because memory may hold values that the program never has."""
        for step in self.leaves():
            if step.launch is not None and not step.inner:
                plan, args, number = step.launch
                last = plan.here.last_plan
                try:
                    again(plan.owner.launch, plan.bounds_checked, args, number, quiet=True)
                finally:
                    plan.here.last_plan = last
            elif step.repeat is not None:
                with checking("check_out_of_bound"):
                    step.repeat()

    def uses_only(self, loss: Memory) -> bool:
        """Whether, of what the steps used, only the loss has a gradient; False if a custom gradient may use others."""
        if any(f.grad is not None and f.memory is not loss for f in self.tracked.values()):
            return False
        return not any(x.gradient is not None and x.launch is None for x in self.leaves())

    def read_without_gradient(self) -> list[str]:
        """The names, in kernels, of real-valued buffers without a gradient that launches read."""
        plans = {x.launch[0].kernel.name: x.launch[0] for x in self.leaves() if x.launch is not None and not x.inner}
        return [
            b.name for plan in plans.values() for b in plan.compiled.lowered.kernel.buffers.values()
            if b.name in plan.reads and b.dtype.is_float and b.kind in ("field", "ndarray") and not b.grad
        ]  # fmt: skip

    @property
    def under_way(self) -> list[Item]:
        """The list to which steps are added at present."""
        return self.open[-1].steps if self.open else self.steps

    def make_room(self, nbytes: int) -> bool:
        return recomputation.make_room(self, nbytes)

    # --- memory --------------------------------------------------------------------------------------------------

    def add(self, step: Step) -> None:
        """Adds a step: to the open segment if there is one."""
        self.under_way.append(step)
        self.state = max(self.state, step.cost)
        if self.open:
            self.open[0].cost += step.cost
        elif self.account.short:
            recomputation.join_last(self)

    def _before(self, summary: AccessSummary, args: Sequence[Any]) -> Pending:
        """Saves the values that the launch will overwrite and that will be read again."""
        plan = summary.plan
        if self.paused:
            self.overwriting.launch(summary, args)
        if self.overwritten.names:
            self.overwritten.launched(plan, args)
        if self.recomputes and not self.fully_tracked.get(summary):
            for name, place, elements in summary.own_reads:
                add(self._read(memory_at(place, args), name, plan, N.Read).regions, elements(args))
        writes: list[PendingWrite] = []
        for _, place, footprint, span in summary.writes:
            tracked = self.tracked.get(id(memory_at(place, args)))
            if tracked is not None:
                write = PendingWrite(tracked, span)
                writes.append(write)
                if footprint is not None:
                    write.region = common(footprint.of(args), tracked.regions)
                    write.scattered = footprint.box.everywhere and not self.recomputes
        into, cost, hold = self.open[0] if self.open else None, 0, None
        if self.memory is not None:
            into, cost, hold = self._place(summary, args, writes)
        for write in writes:
            if write.region is not None:
                self._save(write, into, plan.kernel.name)
        began = 0.0 if self.tracing is None else self.tracing.now(plan)
        return Pending(writes, into, cost, hold, began)

    def _place(
        self, summary: AccessSummary, args: Sequence[Any], writes: list[PendingWrite]
    ) -> tuple[Segment | None, int, Hold | None]:
        """The fields of `Pending` after the writes, for a launch under a budget."""
        scratch = summary.plan.scratch
        own = scratch.kept_bytes(args) if scratch.keeps and not self.paused else 0
        cost = sum(bytes_of(w.tracked.memory, w.region, self.account) for w in writes if w.region is not None)
        into = None
        if not self.open and not self.account.short and self.account.fits(cost + own):
            pass  # the launch becomes a separate step
        elif self.open or (summary.recomputable and not self.paused):
            into = recomputation.place(self, cost, own, partial(_missing, writes, self.account))
        hold = self.room(own, lambda: ("", ())).hold(own) if own and into is None else None
        return into, cost, hold

    def _ended(self, summary: AccessSummary, args: tuple[Any, ...], pending: Pending, failed: bool) -> Step:
        """The step of a launch that has ended. The step of a failed launch has only the values that it overwrote."""
        plan, step = summary.plan, Step(cost=pending.cost)
        if self.tracing is not None:
            of = id(plan.owner), plan.frame.launch_number
            self.tracing.note(plan, FORWARD, pending.began, of, pending.ended)
        item = step if pending.into is None or (failed and not self.open) else pending.into
        for write in pending.writes:
            self._overwrote(step, item, write, plan.kernel.name)
        self._track_launch(summary, args)
        if summary.keeps and not self.paused:
            # a repeated launch would overwrite these values, which a gradient launched by hand may need later
            kept = plan.scratch.take()
            step.own = sum(memory.operand.nbytes for memory in kept.values())
            self.own = max(self.own, step.own)
            if item is step:
                self._keep_buffers(step, summary, kept, pending.hold)
        return step

    def _add(self, step: Step, pending: Pending) -> None:
        """Adds the step of a launch."""
        into = pending.into
        if self.open or into is None or not step.recomputable:
            self.add(step)
            return
        if not into.steps:
            self.steps.append(into)
        into.steps.append(step)
        into.cost += step.cost
        self.state = max(self.state, into.nbytes)

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
        # all launches with this summary access the same elements
        if not (self.paused or summary.arrays or summary.scalars):
            self.fully_tracked[summary] = self.recomputes

    def failed(self, changes: list[Part]) -> None:
        """Records a launch that failed and may have overwritten what ``changes`` have saved."""
        self.add(Step(changes=changes))
        self.mark_seen()

    def repeated(
        self, step: Step, summary: AccessSummary, args: tuple[Any, ...], number: int, kept: tuple[Any, ...]
    ) -> None:
        """Records a step of an earlier recording, whose launch has just been repeated."""
        for part in step.changes:
            tracked = self.tracked[id(part.memory)]
            span = next(s for _, place, _, s in summary.writes if memory_at(place, args) is part.memory)
            part.hold = self.account.hold(part.nbytes)
            self._count_part(tracked, part, summary.name, span)
        step.holds = [self.account.hold(step.own)]
        self._count_buffers(step, summary)
        self._track_launch(summary, args)
        self.launched(step, summary, args, number, kept)
        self.steps.append(step)


def _missing(writes: list[PendingWrite], account: Account, into: Segment) -> int:
    """How many bytes the segment has to save before the writes."""
    found = 0
    for write in writes:
        if write.region is not None:
            memory = write.tracked.memory
            found += sum(bytes_of(memory, piece, account) for piece in into.missing(memory, write.region))
    return found
