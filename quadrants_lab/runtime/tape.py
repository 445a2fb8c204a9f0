"""The launches under a tape, and their gradients in opposite order, each over the memory that its launch left.

What a later launch or Python changes in memory that an earlier gradient will read is logged, element by element, and
undone before that gradient runs; in the end everything is redone. What Python writes over a result of a launch is a
constant: the gradient of those elements ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from quadrants_lab.adstack.report import kept_rows
from quadrants_lab.autodiff.doubts import Doubt, warn
from quadrants_lab.errors import Label, QuadrantsRuntimeError, render
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.again import Again, Routes, can_be_recorded_again, elements_read
from quadrants_lab.runtime.memory import SHARED, Memory
from quadrants_lab.runtime.open_ends import OpenEnds
from quadrants_lab.runtime.parts import HostPart, Part, part_of
from quadrants_lab.runtime.regions import Footprint, Region, add, around, common, footprint, meet, whole

if TYPE_CHECKING:
    from quadrants_lab.runtime.dispatch import Dispatcher
    from quadrants_lab.runtime.plan import Plan
    from quadrants_lab.runtime.scratch import KeptBuffers

KEEP_BYTES = 1 << 30  # most bytes of values and copies that a tape keeps


class HasMemory(Protocol):
    _memory: Memory


class CustomGradient(Protocol):
    """A Python function with a gradient of its own."""

    fn: Callable[..., Any]

    @property
    def grad(self) -> Callable[..., Any] | None: ...


@dataclass(slots=True)
class Step:
    """Something that changed memory: a launch, a function with a gradient of its own, writes from Python.

    ``gradient``: runs its derivative (None: there is none). ``repeat``: does it again (None: another step does).
    ``changes``: to memory that gradients of earlier steps read. ``launch``: plan, arguments and number of a launch;
    ``write``: the memory that Python wrote to, which elements (indices into the array), and what.
    """

    gradient: Callable[[], None] | None = None
    repeat: Callable[[], None] | None = None
    changes: list[Part] = field(default_factory=list)
    launch: tuple[Plan, tuple[Any, ...], int] | None = None
    write: tuple[Memory, list[tuple[Any, npt.NDArray[Any]]]] | None = None


@dataclass(slots=True)
class Kept:
    """Values that the tape had to keep: ``elements`` of ``name``, which ``writer`` overwrote (a kernel, or Python, at
    ``written``) and the gradient of ``reader`` reads (at ``read``)."""

    name: str
    reader: str
    writer: str
    read: Span | None
    written: Span | None
    elements: int = 0
    bytes: int = 0

    def labels(self) -> tuple[Label, ...]:
        read = Label(self.read, "read here, and again for the gradient")
        return (Label(self.written, "overwritten here"), *([read] if self.read else []))

    def __str__(self) -> str:
        return render(
            "QL2100",
            f"the Tape kept {self.elements} value{'s' * (self.elements != 1)} ({self.bytes} bytes) of {self.name}: the "
            f"gradient of {self.reader} reads what {self.writer} overwrote",
            self.labels(),
            "nothing is wrong; write each step to elements of its own to save the memory",
            kind="note",
        )


@dataclass(slots=True)
class Followed:
    """Memory that a recorded gradient reads (``reader`` is the kernel, ``span`` the line), or a recorded launch used or
    gave a value that has a gradient (``grad``).

    ``version``: as of the last launch. ``regions``: what the gradients read, together. ``written``: where Python wrote
    since then, and what was there, if a gradient may read it. ``shadow``: the data as of ``version``, of memory that
    others may write to without telling.
    """

    memory: Memory
    name: str
    version: int
    reader: str = ""
    span: Span | None = None
    grad: Memory | None = None
    regions: list[Region] = field(default_factory=list)
    written: list[tuple[Any, npt.NDArray[Any] | None]] = field(default_factory=list)
    shadow: npt.NDArray[Any] | None = None

    def watch(self, where: Any) -> None:
        """Python is about to write there, or to give the array away."""
        if where is SHARED:
            self.shadow = self.memory.copy()
            return
        self.written.append((where, np.array(self.memory.values()[where]) if self.regions else None))

    def meets(self, region: Region) -> Region | None:
        """The smallest box around what gradients read of the region; None where they read none of it."""
        found = None
        for r in self.regions:
            if meet(region, r):
                found = common(region, r) if found is None else around(found, common(region, r))
        return found


@dataclass(slots=True)
class Before:
    """What a launch is about to write, of followed memory: buffer ``name``. ``part``: what gradients read of it (None:
    nothing). ``scattered``: data decides where it writes."""

    followed: Followed
    name: str
    part: Part | None = None
    scattered: bool = False


class Writes:
    """An observer that remembers which memory was written, and by which kernels in turn."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.written: dict[int, Memory] = {}
        self.kernels: list[str] = []

    def wrote(self, x: HasMemory) -> bool:
        return id(x._memory) in self.written

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        return None

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        self.kernels.append(plan.kernel.name)
        for name, memory in plan.memories(args).items():
            if name in plan.writes:
                self.written[id(memory)] = memory


class Launches:
    """An observer that records launches for `differentiate`.

    ``repeatable``: also what `repeat` needs, which is all memory as it was before the first step.
    """

    def __init__(self, repeatable: bool = False) -> None:
        self.repeatable = repeatable
        self.followed: dict[int, Followed] = {}
        self.writes = Writes()
        self.clear()

    def clear(self) -> None:
        for f in self.followed.values():
            f.memory.watchers = tuple(w for w in f.memory.watchers if w != f.watch)
        self.steps: list[Step] = []
        self.followed = {}
        self.initial: dict[int, tuple[Any, npt.NDArray[Any]]] = {}  # memory and arrays, and copies of them
        self.kept: dict[tuple[str, str, str], Kept] = {}
        self.used = 0  # bytes
        self.names: dict[int, str] = {}  # of memory, as the first kernel calls it
        self.paused = 0
        self.open_ends = OpenEnds("grad")
        self.constants: set[int] = set()  # memory that Python wrote over, as was told
        self.routes: dict[Dispatcher, Routes] = {}
        self.writes.clear()

    # --- what happens ------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Launches until `resume` belong to a function with a gradient of its own."""
        self._python_writes()
        self.paused += 1

    def resume(self) -> None:
        self._python_writes()
        self.paused -= 1

    def insert(self, function: CustomGradient, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The function was called, between `pause` and `resume`."""
        if not self.paused:
            assert function.grad is not None
            run = partial(function.grad, *args, **kwargs)
            self.steps.append(Step(run, partial(function.fn, *args, **kwargs)))

    def again(self, dispatcher: Dispatcher, args: tuple[Any, ...]) -> Any:
        """Launches and records, quickly, what was recorded before with other scalars; else NotImplemented."""
        routes = self.routes.get(dispatcher)
        known = None if routes is None or self.paused else routes.find(dispatcher, args)
        if known is None:
            return NotImplemented
        self._python_writes()
        plan, step, found = known.plan, Step(), []
        for name, memory, elements in known.writes:
            followed = self.followed.get(id(memory))
            if followed is not None:
                found.append(self._before(followed, name, elements, args))
        dispatcher.last = plan
        value: Any = None
        try:
            value = plan.call(*args)
        finally:
            for before in found:
                if value is NotImplemented:
                    before.followed.version = before.followed.memory.version
                else:
                    self._after(step, before, plan)
            if value is not NotImplemented:
                self.steps.append(step)
        if value is NotImplemented:
            return value
        self.writes.kernels.append(plan.kernel.name)
        number = plan.frame.launch_number
        step.launch = plan, args, number
        if known.gradient is not None:
            step.gradient = partial(_launch_gradient, known.gradient, args, number, {})
            for memory, region in known.reads:
                add(self.followed[id(memory)].regions, region(args))
        return value

    def before(self, plan: Plan, args: tuple[Any, ...]) -> list[Before]:
        """Copies what this launch may overwrite although recorded gradients read it."""
        self._python_writes()
        memories = plan.memories(args)
        for name, memory in memories.items():
            self.names.setdefault(id(memory), name)
        if self.repeatable:
            touched: list[Any] = [*memories.values(), *(a for a in args if isinstance(a, np.ndarray))]
            for one in touched:
                if id(one) not in self.initial:
                    self.initial[id(one)] = one, one.copy()
        found: list[Before] = []
        for name in plan.writes:
            followed = self.followed.get(id(memories.get(name)))
            if followed is not None:
                found.append(self._before(followed, name, footprint(plan, name, writes=True), args))
        return found

    def _before(self, followed: Followed, name: str, region: Footprint | None, args: Sequence[Any]) -> Before:
        met = None if region is None else followed.meets(region.of(args))
        if region is None or met is None:
            return Before(followed, name)
        return Before(followed, name, part_of(followed.memory, met), region.everywhere)

    def after(self, plan: Plan, args: tuple[Any, ...], token: list[Before], failed: bool) -> None:
        step = Step()
        memories = plan.memories(args)
        for before in token:
            self._after(step, before, plan)
        self.writes.after(plan, args, None, failed)
        if not failed and not self.paused:
            number = plan.frame.launch_number
            step.launch = plan, args, number
            step.repeat = partial(_launch_again, plan, args, number)
            self.open_ends.launched(plan, args)
            gradient, reverse = plan.owner.gradient, None
            if gradient is not None and plan.differentiable:
                reverse = gradient.plan_for(plan.session, args)
                reverse.ready_foreign(args)
                taken = self._follow_reads(reverse, args)
                kept = plan.scratch.take()
                shapes = {slot: memory.operand.shape for slot, memory in kept.items()}
                for row in kept_rows(reverse.kernel, shapes) if kept else ():
                    kernel = plan.kernel.name
                    self._count(Kept(row.name, kernel, kernel, None, row.span, row.elements, row.bytes), row.bytes)
                step.gradient = partial(_launch_gradient, gradient, taken, number, kept)
                self._follow_derivatives(plan, args, memories)
            if not self.repeatable and can_be_recorded_again(plan):
                routes = self.routes.setdefault(plan.owner, Routes(plan.owner))
                routes.add(Again(plan, reverse, args), args)
        elif self.paused:
            # a gradient of the user's may read anything that the function touched
            for name, memory in memories.items():
                span = span_of(plan, name, (N.Load, N.Store, N.Atomic))
                add(self._follow(memory, name, plan.kernel.name, span).regions, whole(memory.operand.shape))
        self.steps.append(step)

    # --- what is done with it ------------------------------------------------------------------------------------

    def differentiate(self) -> None:
        """Runs the gradients, the last step's first, and leaves memory as it was."""
        self._python_writes()
        undone: list[Step] = []
        try:
            for step in reversed(self.steps):
                if step.gradient is not None:
                    step.gradient()
                for change in reversed(step.changes):
                    change.swap()
                undone.append(step)
        finally:
            for step in reversed(undone):
                for change in step.changes:
                    change.swap()

    def repeat(self) -> None:
        """Does all steps again, over memory as it is."""
        for step in self.steps:
            if step.repeat is not None:
                step.repeat()

    def report(self) -> list[Kept]:
        """What the tape had to keep, most bytes first."""
        return sorted(self.kept.values(), key=lambda k: -k.bytes)

    # --- memory --------------------------------------------------------------------------------------------------

    def _follow_reads(self, gradient: Plan, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Follows what the gradient will read; foreign arrays, which nobody can follow, are copied into the result."""
        memories = gradient.memories(args)
        reads = gradient.primal_reads
        for name in reads & memories.keys():
            memory = memories[name]
            followed = self._follow(memory, name, gradient.kernel.name, span_of(gradient, name, (N.Load,)))
            add(followed.regions, elements_read(gradient, name, memory)(args))
        return tuple(
            arg.copy() if isinstance(arg, np.ndarray) and slot.name in reads else arg
            for slot, arg in zip(gradient.slots, args, strict=True)
        )

    def _follow_derivatives(self, plan: Plan, args: tuple[Any, ...], memories: dict[str, Memory]) -> None:
        """Follows what the launch read or wrote that has a gradient."""
        for name, buffer in plan.compiled.lowered.kernel.buffers.items():
            if buffer.grad and name in memories and (name in plan.reads or name in plan.writes):
                grad = plan.gradient_of(name, args)
                if grad is not None:
                    self._follow(memories[name], name).grad = grad

    def _follow(self, memory: Memory, name: str, reader: str = "", span: Span | None = None) -> Followed:
        found = self.followed.get(id(memory))
        if found is None:
            found = self.followed[id(memory)] = Followed(memory, name, memory.version)
            if memory.foreign:
                self._use(memory.operand.nbytes, f"{name}, which another library may write to", ())
                found.shadow = memory.copy()
            memory.watchers = (*memory.watchers, found.watch)
        if reader and not found.reader:
            found.name, found.reader, found.span = name, reader, span
        return found

    def _after(self, step: Step, before: Before, plan: Plan) -> None:
        """Notes what the launch overwrote that gradients read."""
        followed, part = before.followed, before.part
        followed.version = followed.memory.version
        if followed.shadow is not None:
            followed.shadow[...] = followed.memory.values()
        if part is not None:  # of a scattered one mostly a few elements changed
            written = span_of(plan, before.name, (N.Store, N.Atomic))
            self._keep(step, followed, part.changed() if before.scattered else part, plan.kernel.name, written)

    def _keep(self, step: Step, followed: Followed, part: Part, writer: str, written: Span | None) -> None:
        if part.size:
            kept = Kept(followed.name, followed.reader, writer, followed.span, written, part.size, part.nbytes)
            self._count(kept, part.nbytes)
            step.changes.append(part)

    def _count(self, kept: Kept, nbytes: int) -> None:
        """Adds to the report what was kept, in ``nbytes``."""
        what = f"{kept.name}, which the gradient of kernel {kept.reader} reads"
        self._use(nbytes, what, kept.labels() if kept.written else ())
        known = self.kept.setdefault((kept.name, kept.reader, kept.writer), kept)
        if known is not kept:
            known.elements += kept.elements
            known.bytes += kept.bytes

    def _use(self, nbytes: int, what: str, labels: tuple[Label, ...]) -> None:
        """An error where the Tape would take too much memory."""
        self.used += nbytes
        if self.used > KEEP_BYTES:
            raise QuadrantsRuntimeError(
                f"the Tape would have to keep more than {KEEP_BYTES >> 20} MB of overwritten values; the last ones are "
                f"of {what}",
                code="QL2093",
                labels=labels,
                help="write each step to elements of its own: u[t + 1, i] from u[t, i]",
            )

    def _python_writes(self) -> None:
        """Notes what was written between launches."""
        for followed in self.followed.values():
            if followed.shadow is not None:
                self._compare(followed)
            if followed.written or followed.memory.version != followed.version:
                self._python_wrote(followed)

    def _compare(self, followed: Followed) -> None:
        """Finds what was written to memory of another library."""
        assert followed.shadow is not None
        old, now = followed.shadow, followed.memory.values()
        bits = np.dtype(f"u{old.dtype.itemsize}")
        differs = old.view(bits) != now.view(bits)
        followed.written = [(where, None) for where, _ in followed.written]
        if differs.any():
            where = np.nonzero(differs) if old.ndim else ()
            followed.written.insert(0, (where, np.array(old[where])))
            followed.shadow[where] = now[where]
        elif not followed.written:
            followed.version = followed.memory.version

    def _python_wrote(self, followed: Followed) -> None:
        memory, step = followed.memory, Step()
        unseen = memory.version - followed.version - len(followed.written)
        if unseen > 0 and followed.shadow is None and (followed.regions or followed.grad is not None):
            raise QuadrantsRuntimeError(
                f"{followed.name} was written under a Tape by a launch that the Tape did not see",
                code="QL2094",
                help="launch in the thread that opened the Tape, or before it",
            )
        written, followed.written = followed.written, []
        followed.version = memory.version
        for where, old in written:
            if old is not None and followed.reader:
                self._keep(step, followed, HostPart(memory, where, old), "Python", None)
        if not self.paused:
            now = memory.values()
            step.write = memory, [(where, np.array(now[where])) for where, _ in written]
            step.repeat = partial(_write, *step.write)
            if followed.grad is not None:
                if id(memory) not in self.writes.written and memory.serial not in self.constants:
                    self.constants.add(memory.serial)
                    warn([written_over(followed.name, "grad")])
                step.gradient = partial(_write, followed.grad, [(where, 0) for where, _ in written], True)
        self.steps.append(step)


def written_over(name: str, which: str) -> Doubt:
    """The doubt about a field that only Python writes, between two launches. ``which``: "grad" or "dual"."""
    where, effect = {
        "grad": ("a Tape", f"{name}.grad is the derivative by what it was before, and what was written is a constant"),
        "dual": ("a FwdMode", f"what was written is a constant, and {name}.dual is 0 there"),
    }[which]
    return Doubt(
        render(
            "QL0415",
            f"{name} was written from Python between two launches under {where} that use it: {effect}",
            (),
            f"write it before the {where[2:]}, or use a field of its own for each value",
            kind="warning",
        ),
        None,
    )


def span_of(plan: Plan, buffer: str, kinds: tuple[type[N.Stmt], ...]) -> Span | None:
    """Where the kernel first touches the buffer by a statement of one of the kinds."""
    return next((s.span for s in plan.accesses_of.get(buffer, ()) if isinstance(s, kinds)), None)


def _launch_gradient(gradient: Dispatcher, args: tuple[Any, ...], number: int, kept: KeptBuffers) -> None:
    gradient.replays, gradient.kept = number, kept
    try:
        gradient.call(*args)
        if gradient.last is not None:
            gradient.last.done_foreign(args)
    finally:
        gradient.replays, gradient.kept = 0, None


def _launch_again(plan: Plan, args: tuple[Any, ...], number: int) -> None:
    plan.frame.replay(number)
    try:
        plan.owner.launch(plan, args)
    finally:
        plan.frame.replay(0)


def _write(memory: Memory, elements: Sequence[tuple[Any, Any]], counts: bool = False) -> None:
    for where, values in elements:
        memory.array[where] = values
    memory.settle()
    if counts:
        memory.version += 1
