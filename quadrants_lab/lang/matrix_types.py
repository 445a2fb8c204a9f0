"""Types of vectors and matrices: `qd.types.vector`, `qd.types.matrix`, and `qd.math.vec3` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants_lab.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.matrix import Matrix, Vector, made


@dataclass(frozen=True, slots=True)
class MatrixType:
    """n rows and m columns of a dtype (`VectorType`: n elements). None leaves open what an annotation need not say.

    Called, it makes a value: of one number for every element, or of numbers, vectors and sequences whose elements,
    row by row, are those of the value.
    """

    n: int | None
    m: int | None
    given: Any = None

    __qd_type__ = "matrix"
    _values = Matrix

    @property
    def dtype(self) -> DType | None:
        """None: whatever it meets, default_fp for new values. ``int`` and ``float`` are the session's defaults."""
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
        dtype = self._of_values()
        if len(args) == 1 and np.ndim(args[0]) == 0:
            return Matrix(np.full(self._sizes(), args[0]), dtype)
        flat = [x for a in args for x in _flat(a)]
        if len(flat) != int(np.prod(self._sizes())):
            raise QuadrantsTypeError(
                f"{self!r} has {np.prod(self._sizes())} elements, {len(flat)} given", code="QL2114"
            )
        return Matrix(np.array(flat).reshape(self._sizes()), dtype)

    def rebuild(self, flat: Sequence[Any]) -> Matrix:
        """The value with these elements, row by row; numbers of the dtype, as kernels return them."""
        dtype = self._of_values()
        return made(np.array(flat, dtype.numpy).reshape(self._sizes()), dtype)

    def field(self, **options: Any) -> Any:
        """A field of such elements: `qd.Matrix.field`."""
        return self._values.field(*self._sizes(), dtype=self._of_values(), **options)

    def ndarray(self, **options: Any) -> Any:
        """An ndarray of such elements: `qd.Matrix.ndarray`."""
        return self._values.ndarray(*self._sizes(), dtype=self._of_values(), **options)

    def _of_values(self) -> DType:
        return as_dtype(float if self.given is None else self.given)

    def _sizes(self) -> tuple[int, ...]:
        sizes = tuple(n for n in self.shape if n is not None)
        if len(sizes) != len(self.shape):
            raise QuadrantsTypeError(f"{self!r} leaves the number of its elements open", code="QL2114")
        return sizes

    def __repr__(self) -> str:
        return f"qd.types.matrix({self.n}, {self.m}, {_name(self.given)})"


@dataclass(frozen=True, slots=True, repr=False)
class VectorType(MatrixType):
    """n elements of a dtype. See `MatrixType`."""

    _values = Vector

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (self.n,)

    def __repr__(self) -> str:
        return f"qd.types.vector({self.n}, {_name(self.given)})"


def _name(given: Any) -> str:
    return given.__name__ if isinstance(given, type) else str(given)


def _flat(x: Any) -> list[Any]:
    """The numbers in a number, vector, matrix or nested sequence, row by row."""
    if isinstance(x, Matrix):
        flat: list[Any] = x.entries.reshape(-1).tolist()
        return flat
    if isinstance(x, (list, tuple, np.ndarray)):
        return [v for part in x for v in _flat(part)]
    return [x]


def matrix(n: int | None = None, m: int | None = None, dtype: Any = None) -> MatrixType:
    """The type of matrices with n rows, m columns and elements of ``dtype``."""
    return MatrixType(n, m, _checked(dtype))


def vector(n: int | None = None, dtype: Any = None, *, unpacked: bool = False) -> VectorType:
    """The type of vectors of n elements of ``dtype``. ``unpacked`` is accepted: elements are values of their own here
    anyway."""
    return VectorType(n, 1, _checked(dtype))


def _checked(dtype: Any) -> Any:
    return dtype if dtype in (int, float, bool, None) else as_dtype(dtype)
