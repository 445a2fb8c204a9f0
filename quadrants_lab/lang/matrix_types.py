"""Defines types of vectors and matrices: `qd.types.vector`, `qd.types.matrix`, and types such as `qd.math.vec3`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants_lab.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.matrix import Matrix, Vector, wrap_entries


@dataclass(frozen=True, slots=True)
class MatrixType:
    """The type of matrices with n rows and m columns of a dtype. In an annotation, n, m and the dtype can be None, for
    any.

    A call makes a vector or matrix of this type: from one number for all elements, or from numbers, vectors and
    sequences, whose numbers become the elements, row by row.
    """

    n: int | None
    m: int | None
    given: Any = None

    __qd_type__ = "matrix"
    _class = Matrix

    @property
    def dtype(self) -> DType | None:
        """The dtype of the elements: None for any (new values then have default_fp). ``int`` and ``float`` mean the
        session's default dtypes."""
        return None if self.given is None else as_dtype(self.given)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (self.n, self.m)

    def get_shape(self) -> tuple[int | None, ...]:
        return self.shape

    def __call__(self, *args: Any) -> Matrix:
        if not args:
            raise QuadrantsSyntaxError(f"{self!r} needs the values of its elements", code="QL2114")
        dtype, sizes = self.value_dtype(), self._sizes()
        if len(args) == 1 and np.ndim(args[0]) == 0:
            return Matrix(np.full(sizes, args[0]), dtype)
        flat = [x for a in args for x in _flat(a)]
        if len(flat) != int(np.prod(sizes)):
            raise QuadrantsTypeError(f"{self!r} has {np.prod(sizes)} elements, {len(flat)} given", code="QL2114")
        return Matrix(np.array(flat).reshape(sizes), dtype)

    def rebuild(self, flat: Sequence[Any]) -> Matrix:
        """The value with these elements, row by row, which are numbers of the dtype, as kernels return them."""
        dtype = self.value_dtype()
        return wrap_entries(np.array(flat, dtype.numpy).reshape(self._sizes()), dtype)

    def field(self, **options: Any) -> Any:
        """A field of elements of this type; see `qd.field`."""
        return self._class.field(*self._sizes(), dtype=self.value_dtype(), **options)

    def ndarray(self, **options: Any) -> Any:
        """An ndarray of elements of this type; see `qd.ndarray`."""
        return self._class.ndarray(*self._sizes(), dtype=self.value_dtype(), **options)

    def value_dtype(self) -> DType:
        """The dtype of the elements of new values and fields."""
        return as_dtype(float if self.given is None else self.given)

    def _sizes(self) -> tuple[int, ...]:
        """The shape; raises an error if a part of it is None."""
        sizes = tuple(n for n in self.shape if n is not None)
        if len(sizes) != len(self.shape):
            raise QuadrantsTypeError(f"{self!r} leaves the number of its elements open", code="QL2114")
        return sizes

    def __repr__(self) -> str:
        return f"qd.types.matrix({self.n}, {self.m}, {type_name(self.given)})"


@dataclass(frozen=True, slots=True, repr=False)
class VectorType(MatrixType):
    """The type of vectors of n elements of a dtype. See `MatrixType`."""

    _class = Vector

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (self.n,)

    def __repr__(self) -> str:
        return f"qd.types.vector({self.n}, {type_name(self.given)})"


def type_name(given: Any) -> str:
    """The name of a class of Python, or of a dtype or type of the language."""
    return getattr(given, "__name__", None) or str(given)


def _flat(x: Any) -> list[Any]:
    """The numbers in a number, vector, matrix or nested sequence, row by row."""
    parts = x.to_list() if isinstance(x, Matrix) else x
    return [v for part in parts for v in _flat(part)] if isinstance(parts, (list, tuple, np.ndarray)) else [x]


def matrix(n: int | None = None, m: int | None = None, dtype: Any = None) -> MatrixType:
    """The type of matrices with n rows, m columns and elements of ``dtype``."""
    return MatrixType(_extent(n), _extent(m), _checked(dtype))


def vector(n: int | None = None, dtype: Any = None, *, unpacked: bool = False) -> VectorType:
    """The type of vectors of n elements of ``dtype``. ``unpacked`` is accepted and has no effect."""
    return VectorType(_extent(n), 1, _checked(dtype))


for _maker in (matrix, vector):
    setattr(_maker, "__qd_compile_time__", True)  # noqa: B010  # kernels can call these functions


def _extent(n: Any) -> int | None:
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise QuadrantsTypeError(f"{n!r} is not a number of rows or columns", code="QL2114", help="an int from 1 on")
    return None if n is None else int(n)


def _checked(dtype: Any) -> Any:
    return dtype if dtype in (int, float, bool, None) else as_dtype(dtype)
