"""Implements fields and ndarrays whose elements are vectors or matrices, and these elements as Python sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsAssertionError, QuadrantsIndexError, QuadrantsRuntimeTypeError
from quadrants_lab.ir.record import dataclass
from quadrants_lab.lang.dense import Dense, Field, Ndarray
from quadrants_lab.lang.exchange import numpy_dtype, to_numpy, to_torch
from quadrants_lab.lang.matrix import Matrix, Vector, plain, swizzle
from quadrants_lab.lang.matrix_types import MatrixType, matrix, vector
from quadrants_lab.runtime.memory.fitting import fitted_array
from quadrants_lab.runtime.observe.tape_numbers import read


class Elements(Dense):
    """Base of `MatrixField`, `VectorNdarray` and `MatrixNdarray`. The last ``len(element_shape)`` axes of the memory
    are those of an element.

    ``x[i]`` is a `Vector` or `Matrix` over the memory itself: writing to it writes to ``x``. ``x[i] = value`` takes any
    value of the element's shape.
    """

    __slots__ = ()

    @property
    def n(self) -> int:
        return self.element_shape[0]

    @property
    def m(self) -> int:
        """The number of columns of an element; 1 for vectors."""
        return self.element_shape[1] if len(self.element_shape) == 2 else 1

    def __getitem__(self, key: Any) -> Matrix:
        return view(self, self._index(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._live().write(self._index(key), self._element_array(value))

    def fill(self, val: Any) -> None:
        """Writes ``val``, an element or a number for all of its entries, to every element. Integers also take floats
        that are whole numbers."""
        self._assign(self._element(val, whole=True) if np.ndim(val) == 0 else self._element_array(val, whole=True))

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        full = (*self.shape, self.n, self.m)
        return (full, full[:-1]) if self.m == 1 else (full,)

    def _element_array(self, value: Any, whole: bool = False) -> npt.NDArray[Any]:
        """``value`` as an array of the element's shape and the dtype. With ``whole``, integers take floats that are
        whole numbers."""
        given = plain(value)
        try:
            array = np.asarray(given)
            if array.dtype.kind == "f" and not self.dtype.is_float and not whole:
                array = np.array(given, object)  # numpy turns integers below and above 2**63 into floats
        except ValueError:  # rows of different lengths
            array = np.empty((), object)
        if array.shape != self.element_shape:
            what = f"of shape {array.shape}" if array.shape else f"of type {type(value).__name__}"
            raise QuadrantsRuntimeTypeError(
                f"an element of {self!r} has shape {self.element_shape}, the value is {what}", code="QL2023"
            )
        return fitted_array(array, self.dtype, self, whole)


class MatrixField(Elements, Field):
    """A field of vectors or matrices; made by `qd.Vector.field`, `qd.Matrix.field`, or `qd.field` of such a type."""

    __slots__ = ()

    def to_numpy(  # type: ignore[override]  # the order of the arguments is Quadrants'
        self, keep_dims: bool = False, dtype: Any = None, *, copy: bool | None = True
    ) -> npt.NDArray[Any]:
        """The data as a numpy array of the shape ``shape + element_shape``; ``dtype`` and ``copy`` as for fields of
        numbers. For matrices of one column the last axis is left out. With ``keep_dims`` an element always has two
        axes."""
        array = to_numpy(self._live(), numpy_dtype(dtype), copy)
        if keep_dims:
            return array.reshape(*self.shape, self.n, self.m)
        return array.reshape(*self.shape, self.n) if self.m == 1 else array

    def to_torch(self, device: Any = None, keep_dims: bool = False, *, copy: bool | None = True) -> Any:
        """The data as a torch tensor, on ``device`` if one is given."""
        return to_torch(self.to_numpy(keep_dims, copy=copy), device, copy)

    def get_scalar_field(self, *indices: int) -> Entry:
        """One entry (``i`` of vectors, ``i, j`` of matrices) of every element. Kernels use it as a field of numbers."""
        shape = self.element_shape
        if len(indices) == 2 and len(shape) == 1 and indices[1] == 0:
            indices = indices[:1]
        if len(indices) != len(shape) or not all(0 <= i < n for i, n in zip(indices, shape, strict=True)):
            raise QuadrantsIndexError(f"{self!r} has no scalar field {indices}", code="QL2013")
        return Entry(self, indices)


class VectorNdarray(Elements, Ndarray):
    """An ndarray of vectors."""

    __slots__ = ()

    @property
    def element_type(self) -> MatrixType:
        return vector(self.n, self.dtype)


class MatrixNdarray(Elements, Ndarray):
    """An ndarray of matrices."""

    __slots__ = ()

    @property
    def element_type(self) -> MatrixType:
        return matrix(self.n, self.m, self.dtype)


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """One entry of every element of a field, over the field's memory. Kernels use it as a field of numbers."""

    field: MatrixField
    at: tuple[int, ...]
    __qd_entry__: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.field.shape

    @property
    def grad(self) -> Any:
        return self.field.grad and Entry(self.field.grad, self.at)

    @property
    def dtype(self) -> Any:
        return self.field.dtype

    def __getitem__(self, key: Any) -> Any:
        return self.field[key][self.at if len(self.at) > 1 else self.at[0]]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.field[key][self.at if len(self.at) > 1 else self.at[0]] = value

    def fill(self, val: Any) -> None:
        where = *(self.field._active() or (...,)), *self.at
        self.field._live().write(where, self.field._element(val, whole=True))

    def to_numpy(self, dtype: Any = None) -> npt.NDArray[Any]:
        """A copy of the data, of ``dtype`` if one is given."""
        where: Any = (..., *self.at)
        array: npt.NDArray[Any] = self.field._live().part(where)
        return array.astype(array.dtype if dtype is None else numpy_dtype(dtype))

    def __repr__(self) -> str:
        return f"<entry {self.at} of {self.field!r}>"


class _InPlace(Matrix):
    """An element over the memory of its field or ndarray. Entries are read as Python numbers, so that arithmetic in
    Python neither wraps nor rounds to the dtype; writes are checked, converted and counted like writes to the field."""

    _of: Elements
    _at: tuple[int, ...]

    @property
    def entries(self) -> npt.NDArray[Any]:  # type: ignore[override]  # read each time: a launch may have changed it
        entries: npt.NDArray[Any] = self._of._live().part(self._at)
        widest = np.float64 if self._of.dtype.is_float else np.uint64 if entries.dtype == np.uint64 else np.int64
        return entries.astype(widest)

    def __getitem__(self, index: Any) -> Any:
        return read(self.entries[self._place(index)].item(), self._of)

    def to_list(self) -> list[Any]:
        values: list[Any] = read(super().to_list(), self._of)
        return values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_list())

    def __setitem__(self, index: Any, value: Any) -> None:
        self._of._live().write(self._at + self._place(index), self._of._element(value))

    def __getattr__(self, name: str) -> Any:
        at = None if name.startswith("_") else self._swizzled(name)
        return self[at[0]] if at is not None and len(at) == 1 else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        at = None if name.startswith("_") else swizzle(name)
        if at is None:
            raise AttributeError(f"an element of {self._of!r} has no attribute {name!r} to write to")
        changed = Vector(self._of._live().part(self._at))
        setattr(changed, name, value)  # raises an error for wrong letters
        for i in at:
            self[i] = changed.entries[i].item() if len(at) > 1 else value

    def fill(self, val: Any) -> None:
        """Sets every entry to ``val``."""
        self._of._live().write(self._at, self._of._element(val, whole=True))

    def _place(self, index: Any) -> tuple[int, ...]:
        shape = self._of.element_shape
        if index.__class__ is int and 0 <= index < shape[0] and len(shape) == 1:
            return (index,)  # the common case
        parts = tuple(map(self._of._integer, self._checked(index)))
        if not all(0 <= i < n for i, n in zip(parts, self.shape, strict=True)):
            what = f"entry {list(parts)} is outside of an element of {self._of!r}"
            raise QuadrantsAssertionError(what, code="QL2014")
        return parts


class _VectorInPlace(_InPlace, Vector):
    pass


def view(of: Elements, at: tuple[int, ...]) -> Matrix:
    """The element of ``of`` at the checked index ``at``."""
    of._live()
    cls = _VectorInPlace if len(of.element_shape) == 1 else _InPlace
    made: _InPlace = object.__new__(cls)
    made.__dict__.update(__qd_matrix__=True, dtype=of.dtype, _of=of, _at=at)
    return made
