"""Records the launches of a program and Python's writes between them, for their gradients.

What a later launch or Python changes in memory that an earlier gradient will read is kept, and put back before that
gradient runs (`back`). What Python writes over a result of a launch is a constant: the gradient of those elements ends
there. With a budget, or within a segment that the user marked, launches are made again on the way back instead
(`segments`): then what counts is also what the launches themselves read.
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
from quadrants_lab.runtime.launch.regions import add, volume, whole
from quadrants_lab.runtime.lint.cross_kernel import DeadPaths
from quadrants_lab.runtime.session import checking
from quadrants_lab.runtime.tape import back, segments
from quadrants_lab.runtime.tape.followed import Before
from quadrants_lab.runtime.tape.keeper import Keeper
from quadrants_lab.runtime.tape.parts import Part, part_of
from quadrants_lab.runtime.tape.python_writes import notice
from quadrants_lab.runtime.tape.rerun import Rerun, steps_to_run_again
from quadrants_lab.runtime.tape.route import Route, Routes
from quadrants_lab.runtime.tape.step import Segment, Step, launch_gradient
from quadrants_lab.runtime.tape.writes import Writes

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan

LONG = 4  # steps of a segment, from which on steps are not recorded one by one first


class Launches(Keeper):
    """An observer that records launches for `differentiate`.

    ``repeatable``: also what `repeat` needs, which is all memory as it was before the first step. ``memory``: most
    bytes to keep; launches are made again where they would be more. None: all is kept, up to `KEEP_BYTES`. ``joins``:
    whether steps are joined to segments where the budget asks for it, or whoever records makes the segments.

    It records into ``steps`` until `clear`. `rest` keeps a recording for the next run of a program: then ``rerun``
    compares launches with ``steps``, which stay as they are. At the first difference `Rerun.end` calls `restart` with
    the steps that were the same; where all were, the rerun becomes ``made``. Then recording goes on in ``steps``.
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
        self.rerun: Rerun | None = None  # under way
        self.made: Rerun | None = None  # to its end
        self.steps: list[Step | Segment] = []
        self.full = False  # whether the first of them is one that the budget asked for
        self.known: dict[Route, bool] = {}  # those whose memory is followed; whether also for what they read themselves
        self.initial: dict[int, tuple[Any, npt.NDArray[Any]]] = {}  # memory and arrays, and copies of them
        self.made_again = 0  # steps, on the last way back
        self.times: Counter[int] = Counter()  # of each by its number
        self.items: list[Step | Segment] = []  # as they were before that way back
        self.span = 1  # steps of a segment, where the budget makes them
        self.state = 0  # most bytes of a segment
        self.tail = 0  # how many steps at the end could be made again, each by itself
        self.names: dict[int, str] = {}  # of memory, as the first kernel calls it
        self.paused = 0
        self.dead_paths = DeadPaths("grad")
        self.constants: set[int] = set()  # memory that Python wrote over, as was told
        self.writes.clear()

    def _unwatch(self) -> None:
        for f in self.followed.values():
            f.memory.watchers = tuple(w for w in f.memory.watchers if w != f.watch)

    # --- what happens ------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Launches until `resume` belong to a function with a gradient of its own."""
        notice(self)
        self._end_stretch()
        if self.open:
            raise segments.cannot_be_made_again("belongs to a function with a gradient of its own")
        self.paused += 1

    def resume(self) -> None:
        notice(self)
        self.paused -= 1

    def insert(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The function, of Python and with a gradient of its own, was called, between `pause` and `resume`."""
        if not self.paused:
            assert function.grad is not None
            self._end_stretch()
            run = partial(function.grad, *args, **kwargs)
            self.add(Step(run, partial(function.fn, *args, **kwargs)))

    @contextmanager
    def segment(self, known: Segment | None = None, by_hand: bool = True) -> Iterator[None]:
        """Steps recorded in the with are one segment, which begins where ``known`` does, if that is given."""
        notice(self)
        self._end_stretch()
        segment = Segment(by_hand=by_hand) if known is None else known.begun()
        self.add(segment)
        self.open.append(segment)
        try:
            yield
            notice(self)
        finally:
            self.open.pop()
        if not segment.steps:
            self.under_way.pop()

    def again(self, dispatcher: Dispatcher, args: tuple[Any, ...]) -> Any:
        """Launches and records, quickly, what was recorded before with other scalars; else NotImplemented."""
        routes = dispatcher.routes
        route = None if routes is None or self.paused or self.repeatable else routes.find(args)
        if route is None or any(memory_at(p, args).serial in self.dead_paths.open for p in route.constants):
            return NotImplemented
        dispatcher.last = route.plan
        if self.rerun is not None and (value := self.rerun.launch(route, args)) is not NotImplemented:
            return value
        return self.launch(route, args)

    def launch(self, route: Route, args: tuple[Any, ...], number: int = 0) -> Any:
        """Launches and records. ``number``: of the launch that it repeats."""
        with route.plan.session.lock:  # another thread may launch the same kernel, which has one frame
            return self._launch(route, args, number)

    def _launch(self, route: Route, args: tuple[Any, ...], number: int) -> Any:
        notice(self)
        plan = route.plan
        self._stretch(route)
        found = self._before(route, args)
        failed, value = True, None
        try:
            value = _again(plan.owner.launch, plan, args, number, route.prints) if number else plan.call(*args)
            failed = False
        finally:
            if value is not NotImplemented:
                self.add(self._ended(route, args, found, failed))
            else:  # nothing was launched
                for before in found:
                    before.followed.version = before.followed.memory.version
        return value

    def before(self, plan: Plan, args: tuple[Any, ...]) -> tuple[Route, list[Before]]:
        """Copies what this launch may overwrite although it will be read again."""
        notice(self)
        memories = plan.memories(args)
        for name, memory in memories.items():
            self.names.setdefault(id(memory), name)
        if self.repeatable:
            touched: list[Any] = [*memories.values(), *(a for a in args if isinstance(a, np.ndarray))]
            for one in touched:
                if id(one) not in self.initial:
                    self.initial[id(one)] = one, one.copy()
        route = Route(plan, args)
        self._stretch(route)
        return route, self._before(route, args)

    def after(self, plan: Plan, args: tuple[Any, ...], token: tuple[Route, list[Before]], failed: bool) -> None:
        route, found = token
        gradient, kept_args = plan.owner.gradient, args  # of foreign arrays, which nobody can follow, copies
        if not failed and not self.paused:
            self.dead_paths.launched(plan, args)
            if gradient is not None and plan.differentiable:
                reverse = gradient.plan_for(plan.session, args)
                reverse.before_foreign(args)
                route.differentiate(reverse, args)
                kept_args = _copied(reverse, args)
            if route.quick:
                if plan.owner.routes is None:
                    plan.owner.routes = Routes(plan.owner)
                plan.owner.routes.add(route, args)
        step = self._ended(route, args, found, failed)
        if self.paused and not failed:
            step.within, step.launch, step.route = step.launch, None, None
        elif not failed:
            number = plan.frame.launch_number
            step.repeat = partial(_again, plan.owner.launch_by, plan, args, number)
            if not route.again:
                step.route = None
                if route.reverse is not None:
                    step.gradient = partial(launch_gradient, route.reverse, kept_args, number, step.kept)
                if self.open:
                    raise segments.cannot_be_made_again(
                        f"of {plan.kernel.name} uses a numpy array or memory of another library"
                    )
        if self.paused:
            # a gradient of the user's may read anything that the function touched
            for name, memory in plan.memories(args).items():
                add(self._read(memory, name, plan, N.Access).regions, whole(memory.operand.shape))
        self.add(step)

    def rest(self) -> bool:
        """Between two uses; whether what is recorded is of use for the next one, for `rerun`."""
        made = self.made
        if made is None or len(made.steps) != len(self.steps):
            steps = steps_to_run_again(self) if self.rerun is None else None
            if steps is None:
                self.clear()
                return False
            made = Rerun(self, steps)
        self._unwatch()
        made.at = 0
        self.rerun = made
        return True

    # --- what is done with it ------------------------------------------------------------------------------------

    def differentiate(self, forget: bool = False, after: Callable[[Step], None] | None = None) -> None:
        """Runs the gradients, the last step's first, and leaves memory as it was. ``forget``: the steps on the way,
        which leaves more of the budget for those that are made again. ``after`` is told of each step's gradient."""
        notice(self)
        self._end_stretch()
        if self.made is not None and len(self.made.steps) == len(self.steps) and self.made.differentiate():
            return
        self.items = list(self.steps)
        self.times.clear()
        if any(isinstance(item, Segment) for item in self.items):
            for number, step in enumerate(self.leaves()):
                step.number = number
        with back.kept_as_it_is(self):
            back.sweep(self, forget, after)

    def repeat(self) -> None:
        """Does all steps again, over memory as it is."""
        for step in self.leaves():
            if step.repeat is not None:
                step.repeat()

    def repeat_guarded(self) -> None:
        """The same over memory that the program may not be made for: an index that leaves its buffer is an error."""
        for step in self.leaves():
            if step.launch is not None:
                plan, args, number = step.launch
                last = plan.owner.last
                try:
                    _again(plan.owner.launch, plan.bounds_checked, args, number, quiet=True)
                finally:
                    plan.owner.last = last
            elif step.repeat is not None:
                with checking("check_out_of_bound"):
                    step.repeat()

    def leaves(self) -> Iterator[Step]:
        """The steps, also those of segments."""
        return Segment(self.steps).leaves()

    @property
    def under_way(self) -> list[Step | Segment]:
        """Where steps are recorded now."""
        return self.open[-1].steps if self.open else self.steps

    # --- memory --------------------------------------------------------------------------------------------------

    @property
    def makes_again(self) -> bool:
        """Whether launches that are recorded now may be made again."""
        return self.memory is not None or bool(self.open)

    def add(self, item: Step | Segment) -> None:
        """Takes a step, or a segment that begins."""
        self.under_way.append(item)
        if not self.open:
            self.tail = self.tail + 1 if isinstance(item, Step) and item.can_be_made_again else 0
        self._fit()

    def _fit(self) -> None:
        """Joins steps where the budget is full."""
        if self.joins and self.memory is not None and not self.open and self.used > segments.room(self):
            segments.join(self)

    def _stretch(self, route: Route) -> None:
        """Before a launch: where steps are to be joined to long segments in any case, it goes into one at once, for
        which less has to be kept on the way."""
        if self.full and (not route.again or self.paused or len(self.open[0].steps) >= self.span):
            self._end_stretch()
        if self.span >= LONG and self.joins and not self.open and route.again and not self.paused:
            segment = Segment()
            self.steps.append(segment)
            self.open.append(segment)
            self.tail, self.full = 0, True

    def _end_stretch(self) -> None:
        """Ends a segment that `_stretch` began."""
        if self.full:
            self.full = False
            segment = self.open.pop()
            if not segment.steps:
                self.steps.pop()
            self.state = max(self.state, segments.item_bytes(segment))
            self._fit()

    def _before(self, route: Route, args: Sequence[Any]) -> list[Before]:
        """Copies of what the launch will overwrite although it will be read again."""
        if self.makes_again and not self.known.get(route):
            for name, place, elements in route.own_reads:
                add(self._read(memory_at(place, args), name, route.plan, N.Read).regions, elements(args))
        found: list[Before] = []
        for _, place, footprint, span in route.writes:
            followed_one = self.followed.get(id(memory_at(place, args)))
            if followed_one is None:
                continue
            before = Before(followed_one, span)
            found.append(before)
            met = None if footprint is None else followed_one.meets(footprint.of(args))
            if footprint is not None and met is not None:
                memory = followed_one.memory
                before.scattered = footprint.everywhere and not self.makes_again
                if self.makes_again:
                    before.bytes = memory.dtype.nbytes * volume(met)
                if not self.open or not self.open[0].holds(memory, met):
                    before.part = part_of(memory, met)
        return found

    def _ended(self, route: Route, args: tuple[Any, ...], found: list[Before], failed: bool) -> Step:
        """The step of a launch; of one that failed what it overwrote alone."""
        if failed:
            self._end_stretch()
        step = self._launched(route, args, found)
        if failed:
            step.launch = step.route = None
        return step

    def _launched(self, route: Route, args: tuple[Any, ...], found: list[Before]) -> Step:
        """The step of a launch that was made."""
        plan, step = route.plan, Step()
        for before in found:
            self._overwrote(step, before, plan.kernel.name)
        step.launch, step.route = (plan, args, plan.frame.launch_number), route
        self._note(route, args)
        if route.keeps and route.reverse is not None and not self.paused:
            self._take(step, route)
        return step

    def _note(self, route: Route, args: Sequence[Any]) -> None:
        """What a launch that was made leaves to be followed."""
        self.writes.kernels.append(route.plan.kernel.name)
        if route in self.known and self.known[route] == self.makes_again:
            return
        written = self.writes.written
        for _, place, _, _ in route.writes:
            memory = memory_at(place, args)
            written[id(memory)] = memory
        if route.reverse is not None and not self.paused:
            for name, place, elements in route.reads:
                add(self._read(memory_at(place, args), name, route.reverse).regions, elements(args))
            for name, place in route.derivatives:
                followed = self.followed.get(id(memory_at(place, args)))
                if followed is None or followed.grad is None:
                    self._follow_derivative(route, name, place, args)
        if not (route.arrays or route.scalars or self.paused):  # all its launches touch the same
            self.known[route] = self.makes_again

    def failed(self, changes: list[Part]) -> None:
        """A launch ended early, and may have overwritten what the changes are of."""
        self.add(Step(changes=changes))
        self.up_to_date()

    def restart(self, steps: list[Step]) -> None:
        """Takes the steps of an earlier recording, which were just made again, as what was recorded."""
        self.clear()
        for step in steps:
            assert step.route is not None
            assert step.launch is not None
            plan, args, _ = step.launch
            for part in step.changes:
                followed = self.followed[id(part.memory)]
                span = next(s for _, place, _, s in step.route.writes if memory_at(place, args) is part.memory)
                self._count_part(followed, part, plan.kernel.name, span)
            if step.kept:
                step.own = step.cost = 0
                self._count_kept(step, step.route, step.kept)
            self._note(step.route, args)
            self.steps.append(step)
        self.up_to_date()

    def _take(self, step: Step, route: Route) -> None:
        """Takes what the launch itself kept of what it overwrote."""
        kept = route.plan.scratch.take()
        if kept:
            self._count_kept(step, route, kept)
        if not self.open:
            step.kept = kept


def _again(launch: Callable[..., Any], plan: Plan, args: tuple[Any, ...], number: int, quiet: bool = False) -> Any:
    """Repeats the launch with that number: its random draws, but not, if ``quiet``, what it printed. ``launch``: with
    observers or without."""
    with plan.session.lock, redirect_stdout(StringIO()) if quiet else nullcontext():
        plan.frame.replay(number)
        try:
            return launch(plan, args)
        finally:
            plan.frame.replay(0)


def _copied(reverse: Plan, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with copies of foreign arrays that the gradient reads: nobody can follow those."""
    reads = reverse.primal_reads
    return tuple([
        arg.copy() if isinstance(arg, np.ndarray) and slot.name in reads else arg
        for slot, arg in zip(reverse.slots, args, strict=True)
    ])
