"""A program that is run again, as an optimiser does, over the recording of the last time.

While its launches are those of last time, in the same order, over the same memory, with scalars that may be others
where no index depends on them, nothing has to be found out anew: what each overwrites is copied to where it was kept
last time. The first difference ends that, and recording goes on as ever from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from quadrants_lab.runtime.arguments.signature import derivative, memory_at, memory_of
from quadrants_lab.runtime.launch.graph_capture import GraphCapture
from quadrants_lab.runtime.tape import back
from quadrants_lab.runtime.tape.followed import Followed
from quadrants_lab.runtime.tape.parts import Part
from quadrants_lab.runtime.tape.route import Route
from quadrants_lab.runtime.tape.segments import item_bytes
from quadrants_lab.runtime.tape.step import Segment, Step

if TYPE_CHECKING:
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.tape.recorder import Launches

MOST_BYTES = 1 << 28  # that a recording may hold on to for the next time


def steps_to_run_again(launches: Launches) -> list[Step] | None:
    """The steps of a recording that another one can be compared with; None where some are no plain launches, or too
    much memory would be held."""
    plain = (
        isinstance(item, Step) and item.route is not None and item.route.quick and item.gradient is None
        and all(part.region is not None for part in item.changes)
        for item in launches.steps
    )  # fmt: skip
    if not launches.steps or launches.memory is not None or launches.repeatable or not all(plain):
        return None
    steps = cast("list[Step]", launches.steps)
    arrays = {id(m): m for s in steps for m in _arguments(s)}
    held = sum(item_bytes(step) for step in steps) + sum(memory.operand.nbytes for memory in arrays.values())
    return steps if held <= MOST_BYTES else None


def _arguments(step: Step) -> list[Memory]:
    assert step.route is not None
    return [memory_at(n, step.args) for n in step.route.arrays]


def _given(step: Step) -> tuple[Any, ...]:
    """The arguments of a step's gradient, and what keeps the derivatives of its arrays."""
    assert step.route is not None
    args, reverse = step.args, step.route.reverse
    beside = () if reverse is None else reverse.gradient_args
    return *args, *(memory_of(derivative(args[n], of)) for n, of, _ in beside)


class Rerun:
    """Compares with the steps of ``launches``, which it follows as far as they are the same; ``at``: how far."""

    def __init__(self, launches: Launches, steps: list[Step]) -> None:
        self.launches = launches
        self.steps = list(steps)
        self.at = 0
        writes: Counter[int] = Counter()
        for step in steps:
            assert step.route is not None
            writes.update(id(memory_at(place, step.args)) for _, place, _, _ in step.route.writes)
        self.writes = writes  # how often each memory is written
        self.versions: dict[int, int] = {}
        self.final: list[Part] = []
        routes = [step.route for step in steps if step.route is not None]
        repeatable = all(
            r.plan.repeatable and (r.reverse is None or r.reverse.repeatable) and not r.keeps for r in routes
        )
        self.graph_capture = GraphCapture(routes[0].plan.session, repeatable)

    def launch(self, route: Route, args: tuple[Any, ...]) -> Any:
        """Launches what is next, as the step that it was; NotImplemented, and the end of it, where it is another."""
        at = self.at
        shared = not at and any(f.memory.foreign for f in self.launches.followed.values())  # since the last time
        if shared or at == len(self.steps) or not self._same(self.steps[at], route, args):
            self.end()
            return NotImplemented
        if not at:
            self._watch()
        step, plan, value = self.steps[at], route.plan, NotImplemented
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
        if route.keeps:
            step.kept = plan.scratch.take()
        step.launch = plan, args, plan.frame.launch_number
        self.at = at + 1
        return value

    def differentiate(self) -> bool:
        """Runs the gradients of all steps in one go, where the device can do that; else False."""
        graph = self.graph_capture
        if graph.capture is None or not graph.start(self._ready, [_given(s) for s in self.steps]):
            return False
        for step in self.steps:
            if step.route is not None and step.route.reverse is not None:
                step.route.reverse.wrote(step.args)
        for followed in self.launches.followed.values():
            followed.memory.version += 1
            followed.version = followed.memory.version
        return True

    def _ready(self) -> Callable[[], None]:
        self.final = back.as_it_is(cast("list[Step | Segment]", self.steps))
        return self._sweep

    def _sweep(self) -> None:
        for part in self.final:
            part.keep()
        back.sweep(self.launches, forget=False)
        for part in self.final:
            part.put()

    def _same(self, step: Step, route: Route, args: Sequence[Any]) -> bool:
        if step.route is not route:
            return False
        assert step.launch is not None
        then = step.launch[1]
        for n in route.arrays:
            if args[n] is not then[n]:
                return False
        for n in route.scalars:  # noqa: SIM110 - in each launch
            if args[n] != then[n]:
                return False
        return True

    def _watch(self) -> None:
        for followed in self.launches.followed.values():
            followed.interrupt = self._interrupted
            followed.memory.watchers = (*followed.memory.watchers, followed.watch)
            self.versions[id(followed.memory)] = followed.memory.version

    def _interrupted(self, followed: Followed, where: Any) -> None:
        """Python is about to write."""
        self.end()
        now = self.launches.followed.get(id(followed.memory))
        if now is not None:
            now.watch(where)

    def end(self) -> None:
        """Recording goes on after the steps that were the same."""
        launches = self.launches
        launches.rerun = None
        if self.at < len(self.steps):
            launches.restart(self.steps[: self.at])
            return
        launches.made = self
        for followed in launches.followed.values():
            memory = followed.memory
            followed.interrupt = None
            followed.version = self.versions[id(memory)] + self.writes[id(memory)]
