"""Which memory is behind an argument, which arguments share memory, and versions that tell that memory was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import ref
from zlib import crc32

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends import overlap
from quadrants_lab.ir.record import dataclass
from quadrants_lab.runtime.memory.memory import Memory


def memory_of(value: Any) -> Memory | None:
    """The memory behind a field or ndarray of the language; None for anything else."""
    memory = getattr(value, "_memory", None)
    return memory if isinstance(memory, Memory) else None


def overlapping(arrays: Sequence[Any], kinds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """`overlap.overlapping` for array arguments and memories."""
    memories = [x if isinstance(x, Memory) else memory_of(x) for x in arrays]
    ours = [m.serial for m in memories if m is not None and not m.foreign]
    if len(ours) == len(arrays):  # such memory overlaps only itself
        if len({*ours}) == len(ours):
            return iter(())
        return overlap.overlapping(((serial, 0, 1, n) for n, serial in enumerate(ours)), kinds)
    operands = [x if m is None else m.operand for x, m in zip(arrays, memories, strict=True)]
    return overlap.overlapping(overlap.spans(operands), kinds)


def same_memory(a: Any, b: Any) -> bool:
    """Whether two array arguments or memories overlap."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)  # which may have strides of their own
    return a is b or any(True for _ in overlapping((a, b), (overlap.WRITTEN,) * 2))


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


def same_as_then(then: Any, this: Any) -> bool:
    """Whether two versions are of the same memory."""
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
    return crc32(array.data)


def content_version(array: Any) -> tuple[int, ...] | ArrayContent | None:
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
