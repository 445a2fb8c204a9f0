"""Launch records: inputs, stack sizes and outputs of each kernel's last forward launch and last gradient launch, and of
as many earlier launches as fit into little memory.

    with recording() as recorder:
        ...launches...
    recorder.last[kernel.dispatcher]

Outside of a recording nothing is copied. Memory that did not change is not copied again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
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
PAST_BYTES, MOST_PAST = 32 << 20, 2000  # limits for superseded launches: bytes of copies, number of records
HEAD_BYTES = 16 << 20  # of first elements, for all arrays of a launch whose copies do not fit
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(slots=True)
class LaunchRecord:
    """One launch. ``inputs``: copies of the buffers that it reads, from before it, by buffer name. ``outputs``: copies
    of the buffers that it writes, from after it. Both are None if they did not fit into the recording's memory.
    ``shapes``: of all its arrays. ``returned``: the values of its "ret" buffers. ``report``, for a gradient: a row for
    each adstack. ``kept``: a row for each buffer whose overwritten values the launch saved. ``draws``: the launch
    number of its random draws. ``first``: whether it is the first launch of its specialisation. ``number``: its
    position in the recording, from 0. ``launch``: its number among the launches that are no gradients, from 1; for a
    gradient that of its launch, or a number of its own if that was not recorded.
    ``memories``: each buffer's memory, and its version after the launch. ``first_elements``: set by `first_elements` if
    there are no inputs. ``copied``: bytes of copies that no other record shares. ``data``: cache of `launch_data`."""

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
    launch: int = 0
    memories: dict[str, tuple[Memory, int]] = field(default_factory=dict)
    first_elements: Arrays = field(default_factory=dict)
    copied: int = 0
    data: Any = None

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
        """The seed and launch number that its random draws depend on."""
        return self.plan.session.settings.random_seed, self.draws


@dataclass(slots=True)
class Recorder:
    """An observer that records launches. ``last``: the last record by the kernel's dispatcher, which knows its mode.
    ``earlier``: the latest 10,000 superseded launches, without data. ``past``: those of the latest ones that have data.
    ``tapes``: serial of the memory of a loss -> function that makes the report of the last Tape over it."""

    limit: int = COPY_BYTES
    last: dict[Any, LaunchRecord] = field(default_factory=dict)
    earlier: deque[LaunchRecord] = field(default_factory=lambda: deque(maxlen=10_000))
    launches: int = 0
    forward_launches: int = 0
    tapes: dict[int, Callable[[], Any]] = field(default_factory=dict)
    past: deque[LaunchRecord] = field(default_factory=deque)
    _past_bytes: int = 0
    _launch_of: dict[tuple[Any, int], int] = field(default_factory=dict)  # (gradient, launch number) -> ``launch``
    _known: WeakValueDictionary[int, npt.NDArray[Any]] = field(default_factory=WeakValueDictionary)

    def before(self, plan: Plan, args: tuple[Any, ...]) -> tuple[LaunchRecord, float]:
        old = self.last.pop(plan.owner, None)
        memories = plan.memories(args)
        arrays = plan.arrays(args) | {name: memory.values() for name, memory in plan.given().items()}
        names = plan.reads | plan.writes | plan.primal_reads | plan.given().keys()
        shapes = {name: a.shape for name, a in arrays.items()}
        kept = (f"<numpy {a.dtype} {a.shape}>" if isinstance(a, np.ndarray) else a for a in args)  # they are inputs
        record = LaunchRecord(plan, tuple(kept), self.launches, None, shapes)
        record.inputs = self._copies(record, arrays, memories, names)
        if record.inputs is None:
            record.first_elements = first_elements(plan, arrays, memories.keys())
        self._supersede(old)  # after copying, so that unchanged copies are shared
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
        back = plan.owner.mode == "reverse"
        key = plan.owner if back else plan.owner.gradient, record.draws
        if key not in self._launch_of:  # it is no gradient of a recorded launch, and no launch that is repeated
            self.forward_launches += 1
            self._launch_of[key] = self.forward_launches
        record.launch = self._launch_of[key]

    def records(self) -> list[LaunchRecord]:
        """The records that are held, in the order of the launches."""
        return sorted(self.last.values(), key=lambda r: r.number)

    def _supersede(self, old: LaunchRecord | None) -> None:
        """Moves a record to the past ones, of which the oldest are dropped."""
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
        sizes = {id(a): a.nbytes for part in parts for a in part.values()}
        if sum(sizes.values()) + sum(a.nbytes for name, a in arrays.items() if name in names) > self.limit:
            return None
        return {name: self._copy(record, a, memories.get(name)) for name, a in arrays.items() if name in names}

    def _copy(self, record: LaunchRecord, array: npt.NDArray[Any], memory: Memory | None) -> npt.NDArray[Any]:
        """A copy, or the last copy of this memory if it is equal. It must not be written to."""
        known = None if memory is None else self._known.get(memory.serial)
        if known is not None and _same(known, array):
            return known
        copy: npt.NDArray[Any] = array.copy()
        record.copied += copy.nbytes
        if memory is not None:
            self._known[memory.serial] = copy
        return copy


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether both are equal bit by bit, also for NaN."""
    if a.shape != b.shape:
        return False
    word = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    left, right = (np.ascontiguousarray(x).reshape(-1).view(word) for x in (a, b))
    return bool((left == right).all())


def first_elements(plan: Plan, arrays: Arrays, memories: AbstractSet[str]) -> Arrays:
    """The first elements, flat, of the arrays that a launch reads and that cannot be read after it, because it writes
    them too or because they are in none of the ``memories``. All elements of an array if they are equal."""
    read = {n for n in arrays if any(isinstance(s, N.Load) for s in plan.accesses_of.get(n, ()))}
    names = {n for n in read if n in plan.writes or n not in memories}
    each, found = HEAD_BYTES // max(len(names), 1), {}
    for n in names:
        flat = arrays[n].reshape(-1)
        if flat.size and (flat == flat[0]).all():  # such as a cleared gradient: this takes no memory
            found[n] = np.broadcast_to(flat[0].copy(), flat.shape)
        else:
            found[n] = flat[: each // flat.itemsize].copy()
    return found


@contextmanager
def recording(limit: int = COPY_BYTES, compiling: Trace | None = None) -> Iterator[Recorder]:
    """Records the launches of this context; copies take at most ``limit`` bytes. ``compiling.now`` tells what is being
    compiled."""
    recorder = Recorder(limit)
    token = RECORDER.set(compiling or Trace())
    try:
        with watch(recorder):
            yield recorder
    finally:
        RECORDER.reset(token)
