"""Implements vectors and matrices outside of kernels: small numpy arrays with the methods that vectors and matrices
have in kernels."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from quadrants_lab.errors import QuadrantsIndexError, QuadrantsSyntaxError, QuadrantsTypeError
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.types import DType, convert, from_numpy
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.elsewhere import name_of_qd as __getattr__  # noqa: F401
from quadrants_lab.runtime.memory.fitting import INTEGERS, fitted_array

Array = npt.NDArray[Any]
# the meaning of letters such as ``v.zyx``; imported late, with the compiler, which most programs need later
letters, swizzle = (lazily("frontend.values.matrix", name) for name in ("letters", "swizzle"))


class Named(ABCMeta):
    """Metaclass that gives a class, but not its instances, the name by which the front end recognises it."""

    @property
    def __qd_op__(cls) -> str:
        return cls.__name__


def _op(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Makes a function a static method that kernels know as the operation ``name``."""

    def mark(fn: Callable[..., Any]) -> Any:
        fn.__qd_op__ = name  # type: ignore[attr-defined]  # read by the front end
        return staticmethod(fn)

    return mark


def _wrong_shape(what: str, *shapes: tuple[int, ...]) -> QuadrantsTypeError:
    return QuadrantsTypeError(f"{what}, got {' and '.join(map(str, shapes))}", code="QL2110")


class Matrix(NDArrayOperatorsMixin, metaclass=Named):
    """A matrix of n rows and m columns, or a vector of n elements: ``qd.Matrix([[1, 2], [3, 4]], qd.f32)``.

    ``arr`` is an array or nested sequence of numbers, ``dt`` the dtype of the elements, which must be able to hold them
    (`cast` truncates and wraps). Without it, numpy chooses the dtype, and in a kernel the elements are literals.
    Arithmetic is elementwise; ``@`` is the product of matrices. ``v[i]``, ``m[i, j]`` and, for vectors, ``v.x``,
    ``v.zyx``, ``v.rgb``, ``v.st`` read and write elements. Shapes that do not fit are a `QuadrantsTypeError`.
    """

    __array_priority__ = 1000
    __hash__ = object.__hash__
    field: ClassVar[Any]  # `fields.add_constructors` sets these three
    ndarray: ClassVar[Any]
    tensor: ClassVar[Any]
    entries: Array
    dtype: DType | None

    def __new__(cls, arr: Any, dt: Any = None) -> Matrix:
        given = plain(arr)
        if not isinstance(given, (list, tuple, np.ndarray)):
            raise QuadrantsTypeError(
                f"{arr!r} is not a sequence of numbers", code="QL2111", help="for example qd.Vector([1, 2, 3])"
            )
        try:
            values = np.array(given if given is not arr else [*map(plain, arr)])
        except ValueError:
            values = np.array(None)
        if values.ndim not in (1, 2) or (values.size and values.dtype.kind not in "biuf"):
            raise QuadrantsTypeError("the rows of a matrix are sequences of numbers, all of one length", code="QL2111")
        dtype = None if dt is None else as_dtype(dt)
        entries = values if dtype is None else fitted_array(values, dtype, _description(values, dtype))
        return wrap_entries(entries, dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or pickle owns its numbers, even if this vector or matrix is an element in the memory of a field."""
        return wrap_entries, (self.entries.copy(), self.dtype)

    # --- shape and contents

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.entries.shape)

    @property
    def n(self) -> int:
        return int(self.entries.shape[0])

    @property
    def m(self) -> int:
        return int(self.entries.shape[1]) if self.ndim == 2 else 1

    @property
    def ndim(self) -> int:
        return self.entries.ndim

    def get_shape(self) -> tuple[int, ...]:
        return self.shape

    def to_numpy(self) -> Array:
        """A copy as a numpy array of shape (n,) or (n, m)."""
        values: Array = self.entries.copy()
        return values

    def to_list(self) -> list[Any]:
        """The elements as a list of Python numbers; for a matrix, a list of rows."""
        values: list[Any] = self.entries.tolist()
        return values

    def __repr__(self) -> str:
        return str(self.entries)

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        """Elements of a vector; rows of a matrix, as lists."""
        return iter(self.entries) if self.ndim == 1 else (list(row) for row in self.entries)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        values: Array = np.array(self.entries, dtype)
        return values

    def __bool__(self) -> bool:
        return bool(self.entries.all())

    # --- elements

    def _checked(self, index: Any) -> tuple[Any, ...]:
        """The indices in a subscript; raises an error unless there is one for each axis."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != self.ndim:
            kind, cure = ("matrix", "write m[i, j]") if self.ndim == 2 else ("vector", "write v[i]")
            what = f"an element of a {kind} has {self.ndim} indices, {len(parts)} given"
            raise QuadrantsIndexError(what, code="QL2112", help=cure)
        return parts

    def __getitem__(self, index: Any) -> Any:
        value = self.entries[self._checked(index)]
        return wrap_entries(value, self.dtype) if value.ndim else value

    def __setitem__(self, index: Any, value: Any) -> None:
        entries = self.entries
        limits = INTEGERS.get(entries.dtype)
        if limits is None or value.__class__ is not int or not limits[0] <= value <= limits[1]:
            value = self._converted(value)
        entries[self._checked(index)] = value

    def _swizzled(self, name: str) -> tuple[int, ...] | None:
        """The elements of a vector that letters such as ``zyx`` name; None if ``name`` is not such letters."""
        at: tuple[int, ...] | None = swizzle(name)
        if at is None or self.ndim != 1:
            return None
        if max(at) >= self.n:
            have = ", ".join(letters(name, self.n))
            raise QuadrantsSyntaxError(f"a vector of {self.n} has no '.{name}', only {have}", code="QL2113")
        return at

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (at := self._swizzled(name)) is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")
        return self.entries[at[0]] if len(at) == 1 else wrap_entries(self.entries[list(at)], self.dtype)

    def __setattr__(self, name: str, value: Any) -> None:
        at = self._swizzled(name)
        if at is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r} to write to")
        if len(set(at)) != len(at):
            raise QuadrantsSyntaxError(f"'.{name}' names an element twice and cannot be assigned", code="QL2113")
        self.entries[at[0] if len(at) == 1 else list(at)] = self._converted(value)

    def fill(self, val: Any) -> None:
        """Sets every element to ``val``."""
        self.entries[...] = self._converted(val)

    def _converted(self, value: Any) -> Any:
        """``value`` as an array that can be assigned to elements; raises an error if the elements are integers that
        cannot hold it."""
        array = np.asarray(value)
        dtype = from_numpy(self.entries.dtype)
        if dtype is None or dtype.is_float:
            return array
        return fitted_array(array, dtype, _description(self.entries, dtype))

    # --- arithmetic

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """numpy's elementwise functions, and with them Python's operators. The result is always a new value, also for
        ``+=``."""
        kwargs.pop("out", None)
        if method != "__call__" or kwargs:
            return NotImplemented
        if ufunc is np.matmul:
            return _product(*inputs)
        operands = [_number_or_array(plain(a)) for a in inputs]
        shapes = {a.shape for a in operands if getattr(a, "ndim", 0)}
        if len(shapes) > 1:
            raise _wrong_shape(f"{ufunc.__name__} needs operands of one shape", *sorted(shapes))
        with np.errstate(all="ignore"):
            values = ufunc(*operands)
        return tuple(_result(v, inputs) for v in values) if ufunc.nout > 1 else _result(values, inputs)

    def cast(self, dtype: Any) -> Matrix:
        """The elements as ``dtype``, by the rules of a cast in a kernel: real to integer truncates."""
        dtype, values = as_dtype(dtype), self.entries
        if dtype.is_float or values.dtype == dtype.numpy:
            with np.errstate(all="ignore"):
                return wrap_entries(values.astype(dtype.numpy), dtype)
        flat = [convert(v, dtype) for v in values.reshape(-1).tolist()]
        return wrap_entries(np.array(flat, dtype.numpy).reshape(values.shape), dtype)

    # --- reductions

    def sum(self) -> Any:
        return self.entries.sum()

    def max(self) -> Any:
        return self.entries.max()

    def min(self) -> Any:
        return self.entries.min()

    def any(self) -> bool:
        """Whether any element is not zero."""
        return bool(self.entries.any())

    def all(self) -> bool:
        """Whether no element is zero."""
        return bool(self.entries.all())

    def norm_sqr(self) -> Any:
        """The sum of the squares of the elements."""
        return (self.entries * self.entries).sum()

    def norm(self, eps: float = 0) -> Any:
        """sqrt(norm_sqr() + eps)."""
        return np.sqrt(self.norm_sqr() + eps)

    def norm_inv(self, eps: float = 0) -> Any:
        """1 / norm(eps)."""
        with np.errstate(all="ignore"):
            return 1 / self.norm(eps)

    def normalized(self, eps: float = 0) -> Matrix:
        """The vector divided by norm() + eps; zeros if this divisor is 0."""
        size = self._vector("normalized").norm() + eps
        result: Matrix = self * (1 / size if size else 0.0)
        return result

    # --- products

    def _vector(self, what: str) -> Matrix:
        if self.ndim != 1:
            raise _wrong_shape(f"{what} takes vectors", self.shape)
        return self

    def _square(self, what: str) -> Array:
        if self.ndim != 2 or self.n != self.m:
            raise _wrong_shape(f"{what} takes a square matrix", self.shape)
        return self.entries

    def _entries_of(self, other: Any, what: str) -> Array:
        """The entries of the other operand, which has the same shape."""
        matrix = _matrix(other)
        if matrix.shape != self.shape:
            raise _wrong_shape(f"{what} needs operands of one shape", self.shape, matrix.shape)
        return matrix.entries

    def dot(self, other: Any) -> Any:
        """The inner product of two vectors."""
        return self._vector("dot").frobenius_inner(other)

    def frobenius_inner(self, other: Any) -> Any:
        """The sum of the products of the elements of two matrices of one shape."""
        return (self.entries * self._entries_of(other, "the inner product")).sum()

    def cross(self, other: Any) -> Any:
        """The cross product of two vectors of 3 elements; for 2 elements, the number x1 * y2 - x2 * y1."""
        a, b = self.entries, self._entries_of(other, "cross")
        if self.shape == (2,):
            return a[0] * b[1] - a[1] * b[0]
        if self.shape != (3,):
            raise _wrong_shape("cross takes vectors of 2 or 3 elements", self.shape)
        return wrap_entries(a[[1, 2, 0]] * b[[2, 0, 1]] - a[[2, 0, 1]] * b[[1, 2, 0]], _dtype_of(a, (self, other)))

    def outer_product(self, other: Any) -> Matrix:
        """The matrix m with ``m[i, j] = self[i] * other[j]``."""
        a, b = (_matrix(x)._vector("outer_product").entries for x in (self, other))
        return _result(np.multiply.outer(a, b), (self, other))

    # --- square matrices

    def transpose(self) -> Matrix:
        if self.ndim != 2:
            raise _wrong_shape("transpose takes a matrix (of vectors: a.outer_product(b))", self.shape)
        return wrap_entries(self.entries.T.copy(), self.dtype)

    def trace(self) -> Any:
        """The sum of the diagonal."""
        return self._square("trace").trace()

    def determinant(self) -> Any:
        return np.linalg.det(self._square("determinant"))

    def inverse(self) -> Matrix:
        """The inverse; NaNs for a singular matrix."""
        try:
            values = np.linalg.inv(self._square("inverse"))
        except np.linalg.LinAlgError:
            values = np.full(self.shape, np.nan)
        return wrap_entries(values, self.dtype if self.dtype is not None and self.dtype.is_float else None)

    # --- constructors

    @_op("Matrix.zero")
    def zero(dt: Any, n: int, m: int | None = None) -> Matrix:
        """n elements, or n rows and m columns, of zeros."""
        return _filled(0, dt, n, m)

    @_op("Matrix.one")
    def one(dt: Any, n: int, m: int | None = None) -> Matrix:
        """n elements, or n rows and m columns, of ones."""
        return _filled(1, dt, n, m)

    @_op("Matrix.unit")
    def unit(n: int, i: int, dt: Any = None) -> Matrix:
        """A vector of n zeros, with a one at ``i``."""
        if not 0 <= i < n:
            raise QuadrantsTypeError(f"a vector of {n} elements has no element {i}", code="QL2110")
        return Vector([int(k == i) for k in range(n)], int if dt is None else dt)

    @_op("Matrix.identity")
    def identity(dt: Any, n: int) -> Matrix:
        """The identity matrix of n rows and n columns."""
        return Matrix(np.eye(n), dt)

    @_op("Matrix.diag")
    def diag(dim: int, val: Any) -> Matrix:
        """The matrix of dim rows and columns with ``val`` on the diagonal."""
        return Matrix(np.diag(np.full(dim, val)))

    @_op("Matrix.rows")
    def rows(rows: Sequence[Any]) -> Matrix:
        """The matrix with these rows, vectors or sequences of numbers."""
        values = [r.entries.reshape(-1) for r in rows if plain(r) is not r]
        flat = np.concatenate(values) if values else np.empty(0)
        return Matrix(list(rows), _dtype_of(flat, rows))

    @_op("Matrix.cols")
    def cols(cols: Sequence[Any]) -> Matrix:
        """The matrix with these columns, vectors or sequences of numbers."""
        transposed: Matrix = Matrix.rows(cols).transpose()
        return transposed


for _name, _method in vars(Matrix).items():  # kernels recognise qd.Vector.norm(v) as v.norm() by this mark
    if isinstance(_method, FunctionType) and not _name.startswith(("_", "to_")):
        _method.__qd_op__ = f"Matrix.{_name}"  # type: ignore[attr-defined]  # read by the front end


class Vector(Matrix):
    """A vector: ``qd.Vector([1, 2, 3], qd.f32)``. See `Matrix`."""


def wrap_entries(values: Array, dtype: DType | None) -> Matrix:
    """A vector or matrix whose elements are the array ``values``, which is not copied."""
    cls = Vector if values.ndim == 1 else Matrix
    value = object.__new__(cls)
    object.__setattr__(value, "__qd_matrix__", True)
    object.__setattr__(value, "entries", values)
    object.__setattr__(value, "dtype", dtype)
    return value


def plain(value: Any) -> Any:
    """The array of a vector or matrix; any other value unchanged."""
    return value.entries if isinstance(value, Matrix) else value


def _matrix(value: Any) -> Matrix:
    """A vector or matrix unchanged; a sequence converted to one."""
    return Matrix(value) if plain(value) is value else value


def _number_or_array(value: Any) -> Any:
    return np.asarray(value) if np.ndim(value) else value


def _description(entries: Array, dtype: DType) -> str:
    return f"a {'vector' if entries.ndim == 1 else 'matrix'} of {dtype}"


def _dtype_of(values: Array, inputs: Sequence[Any]) -> DType | None:
    """The dtype of the result of an operation with these ``inputs``; None if no input has a dtype."""
    typed = any(isinstance(a, Matrix) and a.dtype is not None for a in inputs)
    return from_numpy(values.dtype) if typed else None


def _result(values: Array, inputs: Sequence[Any]) -> Matrix:
    return wrap_entries(values, _dtype_of(values, inputs))


def _filled(value: int, dt: Any, n: int, m: int | None) -> Matrix:
    return Matrix(np.full((n,) if m is None else (n, m), value), dt)


def _product(left: Any, right: Any) -> Any:
    """``left @ right`` for matrices and vectors; two vectors give their inner product."""
    a, b = (np.asarray(plain(x)) for x in (left, right))
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[0]:
        raise _wrong_shape("'@' needs as many columns on its left as rows on its right", a.shape, b.shape)
    values = a @ b
    return _result(values, (left, right)) if values.ndim else values
