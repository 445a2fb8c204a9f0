"""Copies parts of arrays before they are overwritten, and accounts for the bytes of the copies.

A `Part` holds ``size`` elements of ``memory`` in ``nbytes`` bytes; ``region`` is the box of exactly these elements, or
None. `put` restores them. `keep` copies the present values into this part, `again` into a new one. `changed` returns a
part with only the elements that have changed since, if that is smaller. `lent` returns, for a recording, a function
that writes the present values to an array of the host.

Nothing is copied without a `Hold` on an `Account`; the account refuses a hold for which there is no room. A hold is
released when the object that has it is deleted, so the account knows at any time how many bytes are held.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.regions import Region, volume, whole
from quadrants_lab.backends.host import empty
from quadrants_lab.backends.pages import PAGE
from quadrants_lab.runtime.memory.memory import PUT, Celled, HostMirrored, Memory


class Account:
    """Counts the bytes that a Tape has saved: ``used`` now, ``most`` at any time. ``limit``: None if there is no limit.
    ``exact``: parts have only the elements that were asked for; otherwise they may have a few more, so that copying is
    faster. ``short``: the limit was too small, so nothing is copied any more, but the bytes are still counted."""

    def __init__(self, limit: int | None = None, exact: bool = False) -> None:
        self.limit = limit
        self.exact = exact
        self.short = False
        self.used = self.most = 0

    def fits(self, nbytes: int) -> bool:
        return self.limit is None or self.used + nbytes <= self.limit

    def give_up(self) -> None:
        self.limit, self.short = None, True

    def hold(self, nbytes: int) -> Hold:
        """Counts bytes that are about to be allocated; raises `Full` if there is no room for them."""
        if self.limit is not None and self.used + nbytes > self.limit:
            raise Full(nbytes)
        return Hold(self, nbytes)


class Full(MemoryError):
    """Raised if an account has no room for so many bytes."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(f"no room for {nbytes} bytes")
        self.nbytes = nbytes


class Hold:
    """Bytes of an account that are in use; they are released when this object is deleted."""

    __slots__ = ("account", "nbytes")

    def __init__(self, account: Account, nbytes: int) -> None:
        self.account = account
        self.nbytes = nbytes
        account.used += nbytes
        if account.used > account.most:
            account.most = account.used

    def shrink(self, nbytes: int) -> None:
        self.account.used -= self.nbytes - nbytes
        self.nbytes = nbytes

    def __del__(self) -> None:
        self.account.used -= self.nbytes


class _Part:
    """The base of all kinds. ``is_whole``: it has all elements, and a gradient can read it in place of the memory.
    ``is_lent``: a recording may still read the values, so others are copied elsewhere."""

    is_lent = is_whole = False
    values: Any

    def __init__(self, memory: Any, region: Region | None, size: int, nbytes: int, account: Account) -> None:
        self.memory, self.region, self.size, self.nbytes = memory, region, size, nbytes
        self.hold = account.hold(nbytes)

    def put(self) -> None:
        with self.memory.writing():
            if self.memory.recorded is not None:
                self.memory.recorded(self.memory, PUT, self)
            self._restore()

    def _restore(self) -> None:
        """Writes the values to the memory, and counts the write."""
        raise NotImplementedError

    def changed(self, account_for: Callable[[int], Account]) -> Any:
        """A part with only the elements that have changed since, or this one. ``account_for``: returns the account on
        which so many bytes are to be counted."""
        self.hold = account_for(self.nbytes).hold(self.nbytes)
        return self

    def shrink(self, region: Region) -> bool:
        """Reduces this part to the elements of ``region`` without a copy, if that is possible; returns whether it did.
        """
        return False


class HostPart(_Part):
    """Copies, on the host, of the elements ``where`` (an index into the array), which are ``values``."""

    def __init__(
        self, memory: Memory, where: Any, values: npt.NDArray[Any], account: Account, region: Region | None = None
    ) -> None:
        nbytes = values.nbytes + (index_bytes(where) if region is None else 0)
        super().__init__(memory, region, values.size, nbytes, account)
        self.where = where
        self.values = values if account.short else np.array(values)

    def _restore(self) -> None:
        self.memory.put(self.where, self.values)
        self.memory.flush()
        self.memory.version += 1

    def keep(self) -> None:
        if self.is_lent:
            self.values, self.is_lent = empty(self.values.shape, self.values.dtype), False
        self.values[...] = self.memory.part(self.where)

    def lent(self) -> Callable[[npt.NDArray[Any]], None]:
        self.is_lent = True
        return partial(_write, self.where, self.values)

    def again(self, account: Account) -> HostPart:
        return HostPart(self.memory, self.where, self.memory.part(self.where), account, self.region)

    def changed(self, account_for: Callable[[int], Account]) -> Any:  # of a box
        old, bits = self.values, np.dtype(f"u{self.values.dtype.itemsize}")
        where = np.nonzero(old.view(bits) != self.memory.part(self.where).view(bits))
        assert self.region is not None
        nbytes = len(where[0]) * old.itemsize + index_bytes(where)
        if nbytes >= self.nbytes:
            return super().changed(account_for)
        at = tuple(at + low for at, (low, _) in zip(where, self.region, strict=True))
        return HostPart(self.memory, at, old[where], account_for(nbytes))

    def cut(self, region: Region, account: Account) -> HostPart:
        """A new part with the elements of ``region``, which lies within this box."""
        return HostPart(self.memory, _slices(region), self._within(region), account, region)

    def shrink(self, region: Region) -> bool:  # to consecutive rows
        assert self.region is not None
        (low, _), (first, last) = self.region[0], region[0]
        if region[1:] != self.region[1:] or not self.values.flags.owndata:
            return False
        row = self.values.nbytes // len(self.values)
        ctypes.memmove(self.values.ctypes.data, self.values.ctypes.data + (first - low) * row, (last - first) * row)
        self.values.resize((last - first, *self.values.shape[1:]), refcheck=False)
        self.where, self.region, self.size = _slices(region), region, self.values.size
        self.hold.shrink(self.values.nbytes)
        self.nbytes = self.values.nbytes
        return True

    def absorbs(self, part: Part) -> bool:
        """Whether `absorb` can take the part: its elements are among those of this box."""
        return isinstance(part, HostPart)

    def absorb(self, part: Part) -> None:
        """Overwrites elements of this part with the values of another, whose elements are among those of this box."""
        assert part.region is not None
        within = self._within(part.region)
        if not self.hold.account.short:
            within[...] = part.values.reshape(within.shape)

    def _within(self, region: Region) -> Any:
        assert self.region is not None
        values = self.values.reshape([high - low for low, high in self.region])
        return values[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(region, self.region, strict=True))]


class DevicePart(_Part):
    """A copy, on the device, of ``size`` consecutive elements of device memory from flat index ``at`` on. If the box is
    not contiguous, the elements between its rows are copied too."""

    def __init__(
        self, memory: HostMirrored, at: int, size: int, region: Region | None, account: Account,
        older: DevicePart | None = None,
    ) -> None:
        """``older``: a part that has these elements, from which they are copied. Without it, they are copied from the
        memory."""
        super().__init__(memory, region, size, size * memory.dtype.nbytes, account)
        self.at = at
        self.is_whole = size == memory.operand.size
        if not account.short:
            self.values = memory.save(at, size) if older is None else older.values.save(at - older.at, size)

    def _restore(self) -> None:
        self.memory.restore(self.at, self.values)

    def keep(self) -> None:
        if self.is_lent:
            self.values, self.is_lent = self.memory.save(self.at, self.size), False
        else:
            self.memory.save_into(self.at, self.values)

    def lent(self) -> Callable[[npt.NDArray[Any]], None]:
        self.is_lent = True
        at, size, values = self.at, self.size, self.values
        return lambda array: _write(slice(at, at + size), values.read().reshape(-1), array.reshape(-1))

    @property
    def address(self) -> int:
        """The device address of the copy."""
        return int(self.values.address)

    def again(self, account: Account) -> DevicePart:
        return DevicePart(self.memory, self.at, self.size, self.region, account)

    def cut(self, region: Region, account: Account) -> DevicePart:
        """A new part with the elements of ``region``, which lies within this box."""
        return DevicePart(self.memory, *span(self.memory.operand.shape, region), region, account, self)

    def absorbs(self, part: Part) -> bool:
        """Whether `absorb` can take the part: its elements are among those of this box."""
        if isinstance(part, HostPart) and part.region is not None:
            return span(self.memory.operand.shape, part.region)[1] == part.size
        return isinstance(part, DevicePart)

    def absorb(self, part: Part) -> None:
        """Overwrites elements of this part with the values of another, whose elements are among those of this box."""
        assert part.region is not None
        if self.hold.account.short:
            return
        at = span(self.memory.operand.shape, part.region)[0] - self.at
        with self.memory.session.lock:
            if isinstance(part, HostPart):
                self.values.put(at, part.values)
            else:
                self.values.restore(at, part.values)


class WholePart(HostPart):
    """A copy, on the host, of the whole memory, aligned as kernels require, at ``address``."""

    is_whole, address = True, 0

    def __init__(self, memory: Memory, account: Account) -> None:
        _Part.__init__(self, memory, *_all_of(memory), account)
        self.where = ...
        self.values, self.is_lent = memory.values(), not account.short
        if self.is_lent:
            self.keep()

    def keep(self) -> None:
        lent = self.is_lent
        super().keep()
        if lent:
            self.address = self.values.ctypes.data

    def again(self, account: Account) -> WholePart:
        return WholePart(self.memory, account)


def _all_of(memory: Memory) -> tuple[Region, int, int]:
    """Region, size and bytes of all elements."""
    operand = memory.operand
    return whole(operand.shape), operand.size, operand.nbytes


class CellPart(_Part):
    """A copy of all elements of a sparse layout that are not 0, in the same order. ``nbytes``: how many bytes the copy
    takes."""

    is_whole = True

    def __init__(self, memory: Celled, account: Account) -> None:
        super().__init__(memory, *_all_of(memory), account)
        if not account.short:
            self.values = memory.operand.copy()

    def _restore(self) -> None:
        self.memory.operand.assign(self.values)
        self.memory.version += 1

    def keep(self) -> None:
        if self.is_lent or not self.values.assign(self.memory.operand):
            self.values, self.is_lent = self.memory.operand.copy(), False

    def lent(self) -> Callable[[npt.NDArray[Any]], None]:
        self.is_lent = True
        values = self.values
        return lambda array: _write(..., values.read(), array)

    @property
    def address(self) -> int:
        """The address of the copy, whose elements are in the same order as the memory's."""
        return int(self.values.address)

    def again(self, account: Account) -> CellPart:
        return CellPart(self.memory, account)


Part = HostPart | DevicePart | CellPart


def _write(where: Any, values: npt.NDArray[Any], array: npt.NDArray[Any]) -> None:
    array[where] = values


def _kind(memory: Memory, region: Region, account: Account) -> tuple[type[Part], Region]:
    """The class for a part with the elements of ``region``, and the region that it should have. If the whole memory is
    hardly larger, that is all of it, because a gradient can read a whole copy instead of the memory."""
    if memory.order:
        few = volume(region) * memory.dtype.nbytes <= PAGE
        return (HostPart, region) if few else (CellPart, whole(memory.operand.shape))
    on_host = memory.session.backend.CAPABILITIES.on_host and not memory.foreign
    on_device = isinstance(memory, HostMirrored) and not memory.imported
    if (on_host or on_device) and 8 * volume(region) >= (8 if account.exact else 7) * memory.operand.size:
        return WholePart if on_host else DevicePart, whole(memory.operand.shape)
    return DevicePart if on_device else HostPart, region


def bytes_of(memory: Memory, region: Region, account: Account) -> int:
    """How many bytes the result of `part_of` takes."""
    kind, region = _kind(memory, region, account)
    if kind is CellPart:
        nbytes: int = memory.operand.nbytes
        return nbytes
    size = volume(region) if kind is not DevicePart else span(memory.operand.shape, region)[1]
    return size * memory.dtype.nbytes


def part_of(memory: Memory, region: Region, account: Account) -> Part:
    """A copy of the region's elements, or of all elements if the memory is hardly larger."""
    kind, region = _kind(memory, region, account)
    if kind is WholePart:
        return WholePart(memory, account)
    if kind is CellPart:
        assert isinstance(memory, Celled)
        return CellPart(memory, account)
    if kind is DevicePart:
        assert isinstance(memory, HostMirrored)
        return DevicePart(memory, *span(memory.operand.shape, region), region, account)
    where = _slices(region)
    return HostPart(memory, where, memory.part(where), account, region)


def _slices(region: Region) -> tuple[slice, ...]:
    return tuple([slice(low, high) for low, high in region])


def part_at(memory: Memory, where: Any, values: npt.NDArray[Any], account: Account) -> HostPart:
    """A copy of ``values``, which are the elements ``where`` (an index as Python uses for a field)."""
    return HostPart(memory, where, values, account, box(where, memory.operand.shape))


def index_bytes(where: Any) -> int:
    """How many bytes the arrays in an index take."""
    return sum(at.nbytes for at in (where if isinstance(where, tuple) else (where,)) if isinstance(at, np.ndarray))


def box(where: Any, shape: Sequence[int]) -> Region | None:
    """The box of elements that an index of integers selects; None for other indices."""
    at = where if isinstance(where, tuple) else (where,)
    for n, one in enumerate(at):
        if one is ...:
            at = (*at[:n], *[None] * (len(shape) - len(at) + 1), *at[n + 1 :])
            break
    if any(one is not None and type(one) is not int for one in at):
        return None
    at = (*at, *[None] * (len(shape) - len(at)))
    return tuple((0, n) if one is None else (one % n, one % n + 1) for one, n in zip(at, shape, strict=True))


def span(shape: Sequence[int], region: Region) -> tuple[int, int]:
    """The flat index of the region's first element, and how many elements lie between its first and last one, both
    included."""
    first = last = 0
    for n, (low, high) in zip(shape, region, strict=True):
        first, last = first * n + low, last * n + high - 1
    return first, last - first + 1
