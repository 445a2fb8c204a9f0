"""Implements `qd.linalg`: solvers for systems of linear equations whose matrix is a kernel. They run on the
session's device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsTypeError
from quadrants_lab.lang.custom_gradients import has_derivative, no_derivative
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.fields import field, ndarray
from quadrants_lab.lang.kernel import kernel
from quadrants_lab.lang.ops import OPERATIONS
from quadrants_lab.lang.sparse_matrix import SparseCG, SparseMatrix, SparseMatrixBuilder, SparseSolver
from quadrants_lab.lang.tensor import Tensor

__all__ = [
    "LinearOperator", "MatrixFreeBICGSTAB", "MatrixFreeCG", "SparseCG", "SparseMatrix", "SparseMatrixBuilder",
    "SparseSolver",
]  # fmt: skip

grouped: Any = OPERATIONS["grouped"]
cast: Any = OPERATIONS["cast"]


@kernel
def _dot(a: Tensor, b: Tensor, out: Tensor) -> None:
    s = cast(0, out.dtype)
    for i in grouped(a):
        s += a[i] * b[i]
    out[0] = s


@kernel
def _combine(y: Tensor, x: Tensor, c: Tensor) -> None:
    for i in grouped(y):
        y[i] = c[0] * y[i] + c[1] * x[i]


class LinearOperator:
    """A matrix, given as a kernel with two parameters x and y, fields or ndarrays, that writes the product of the
    matrix with x to y."""

    def __init__(self, matvec_kernel: Callable[[Any, Any], Any]) -> None:
        self.kernel = matvec_kernel

    def matvec(self, x: Any, Ax: Any) -> None:
        if x.shape != Ax.shape:
            what = f"the product of the matrix with {x!r} cannot be {Ax!r}: their shapes differ"
            raise QuadrantsRuntimeError(what, code="QL2058")
        self.kernel(x, Ax)


class _Vectors:
    """Operations on vectors, which are fields or ndarrays like ``b``. ``r`` is the residual b - A x."""

    def __init__(self, A: LinearOperator, b: Any, x: Any) -> None:
        if not isinstance(A, LinearOperator):
            raise QuadrantsTypeError(
                f"A is a qd.linalg.LinearOperator of a kernel, not a {type(A).__name__}", code="QL2058"
            )
        for v in (b, x):
            if not isinstance(v, Dense):
                raise QuadrantsTypeError(f"b and x are fields or ndarrays, not a {type(v).__name__}", code="QL2058")
        if b.dtype is not x.dtype or not x.dtype.is_float or b.element_shape or x.element_shape:
            raise QuadrantsTypeError(f"b and x must hold numbers of one real dtype: {b!r}, {x!r}", code="QL2058")
        if (b.shape, b.offset) != (x.shape, x.offset):
            raise QuadrantsRuntimeError(
                f"b and x must have one shape and offset: {b!r} begins at {b.offset}, {x!r} at {x.offset}",
                code="QL2058",
            )
        if has_derivative(b) or has_derivative(x):
            no_derivative("a matrix-free solver")
        self.A, self.x = A, x
        self.make = partial(field, offset=x.offset or None) if x.kind == "field" else ndarray
        self.scalars = ndarray(x.dtype, 2)
        self.r = self.new(b)
        self.combine(1, self.r, -1, self.times(x))

    def new(self, like: Any = None) -> Any:
        made = self.make(self.x.dtype, self.x.shape)
        if like is not None:
            made.copy_from(like)
        return made

    def times(self, v: Any, out: Any = None) -> Any:
        out = self.new() if out is None else out
        self.A.matvec(v, out)
        return out

    def dot(self, a: Any, b: Any) -> float:
        _dot(a, b, self.scalars)
        return float(self.scalars[0])

    def combine(self, c: float, y: Any, d: float, x: Any) -> None:
        """y = c y + d x"""
        self.scalars[0], self.scalars[1] = c, d
        _combine(y, x, self.scalars)


def MatrixFreeCG(
    A: LinearOperator, b: Any, x: Any, tol: float = 1e-6, maxiter: int = 5000, quiet: bool = True
) -> bool:
    """Solves ``A x = b`` for a symmetric positive definite A by conjugate gradients (Hestenes and Stiefel, 1952),
    starting at ``x``. Returns whether the norm of the residual fell below ``tol`` within ``maxiter`` products with A;
    False also if the method breaks down: A is singular, or the residual and ``tol`` are 0."""
    v = _Vectors(A, b, x)
    p, Ap = v.new(v.r), v.new()
    rr = v.dot(v.r, v.r)
    for k in range(maxiter + 1):
        if not quiet:
            print(f"iteration {k}: residual {sqrt(rr):.6e}")
        if sqrt(rr) < tol or k == maxiter:
            break
        v.times(p, Ap)
        slope = v.dot(p, Ap)
        if slope == 0 or rr == 0:
            break
        alpha = rr / slope
        v.combine(1, x, alpha, p)
        v.combine(1, v.r, -alpha, Ap)
        before, rr = rr, v.dot(v.r, v.r)
        v.combine(rr / before, p, 1, v.r)
    return sqrt(rr) < tol


def MatrixFreeBICGSTAB(
    A: LinearOperator, b: Any, x: Any, tol: float = 1e-6, maxiter: int = 5000, quiet: bool = True
) -> bool:
    """Solves ``A x = b`` for any invertible A by BiCGSTAB (van der Vorst, 1992), with two products with A in each
    iteration. Arguments and result are those of `MatrixFreeCG`."""
    v = _Vectors(A, b, x)
    first, p, Ap, As = v.new(v.r), v.new(v.r), v.new(), v.new()
    rho = rr = v.dot(v.r, v.r)
    for k in range(maxiter + 1):
        if not quiet:
            print(f"iteration {k}: residual {sqrt(rr):.6e}")
        if sqrt(rr) < tol or k == maxiter:
            break
        v.times(p, Ap)
        if (slope := v.dot(first, Ap)) == 0:
            break
        alpha = rho / slope
        v.combine(1, v.r, -alpha, Ap)
        v.times(v.r, As)
        square = v.dot(As, As)
        omega = v.dot(As, v.r) / square if square else 0.0
        v.combine(1, x, alpha, p)
        v.combine(1, x, omega, v.r)
        v.combine(1, v.r, -omega, As)
        before, rho, rr = rho, v.dot(first, v.r), v.dot(v.r, v.r)
        if omega == 0 or before == 0:
            break
        v.combine(1, p, -omega, Ap)
        v.combine(rho / before * alpha / omega, p, 1, v.r)
    return sqrt(rr) < tol


def __getattr__(name: str) -> object:
    return missing_attribute("qd.linalg", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
