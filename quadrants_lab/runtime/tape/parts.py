"""Copies of a part of an array, saved before the part is overwritten.

A `Part` holds ``size`` elements of ``memory`` in ``nbytes`` bytes; ``region`` is the box of exactly these elements, or
None. `put` restores them. `keep` copies the current values into this part, `again` into a new one. `changed` returns a
part of only those elements that differ by now, if that is smaller. `lent` returns the values as they are now for a
recording, as a function that writes them to an array of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.host import empty
from quadrants_lab.runtime.launch.regions import Region, volume, whole
from quadrants_lab.runtime.memory.memory import PUT, HostMirrored, Imported, Memory


class HostPart:
    """The elements ``where`` (an index into the array), copied to the host."""

    def __init__(self, memory: Memory, where: Any, values: npt.NDArray[Any], region: Region | None = None) -> None:
        self.memory = memory
        self.where = where
        self.values = values
        self.region = region
        self.size = values.size
        self.nbytes = values.nbytes
        if region is None and isinstance(where, tuple):
            self.nbytes += sum(at.nbytes for at in where if isinstance(at, np.ndarray))
        self.is_lent = False

    def put(self) -> None:
        if self.memory.recorded is not None:
            self.memory.recorded(self.memory, PUT, self)
        self.memory.array[self.where] = self.values
        self.memory.flush()
        self.memory.version += 1

    def keep(self) -> None:
        if self.is_lent:
            self.values, self.is_lent = empty(self.values.shape, self.values.dtype), False
        self.values[...] = self.memory.values()[self.where]

    def lent(self) -> Callable[[npt.NDArray[Any]], None]:
        self.is_lent = True
        return partial(_write, self.where, self.values)

    def again(self) -> HostPart:
        return HostPart(self.memory, self.where, np.array(self.memory.values()[self.where]), self.region)

    def changed(self) -> HostPart:
        """A part of only those elements that differ by now, or this part if that is smaller. This part is a box."""
        old, bits = self.values, np.dtype(f"u{self.values.dtype.itemsize}")
        where = np.nonzero(old.view(bits) != self.memory.values()[self.where].view(bits))
        assert self.region is not None
        at = tuple(at + low for at, (low, _) in zip(where, self.region, strict=True))
        less = HostPart(self.memory, at, old[where])
        return less if less.nbytes < self.nbytes else self


class DevicePart:
    """``size`` consecutive elements of device memory from ``at`` on, copied on the device. If a box is not contiguous,
    this includes the elements between its rows."""

    def __init__(self, memory: HostMirrored, at: int, size: int, region: Region | None) -> None:
        self.memory = memory
        self.at = at
        self.size = size
        self.region = region
        memory.upload()
        self.values = memory.on_device.save(at, size)
        self.nbytes = int(self.values.nbytes)
        self.is_lent = False

    def put(self) -> None:
        if self.memory.recorded is not None:
            self.memory.recorded(self.memory, PUT, self)
        self.memory.upload()
        self.memory.on_device.restore(self.at, self.values)
        self.memory.version += 1

    def keep(self) -> None:
        self.memory.upload()
        if self.is_lent:
            self.values, self.is_lent = self.memory.on_device.save(self.at, self.size), False
        else:
            self.memory.on_device.save_into(self.at, self.values)

    def lent(self) -> Callable[[npt.NDArray[Any]], None]:
        self.is_lent = True
        at, size, values = self.at, self.size, self.values
        return lambda array: _write(slice(at, at + size), values.read(), array.reshape(-1))

    def again(self) -> DevicePart:
        return DevicePart(self.memory, self.at, self.size, self.region)

    def changed(self) -> DevicePart:
        return self


class WholePart(HostPart):
    """A copy of the whole memory on the host, with the alignment that kernels need."""

    def __init__(self, memory: Memory) -> None:
        values = empty(memory.operand.shape, memory.dtype.numpy)
        super().__init__(memory, ..., values, whole(values.shape))
        self.keep()

    @property
    def address(self) -> int:
        return self.values.ctypes.data

    def again(self) -> WholePart:
        return WholePart(self.memory)


Part = HostPart | DevicePart


def _write(where: Any, values: npt.NDArray[Any], array: npt.NDArray[Any]) -> None:
    array[where] = values


def part_of(memory: Memory, region: Region) -> Part:
    """A copy of the region's elements, or of all elements if the memory is on the host and hardly larger."""
    on_host = memory.session.backend.CAPABILITIES.on_host and not memory.foreign
    if on_host and 8 * volume(region) >= 7 * memory.operand.size:
        return WholePart(memory)
    if isinstance(memory, HostMirrored) and not isinstance(memory, Imported):
        first, size = span(memory.operand.shape, region)
        return DevicePart(memory, first, size, region)
    where = tuple(slice(low, high) for low, high in region)
    return HostPart(memory, where, np.array(memory.values()[where]), region)


def span(shape: Sequence[int], region: Region) -> tuple[int, int]:
    """Number of the region's first element, and how many elements the region spans, in memory order."""
    first = last = 0
    for n, (low, high) in zip(shape, region, strict=True):
        first, last = first * n + low, last * n + high - 1
    return first, last - first + 1
