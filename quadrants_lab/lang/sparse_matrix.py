"""Implements `qd.linalg.SparseMatrix`: sparse matrices that kernels fill entry by entry. scipy computes with them
on the host, or CuPy on an NVIDIA GPU if the vector lies there.

A `SparseMatrixBuilder` stores the triplets (row, column, value) that kernels add. Matrices, products and factorisations
are scipy's. No derivative flows through a matrix: it is an error to build one, or to multiply or solve by it, while
launches are differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.lang.annotations import NdarrayType
from quadrants_lab.lang.custom_gradients import no_derivative
from quadrants_lab.lang.dtypes import f32, f64, i32
from quadrants_lab.lang.fields import ndarray
from quadrants_lab.lang.kernel import func
from quadrants_lab.lang.ops import OPERATIONS
from quadrants_lab.runtime.interop import by_cupy

__all__ = ["SparseCG", "SparseMatrix", "SparseMatrixBuilder", "SparseSolver"]

atomic_add: Any = OPERATIONS["atomic_add"]


@func
def _add(triplets, row, column, value):  # type: ignore[no-untyped-def]  # it is the kernel language
    k = atomic_add(triplets.count[None], 1)
    if k < triplets.values.shape[0]:
        triplets.rows[k] = row
        triplets.columns[k] = column
        triplets.values[k] = value


@dataclass
class Triplets:
    """The annotation of a kernel's parameter that takes a builder. In the kernel, ``A[i, j] += x`` and ``A[i, j] -= x``
    append a triplet."""

    count: NdarrayType(i32, 0)  # type: ignore[valid-type]  # annotations of the language
    rows: NdarrayType(i32, 1)  # type: ignore[valid-type]
    columns: NdarrayType(i32, 1)  # type: ignore[valid-type]
    values: NdarrayType(None, 1)  # type: ignore[valid-type]

    __qd_add__: ClassVar[Any] = _add


def sparse_matrix_builder() -> type[Triplets]:
    """The annotation of a parameter that takes a `SparseMatrixBuilder`."""
    return Triplets


def _error(text: str, help: str = "") -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(text, code="QL2135", help=help)


@cache
def _scipy() -> Any:
    """The package scipy, with `scipy.io` and `scipy.sparse.linalg` loaded; raises an error if scipy is not
    installed."""
    try:
        import scipy.io
        import scipy.sparse.linalg
    except ImportError:
        raise _error("sparse matrices need scipy, which is not installed", "pip install scipy") from None
    return scipy


class SparseMatrixBuilder(Triplets):
    """Room for ``max_num_triplets`` entries of a matrix of ``num_rows`` by ``num_cols``. Entries with the same indices
    are added up. ``storage_format`` is accepted and has no effect."""

    def __init__(
        self, num_rows: int | None = None, num_cols: int | None = None, max_num_triplets: int = 0, dtype: Any = f32,
        storage_format: str = "col_major",
    ) -> None:  # fmt: skip
        self.shape = int(num_rows or 0), int(num_cols or num_rows or 0)
        self.dtype = _real(dtype)
        n = int(max_num_triplets)
        super().__init__(ndarray(i32, ()), ndarray(i32, n), ndarray(i32, n), ndarray(dtype, n))

    def _triplets(self) -> tuple[Any, Any, Any]:
        n, room = self.count[None], self.values.shape[0]
        if n > room:
            raise _error(f"{n} entries were added to a builder with room for {room}", "raise max_num_triplets")
        rows, columns, values = (x.to_numpy()[:n] for x in (self.rows, self.columns, self.values))
        return rows, columns, values

    def print_triplets(self) -> None:
        """Prints the entries so far."""
        rows, columns, values = self._triplets()
        n, m = self.shape
        print(f"n={n}, m={m}, num_triplets={len(rows)} (max={self.values.shape[0]})")
        for i, j, v in zip(rows, columns, values, strict=True):
            print(f"[{i}, {j}] = {v:g}")

    def build(self, dtype: Any = None, _format: str = "CSR") -> SparseMatrix:
        """The matrix of the entries so far; the builder is empty afterwards."""
        no_derivative("building a sparse matrix")
        rows, columns, values = self._triplets()
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.shape[0] and columns.min() >= 0
                              and columns.max() < self.shape[1]):  # fmt: skip
            raise _error(f"an entry lies outside of the shape {self.shape}")
        self.count[None] = 0
        return SparseMatrix(sm=_scipy().sparse.coo_matrix((values, (rows, columns)), self.shape), dtype=self.dtype)


def _real(dtype: Any) -> Any:
    if dtype not in (f32, f64):
        raise _error(f"a sparse matrix holds f32 or f64, not {dtype}")
    return dtype


class SparseMatrix:
    """A matrix of n by m that stores only elements other than 0. ``+``, ``-``, ``*`` (by a number, or elementwise) and
    ``@`` (by a matrix, or by a vector: a numpy array, field or ndarray) make new ones."""

    def __init__(
        self, n: int | None = None, m: int | None = None, sm: Any = None, dtype: Any = f32,
        storage_format: str = "col_major",
    ) -> None:  # fmt: skip
        self.dtype = _real(dtype)
        given = sm.matrix if isinstance(sm, SparseMatrix) else sm
        empty = (int(n or 0), int(m or n or 0))
        self.matrix: Any = _scipy().sparse.csc_matrix(empty if given is None else given, dtype=np.dtype(dtype.numpy))
        self.matrix.sum_duplicates()
        self._copy: by_cupy.OnGpu | None = None

    def _like(self, matrix: Any) -> SparseMatrix:
        return SparseMatrix(sm=matrix, dtype=self.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers (rows, columns)."""
        n, m = self.matrix.shape
        return int(n), int(m)

    def _other(self, other: Any) -> Any:
        if not isinstance(other, SparseMatrix):
            raise _error(f"a sparse matrix cannot be combined with {other!r}")
        if other.shape != self.shape:
            raise AssertionError(f"Dimension mismatch between sparse matrices {self.shape} and {other.shape}")
        return other.matrix

    def __add__(self, other: SparseMatrix) -> SparseMatrix:
        return self._like(self.matrix + self._other(other))

    def __sub__(self, other: SparseMatrix) -> SparseMatrix:
        return self._like(self.matrix - self._other(other))

    def __mul__(self, other: Any) -> SparseMatrix:
        number = isinstance(other, (int, float, np.number))
        return self._like(self.matrix * other if number else self.matrix.multiply(self._other(other)))

    __rmul__ = __mul__

    def __matmul__(self, other: Any) -> Any:
        """The product with a matrix is a matrix, with an ndarray an ndarray, with other vectors a numpy array."""
        no_derivative("a product with a sparse matrix")
        if isinstance(other, SparseMatrix):
            return self._like(self.matrix @ other.matrix)
        shape = np.shape(other)
        if shape[:1] != self.shape[1:]:
            raise AssertionError(f"Dimension mismatch between sparse matrix {self.shape} and vector {shape}")
        if (out := _product_on_gpu(other, self.dtype, self.shape[0])) is not None:
            self._there(other).multiply(other._live(), out._live())
            return out
        return _as_given(self.matrix @ np.asarray(other).astype(self.matrix.dtype), other)

    def _there(self, vector: Any) -> by_cupy.OnGpu:
        """A copy of the matrix on the GPU of the ndarray ``vector``; it is kept until elements of the matrix change."""
        session = vector._live().session
        if self._copy is None or not self._copy.holds(self.matrix, session):
            self._copy = by_cupy.OnGpu(self.matrix, session)
        return self._copy

    def transpose(self) -> SparseMatrix:
        """The transposed matrix."""
        return self._like(self.matrix.transpose())

    def __getitem__(self, indices: tuple[int, int]) -> float:
        return float(self.matrix[indices])

    def __setitem__(self, indices: tuple[int, int], value: float) -> None:
        matrix = self.matrix.tolil()
        matrix[indices] = value
        self.matrix = matrix.tocsc()

    def __str__(self) -> str:
        rows = [[f"{v:g}" for v in row] for row in self.matrix.toarray()]
        width = max((len(v) for row in rows for v in row), default=0)
        return "\n".join("[" + ", ".join(v.rjust(width) for v in row) + "]" for row in rows)

    def build_from_ndarray(self, ndarray: Any) -> None:
        """Replaces the elements of the matrix by the triplets (row, column, value) that the array holds one after the
        other."""
        no_derivative("building a sparse matrix")
        flat = np.asarray(ndarray).reshape(-1)
        if flat.size % 3:
            raise _error("the length of triplets is a multiple of 3")
        rows, columns, values = flat.reshape(-1, 3).T
        entries = values, (rows.astype(np.int64), columns.astype(np.int64))
        self.matrix = self._like(_scipy().sparse.coo_matrix(entries, self.shape)).matrix

    def mmwrite(self, filename: str) -> None:
        """Writes a Matrix Market file."""
        _scipy().io.mmwrite(filename, self.matrix, symmetry="general")


def _product_on_gpu(vector: Any, dtype: Any, n: int) -> Any:
    """A new ndarray for the n numbers of a result, if CuPy can compute with ``vector``, an ndarray of this dtype;
    otherwise None."""
    if not getattr(vector, "__qd_ndarray__", False) or vector.dtype is not dtype or vector.element_shape:
        return None
    return ndarray(dtype, n) if len(vector.shape) == 1 and by_cupy.can_compute(vector._live()) else None


def _as_given(values: Any, like: Any) -> Any:
    """``values`` as an ndarray if ``like`` is one, otherwise as they are."""
    if not getattr(like, "__qd_ndarray__", False):
        return values
    made: Any = ndarray(like.dtype, values.shape)
    made.from_numpy(values)
    return made


class SparseSolver:
    """Factorises a square matrix and solves linear systems with it. ``solver_type``: "LU", "LDLT" for symmetric
    matrices, or "LLT" for symmetric positive definite ones. ``ordering``: "AMD" or "COLAMD"."""

    def __init__(self, dtype: Any = f32, solver_type: str = "LLT", ordering: str = "AMD") -> None:
        if solver_type not in ("LLT", "LDLT", "LU") or ordering not in ("AMD", "COLAMD"):
            raise _error(
                f"there is no sparse solver {solver_type} with the ordering {ordering}",
                "solvers are LLT, LDLT and LU, orderings AMD and COLAMD",
            )
        self.dtype, self.solver_type, self.ordering = _real(dtype), solver_type, ordering
        self._factors: Any = None

    def analyze_pattern(self, sparse_matrix: SparseMatrix) -> None:
        """Does nothing: `factorize` analyses the pattern."""

    def factorize(self, sparse_matrix: SparseMatrix) -> None:
        """Factorises the matrix in f64; `info` says whether that succeeded."""
        no_derivative("a sparse solver")
        n, m = sparse_matrix.shape
        if n != m:
            raise _error(f"a solver takes a square matrix, not one of {n} by {m}")
        matrix = sparse_matrix.matrix.astype(np.float64).tocsc()
        definite = self.solver_type == "LLT"
        how: dict[str, Any] = {"permc_spec": "COLAMD"}
        if definite or self.ordering == "AMD":
            how = {"permc_spec": "MMD_AT_PLUS_A"}
        if definite:  # without row exchanges, the signs of the pivots say whether the matrix is positive definite
            how |= {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        try:
            self._factors = _scipy().sparse.linalg.splu(matrix, **how)
        except RuntimeError:  # the matrix is singular
            self._factors = None
            return
        pivots = self._factors.U.diagonal()
        same = (self._factors.perm_r == self._factors.perm_c).all()
        if abs(pivots).min() <= 1e-14 * abs(pivots).max() or (definite and not (same and (pivots > 0).all())):
            self._factors = None

    def compute(self, sparse_matrix: SparseMatrix) -> None:
        """`analyze_pattern`, then `factorize`."""
        self.factorize(sparse_matrix)

    def info(self) -> bool:
        """Whether the last factorisation succeeded."""
        return self._factors is not None

    def solve(self, b: Any) -> Any:
        """The solution x of A x = b: an ndarray if ``b`` is one, otherwise a numpy array."""
        no_derivative("a sparse solver")
        if self._factors is None:
            raise _error(
                f"there are no {self.solver_type} factors to solve by: info() is False",
                "call compute(A) first; of a matrix that is not positive definite take LDLT or LU",
            )
        return _as_given(self._factors.solve(np.asarray(b).astype(np.float64)).astype(self.dtype.numpy), b)


class SparseCG:
    """Solves A x = b for a symmetric positive definite A by conjugate gradients, until |b - A x| <= ``atol`` or for
    ``max_iter`` steps."""

    def __init__(self, A: SparseMatrix, b: Any, x0: Any = None, max_iter: int = 50, atol: float = 1e-6) -> None:
        self.A, self.b, self.x0, self.max_iter, self.atol = A, b, x0, max_iter, atol

    def solve(self) -> tuple[Any, bool]:
        """(x, whether it converged)."""
        no_derivative("a sparse solver")
        start = None if self.x0 is None else np.asarray(self.x0).astype(np.float64)
        if (out := _product_on_gpu(self.b, self.A.dtype, self.A.shape[0])) is not None:
            vectors = self.b._live(), out._live()
            return out, self.A._there(self.b).conjugate_gradients(*vectors, start, self.atol, self.max_iter)
        A, b = self.A.matrix.astype(np.float64), np.asarray(self.b).astype(np.float64)
        x, left = _scipy().sparse.linalg.cg(A, b, x0=start, rtol=0.0, atol=self.atol, maxiter=self.max_iter)
        return _as_given(x.astype(self.A.matrix.dtype), self.b), left == 0
