"""Computes determinants and inverses of small matrices, and solves linear systems, in the kernel language."""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library import helper, ops, public, real, static

# detached: the value without its derivative; custom_jvp: the value of the first argument with the derivative of the
# second
detached, custom_jvp = ops("detached custom_jvp")
_abs, _matrix, _columns, _zero = ops("abs Matrix Matrix.cols Matrix.zero_like")


@public(sizes=(1, 2, 3, 4), method=True)
def determinant(m: Any) -> Any:
    """The determinant of a matrix of up to 4 rows, by expansion into minors."""
    if static(m.n == 1):
        return m[0, 0]
    elif static(m.n == 2):
        return m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    elif static(m.n == 3):
        return (
            m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
            - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
            + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
        )
    else:
        s, c = _upper_minors(m), _lower_minors(m)
        return s[0] * c[5] - s[1] * c[4] + s[2] * c[3] + s[3] * c[2] - s[4] * c[1] + s[5] * c[0]


@public(sizes=tuple(range(1, 13)), method=True)
def inverse(mat: Any) -> Any:
    """The inverse of a matrix of up to 12 rows. Infinities or NaNs where it is singular.

    For up to 4 rows the inverse is the adjugate divided by the determinant; for 4 rows both come from minors of pairs
    of rows (D. Eberly, The Laplace Expansion Theorem, 2008). From 5 rows on it comes from Gauss-Jordan elimination with
    partial pivoting (Golub and Van Loan, Matrix Computations, 3.4), and the derivative of the inverse B is -B dA B.
    """
    if static(mat.n == 1):
        return _matrix([[1.0 / mat[0, 0]]])
    elif static(mat.n == 2):
        return _matrix([[mat[1, 1], -mat[0, 1]], [-mat[1, 0], mat[0, 0]]]) * (1.0 / determinant(mat))
    elif static(mat.n == 3):
        return _adjugate3(mat) * (1.0 / determinant(mat))
    elif static(mat.n > 4):
        a = real(mat, None)
        b = _eliminated(detached(a))
        return custom_jvp(b, -(b @ a @ b))
    else:
        s, c = _upper_minors(mat), _lower_minors(mat)
        det = s[0] * c[5] - s[1] * c[4] + s[2] * c[3] + s[3] * c[2] - s[4] * c[1] + s[5] * c[0]
        return _adjugate4(mat, s, c) * (1.0 / det)


@helper
def _eliminated(m: Any) -> Any:
    """The inverse of a matrix, by Gauss-Jordan elimination: the row operations that turn m into the unit matrix turn
    the unit matrix into the inverse."""
    a, b = m, _zero(m)
    for k in static(range(a.n)):
        b[k, k] = 1.0
    for k in static(range(a.n)):
        for i in static(range(k + 1, a.n)):
            if _abs(a[i, k]) > _abs(a[k, k]):
                for j in static(range(k, a.n)):
                    a[i, j], a[k, j] = a[k, j], a[i, j]
                for j in static(range(a.n)):
                    b[i, j], b[k, j] = b[k, j], b[i, j]
        pivot = 1.0 / a[k, k]
        a[k, :] *= pivot
        b[k, :] *= pivot
        for i in static(range(a.n)):
            if static(i != k):
                f = a[i, k]
                a[i, :] -= f * a[k, :]
                b[i, :] -= f * b[k, :]
    return b


@helper
def _adjugate3(m: Any) -> Any:
    """The adjugate of a matrix of 3 rows: its columns are the cross products of the rows of the matrix."""
    x, y, z = m[0, :], m[1, :], m[2, :]
    return _columns([y.cross(z), z.cross(x), x.cross(y)])


@helper
def _adjugate4(m: Any, s: Any, c: Any) -> Any:
    return _matrix([
        [
            m[1, 1] * c[5] - m[1, 2] * c[4] + m[1, 3] * c[3],
            -m[0, 1] * c[5] + m[0, 2] * c[4] - m[0, 3] * c[3],
            m[3, 1] * s[5] - m[3, 2] * s[4] + m[3, 3] * s[3],
            -m[2, 1] * s[5] + m[2, 2] * s[4] - m[2, 3] * s[3],
        ],
        [
            -m[1, 0] * c[5] + m[1, 2] * c[2] - m[1, 3] * c[1],
            m[0, 0] * c[5] - m[0, 2] * c[2] + m[0, 3] * c[1],
            -m[3, 0] * s[5] + m[3, 2] * s[2] - m[3, 3] * s[1],
            m[2, 0] * s[5] - m[2, 2] * s[2] + m[2, 3] * s[1],
        ],
        [
            m[1, 0] * c[4] - m[1, 1] * c[2] + m[1, 3] * c[0],
            -m[0, 0] * c[4] + m[0, 1] * c[2] - m[0, 3] * c[0],
            m[3, 0] * s[4] - m[3, 1] * s[2] + m[3, 3] * s[0],
            -m[2, 0] * s[4] + m[2, 1] * s[2] - m[2, 3] * s[0],
        ],
        [
            -m[1, 0] * c[3] + m[1, 1] * c[1] - m[1, 2] * c[0],
            m[0, 0] * c[3] - m[0, 1] * c[1] + m[0, 2] * c[0],
            -m[3, 0] * s[3] + m[3, 1] * s[1] - m[3, 2] * s[0],
            m[2, 0] * s[3] - m[2, 1] * s[1] + m[2, 2] * s[0],
        ],
    ])


@helper
def _upper_minors(m: Any) -> Any:
    """The 2 x 2 minors of rows 0 and 1 of a matrix of 4 rows, for the columns 01, 02, 03, 12, 13, 23."""
    return [m[0, i] * m[1, j] - m[1, i] * m[0, j] for i in range(4) for j in range(i + 1, 4)]


@helper
def _lower_minors(m: Any) -> Any:
    """The 2 x 2 minors of rows 2 and 3 of a matrix of 4 rows, for the columns 01, 02, 03, 12, 13, 23."""
    return [m[2, i] * m[3, j] - m[3, i] * m[2, j] for i in range(4) for j in range(i + 1, 4)]


@public("", sizes=(1, 2, 3, 4, 5, 6), optional=("dt",))
def solve(A: Any, b: Any, dt: Any = None) -> Any:
    """The vector x with A @ x = b, by Gaussian elimination with partial pivoting (Golub and Van Loan, Matrix
    Computations, 3.4), for A of up to 6 rows. NaNs or infinities where A is singular; the derivative is taken through
    the elimination, with the pivots that were chosen."""
    a, x = real(A, dt), real(b, dt)
    for k in static(range(a.n)):
        for i in static(range(k + 1, a.n)):
            if _abs(a[i, k]) > _abs(a[k, k]):
                for j in static(range(k, a.n)):
                    a[i, j], a[k, j] = a[k, j], a[i, j]
                x[i], x[k] = x[k], x[i]
        for i in static(range(k + 1, a.n)):
            f = a[i, k] / a[k, k]
            for j in static(range(k + 1, a.n)):
                a[i, j] -= f * a[k, j]
            x[i] -= f * x[k]
    for k in static(range(a.n - 1, -1, -1)):
        for j in static(range(k + 1, a.n)):
            x[k] -= a[k, j] * x[j]
        x[k] = x[k] / a[k, k]
    return x
