"""Versions of the memory that a launch reads, by which a gradient notices that it was written since.

A launch stores them in `Plan.launched` as one tuple, and a gradient outside of a Tape compares. For trip counts in
memory that others can write to without telling, a version includes a checksum of the content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from quadrants_lab.frontend.specs import flat_specs
from quadrants_lab.ir.record import dataclass
from quadrants_lab.runtime.arguments.signature import ArraySlot, memory_of

if TYPE_CHECKING:
    from quadrants_lab.analysis.trips import TripCount
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory


@dataclass(frozen=True, slots=True)
class ArrayMemory:
    """The memory of a numpy array; it differs from memory that is allocated at the same address later. ``owner``: the
    array that owns it; ``at``: the address in it, or 0 for the owner itself."""

    owner: ref[npt.NDArray[Any]]
    at: int

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, ArrayMemory) and self.at == other.at and self.owner() is other.owner()
        return same and self.owner() is not None


@dataclass(frozen=True, slots=True)
class ArrayContent:
    """The content of a numpy array at one time."""

    checksum: int
    memory: ArrayMemory


Version = int | tuple[int, ...] | ArrayContent | None
Versions = tuple[Version, ...]


class ReadVersions:
    """The memory that a differentiable plan reads: ``counts``, trip counts first. ``fields``: those in fields;
    ``of_arguments``: whether some are in array arguments. ``now`` gives the versions for a launch's arguments.
    ``parts`` and ``space``: the same as expressions of the arguments a0, a1, ..., and the names that these use."""

    def __init__(self, plan: Plan) -> None:
        at = {slot.name: n for n, slot in enumerate(plan.slots) if isinstance(slot, ArraySlot)}
        elements = [len(getattr(spec, "element_shape", ())) for spec in flat_specs(plan.compiled.specs)]
        found: list[TripCount] = []
        if plan.owner.gradient is not None and plan.differentiable:
            from quadrants_lab.analysis.trips import other_reads, trip_counts

            found = trip_counts(plan.kernel)
            found += other_reads(plan.kernel, found)
        self.counts: list[TripCount] = [c for c in found if c.buffer in plan.fields or c.buffer in at]
        self.fields: list[Memory] = []
        self.space: dict[str, Any] = {"field_version": field_version, "content_version": content_version}
        self.parts: list[str] = []
        for c in self.counts:
            memory, n = plan.fields.get(c.buffer), at.get(c.buffer, -1)
            if memory is not None:
                t = f"t{len(self.fields)}"
                self.fields.append(memory)
                self.space[t] = memory
                part = f"({t}.version if not {t}.foreign else field_version({t}))" if c.steers else f"{t}.version"
            elif c.steers:
                part = f"content_version(a{n})"
            else:
                ours = f"ndarray{elements[n]}"
                self.space[ours] = plan.owner.ndarray_classes[elements[n]]
                part = f"(((m := a{n}._memory).serial, m.version) if a{n}.__class__ is {ours} else None)"
            self.parts.append(part)
        self.of_arguments = len(self.fields) < len(self.counts)
        names, versions = ", ".join(f"a{n}" for n in range(len(plan.slots))), "".join(f"{p}, " for p in self.parts)
        self.now: Callable[..., Versions] = eval(f"lambda {names}: ({versions})", self.space)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def changed(self, launched: Versions, args: Sequence[Any]) -> list[tuple[TripCount, Any]]:
        """What was written since the launch that stored ``launched``, with its version then. Another array than then is
        not a change."""
        return [
            (count, then)
            for count, then, this in zip(self.counts, launched, self.now(*args), strict=True)
            if then != this and _same_memory(then, this)
        ]


def _same_memory(then: Version, this: Version) -> bool:
    if isinstance(this, tuple):
        return isinstance(then, tuple) and then[0] == this[0]
    return isinstance(this, int) or (
        isinstance(this, ArrayContent) and isinstance(then, ArrayContent) and this.memory == then.memory
    )


def field_version(memory: Memory) -> int | tuple[int, ...]:
    """The version of memory that is always the same one."""
    return _memory_version(memory) if memory.foreign else memory.version


def _memory_version(memory: Memory) -> tuple[int, ...]:
    own = memory.serial, memory.version
    return (*own, _checksum(memory.values())) if memory.foreign else own


def _checksum(array: npt.NDArray[Any]) -> int:
    from zlib import crc32

    return crc32(array.data)


def content_version(array: Any) -> Version:
    """The version of an array argument; None for what no kernel takes."""
    memory = memory_of(array)
    if memory is not None:
        return _memory_version(memory)
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        return None
    return ArrayContent(_checksum(array), array_memory(array))


def array_memory(array: npt.NDArray[Any]) -> ArrayMemory:
    owner = array.base if isinstance(array.base, np.ndarray) else array
    return ArrayMemory(ref(owner), 0 if owner is array else array.ctypes.data)
