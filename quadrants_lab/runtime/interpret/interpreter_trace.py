"""One iteration of a launch, statement by statement: the reference interpreter repeats it for the stepper.

The kernel is the one that was launched, after all passes. Tasks before the one that is looked at are repeated in full,
for it may read what they wrote; other iterations of its own task are not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.interpret.interpreter import Box, Lane, Trip, interpret

MOST_EVENTS = 20_000  # of the iteration; what comes later is not followed
MOST_BEFORE = 300_000  # statements of the tasks before
_QUIET = (N.Const, N.ArgLoad, N.ShapeOf, N.Yield, N.AdStackAlloca, N.AdStackGuard, N.If, N.Offload)


@dataclass(frozen=True, slots=True)
class Event:
    """A statement that ran. ``value``: what the interpreter tells of it: what it defined, wrote, pushed or popped, a
    `Trip` where an iteration of a loop begins, the last values where the loop ends. ``at``: the index that a load,
    store or atomic went to; ``operands``: of an operation, and what an atomic brought."""

    stmt: N.Stmt
    value: Any
    at: tuple[int, ...] = ()
    operands: tuple[Any, ...] = ()


@dataclass(slots=True)
class Walk:
    """The events of iteration ``lane`` of a task whose iterations are ``box``; ``cut``: there were more of them."""

    task: N.Offload
    box: Box = ()
    lane: Lane = ()
    events: list[Event] = field(default_factory=list)
    cut: bool = False


class _Enough(Exception):
    """Ends the replay."""


def walk_iteration(
    kernel: N.Kernel,
    args: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
    task: int,
    lane: Lane | None = None,
    caps: Mapping[int, int] | None = None,
    random: tuple[int, int] = (0, 1),
) -> Walk:
    """Repeats iteration ``lane`` (None: the first one) of the kernel's task number ``task`` on copies of the data that
    can be written to.

    Raises QuadrantsRuntimeError where there is no such iteration, or where the tasks before it take more than 300,000
    statements.
    """
    watcher = _Watcher(kernel, task, lane)
    copies = {name: array.copy() if array.flags.writeable else array for name, array in arrays.items()}
    with suppress(_Enough):
        interpret(
            kernel, args, copies, caps=caps, random=random, observer=watcher.told, iterations=watcher.iterations
        )
    return watcher.walk


class _Watcher:
    """What it is told of the tasks before it only counts."""

    def __init__(self, kernel: N.Kernel, task: int, lane: Lane | None) -> None:
        wanted = kernel.body[task]
        assert isinstance(wanted, N.Offload)
        self.name = kernel.name
        self.walk = Walk(wanted)
        self.wanted = lane
        self.inside = False
        self.before = 0
        self.env: dict[int, Any] = {}

    def iterations(self, task: N.Offload, box: Box) -> Iterable[Lane]:
        if task is not self.walk.task:
            return itertools.product(*box)
        lane = tuple(axis.start for axis in box) if self.wanted is None else self.wanted
        self.walk.box, self.walk.lane = box, lane
        if len(lane) != len(box) or not all(k in axis for k, axis in zip(lane, box, strict=True)):
            there = ", ".join(f"{axis.start} .. {axis.stop - 1}" if axis else "none" for axis in box)
            raise QuadrantsRuntimeError(
                f"kernel {self.name} has no iteration {', '.join(map(str, lane))} here: there are {there}",
                code="QL0707",
            )
        return self._alone(lane)

    def _alone(self, lane: Lane) -> Iterator[Lane]:
        self.inside = True
        yield lane
        raise _Enough  # even the bounds of later tasks are none of its statements

    def told(self, s: N.Stmt, value: Any) -> None:
        remember(self.env, s, value)
        if not self.inside:
            self.before += 1
            if self.before > MOST_BEFORE:
                raise QuadrantsRuntimeError(
                    f"the tasks of kernel {self.name} before this one run more than {MOST_BEFORE:,} statements",
                    code="QL0708",
                    help="launch it on less data to follow it step by step",
                )
        elif not isinstance(s, _QUIET):
            if len(self.walk.events) == MOST_EVENTS:
                self.walk.cut = True
                raise _Enough
            self.walk.events.append(self._event(s, value))

    def _event(self, s: N.Stmt, value: Any) -> Event:
        at = tuple(int(self.env[i]) for i in s.index) if isinstance(s, N.Access) else ()
        read = s.args if isinstance(s, N.Op) else (s.value,) if isinstance(s, N.Atomic) else ()
        return Event(s, value, at, tuple(self.env[i] for i in read))


def remember(env: dict[int, Any], s: N.Stmt, value: Any) -> None:
    """Notes, by their ids, the values of which the interpreter tells an observer."""
    if isinstance(s, N.Value):
        env[s.id] = value
    elif isinstance(value, Trip):
        assert isinstance(s, N.Loop)
        if isinstance(s, N.For):
            env[s.index.id] = value.index
        env.update((p.id, v) for p, v in zip(s.carried, value.carried, strict=True))
    elif isinstance(s, N.Control):
        env.update((p.id, v) for p, v in zip(s.results, value, strict=True))
    elif isinstance(s, N.Offload):
        env.update((p.id, v) for p, v in zip(s.indices, value, strict=True))
