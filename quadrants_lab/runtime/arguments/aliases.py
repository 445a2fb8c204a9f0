"""Buffers of a launch that share memory."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import Any

import numpy as np

from quadrants_lab.runtime.arguments.signature import Place, array_at, memory_of
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.session import Session

Address = tuple[bool, int]  # whether it is one of a device, and the number


class Distinct:
    """The buffers, by name, that a kernel takes for different memory: of each two, unless both are fields, it may write
    to one. ``arrays`` has the arguments and their gradients and tangents, first those that the kernel writes;
    ``gradients`` says whether a gradient or tangent is among the pairs; ``fields`` has the fields, which an array can
    overlap only if other libraries have their memory."""

    def __init__(self, places: Mapping[str, Place], written: AbstractSet[str], session: Session) -> None:
        self.places = places
        self.session = session
        self.written = written & places.keys()
        arrays = [name for name, place in places.items() if not isinstance(place, Memory)]
        fields = [name for name, place in places.items() if isinstance(place, Memory)]
        apart = len(arrays) > 1 and not written.isdisjoint(arrays)
        self.gradients = apart and not all(isinstance(places[name], int) for name in arrays)
        self.fields = fields if arrays and self.written else []
        self.arrays = sorted(arrays, key=lambda name: name not in written) if apart or self.fields else []

    def __bool__(self) -> bool:
        return bool(self.arrays)

    def met(self, args: Sequence[Any]) -> tuple[str, str] | None:
        """Two of the buffers that overlap in a launch with ``args``."""
        fields = self.fields if self.session.exported else ()
        places = [(name, self.places[name]) for name in (*self.arrays, *fields)]
        buffers = {name: p if isinstance(p, Memory) else array_at(p, args) for name, p in places}
        arrays, of_fields = Spans(buffers), Spans(buffers)  # what the kernel writes
        for name, place in places:
            if other := arrays.find(buffers[name]):
                return other, name
            if name in self.written:
                (of_fields if isinstance(place, Memory) else arrays).add(name)
        for name in self.arrays if of_fields else ():
            if other := of_fields.find(buffers[name]):
                return name, other
        return None


class Spans:
    """The buffers that were added, of those in ``buffers`` (array arguments and memories by name). No two of them
    overlap, and `find` says by a binary search with which of them an array overlaps. As long as all are memory of ours,
    ``ours`` has their names by id: two of these overlap only if they are the same."""

    def __init__(self, buffers: Mapping[str, Any]) -> None:
        self.buffers = buffers
        self.ours: dict[int, str] | None = {}
        self.ends: list[Address] = []
        self.begins: list[tuple[Address, str]] = []  # with the names

    def __bool__(self) -> bool:
        return bool(self.ours or self.ends)

    def find(self, array: Any) -> str:
        """The name of the buffer that an array argument or memory overlaps with; "" if there is none."""
        memory = array if isinstance(array, Memory) else memory_of(array)
        if self.ours is not None:
            if memory is not None and not memory.foreign:
                return self.ours.get(id(memory), "")
            names, self.ours = self.ours.values(), None
            for name in names:
                self.add(name)
        begin, end = _span(array)
        at = bisect_right(self.ends, begin)
        return self.begins[at][1] if begin < end and at < len(self.ends) and self.begins[at][0] < end else ""

    def add(self, name: str) -> None:
        """Adds a buffer, unless it is empty or overlaps with one that is there."""
        array = self.buffers[name]
        if self.find(array):
            return
        if self.ours is not None:
            self.ours[id(array if isinstance(array, Memory) else array._memory)] = name
            return
        begin, end = _span(array)
        if begin < end:
            at = bisect_right(self.ends, begin)
            self.ends.insert(at, end)
            self.begins.insert(at, (begin, name))


def same_memory(a: Any, b: Any) -> bool:
    """Whether two array arguments or memories overlap."""
    (begin, end), (first, last) = _span(a), _span(b)
    return begin < last and first < end


def _span(array: Any) -> tuple[Address, Address]:
    """The first address of an array argument or memory, and the one after its last; both are equal for an array without
    elements, and for what is no array."""
    memory = array if isinstance(array, Memory) else memory_of(array)
    operand = array if memory is None else memory.operand
    if not isinstance(operand, np.ndarray):
        begin = getattr(operand, "address", None)
        return (True, begin or 0), (True, (begin or 0) + (0 if begin is None else operand.nbytes))
    begin = end = operand.__array_interface__["data"][0]
    if operand.size:
        reach = [(n - 1) * stride for n, stride in zip(operand.shape, operand.strides, strict=True)]
        begin += sum(n for n in reach if n < 0)
        end += sum(n for n in reach if n > 0) + operand.itemsize
    return (False, begin), (False, end)
