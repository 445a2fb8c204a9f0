"""Launch records: what a kernel's last forward and last gradient launch read, were sized to, and left behind; of those
before as many as little memory holds.

    with recording() as records:
        ...launches...
    records.last[(dispatcher, "forward")]

Outside of a recording nothing is kept or copied. Memory that did not change is not copied again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir import nodes as N
from quadrants_lab.passes.pipeline import RECORDER, Trace
from quadrants_lab.runtime.launch.observe import watch

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow, StackRow
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory

COPY_BYTES = 256 << 20
PAST_BYTES, MOST_PAST = 32 << 20, 2000  # copies for launches that were superseded, and how many of these
HEAD_BYTES = 16 << 20  # of what does not fit, for all arrays of a launch
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(slots=True)
class LaunchRecord:
    """One launch. ``inputs``: copies of the buffers that it reads, as they were before, by buffer name; ``outputs``:
    of those that it writes, as they were after it. Both are None where they did not fit into the recording's memory.
    ``shapes``: of all its arrays. ``returned``: the values of its "ret" buffers. ``report``, for a gradient: a row an
    adstack; ``kept``: a row for each buffer of which its launch kept what it overwrote. ``draws``: the number of the
    launch whose random draws it made. ``first``: it is the first of its specialisation. ``number`` counts all launches
    of the recording, from 0; ``of``: the number of the launch that it is the gradient of, -1 where that was not
    recorded. ``memories``: where the data is, and the version that the launch left. ``heads``: where there are no
    inputs, `heads`. ``copied``: bytes that no other record has. ``held``: what `held.held` made of it."""

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
    of: int = -1
    memories: dict[str, tuple[Memory, int]] = field(default_factory=dict)
    heads: Arrays = field(default_factory=dict)
    copied: int = 0
    held: Any = None

    @property
    def kernel(self) -> str:
        return self.plan.kernel.name

    @property
    def mode(self) -> str:
        """ "forward" or "reverse"."""
        return self.plan.owner.mode

    @property
    def scalars(self) -> dict[str, Any]:
        return self.plan.scalars(self.args)

    @property
    def caps(self) -> dict[int, int]:
        """The depths of the stacks, by id."""
        return {row.stack: row.depth for row in self.report}

    @property
    def random(self) -> tuple[int, int]:
        """What its draws depend on: the seed, and the number of the launch."""
        return self.plan.session.settings.random_seed, self.draws


@dataclass(slots=True)
class Recorder:
    """An observer; ``last`` is keyed by the kernel's dispatcher, which knows its mode; ``earlier`` are the superseded
    launches, the latest 10,000, without data, and ``past`` the latest of their records. ``tapes``: what makes the
    report of the last Tape over each loss, by its memory."""

    limit: int = COPY_BYTES
    last: dict[Any, LaunchRecord] = field(default_factory=dict)
    earlier: deque[LaunchRecord] = field(default_factory=lambda: deque(maxlen=10_000))
    launches: int = 0
    tapes: dict[int, Callable[[], Any]] = field(default_factory=dict)
    past: deque[LaunchRecord] = field(default_factory=deque)
    _past_bytes: int = 0
    _forward: dict[tuple[Any, int], int] = field(default_factory=dict)  # gradient and number of its launch -> record's
    _known: WeakValueDictionary[int, npt.NDArray[Any]] = field(default_factory=WeakValueDictionary)

    def before(self, plan: Plan, args: tuple[Any, ...]) -> tuple[LaunchRecord, float]:
        old = self.last.pop(plan.owner, None)
        memories = plan.memories(args)
        arrays = plan.arrays(args) | {name: memory.values() for name, memory in plan.given().items()}
        names = plan.reads | plan.writes | plan.primal_reads | plan.given().keys()
        shapes = {name: a.shape for name, a in arrays.items()}
        record = LaunchRecord(plan, _frozen(args), self.launches, None, shapes)
        record.inputs = self._copies(record, arrays, memories, names)
        if record.inputs is None:
            record.heads = heads(plan, arrays, memories.keys())
        self._supersede(old)  # now: what did not change is not copied again
        record.first = plan.compiled.trace is not None and not plan.compiled.clock.launched
        plan.compiled.clock.launched = True
        self.launches += 1
        self.last[plan.owner] = record
        return record, perf_counter()

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        record, start = token
        plan.session.finish()  # a launch may return before it is done
        record.seconds = perf_counter() - start
        record.failed = failed
        memories = plan.memories(args)
        record.memories = {name: (memory, memory.version) for name, memory in memories.items()}
        record.outputs = self._copies(record, plan.arrays(args), memories, plan.writes)
        record.returned = {} if failed else {name: plan.frame.ret(name) for name in plan.compiled.returns}
        record.report = tuple(plan.report())
        record.kept = tuple(plan.kept()) if plan.owner.mode == "reverse" else ()
        record.draws = plan.drawn()
        if plan.owner.mode == "reverse":
            record.of = self._forward.get((plan.owner, record.draws), -1)
        elif plan.owner.gradient is not None:
            self._forward.setdefault((plan.owner.gradient, record.draws), record.number)  # else it was made again

    def records(self) -> list[LaunchRecord]:
        """The records that are held, in the order of the launches."""
        return sorted(self.last.values(), key=lambda r: r.number)

    def _supersede(self, old: LaunchRecord | None) -> None:
        """Takes leave of a record: it goes to those of the past, of which the oldest give way."""
        if old is None:
            return
        self.earlier.append(
            LaunchRecord(old.plan, (), old.number, None, {}, seconds=old.seconds, first=old.first, failed=old.failed)
        )
        if old.inputs is not None and not old.failed:
            self.past.append(old)
            self._past_bytes += old.copied
        while self._past_bytes > PAST_BYTES or len(self.past) > MOST_PAST:
            self._past_bytes -= self.past.popleft().copied

    def _copies(
        self, record: LaunchRecord, arrays: Arrays, memories: Mapping[str, Memory], names: AbstractSet[str]
    ) -> Arrays | None:
        parts = [part for r in self.last.values() for part in (r.inputs, r.outputs) if part]
        held = {id(a): a.nbytes for part in parts for a in part.values()}
        if sum(held.values()) + sum(a.nbytes for name, a in arrays.items() if name in names) > self.limit:
            return None
        return {name: self._copy(record, a, memories.get(name)) for name, a in arrays.items() if name in names}

    def _copy(self, record: LaunchRecord, array: npt.NDArray[Any], memory: Memory | None) -> npt.NDArray[Any]:
        """A copy, or the last one of this memory where that is the same; not to be written to."""
        known = None if memory is None else self._known.get(memory.serial)
        if known is not None and _same(known, array):
            return known
        copy: npt.NDArray[Any] = array.copy()
        record.copied += copy.nbytes
        if memory is not None:
            self._known[memory.serial] = copy
        return copy


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether both are the same to the last bit, NaN or not."""
    if a.shape != b.shape:
        return False
    word = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    left, right = (np.ascontiguousarray(x).reshape(-1).view(word) for x in (a, b))
    return bool((left == right).all())


def heads(plan: Plan, arrays: Arrays, memories: AbstractSet[str]) -> Arrays:
    """The first elements, flat, of what a launch reads and nobody can look at after it: what it writes as well, and
    what is in none of the ``memories``. All of them where they are equal."""
    read = {n for n in arrays if any(isinstance(s, N.Load) for s in plan.accesses_of.get(n, ()))}
    names = {n for n in read if n in plan.writes or n not in memories}
    each, found = HEAD_BYTES // max(len(names), 1), {}
    for n in names:
        flat = arrays[n].reshape(-1)
        if flat.size and (flat == flat[0]).all():  # as what gradients are cleared to is: it takes no room
            found[n] = np.broadcast_to(flat[0].copy(), flat.shape)
        else:
            found[n] = flat[: each // flat.itemsize].copy()
    return found


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
