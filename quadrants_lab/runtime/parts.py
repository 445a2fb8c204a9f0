"""Values that were in a part of an array before something wrote over them: they can be exchanged with what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from quadrants_lab.runtime.memory import Lent, Memory, Mirrored
from quadrants_lab.runtime.regions import Region


class Part(Protocol):
    """``size``: how many elements, in ``nbytes``. `swap` undoes what was written and, again, redoes it. `changed`: what
    is enough to keep once it was written."""

    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def swap(self) -> None: ...
    def changed(self) -> Part: ...


class HostPart:
    """The elements ``where`` (an index into the array), kept on the host."""

    def __init__(self, memory: Memory, where: Any, values: npt.NDArray[Any]) -> None:
        self.memory = memory
        self.where = where
        self.values = values

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def nbytes(self) -> int:
        indices = self.where if isinstance(self.where, tuple) else ()
        return self.values.nbytes + sum(at.nbytes for at in indices if isinstance(at, np.ndarray))

    def swap(self) -> None:
        array = self.memory.array
        now = np.array(array[self.where])
        array[self.where] = self.values
        self.values = now
        self.memory.settle()
        self.memory.version += 1

    def changed(self) -> Part:
        """The elements alone that are no longer what they were, where that takes less memory. The part is a box."""
        old, bits = self.values, np.dtype(f"u{self.values.dtype.itemsize}")
        where = np.nonzero(old.view(bits) != self.memory.values()[self.where].view(bits))
        corner = [s.start for s in self.where]
        less = HostPart(self.memory, tuple(at + low for at, low in zip(where, corner, strict=True)), old[where])
        return less if less.nbytes < self.nbytes else self


class DevicePart:
    """What memory of a device has from element ``at`` on, kept there: all that is in between, where a box is no range
    of elements."""

    def __init__(self, memory: Mirrored, at: int, size: int) -> None:
        self.memory = memory
        self.at = at
        self.size = size
        memory.send()
        self.values = memory.on_device.piece(at, size)

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def swap(self) -> None:
        self.memory.send()
        now = self.memory.on_device.piece(self.at, self.size)
        self.memory.on_device.put(self.at, self.values)
        self.values = now
        self.memory.version += 1

    def changed(self) -> Part:
        return self


def part_of(memory: Memory, region: Region) -> Part:
    """A copy of the region's elements."""
    if isinstance(memory, Mirrored) and not isinstance(memory, Lent):
        shape: Sequence[int] = memory.operand.shape
        first = last = 0
        for n, (low, high) in zip(shape, region, strict=True):
            first, last = first * n + low, last * n + high - 1
        return DevicePart(memory, first, last - first + 1)
    where = tuple(slice(low, high) for low, high in region)
    return HostPart(memory, where, memory.values()[where].copy())
