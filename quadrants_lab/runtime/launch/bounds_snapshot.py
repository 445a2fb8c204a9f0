"""Memory that is no longer what it was when the kernel was launched: its gradient is that of another program.

A launch leaves the versions of the memory that it reads (`Plan.launched`, one tuple); a gradient outside of a Tape
compares. Where trip counts are read from memory that others can write to there is a checksum beside: its version says
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import Label
from quadrants_lab.ir.record import dataclass
from quadrants_lab.runtime.arguments.signature import ArraySlot, memory_of

if TYPE_CHECKING:
    from quadrants_lab.autodiff.trips import TripCount
    from quadrants_lab.autodiff.warned import GradientWarning
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory


@dataclass(frozen=True, slots=True)
class Seen:
    """What was in an array of numpy; two compare equal if it was. ``owner``: the array whose memory it is, and where in
    it the array began (0: there)."""

    checksum: int
    owner: tuple[ref[npt.NDArray[Any]], int]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and self.checksum == other.checksum and self.same_memory(other)

    def same_memory(self, other: Seen) -> bool:
        (mine, at), (its, there) = self.owner, other.owner
        return at == there and mine() is its() and mine() is not None


# of a field its version, of an array its memory's serial and version, with a checksum where others may write to it
Version = int | tuple[int, ...] | Seen | None
Versions = tuple[Version, ...]


class Trips:
    """What a plan reads, trip counts first, from fields (``fields``: their memory, by place in ``counts``) and from
    array arguments (``args``: their positions, of trip counts; ``others``: of other reads). ``places``: for each in
    ``counts``, the argument's position or -1."""

    def __init__(self, plan: Plan) -> None:
        at = {slot.name: n for n, slot in enumerate(plan.slots) if isinstance(slot, ArraySlot)}
        found: list[TripCount] = []
        if plan.owner.gradient is not None and plan.differentiable:
            from quadrants_lab.autodiff.trips import other_reads, trip_counts

            found = trip_counts(plan.kernel)
            found += other_reads(plan.kernel, found)
        self.counts: list[TripCount] = [c for c in found if c.buffer in plan.fields or c.buffer in at]
        self.fields = {n: plan.fields[c.buffer] for n, c in enumerate(self.counts) if c.buffer in plan.fields}
        self.places = [at.get(c.buffer, -1) for c in self.counts]
        self.args = {n for n, c in zip(self.places, self.counts, strict=True) if n >= 0 and c.steers}
        self.others = {n for n in self.places if n >= 0} - self.args
        in_fields = all(n in self.fields and c.steers for n, c in enumerate(self.counts))
        self.only_fields = tuple(self.fields.values()) if in_fields else ()

    def __bool__(self) -> bool:
        return bool(self.counts)

    def versions(self, args: Sequence[Any]) -> Versions:
        """Of the memories of a launch with ``args``, as the launch itself writes them down."""
        if self.only_fields:
            return tuple([field_version(memory) for memory in self.only_fields])
        found: list[Version] = []
        for n, (at, count) in enumerate(zip(self.places, self.counts, strict=True)):
            memory = self.fields[n] if at < 0 else memory_of(args[at])
            if memory is None:
                found.append(seen(args[at]) if count.steers else None)
            elif not count.steers:
                found.append(memory.version if at < 0 else (memory.serial, memory.version))
            else:
                found.append(field_version(memory) if at < 0 else memory_version(memory))
        return tuple(found)

    def changed(self, launched: Versions, args: Sequence[Any]) -> list[tuple[TripCount, Any]]:
        """What was written since the launch that left ``launched``, and its version then. Another array than then is
        another program, which the caller asked for."""
        return [
            (count, then)
            for count, then, this in zip(self.counts, launched, self.versions(args), strict=True)
            if then != this and _same_memory(then, this)
        ]


def _same_memory(then: Version, this: Version) -> bool:
    if isinstance(this, tuple):
        return isinstance(then, tuple) and then[0] == this[0]
    return isinstance(this, int) or (isinstance(this, Seen) and isinstance(then, Seen) and this.same_memory(then))


def field_version(memory: Memory) -> int | tuple[int, ...]:
    return memory_version(memory) if memory.foreign else memory.version


def memory_version(memory: Memory) -> tuple[int, ...]:
    own = memory.serial, memory.version
    return (*own, _sum(memory.values())) if memory.foreign else own


def _sum(array: np.ndarray[Any, Any]) -> int:
    from zlib import crc32

    return crc32(array.data)


def seen(array: Any) -> Seen | None:
    """Of an array of numpy; None of what no kernel takes."""
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        return None
    owner = array.base if isinstance(array.base, np.ndarray) else array
    return Seen(_sum(array), (ref(owner), 0 if owner is array else array.ctypes.data))


def other_trips(kernel: str, changed: Sequence[TripCount]) -> GradientWarning:
    """The warning."""
    from quadrants_lab.autodiff.warned import warning

    names = ", ".join(c.buffer for c in changed)
    verb = "was" if len(changed) == 1 else "were"
    labels = []
    for c in changed:
        labels.append(Label(c.read, f"how often a loop runs is read from {c.buffer} here"))
        if c.loop is not None and c.read is not None and c.loop.line != c.read.line:
            labels.append(Label(c.loop, f"this loop follows {c.buffer}"))
    return warning(
        "QL0410",
        f"the gradient of kernel {kernel} runs other trips than its launch did: {names} {verb} written in between",
        tuple(labels),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        changed[0].read,
    )
