"""Arrays in pages: as numpy arrays to those who index them, with the elements of a cell of a sparse layout together."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.pages import MOST_BYTES, Pages
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.cell_order import Order, digits, is_row_major, split_shape

MOST_DENSE = 2**33  # bytes of a dense array that may be made of the elements


class CellArray:
    """Zeroed elements of ``dtype`` in this order. ``shape``, ``ndim``, ``size``: as of an array that has all elements;
    ``nbytes``: the bytes that its pages take now. ``elements``: the elements in memory order."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, order: Order, pages: Pages | None = None) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.size = prod(shape)
        self.dtype = np.dtype(dtype)
        self.order = order
        nbytes = self.size * self.dtype.itemsize
        if nbytes > MOST_BYTES:
            raise MemoryError(f"there are addresses for {MOST_BYTES >> 30} GiB")
        self.pages = Pages(nbytes) if pages is None else pages
        self.address = self.pages.address
        self.elements: npt.NDArray[Any] = self.pages.bytes[:nbytes].view(self.dtype)
        self._bits = np.dtype(f"u{self.dtype.itemsize}")
        self._levels = [
            (axis, n, inner, prod(m for _, m in order[k + 1 :]))
            for k, (axis, n, inner, _) in enumerate(digits(order))
        ]

    @property
    def nbytes(self) -> int:
        return self.pages.taken()

    def item(self, index: Any) -> Any:
        """The element as a Python number; ``index``: an int, or one for each axis."""
        at = index if isinstance(index, tuple) else (index,)
        return self.elements.item(sum(at[axis] // inner % n * step for axis, n, inner, step in self._levels))

    def __getitem__(self, where: Any) -> npt.NDArray[Any]:
        if where is ...:
            return self.read()
        made: npt.NDArray[Any] = self.elements[self._numbers(where)]
        return made

    def __setitem__(self, where: Any, values: Any) -> None:
        if where is ...:
            self.write(values)
        else:
            self.elements[self._numbers(where)] = values

    def read(self) -> npt.NDArray[Any]:
        """All elements, in a new row-major array; QL2036 where that is too large."""
        nbytes = self.size * self.dtype.itemsize
        if nbytes > MOST_DENSE:
            raise QuadrantsRuntimeError(
                f"an array of all {self.size:,} elements would take {nbytes / 2**30:.0f} GiB",
                code="QL2036",
                help="a loop over the field in a kernel runs over the elements that are active",
            )
        if 4 * self.nbytes > nbytes:
            out = np.empty(self.shape, self.dtype)
            self._view(out)[...] = self.elements.reshape([n for _, n in self.order])
            return out
        out = np.zeros(self.shape, self.dtype)
        numbers = self.nonzero()
        out[self.indices(numbers)] = self.elements[numbers]
        return out

    def write(self, values: Any) -> None:
        """Writes all elements. Zeros give the memory back."""
        values = np.asarray(values).astype(self.dtype, copy=False)
        if values.ndim or values.view(self._bits).any():
            whole = np.broadcast_to(values, self.shape)
            there = np.nonzero(whole.view(self._bits)) if values.ndim else ()
            self.pages.clear()
            if there and 4 * len(there[0]) < self.size:
                self[there] = whole[there]
            else:
                self.elements.reshape([n for _, n in self.order])[...] = self._view(whole)
        else:
            self.pages.clear()

    def copy(self) -> CellArray:
        """The elements that are not 0 in other pages."""
        return CellArray(self.shape, self.dtype, self.order, self.pages.copy())

    def nonzero(self) -> npt.NDArray[np.intp]:
        """The numbers, in memory order, of the elements that are not all zero bits."""
        return self.pages.nonzero(self._bits)

    def indices(self, numbers: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], ...]:
        """The indices along each axis of the elements with these numbers."""
        out = [np.zeros(numbers.shape, np.intp) for _ in self.shape]
        for axis, n, inner, step in self._levels:
            out[axis] += numbers // step % n * inner
        return tuple(out)

    def _view(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array of ``shape`` as one with an axis for each level of the order."""
        if is_row_major(self.order):
            return array.reshape([n for _, n in self.order])
        shape, permutation = split_shape(self.order, self.ndim)
        split: npt.NDArray[Any] = array.reshape([shape[k] for k in permutation]).transpose(np.argsort(permutation))
        return split

    def _numbers(self, where: Any) -> Any:
        """The numbers, in memory order, of the elements that an index means, in the shape that numpy would give them:
        integers, slices, and arrays in front of all slices."""
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
        return sum(at[axis] // inner % n * step for axis, n, inner, step in self._levels)
