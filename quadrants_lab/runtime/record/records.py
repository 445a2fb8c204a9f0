"""Launch records: what a kernel's last forward and last gradient launch read, were sized to, and left behind.

    with recording() as records:
        ...launches...
    records.last[(dispatcher, "forward")]

Outside of a recording nothing is kept or copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.passes.pipeline import RECORDER, Trace
from quadrants_lab.runtime.launch.observe import watch

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow, StackRow
    from quadrants_lab.runtime.launch.plan import Plan

COPY_BYTES = 256 << 20
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(slots=True)
class LaunchRecord:
    """One launch. ``inputs``: copies of the buffers that it reads, as they were before, by buffer name; ``outputs``:
    of those that it writes, as they were after it. Both are None where they did not fit into the recording's memory.
    ``shapes``: of all its arrays. ``returned``: the values of its "ret" buffers. ``report``, for a gradient: a row an
    adstack; ``kept``: a row for each buffer of which its launch kept what it overwrote. ``draws``: the number of the
    launch whose random draws it made. ``first``: it is the first of its
    specialisation. ``number`` counts all launches of the recording, from 0."""

    plan: Plan
    args: tuple[Any, ...]
    number: int
    inputs: Arrays | None
    shapes: dict[str, tuple[int, ...]]
    outputs: Arrays | None = None
    returned: dict[str, Any] = field(default_factory=dict)
    report: tuple[StackRow, ...] = ()
    kept: tuple[KeptRow, ...] = ()
    draws: int = 0
    seconds: float = 0.0
    first: bool = False
    failed: bool = False

    @property
    def kernel(self) -> str:
        return self.plan.kernel.name

    @property
    def mode(self) -> str:
        """ "forward" or "reverse"."""
        return self.plan.owner.mode


@dataclass(frozen=True, slots=True)
class LaunchNote:
    """What is left of a launch that a later one of the same kernel and mode superseded."""

    kernel: str
    mode: str
    number: int
    seconds: float
    failed: bool
    first: bool


@dataclass(slots=True)
class Recorder:
    """An observer; ``last`` is keyed by the kernel's dispatcher, which knows its mode; ``earlier`` are the superseded
    launches, the latest 10,000. ``tapes``: what makes the report of the last Tape over each loss, by its memory."""

    limit: int = COPY_BYTES
    last: dict[Any, LaunchRecord] = field(default_factory=dict)
    earlier: deque[LaunchNote] = field(default_factory=lambda: deque(maxlen=10_000))
    launches: int = 0
    tapes: dict[int, Callable[[], Any]] = field(default_factory=dict)

    def before(self, plan: Plan, args: tuple[Any, ...]) -> tuple[LaunchRecord, float]:
        old = self.last.pop(plan.owner, None)
        if old is not None:
            self.earlier.append(LaunchNote(old.kernel, old.mode, old.number, old.seconds, old.failed, old.first))
        arrays = plan.arrays(args) | {name: memory.values() for name, memory in plan.given().items()}
        inputs = self._copies(arrays, plan.reads | plan.writes | plan.primal_reads | plan.given().keys())
        shapes = {name: a.shape for name, a in arrays.items()}
        record = LaunchRecord(plan, _frozen(args), self.launches, inputs, shapes)
        record.first = plan.compiled.recorded is not None and not plan.compiled.clock.launched
        plan.compiled.clock.launched = True
        self.launches += 1
        self.last[plan.owner] = record
        return record, perf_counter()

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        record, start = token
        plan.session.finish()  # a launch may return before it is done
        record.seconds = perf_counter() - start
        record.failed = failed
        record.outputs = self._copies(plan.arrays(args), plan.writes)
        record.returned = {} if failed else {name: plan.frame.ret(name) for name in plan.compiled.returns}
        record.report = tuple(plan.report())
        record.kept = tuple(plan.kept()) if plan.owner.mode == "reverse" else ()
        record.draws = plan.drawn()

    def records(self) -> list[LaunchRecord]:
        """The records that are held, in the order of the launches."""
        return sorted(self.last.values(), key=lambda r: r.number)

    def _copies(self, all_arrays: Arrays, names: AbstractSet[str]) -> Arrays | None:
        arrays = {name: a for name, a in all_arrays.items() if name in names}
        held = sum(
            a.nbytes
            for r in self.last.values()
            for part in (r.inputs, r.outputs)
            if part
            for a in part.values()
        )
        if held + sum(a.nbytes for a in arrays.values()) > self.limit:
            return None
        return {name: a.copy() for name, a in arrays.items()}


def _frozen(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments without large foreign arrays: those are among the inputs."""
    return tuple(f"<numpy {a.dtype} {a.shape}>" if isinstance(a, np.ndarray) else a for a in args)


@contextmanager
def recording(limit: int = COPY_BYTES, compiling: Trace | None = None) -> Iterator[Recorder]:
    """Records the launches of this context; copies take at most ``limit`` bytes. ``compiling.now`` says what is being
    compiled."""
    recorder = Recorder(limit)
    token = RECORDER.set(compiling or Trace())
    try:
        with watch(recorder):
            yield recorder
    finally:
        RECORDER.reset(token)
