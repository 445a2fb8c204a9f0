"""Finds which memory an argument or a buffer has, which of them overlap, and whether the memory was written since
(by its version, a count of writes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends import overlap
from quadrants_lab.ir.buffers import EPOCHS, Buffer
from quadrants_lab.ir.record import dataclass
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.session import Session

DERIVATIVES = ("grad", "tangent", "grad.tangent")  # suffixes of the names of an array's derivative buffers


def memory_of(value: Any) -> Memory | None:
    """The memory behind a field or ndarray of the language; None for anything else."""
    memory = getattr(value, "_memory", None)
    return memory if isinstance(memory, Memory) else None


# where a buffer's memory is: a field's memory, an argument's position, or a position and one of `DERIVATIVES`
Place = Memory | int | tuple[int, str]


def memory_at(place: Place, args: Sequence[Any]) -> Memory:
    if isinstance(place, Memory):
        return place
    memory: Memory = array_at(place, args)._memory
    return memory


def array_at(place: int | tuple[int, str], args: Sequence[Any]) -> Any:
    """An array argument, or its derivative."""
    return args[place] if isinstance(place, int) else derivative(args[place[0]], place[1])


def derivative(array: Any, of: str) -> Any:
    """One of the `DERIVATIVES` of an array argument; None if it has no gradient."""
    if of == "tangent":
        return array.tangent()
    grad = getattr(array, "grad", None)
    return grad if of == "grad" or grad is None else grad.tangent()


def overlapping(arrays: Sequence[Any], kinds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """`overlap.overlapping` for array arguments and memories."""
    memories = [x if isinstance(x, Memory) else memory_of(x) for x in arrays]
    ours = [m.serial for m in memories if m is not None and not m.foreign]
    if len(ours) == len(arrays):  # memory of ours overlaps no other
        if len({*ours}) == len(ours):
            return iter(())
        return overlap.overlapping(((serial, 0, 1, n) for n, serial in enumerate(ours)), kinds)
    operands = [x if m is None else m.operand for x, m in zip(arrays, memories, strict=True)]
    return overlap.overlapping(overlap.spans(operands), kinds)


def same_memory(a: Any, b: Any) -> bool:
    """Whether two array arguments or memories overlap."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)  # arrays may have strides of their own
    return a is b or any(True for _ in overlapping((a, b), (overlap.WRITTEN,) * 2))


class Distinct:
    """The buffers that a kernel assumes not to overlap if it writes one of them. ``fields``: whether an array has to be
    compared with fields (it overlaps one only if another library has the field's memory); ``gradients``: whether an
    argument's gradient or tangent has to be compared with other arrays."""

    def __init__(self, places: Mapping[str, Place], written: AbstractSet[str], session: Session) -> None:
        self.session = session
        fields = [name for name, place in places.items() if isinstance(place, Memory)]
        arrays = [name for name in places if name not in fields]
        self._parts = [(name, places[name], int(name in written)) for name in arrays]
        self._and_fields = [*self._parts, *((name, places[name], 2 + (name in written)) for name in fields)]
        several = len(arrays) > 1 and not written.isdisjoint(arrays)
        self.gradients = several and any(not isinstance(places[name], int) for name in arrays)
        self.fields = bool(arrays and fields) and not written.isdisjoint(places)
        self._any = several or self.fields
        self._data = [place for _, place, _ in self._parts if isinstance(place, int)]

    def __bool__(self) -> bool:
        return self._any

    def met(self, args: Sequence[Any]) -> tuple[str, str] | None:
        """The names of two of the buffers that overlap in a launch with ``args``, or None."""
        if not self.gradients and not self.session.exported:
            memories = [getattr(args[n], "_memory", None) for n in self._data]
            ours = {m.serial for m in memories if isinstance(m, Memory) and not m.foreign}
            if len(ours) == len(self._data):  # memory of ours overlaps no other
                return None
        parts = self._and_fields if self.session.exported else self._parts
        arrays = [p if isinstance(p, Memory) else array_at(p, args) for _, p, _ in parts]
        for pair in overlapping(arrays, [kind for _, _, kind in parts]):
            a, b = sorted(pair)
            return parts[a][0], parts[b][0]
        return None


@dataclass(frozen=True, slots=True)
class ArrayMemory:
    """Identifies the memory of a numpy array, and tells it from memory that is allocated at the same address later.
    ``owner``: the array that owns the memory; ``at``: the address within it, or 0 for the owner itself."""

    owner: ref[npt.NDArray[Any]]
    at: int

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, ArrayMemory) and self.at == other.at and self.owner() is other.owner()
        return same and self.owner() is not None


@dataclass(frozen=True, slots=True)
class ArrayContent:
    """Identifies the content that a numpy array has at one time."""

    checksum: int
    memory: ArrayMemory


def same_as_then(then: Any, this: Any) -> bool:
    """Whether two versions belong to the same memory."""
    if isinstance(this, tuple):
        return isinstance(then, tuple) and then[0] == this[0]
    return isinstance(this, int) or (
        isinstance(this, ArrayContent) and isinstance(then, ArrayContent) and this.memory == then.memory
    )


def field_version(memory: Memory) -> int | tuple[int, ...]:
    """The version of memory that is always bound to the same buffer, such as a field's."""
    return _memory_version(memory) if memory.foreign else memory.version


def _memory_version(memory: Memory) -> tuple[int, ...]:
    own = memory.serial, memory.version
    return (*own, _checksum(memory.values())) if memory.foreign else own


def _checksum(array: npt.NDArray[Any]) -> int:
    from zlib import crc32

    return crc32(array.data)


def content_version(array: Any) -> tuple[int, ...] | ArrayContent | None:
    """The version of an array argument, with its content if other libraries can write to it; None for an object that no
    kernel takes."""
    memory = memory_of(array)
    if memory is not None:
        return _memory_version(memory)
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        return None
    return ArrayContent(_checksum(array), array_memory(array))


def array_memory(array: npt.NDArray[Any]) -> ArrayMemory:
    owner = array.base if isinstance(array.base, np.ndarray) else array
    return ArrayMemory(ref(owner), 0 if owner is array else array.ctypes.data)


def bind_marks(
    session: Session, marks: Sequence[tuple[Buffer, str, str]], memories: Mapping[str, Memory],
    operands: Mapping[str, Any], tasks: int, use: Callable[..., None],
) -> int:  # fmt: skip
    """Binds the memory of race marks: each array has marks, which all kernels share. Returns the epoch of a launch of
    ``tasks`` tasks. The marks of numpy arrays last for one launch only. ``marks``: for each buffer of marks, its array
    and what it marks; ``use``: binds memory to a buffer, from a given element on and in a given shape."""
    if session.epoch + tasks >= EPOCHS:
        session.epoch = 0
        session.generation += 1
    parts = overlap.merged(operands[of] for _, of, _ in marks if of not in memories)
    of_host: dict[tuple[int, str], Memory] = {}
    for b, of, what in marks:
        if of in memories:
            generation, known = memories[of].marks.get(what, (-1, None))
            if known is None or generation != session.generation:
                known = allocate(session, b.dtype, operands[of].shape)
                memories[of].marks[what] = session.generation, known
            use(b.name, known)
        else:
            array = operands[of]
            begin, end = next(p for p in parts if p[0] <= array.ctypes.data < p[1])
            if (begin, what) not in of_host:
                of_host[begin, what] = allocate(session, b.dtype, ((end - begin) // array.itemsize,))
            at = (array.ctypes.data - begin) // array.itemsize
            use(b.name, of_host[begin, what], at, array.shape)
    session.epoch += tasks
    return session.epoch - tasks
