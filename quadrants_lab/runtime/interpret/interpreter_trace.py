"""Traces one iteration of a launch statement by statement; the reference interpreter repeats it.

The kernel is the one that was launched, after all passes. Only this iteration of its task is repeated, and of earlier
tasks those iterations whose results it reads (`partial`). Of a long iteration, the trace is a window of events around a
wanted event, with a summary of the events before the window.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import of_kind, walk
from quadrants_lab.runtime.interpret.interpreter import Box, Env, Lane, Trip
from quadrants_lab.runtime.interpret.partial import Partial
from quadrants_lab.runtime.record.launch_data import LaunchData

WINDOW = 20_000  # how many events a window has; at most half of them come before the wanted event
MOST_WRITES = 6  # how many writes before the window the summary has, at most
ASKED_EVERY = 4096  # ``stop`` is called once in so many events
QUIET = frozenset((N.Const, N.ArgLoad, N.ShapeOf, N.Yield, N.AdStackAlloca, N.AdStackGuard, N.If, N.Offload))


@dataclass(frozen=True, slots=True)
class Event:
    """A statement that was executed. ``value``: the value that it defined, wrote, pushed or popped; a `Trip` when an
    iteration of a loop begins (for a While its index is the index of the trip); the final values when the loop ends.
    ``at``: the index of a load, store or atomic. ``operands``: the operands of an operation, or the second operand of
    an atomic. ``number``: the event's index in the iteration. ``back``: the statement is reverse code."""

    stmt: N.Stmt
    value: Any
    at: tuple[int, ...] = ()
    operands: tuple[Any, ...] = ()
    number: int = 0
    back: bool = False


Wanted = Callable[[Event], bool]


@dataclass(slots=True)
class PastState:
    """A summary of the events before the window: the last event of each statement (for a loop, the last begin and the
    last end), id of a stack -> its content, and the last writes."""

    latest: dict[tuple[int, bool], Event] = field(default_factory=dict)
    stacks: dict[int, list[Event]] = field(default_factory=dict)
    writes: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_WRITES))

    def take(self, e: Event) -> None:
        s = e.stmt
        if type(s) is N.AdStackPush:  # types are compared, which is fast: this runs for every event
            self.stacks.setdefault(s.stack, []).append(e)
        elif type(s) is N.AdStackPop:
            self.stacks[s.stack].pop()
        elif type(s) is N.Store or type(s) is N.Atomic:
            self.writes.append(e)
        else:
            self.latest[s.id, type(e.value) is Trip] = e

    def events(self, left_out: Mapping[int, int]) -> list[Event]:
        """All events of the summary, in order. ``left_out``: id of a stack -> how many slots, from the bottom, to leave
        out."""
        slots = [e for key, stack in self.stacks.items() for e in stack[left_out.get(key, 0) :]]
        return sorted([*self.latest.values(), *self.writes, *slots], key=lambda e: e.number)


@dataclass(slots=True)
class TraceWindow:
    """A window of the events of iteration ``lane`` of a task with the iterations ``box``. ``cut``: there are events
    after the window. ``past``: the summary of the events before it. ``found``: the index of the wanted event, -1 if
    there is none. ``turn``: the index of the first event of reverse code, -1 if none was reached."""

    task: N.Offload
    box: Box = ()
    lane: Lane = ()
    events: deque[Event] = field(default_factory=deque)
    past: PastState = field(default_factory=PastState)
    found: int = -1
    turn: int = -1
    cut: bool = False

    def unseen(self, slots: int) -> dict[int, int]:
        """Maps the id of each stack to how many of its slots in `past` are never visible in the window, if the top
        ``slots`` slots are shown."""
        height = {key: len(stack) for key, stack in self.past.stacks.items()}
        least = dict(height)
        for e in self.events:
            if isinstance(e.stmt, (N.AdStackPush, N.AdStackPop)) and e.stmt.stack in height:
                height[e.stmt.stack] += 1 if isinstance(e.stmt, N.AdStackPush) else -1
                least[e.stmt.stack] = min(least[e.stmt.stack], height[e.stmt.stack])
        return {key: max(low - slots, 0) for key, low in least.items()}


def reverse_code(task: N.Offload) -> set[int]:
    """The ids of the statements that compute adjoints, or stand in the reverse code."""
    guarded = {s.id for g in of_kind(task.body, N.AdStackGuard) for s in walk((g,))}
    return guarded | {s.id for s in walk((task,)) if s.adjoint_of != N.NO_ID}


class StopReplay(Exception):
    """Raised by an observer to end a repetition of a launch when it has found what it looks for."""


def trace_iteration(
    launch: LaunchData, task: int, lane: Lane | None = None, wanted: Wanted = lambda e: True,
    stop: Callable[[], bool] = lambda: False,
) -> TraceWindow:  # fmt: skip
    """Repeats iteration ``lane`` (None: the first one) of task ``task`` of the launch, up to the first event for which
    ``wanted`` is true and to the end of a window around it; to the end of the iteration if there is no such event.

    The data of the launch are not changed. ``stop`` is called now and then. Raises QuadrantsRuntimeError if there is no
    such iteration, if what it reads takes more than 300,000 statements of earlier tasks, or if ``stop`` returns true.
    """
    tracer = _Tracer(launch.kernel, task, lane, wanted, stop)
    with suppress(StopReplay):
        Partial(launch).run(task, tracer.observe, tracer.iterations)
    return tracer.walk


class _Tracer:
    """The observer of the interpreter that collects the events of a window. The statements of the task's bounds are
    not events."""

    def __init__(
        self, kernel: N.Kernel, task: int, lane: Lane | None, wanted: Wanted, stop: Callable[[], bool]
    ) -> None:
        self.task = kernel.body[task]
        assert isinstance(self.task, N.Offload)
        self.name = kernel.name
        self.walk = TraceWindow(self.task)
        self.lane, self.wanted, self.stop = lane, wanted, stop
        self.inside = False
        self.number = 0
        self.trips: dict[int, int] = {}  # id of a running While -> index of its present trip
        self.parts: dict[int, tuple[tuple[int, ...], tuple[int, ...], bool]] = {}  # id -> index, operands, `Event.back`
        self.back = reverse_code(self.task)

    def iterations(self, task: N.Offload, box: Box) -> Iterable[Lane]:
        lane = tuple(axis.start for axis in box) if self.lane is None else self.lane
        self.walk.box, self.walk.lane = box, lane
        if len(lane) != len(box) or not all(k in axis for k, axis in zip(lane, box, strict=True)):
            there = ", ".join(f"{axis.start} .. {axis.stop - 1}" if axis else "none" for axis in box)
            raise QuadrantsRuntimeError(
                f"kernel {self.name} has no iteration {', '.join(map(str, lane))} here: there are {there}",
                code="QL0707",
            )
        self.inside = True
        return (lane,)

    def observe(self, s: N.Stmt, value: Any, env: Env) -> None:
        if self.inside and type(s) not in QUIET:
            self._take(self._event(s, value, env))

    def _take(self, e: Event) -> None:
        walk = self.walk
        if walk.found >= 0 and len(walk.events) >= WINDOW:
            walk.cut = True
            raise StopReplay
        if e.back and walk.turn < 0:
            walk.turn = e.number
        walk.events.append(e)
        self.number += 1
        if walk.found < 0:
            if self.wanted(e):
                walk.found = e.number
            elif len(walk.events) > WINDOW // 2:
                walk.past.take(walk.events.popleft())
        if self.number % ASKED_EVERY == 0 and self.stop():
            raise QuadrantsRuntimeError("stopped before the step was found", code="QL0713")

    def _event(self, s: N.Stmt, value: Any, env: Env) -> Event:
        parts = self.parts.get(s.id)
        if parts is None:
            read = s.args if isinstance(s, N.Op) else (s.value,) if isinstance(s, N.Atomic) else ()
            parts = self.parts[s.id] = (s.index if isinstance(s, N.Access) else (), read, s.id in self.back)
        if type(s) is N.While:
            self.trips[s.id] = self.trips.get(s.id, 0) + 1 if type(value) is Trip else 0
            value = value._replace(index=self.trips[s.id]) if type(value) is Trip else value
        index, read, back = parts
        at = tuple([int(env[i]) for i in index]) if index else ()
        return Event(s, value, at, tuple([env[i] for i in read]) if read else (), self.number, back)
