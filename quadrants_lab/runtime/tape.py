"""The launches under a tape, and their gradients in opposite order, each over the memory that its launch left.

What a later launch or Python changes in memory that an earlier gradient will read is logged, element by element, and
undone before that gradient runs; in the end everything is redone. What Python writes over a result of a launch is a
constant: the gradient of those elements ends there.
"""

from __future__ import annotations

from collections.abc import Callable
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
from quadrants_lab.runtime.memory import Memory
from quadrants_lab.runtime.open_ends import OpenEnds

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
        self.memory.settle()
        self.memory.version += 1


@dataclass(slots=True)
class Step:
    """Something that changed memory: a launch, a function with a gradient of its own, writes from Python.

    ``gradient``: runs its derivative (None: there is none). ``repeat``: does it again (None: another step does).
    ``changes``: to memory that gradients of earlier steps read. ``launch``: plan, arguments and number of a launch;
    ``write``: the memory that Python wrote to, which elements, and what.
    """

    gradient: Callable[[], None] | None = None
    repeat: Callable[[], None] | None = None
    changes: list[Change] = field(default_factory=list)
    launch: tuple[Plan, tuple[Any, ...], int] | None = None
    write: tuple[Memory, npt.NDArray[np.intp], npt.NDArray[Any]] | None = None


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

    ``shadow``: the data as of ``version`` (None beyond the budget). ``places``: where Python wrote since then.
    """

    memory: Memory
    name: str
    version: int
    shadow: npt.NDArray[Any] | None
    reader: str = ""
    span: Span | None = None
    grad: Memory | None = None
    places: list[Any] = field(default_factory=list)


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
            f.memory.logs = tuple(log for log in f.memory.logs if log is not f.places)
        self.steps: list[Step] = []
        self.followed = {}
        self.initial: dict[int, tuple[Any, npt.NDArray[Any]]] = {}  # memory and arrays, and copies of them
        self.kept: dict[tuple[str, str, str], Kept] = {}
        self.used = 0  # bytes
        self.names: dict[int, str] = {}  # of memory, as the first kernel calls it
        self.paused = 0
        self.open_ends = OpenEnds("grad")
        self.constants: set[int] = set()  # memory that Python wrote over, as was told
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

    def before(self, plan: Plan, args: tuple[Any, ...]) -> list[tuple[Followed, npt.NDArray[Any]]]:
        """The followed memory that this launch may write, and its data."""
        self._python_writes()
        memories = plan.memories(args)
        for name, memory in memories.items():
            self.names.setdefault(id(memory), name)
        if self.repeatable:
            touched: list[Any] = [*memories.values(), *(a for a in args if isinstance(a, np.ndarray))]
            for one in touched:
                if id(one) not in self.initial:
                    self.initial[id(one)] = one, one.copy()
        written = {id(m) for name, m in memories.items() if name in plan.writes}
        return [
            (f, f.memory.copy() if f.shadow is None else f.shadow)
            for key, f in self.followed.items()
            if key in written
        ]

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        step = Step()
        memories = plan.memories(args)
        names = {id(m): name for name, m in memories.items()}
        for followed, old in token:
            name = names[id(followed.memory)]
            self._log(step, followed, old, plan.kernel.name, span_of(plan, name, (N.Store, N.Atomic)))
        self.writes.after(plan, args, None, failed)
        if not failed and not self.paused:
            number = plan.frame.launch_number
            step.launch = plan, args, number
            step.repeat = partial(_launch_again, plan, args, number)
            self.open_ends.launched(plan, args)
            gradient = plan.owner.gradient
            if gradient is not None and plan.differentiable:
                reverse = gradient.plan_for(plan.session, args)
                reverse.ready_foreign(args)
                taken = self._follow_reads(reverse, args)
                kept = plan.scratch.take()
                shapes = {slot: memory.operand.shape for slot, memory in kept.items()}
                for row in kept_rows(reverse.kernel, shapes):
                    kernel = plan.kernel.name
                    self._count(Kept(row.name, kernel, kernel, None, row.span, row.elements, row.bytes), row.bytes)
                step.gradient = partial(_launch_gradient, gradient, taken, number, kept)
                self._follow_derivatives(plan, args, memories)
        elif self.paused:
            # a gradient of the user's may read anything that the function touched
            for name, memory in memories.items():
                self._follow(memory, name, plan.kernel.name, span_of(plan, name, (N.Load, N.Store, N.Atomic)))
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
            self._follow(memories[name], name, gradient.kernel.name, span_of(gradient, name, (N.Load,)))
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
            shadow = None
            if self.used + memory.operand.nbytes <= KEEP_BYTES:
                shadow = memory.copy()
                self.used += shadow.nbytes
            found = self.followed[id(memory)] = Followed(memory, name, memory.version, shadow)
            memory.logs = (*memory.logs, found.places)
        if reader and not found.reader:
            found.name, found.reader, found.span = name, reader, span
        return found

    def _log(
        self, step: Step, followed: Followed, old: npt.NDArray[Any], writer: str, written: Span | None
    ) -> npt.NDArray[np.intp]:
        """Notes what changed since ``old``; returns the elements."""
        bits = np.dtype(f"u{old.dtype.itemsize}")
        before, after = old.reshape(-1), followed.memory.values().reshape(-1)
        where = np.flatnonzero(before.view(bits) != after.view(bits))
        if where.size:
            if followed.reader:
                self._keep(step, followed, where, before[where], writer, written)
            if followed.shadow is not None:
                followed.shadow.reshape(-1)[where] = after[where]
        followed.version = followed.memory.version
        followed.places.clear()
        return where

    def _keep(
        self,
        step: Step,
        followed: Followed,
        where: npt.NDArray[np.intp],
        values: npt.NDArray[Any],
        writer: str,
        written: Span | None,
    ) -> None:
        kept = Kept(followed.name, followed.reader, writer, followed.span, written, where.size, values.nbytes)
        self._count(kept, where.nbytes + values.nbytes)
        step.changes.append(Change(followed.memory, where, values))

    def _count(self, kept: Kept, nbytes: int) -> None:
        """Adds to the report what was kept, in ``nbytes``; an error where that is too much."""
        self.used += nbytes
        if self.used > KEEP_BYTES:
            raise QuadrantsRuntimeError(
                f"the Tape would have to keep more than {KEEP_BYTES >> 20} MB of overwritten values; "
                f"the last ones are of {kept.name}, which the gradient of kernel {kept.reader} reads",
                code="QL2093",
                labels=kept.labels() if kept.written else (),
                help="write each step to elements of its own: u[t + 1, i] from u[t, i]",
            )
        known = self.kept.setdefault((kept.name, kept.reader, kept.writer), kept)
        if known is not kept:
            known.elements += kept.elements
            known.bytes += kept.bytes

    def _python_writes(self) -> None:
        """Notes what was written between launches."""
        for followed in self.followed.values():
            memory = followed.memory
            if memory.version == followed.version and (not memory.foreign or followed.shadow is None):
                continue
            if followed.shadow is None:
                raise QuadrantsRuntimeError(
                    f"{followed.name} was written from Python under a Tape after kernel {followed.reader}, "
                    "whose gradient reads it, was launched",
                    code="QL2094",
                    help="write it before the Tape, or in a kernel",
                )
            told = memory.version - followed.version == len(followed.places)
            places = list(followed.places)
            step = Step()
            silent = memory.version == followed.version  # another library may have written to its memory
            where = self._log(step, followed, followed.shadow, "Python", None)
            if silent and not where.size:
                continue
            if not self.paused:
                values = memory.values().reshape(-1)[where]
                step.write = memory, where, values
                step.repeat = partial(_write, *step.write)
                if followed.grad is not None:
                    if id(memory) not in self.writes.written and memory.serial not in self.constants:
                        self.constants.add(memory.serial)
                        warn([written_over(followed.name, "grad")])
                    marks = np.zeros(memory.operand.shape, np.bool_)
                    for place in places:
                        marks[place] = True
                    constant = np.flatnonzero(marks) if told and not silent else where
                    step.gradient = partial(_write, followed.grad, constant, 0, True)
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


def _write(memory: Memory, where: npt.NDArray[np.intp], values: Any, counts: bool = False) -> None:
    memory.array.reshape(-1)[where] = values
    memory.settle()
    if counts:
        memory.version += 1


