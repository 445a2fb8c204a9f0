"""The launches under a tape, and their gradients in opposite order, each over the memory that its launch left.

What a later launch or Python changes in memory that an earlier gradient will read is logged, element by element, and
undone before that gradient runs; in the end everything is redone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime.memory import Memory

if TYPE_CHECKING:
    from quadrants_lab.runtime.dispatch import Dispatcher
    from quadrants_lab.runtime.plan import Plan

LOG_BYTES = 1 << 30  # most bytes of overwritten values that a tape keeps
SHADOW_BYTES = 1 << 16  # arrays up to this size are followed through writes from Python too


@dataclass(slots=True)
class Change:
    """The elements ``where`` of an array, as they were before a change; `swap` undoes it and, again, redoes it."""

    memory: Memory
    where: npt.NDArray[np.intp]
    values: npt.NDArray[Any]

    def swap(self) -> None:
        flat = self.memory.array.reshape(-1)
        now = flat[self.where]
        flat[self.where] = self.values
        self.values = now
        self.memory.version += 1


@dataclass(slots=True)
class Launch:
    """``gradient`` None: nothing to differentiate. ``changes``: to memory that gradients of earlier launches read."""

    gradient: Dispatcher | None
    args: tuple[Any, ...] = ()
    number: int = 0  # of the launch: what its random draws depend on
    changes: list[Change] = field(default_factory=list)


@dataclass(slots=True)
class Followed:
    """Memory that a recorded gradient reads; ``version`` and, if it is small, ``shadow`` are as of the last launch."""

    memory: Memory
    reader: str
    name: str
    version: int
    shadow: npt.NDArray[Any] | None

    def refresh(self) -> None:
        self.version = self.memory.version
        if self.shadow is not None:
            self.shadow[...] = self.memory.array


class Launches:
    """An observer that records launches for `differentiate`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.done: list[Launch] = []
        self.followed: dict[int, Followed] = {}
        self.logged = 0

    def before(self, plan: Plan, args: tuple[Any, ...]) -> list[tuple[Followed, npt.NDArray[Any]]]:
        """Copies of the followed memory that this launch may write."""
        self._python_writes()
        written = {id(m) for name, m in plan.memories(args).items() if name in plan.writes}
        return [(f, f.memory.array.copy()) for key, f in self.followed.items() if key in written]

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        launch = Launch(None)
        for followed, old in token:
            self._log(launch, followed, old)
        gradient = plan.owner.gradient
        if gradient is not None and not failed and plan.differentiable:
            launch.gradient = gradient
            launch.number = plan.frame.launch_number
            launch.args = self._follow(gradient.plan_for(plan.session, args), args)
        self.done.append(launch)

    def differentiate(self) -> None:
        """Runs the gradients, the last launch's first, and leaves memory as it was."""
        self._python_writes()
        undone: list[Launch] = []
        try:
            for launch in reversed(self.done):
                if launch.gradient is not None:
                    launch.gradient.replays = launch.number
                    try:
                        launch.gradient.call(*launch.args)
                    finally:
                        launch.gradient.replays = 0
                for change in reversed(launch.changes):
                    change.swap()
                undone.append(launch)
        finally:
            for launch in reversed(undone):
                for change in launch.changes:
                    change.swap()

    def _follow(self, gradient: Plan, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Follows what the gradient will read; foreign arrays, which nobody can follow, are copied into the result."""
        memories = gradient.memories(args)
        reads = gradient.primal_reads
        for name in reads & memories.keys():
            memory = memories[name]
            if id(memory) not in self.followed:
                small = memory.array.nbytes <= SHADOW_BYTES
                shadow = memory.array.copy() if small else None
                self.followed[id(memory)] = Followed(
                    memory, gradient.kernel.name, name, memory.version, shadow
                )
        return tuple(
            arg.copy() if isinstance(arg, np.ndarray) and slot.name in reads else arg
            for slot, arg in zip(gradient.slots, args, strict=True)
        )

    def _log(self, launch: Launch, followed: Followed, old: npt.NDArray[Any]) -> None:
        bits = np.dtype(f"u{old.dtype.itemsize}")
        before, after = old.reshape(-1), followed.memory.array.reshape(-1)
        where = np.flatnonzero(before.view(bits) != after.view(bits))
        if where.size:
            change = Change(followed.memory, where, before[where])
            self.logged += where.nbytes + change.values.nbytes
            if self.logged > LOG_BYTES:
                raise QuadrantsRuntimeError(
                    f"the Tape would have to keep more than {LOG_BYTES >> 20} MB of overwritten values; "
                    f"the last ones are of {followed.name}, which the gradient of kernel {followed.reader} reads",
                    code="QL2093",
                    help="write each step to elements of its own: u[t + 1, i] from u[t, i]",
                )
            launch.changes.append(change)
        followed.refresh()

    def _python_writes(self) -> None:
        """Logs what was written between launches."""
        launch = Launch(None)
        for followed in self.followed.values():
            if followed.memory.version == followed.version:
                continue
            if followed.shadow is None:
                raise QuadrantsRuntimeError(
                    f"{followed.name} was written from Python under a Tape after kernel {followed.reader}, "
                    "whose gradient reads it, was launched",
                    code="QL2094",
                    help="write it before the Tape, or in a kernel",
                )
            self._log(launch, followed, followed.shadow.copy())
        if launch.changes:
            self.done.append(launch)
