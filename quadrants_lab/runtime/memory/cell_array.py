"""Implements the memory of a field in a sparse layout. It can be indexed like a numpy array; in memory, the
elements of a cell follow each other.

`PagedCells` are stored in pages of the operating system, `SlottedCells` in slots, which a table finds
(`ir.cell_order`). A slot holds a stretch: a fixed number of elements that follow each other in memory order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.pages import Pages
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.cell_order import FIRST, Order, digits, is_row_major, levels_of, slots_in, split_shape

MOST_DENSE = 2**33  # the most bytes of a dense copy with all elements
_TOGETHER = 1 << 20  # how many elements are copied at a time


class CellArray(ABC):
    """Zeroed elements of ``dtype`` in this order. ``shape``, ``ndim`` and ``size`` are those of an array with all
    elements; ``nbytes``: how many bytes the memory takes now; ``address``: its address on the device."""

    address: int

    def __init__(self, shape: tuple[int, ...], dtype: Any, order: Order) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.size = prod(shape)
        self.dtype = np.dtype(dtype)
        self.order = order
        self._bits = np.dtype(f"u{self.dtype.itemsize}")
        levels = levels_of(order)
        self._split = [n for _, n in levels]
        self._levels = [(*level[:3], prod(self._split[k + 1 :])) for k, level in enumerate(digits(order))]

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    @abstractmethod
    def item(self, index: Any) -> Any:
        """The element as a Python number; ``index``: an int, or one int for each axis."""

    @abstractmethod
    def take(self, numbers: Any) -> npt.NDArray[Any]:
        """The elements with these indices in memory order."""

    @abstractmethod
    def put(self, numbers: Any, values: Any) -> None:
        """Writes the elements with these indices in memory order."""

    @abstractmethod
    def clear(self) -> None:
        """Sets all elements to 0 and frees their memory."""

    @abstractmethod
    def nonzero(self) -> npt.NDArray[np.intp]:
        """The indices, in memory order, of the elements whose bits are not all zero."""

    @abstractmethod
    def any(self) -> bool:
        """Whether some element is not 0."""

    @abstractmethod
    def trim(self) -> None:
        """Frees memory that holds only zeros. Nothing may write to the field at the same time."""

    @abstractmethod
    def copy(self) -> CellArray:
        """A copy of the elements that are not 0, in the same order."""

    @abstractmethod
    def assign(self, other: Any) -> bool:
        """Copies the elements of ``other``, a result of `copy`; returns False if there is no room for them."""

    @abstractmethod
    def _read_all(self) -> npt.NDArray[Any]: ...

    @abstractmethod
    def _write_all(self, values: npt.NDArray[Any]) -> None: ...

    def __getitem__(self, where: Any) -> npt.NDArray[Any]:
        return self.read() if where is ... else self.take(self._numbers(where))

    def __setitem__(self, where: Any, values: Any) -> None:
        if where is ...:
            self.write(values)
        else:
            self.put(self._numbers(where), values)

    def read(self) -> npt.NDArray[Any]:
        """All elements, in a new row-major array; raises QL2036 if that would be too large."""
        nbytes = self.size * self.dtype.itemsize
        if nbytes > MOST_DENSE:
            raise QuadrantsRuntimeError(
                f"an array of all {self.size:,} elements would take {nbytes / 2**30:.0f} GiB",
                code="QL2036",
                help="a loop over the field in a kernel runs over the elements that are active",
            )
        return self._read_all()

    def write(self, values: Any) -> None:
        """Writes all elements. Writing only zeros frees the memory."""
        values = np.asarray(values).astype(self.dtype, copy=False)
        self.clear()
        if values.ndim == 0 and not values.view(self._bits).any():
            return
        whole = np.broadcast_to(values, self.shape)
        there = np.nonzero(whole.view(self._bits)) if values.ndim else ()
        if there and 4 * len(there[0]) < self.size:
            self[there] = whole[there]
        else:
            self._write_all(whole)

    def indices(self, numbers: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], ...]:
        """The indices along each axis of the elements with these indices in memory order."""
        out = [np.zeros(numbers.shape, np.intp) for _ in self.shape]
        for axis, n, inner, step in self._levels:
            out[axis] += numbers // step % n * inner
        return tuple(out)

    def _view(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array of ``shape``, seen with an axis for each level of the order."""
        if is_row_major(self.order):
            return array.reshape(self._split)
        shape, permutation = split_shape(self.order, self.ndim)
        split: npt.NDArray[Any] = array.reshape([shape[k] for k in permutation]).transpose(np.argsort(permutation))
        return split

    def _numbers(self, where: Any) -> Any:
        """The indices, in memory order, of the elements that an index selects, in the shape that numpy would give the
        selection. Allowed are integers, slices, and arrays before all slices."""
        at = list(where) if isinstance(where, tuple) else [where]
        if (dots := next((k for k, one in enumerate(at) if one is ...), -1)) >= 0:
            at[dots : dots + 1] = [slice(None)] * (self.ndim - len(at) + 1)
        at += [slice(None)] * (self.ndim - len(at))
        sliced = [k for k, one in enumerate(at) if isinstance(one, slice)]
        for k, one in enumerate(at):
            if isinstance(one, np.ndarray):
                assert k < min(sliced, default=self.ndim), where
                at[k] = one.astype(np.intp).reshape(one.shape + (1,) * len(sliced))
        for k in sliced:
            mesh = [1] * len(sliced)
            mesh[sliced.index(k)] = -1
            at[k] = np.arange(*at[k].indices(self.shape[k])).reshape(mesh)
        return self._number(at)

    def _number(self, at: Any) -> Any:
        """The index, in memory order, of the element at ``at``, which has an integer, or an array, for each axis."""
        return sum(at[axis] // inner % n * step for axis, n, inner, step in self._levels)


class PagedCells(CellArray):
    """A field in pages. ``elements``: a numpy array of the elements in memory order."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, order: Order, pages: Pages) -> None:
        super().__init__(shape, dtype, order)
        nbytes = self.size * self.dtype.itemsize
        self.pages = pages
        self.address = self.pages.address
        self.elements: npt.NDArray[Any] = self.pages.bytes[:nbytes].view(self.dtype)

    @property
    def nbytes(self) -> int:
        return self.pages.taken()

    def item(self, index: Any) -> Any:
        return self.elements.item(self._number(index if isinstance(index, tuple) else (index,)))

    def take(self, numbers: Any) -> npt.NDArray[Any]:
        made: npt.NDArray[Any] = self.elements[numbers]
        return made

    def put(self, numbers: Any, values: Any) -> None:
        self.elements[numbers] = values

    def nonzero(self) -> npt.NDArray[np.intp]:
        return self.pages.nonzero(self._bits)

    def copy(self) -> PagedCells:
        return PagedCells(self.shape, self.dtype, self.order, self.pages.copy())

    def assign(self, other: PagedCells) -> bool:
        self.pages.assign(other.pages)
        return True

    def _read_all(self) -> npt.NDArray[Any]:
        if 4 * self.nbytes > self.size * self.dtype.itemsize:
            out = np.empty(self.shape, self.dtype)
            self._view(out)[...] = self.elements.reshape(self._split)
            return out
        out = np.zeros(self.shape, self.dtype)
        numbers = self.nonzero()
        out[self.indices(numbers)] = self.elements[numbers]
        return out

    def _write_all(self, values: npt.NDArray[Any]) -> None:
        self.elements.reshape(self._split)[...] = self._view(values)

    def any(self) -> bool:
        return self.pages.any()

    def clear(self) -> None:
        self.pages.clear()

    def trim(self) -> None:
        self.pages.trim()


class Storage(Protocol):
    """Where the bytes of a field with slots are: ``room`` zeroed bytes at ``address``. Only the bytes up to the last
    used one take memory."""

    address: int
    room: int

    def get(self, at: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """``nbytes`` bytes from ``at`` on, or a copy of them."""

    def put(self, at: int, values: npt.NDArray[np.uint8]) -> None:
        """Writes bytes from ``at`` on. If the host can access the memory, `get` returned the bytes themselves, and this
        does nothing."""

    def clear(self, at: int, end: int) -> None:
        """Sets the bytes ``at`` .. ``end`` to 0; if ``at`` is 0, this also frees their memory."""

    def taken(self, nbytes: int) -> int:
        """How many bytes of memory are taken if the first ``nbytes`` bytes are used."""

    def saved(self, nbytes: int) -> Storage:
        """A copy of the first ``nbytes`` bytes."""

    def restore(self, copy: Any, nbytes: int) -> None:
        """Copies the first ``nbytes`` bytes of ``copy`` back."""


class SlottedCells(CellArray):
    def __init__(self, shape: tuple[int, ...], dtype: Any, order: Order, storage: Storage) -> None:
        super().__init__(shape, dtype, order)
        slots = slots_in(order, self.dtype.itemsize)
        assert slots is not None
        self.slots, self.storage, self.address = slots, storage, storage.address

    @property
    def nbytes(self) -> int:
        return self.storage.taken(self._end(self._used()))

    def item(self, index: Any) -> Any:
        stretch, place = divmod(self._number(index if isinstance(index, tuple) else (index,)), self.slots.size)
        return self._at(self._place(self._word(1 + stretch), place), self.dtype).item()

    def take(self, numbers: Any) -> npt.NDArray[Any]:
        table, rows = self._parts(self._used())
        made: npt.NDArray[Any] = rows[table[numbers // self.slots.size], numbers % self.slots.size]
        return made

    def put(self, numbers: Any, values: Any) -> None:
        if np.ndim(numbers) == 0 == np.ndim(values):
            self._put_one(int(numbers), np.asarray(values).astype(self.dtype))
            return
        numbers = np.asarray(numbers)
        values = np.broadcast_to(np.asarray(values).astype(self.dtype, copy=False), numbers.shape)
        table, used = self._table(), self._used()
        some = np.ascontiguousarray(values).view(self._bits) != 0
        stretches = np.unique(numbers[some.reshape(numbers.shape)] // self.slots.size)
        missing = stretches[table[stretches] < FIRST]
        data = self.storage.get(0, self._end(used + len(missing)))
        table, rows = self._split_up(data)
        table[missing] = FIRST + used + np.arange(len(missing))
        data[:4].view(np.uint32)[0] = used + len(missing)
        slots = table[numbers // self.slots.size]
        there = slots >= FIRST
        rows[slots[there], (numbers % self.slots.size)[there]] = values[there]
        self.storage.put(0, data)

    def clear(self) -> None:
        self.storage.clear(0, self._end(self._used()))

    def nonzero(self) -> npt.NDArray[np.intp]:
        stretches, rows = self._taken()
        at, inside = np.nonzero(rows.view(self._bits))
        return stretches[at] * self.slots.size + inside

    def any(self) -> bool:
        return bool(self._parts(self._used())[1].any())

    def trim(self) -> None:
        stretches, rows = self._taken()
        some = rows.view(self._bits).any(axis=1)
        if not some.all():
            self._fill(stretches[some], rows[some].copy())

    def copy(self) -> SlottedCells:
        return SlottedCells(self.shape, self.dtype, self.order, self.storage.saved(self._end(self._used())))

    def assign(self, other: SlottedCells) -> bool:
        before, end = self._end(self._used()), other._end(other._used())
        if end > self.storage.room:
            return False
        if end < before:
            self.storage.clear(end, before)
        self.storage.restore(other.storage, end)
        return True

    def _read_all(self) -> npt.NDArray[Any]:
        out = np.zeros(self.shape, self.dtype)
        stretches, rows = self._taken()
        each = max(_TOGETHER // self.slots.size, 1)
        for k in range(0, len(stretches), each):
            numbers = stretches[k : k + each, None] * self.slots.size + np.arange(self.slots.size)
            inside = numbers < self.size
            out[self.indices(numbers[inside])] = rows[k : k + each][inside]
        return out

    def _write_all(self, values: npt.NDArray[Any]) -> None:
        whole = np.zeros((self.slots.count, self.slots.size), self.dtype)
        whole.reshape(-1)[: self.size].reshape(self._split)[...] = self._view(values)
        some = np.flatnonzero(whole.view(self._bits).any(axis=1))
        self._fill(some, whole[some])

    def _fill(self, stretches: npt.NDArray[Any], rows: npt.NDArray[Any]) -> None:
        """Gives slots to exactly these stretches, filled with these rows of elements."""
        self.clear()
        data = self.storage.get(0, self._end(len(stretches)))
        table, there = self._split_up(data)
        table[stretches] = FIRST + np.arange(len(stretches))
        there[FIRST:] = rows
        data[:4].view(np.uint32)[0] = len(stretches)
        self.storage.put(0, data)

    def _put_one(self, number: int, value: npt.NDArray[Any]) -> None:
        stretch, place = divmod(number, self.slots.size)
        slot = self._word(1 + stretch)
        if slot < FIRST:
            if not value.view(self._bits):
                return
            slot = FIRST + self._used()
            self._at(0, np.uint32, slot - FIRST + 1)
            self._at(4 + 4 * stretch, np.uint32, slot)
        self._at(self._place(slot, place), self.dtype, value)

    def _at(self, at: int, dtype: Any, value: Any = None) -> npt.NDArray[Any]:
        """The number stored at byte ``at`` of the memory; if ``value`` is given, that is stored first."""
        data = self.storage.get(at, np.dtype(dtype).itemsize)
        number: npt.NDArray[Any] = data.view(dtype)
        if value is not None:
            number[0] = value
            self.storage.put(at, data)
        return number

    def _place(self, slot: int, place: int) -> int:
        """The offset, in bytes, of the element ``place`` of a slot."""
        return int((self.slots.begin + slot * self.slots.size + place) * self.dtype.itemsize)

    def _word(self, n: int) -> int:
        """The word of the table with index ``n``."""
        return int(self._at(4 * n, np.uint32)[0])

    def _used(self) -> int:
        return self._word(0)

    def _end(self, used: int) -> int:
        """How many bytes of the memory are in use if ``used`` slots are."""
        return self._place(FIRST + used, 0)

    def _table(self) -> npt.NDArray[np.uint32]:
        return self.storage.get(4, 4 * self.slots.count).view(np.uint32)

    def _parts(self, used: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        """The table, and an array whose rows are the used slots."""
        return self._split_up(self.storage.get(0, self._end(used)))

    def _split_up(self, data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        rows = data[self.slots.begin * self.dtype.itemsize :].view(self.dtype).reshape(-1, self.slots.size)
        return data[4 : 4 + 4 * self.slots.count].view(np.uint32), rows

    def _taken(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any]]:
        """The indices of the stretches (runs of elements) that have slots, and an array whose rows are their
        elements."""
        table, rows = self._parts(self._used())
        stretches = np.flatnonzero(table >= FIRST)
        return stretches, rows[table[stretches]]
