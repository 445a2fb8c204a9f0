"""Warnings about a gradient outside of a Tape: memory was written since its launch, or all its seeds are 0.

Versions tell that memory was written, but not where. The elements that a kernel writes are known as boxes
(`Footprint`), so writes to one time step cause no warning about a gradient that reads another one. Only the last launch
of each kernel is known; there is no warning where only an earlier launch may have written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.effects import value_reads
from quadrants_lab.analysis.regions import Region
from quadrants_lab.analysis.trips import TripCount
from quadrants_lab.autodiff.warned import GradientWarning, warning
from quadrants_lab.errors import Label
from quadrants_lab.runtime.arguments.signature import ArraySlot, memory_of
from quadrants_lab.runtime.call.signature import Footprint, footprint
from quadrants_lab.runtime.memory.memory import Memory

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory


# Makes the warning about a buffer if elements that the gradient reads (None: any) are in a box that was written since.
Suspect = tuple[str, Callable[[], GradientWarning], Footprint | None, Region]


def suspects(plan: Plan, kernel: str, reads: Set[str], args: Sequence[Any]) -> list[Suspect]:
    """What was written since the last launch of ``plan`` and may be what the gradient of ``kernel`` reads: which
    elements these are depends on its arguments. ``reads``: its buffers. Of other kernels the last launch is known."""
    changed = plan.read_versions.changed(plan.launched, args)
    trips = [c for c, _ in changed if c.steers]
    found: list[Suspect] = [("", partial(other_trips, kernel, trips), None, ())] if trips else []
    memories = plan.memories(args)
    for count, then in changed:
        if count.steers or count.buffer not in reads:
            continue
        memory, version = memories[count.buffer], then[-1] if isinstance(then, tuple) else then
        if memory.python_wrote > version:
            found.append((count.buffer, partial(stale, kernel, count, "Python"), None, ()))
            continue
        read = footprint(plan, count.buffer, writes=False)
        for other in plan.session.plans:
            name = _written_as(other, memory) if other.frame.launch_number > plan.frame.launch_number else ""
            written = footprint(other, name, writes=True) if name and other is not plan else None
            theirs = None if written is None else written.live(_Last(other))
            if read is not None and theirs is not None:
                found.append((count.buffer, partial(stale, kernel, count, str(other.kernel.name)), read, theirs))
    return found


class _Last:
    """The data of the last launch of a plan, as far as it is known: the scalar arguments."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def arg(self, name: str) -> int:
        return int(self.plan.frame.arg(name))

    def shape(self, buffer: str, axis: int) -> int:
        raise LookupError(buffer)

    def array(self, buffer: str) -> Any:
        raise LookupError(buffer)


def _written_as(plan: Plan, memory: Memory) -> str:
    """The buffer by which launches of a plan write the memory, or may, if it is an argument; "" where they do not."""
    if plan.owner.mode == "reverse":
        return ""
    for name in plan.writes:
        if plan.fields.get(name) is memory:
            return name
    if any(m is memory for m in plan.fields.values()):
        return ""
    shape = len(memory.operand.shape), memory.dtype
    of = {b.name: (b.ndim, b.dtype) for b in plan.kernel.buffers.values() if b.kind == "ndarray"}
    return next((name for name in sorted(plan.writes) if of.get(name) == shape), "")


def other_trips(kernel: str, changed: Sequence[TripCount]) -> GradientWarning:
    """The warning that trip counts have changed."""
    names = ", ".join(c.buffer for c in changed)
    verb = "was" if len(changed) == 1 else "were"
    labels = []
    for c in changed:
        labels.append(Label(c.read, f"the trip count of a loop is read from {c.buffer} here"))
        if c.loop is not None and c.read is not None and c.loop.line != c.read.line:
            labels.append(Label(c.loop, f"the trip count of this loop depends on {c.buffer}"))
    return warning(
        "QL0410",
        f"the gradient of kernel {kernel} has other trip counts than its launch: {names} {verb} written in between",
        tuple(labels),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        changed[0].read,
    )


def stale(kernel: str, count: TripCount, writer: str) -> GradientWarning:
    """The warning that other values that the gradient reads have changed."""
    return warning(
        "QL0417",
        f"the gradient of kernel {kernel} reads {count.buffer}, which {writer} wrote after {kernel} was launched: it "
        "is the derivative at other values than the launch had",
        (Label(count.read, "read here, and again for the gradient"),),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        count.read,
    )


_LOOKS = 8


class SeedCheck:
    """Checks the gradients that a reverse kernel reads. ``looks``: how many more launches are checked; it decreases
    where arrays have to be searched. ``seed``: memory of a single element that was not 0 at its version ``known``."""

    def __init__(self, plan: Plan) -> None:
        self.kernel = plan.kernel
        reads = {s.buffer for s in value_reads(plan.kernel)}
        self.of = {b.grad: b.name for b in plan.kernel.buffers.values() if not b.passing and b.grad in reads}
        fields = [plan.fields[grad] for grad in self.of if grad in plan.fields]
        self.fields = sorted(fields, key=lambda memory: memory.operand.size)
        self.args = [
            n
            for n, slot in enumerate(plan.slots)
            if isinstance(slot, ArraySlot) and plan.kernel.buffers[slot.name].grad in self.of
        ]
        self.looks = _LOOKS if self.of else 0
        self.seed: Memory | None = None
        self.known = 0

    def given(self, args: Sequence[Any]) -> bool:
        """Whether some element is not zero."""
        for memory in self.fields:
            if memory.operand.size != 1:
                continue
            if memory is self.seed and memory.version == self.known:
                return True  # reading the value would wait for launches
            if memory.values().item():
                self.seed, self.known = None if memory.foreign else memory, memory.version
                return True
        self.seed = None
        self.looks -= 1
        gradients = (*self.fields, *(memory_of(getattr(args[n], "grad", None)) for n in self.args))
        return any(memory is None or memory.values().any() for memory in gradients)

    def warning(self) -> GradientWarning:
        """The warning that all seeds are 0."""
        names = [f"{name}.grad" for name in self.of.values()]
        verb = "is" if len(names) == 1 else "are"
        first = (s.span for s in value_reads(self.kernel) if f"{self.of.get(s.buffer)}.grad" == names[0])
        span = next(first, self.kernel.span)
        return warning(
            "QL0409",
            f"the gradient of kernel {self.kernel.name} adds nothing: {', '.join(names)} {verb} 0 everywhere",
            (Label(span, f"the derivative starts here, from {names[0]}"),),
            f"set it first, for instance {names[0]}.fill(1), or launch the kernel under qd.ad.Tape(loss)",
            span,
        )
