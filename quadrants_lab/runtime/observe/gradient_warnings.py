"""Warns about a gradient outside of a Tape if memory was written since its launch, if its seeds are all 0, or if it
starts or ends nowhere.

Versions tell that memory was written, but not where. The elements that a kernel writes are known as boxes
(`launch.signature.Footprint`), so writing one time step causes no warning about a gradient that reads another time
step. Only the last launch of each kernel is remembered; if only an earlier launch may have written, there is no
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Any

from quadrants_lab.adstack.evaluate_sizes import LiveData
from quadrants_lab.analysis.effects import value_reads
from quadrants_lab.analysis.regions import Region, overlap
from quadrants_lab.autodiff import diagnostics as D
from quadrants_lab.autodiff.diagnostics import GradientWarning, warn
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import PUT_BACK, Plan

# a suspected write: (buffer that the gradient reads, a function that makes the warning, the elements that the gradient
# reads or None for any, the box that was written)
Suspect = tuple[str, Callable[[], GradientWarning], Any, Region]


def suspects(plan: Plan, kernel: str, reads: Set[str], args: Sequence[Any]) -> list[Suspect]:
    """What the last launch of ``plan`` may have written that the gradient of ``kernel`` reads. ``reads``: the buffers
    that the gradient reads; ``args``: its arguments, which tell which elements it reads."""
    changed = plan.read_versions.changed(plan.launched, args)
    trips = [c for c, _ in changed if c.steers]
    found: list[Suspect] = [("", partial(D.other_trips, kernel, trips), None, ())] if trips else []
    memories = plan.memories(args)
    for count, then in changed:
        if count.steers or count.buffer not in reads:
            continue
        memory, version = memories[count.buffer], then[-1] if isinstance(then, tuple) else then
        if memory.python_wrote > version:
            found.append((count.buffer, partial(D.stale, kernel, count, "Python"), None, ()))
            continue
        read = plan.footprint(count.buffer, writes=False)
        for other in plan.session.plans:
            name = _written_as(other, memory) if other.frame.launch_number > plan.frame.launch_number else ""
            written = other.footprint(name, writes=True) if name and other is not plan else None
            theirs = None if written is None else written.live(_last_numbers(other))
            if read is not None and theirs is not None:
                found.append((count.buffer, partial(D.stale, kernel, count, str(other.kernel.name)), read, theirs))
    return found


def _last_numbers(plan: Plan) -> LiveData:
    """What is known about the data of the plan's last launch: the scalar arguments."""
    return LiveData({arg.name: plan.frame.arg(arg.name) for arg in plan.kernel.args}, {})


def _written_as(plan: Plan, memory: Memory) -> str:
    """The name of the buffer by which launches of a plan write the memory: a field's, or that of an argument that may
    be this memory; else ""."""
    if plan.owner.mode == "reverse":
        return ""
    names: list[str] = sorted(plan.writes)
    if any(m is memory for m in plan.fields.values()):
        return next((name for name in names if plan.fields.get(name) is memory), "")
    shape = len(memory.operand.shape), memory.dtype
    of = {b.name: (b.ndim, b.dtype) for b in plan.kernel.buffers.values() if b.kind == "ndarray"}
    return next((name for name in names if of.get(name) == shape), "")


class WrittenSince:
    """Looks for writes to memory that the gradient ``of`` reads. ``suspected``: when it last looked, and what it found.
    """

    def __init__(self, of: Plan) -> None:
        self.of = of
        self.suspected: tuple[Any, Sequence[Suspect]] = None, ()

    def warn(self, forward: Plan, now: Any, args: Sequence[Any]) -> None:
        """Warns, once, if memory that the gradient reads was written since the last launch of ``forward``. In a loop of
        gradients the writes are the same each time, so they are looked for only once."""
        if PUT_BACK.get():  # a custom gradient launches this one under a Tape, which has restored the memory
            return
        between = forward, forward.frame.launch_number, now
        if between != self.suspected[0]:
            self.suspected = between, suspects(forward, self.of.kernel.name, self.of.primal_reads, args)
        found: dict[str, GradientWarning] = {}
        with suppress(TypeError, ValueError):  # arguments may not be numbers; the launch will refuse those
            for buffer, make_warning, read, wrote in self.suspected[1]:
                if buffer not in found and (read is None or overlap(read.of(args), wrote)):
                    found[buffer] = make_warning()
        if found:
            forward.launched = ()
            warn([*found.values()])


_LOOKS = 8


class SeedCheck:
    """Checks the gradients that a reverse kernel starts from (its seeds). ``looks``: for how many more launches this is
    done; it decreases if arrays have to be searched. ``seed``: memory with a single element, which was not 0 at the
    version ``known``."""

    def __init__(self, plan: Plan) -> None:
        self.kernel = plan.kernel
        reads = {s.buffer for s in value_reads(plan.kernel)}
        self.of = {b.grad: b.name for b in plan.kernel.buffers.values() if not b.transient and b.grad in reads}
        fields: list[Memory] = [plan.fields[grad] for grad in self.of if grad in plan.fields]
        self.fields = sorted(fields, key=lambda memory: memory.operand.size)
        self.args = [n for n, name in plan.array_slots if plan.kernel.buffers[name].grad in self.of]
        self.looks = _LOOKS
        self.seed: Memory | None = None
        self.known = 0

    def given(self, args: Sequence[Any]) -> bool:
        """Whether some element of a seed is not zero."""
        for memory in self.fields:
            if memory.operand.size != 1:
                continue
            if memory is self.seed and memory.version == self.known:
                return True  # taken for nonzero: reading the value would wait for launches
            if memory.any():
                self.seed, self.known = None if memory.foreign else memory, memory.version
                return True
        self.seed = None
        self.looks -= 1
        gradients = (*self.fields, *(memory_of(getattr(args[n], "grad", None)) for n in self.args))
        return any(memory is None or memory.any() for memory in gradients)

    def warning(self, call: str) -> GradientWarning:
        """The warning that all seeds (the gradients from which the reverse kernel starts) are 0; ``call``: see
        `no_seed`."""
        first = next(iter(self.of.values()))
        spans = (s.span for s in value_reads(self.kernel) if self.of.get(s.buffer) == first)
        return D.no_seed(self.kernel.name, [*self.of.values()], next(spans, self.kernel.span), call)
