"""Singular values and polar factors of matrices of 2 and 3 rows."""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library.core import (
    custom_jvp,
    detached,
    epsilon,
    greatest,
    helper,
    op,
    public,
    real,
    reciprocal,
    static,
)

_abs: Any = op("abs")
_max: Any = op("max")
_min: Any = op("min")
_sqrt: Any = op("sqrt")
_vector: Any = op("Vector")
_zero: Any = op("Matrix.zero_like")


@public("", sizes=(2, 3), optional=("dt",))
def svd(A: Any, dt: Any = None) -> Any:
    """(U, S, V) with A = U @ S @ V.transpose(), S diagonal and its entries falling in size.

    V is a rotation. Of 3 rows U is one too, and the last entry of S is negative where the determinant of A is; of 2
    rows no entry is negative, and U reflects where the determinant is negative. By one-sided Jacobi rotations
    (M. R. Hestenes, Inversion of matrices by biorthogonalization and related results, 1958), exact to a few units in
    the last place of the greatest entry.

    The derivative is that of the factors as functions of A (J. Townsend, Differentiating the singular value
    decomposition, 2016). Where two singular values are equal that of U and V does not exist: the turn of both in their
    common plane is then left out, so that the derivatives of S and of U @ V.transpose() stay right.
    """
    a = real(A, dt)
    u, s, v = factors(detached(a))
    b = u.transpose() @ a @ v
    small = 8.0 * epsilon(s[0]) * s[0]
    turn_u, turn_v = _zero(b), _zero(b)
    entries, change = _zero(b), _zero(b)
    for i in static(range(a.n)):
        entries[i, i], change[i, i] = s[i], b[i, i]
        for j in static(range(i + 1, a.n)):
            same = 0.5 * (b[i, j] + b[j, i]) * reciprocal(s[j] - s[i], small)
            apart = 0.5 * (b[i, j] - b[j, i]) * reciprocal(s[j] + s[i], small)
            turn_u[i, j], turn_u[j, i] = same + apart, -same - apart
            turn_v[i, j], turn_v[j, i] = same - apart, apart - same
    return custom_jvp(u, u @ turn_u), custom_jvp(entries, change), custom_jvp(v, v @ turn_v)


@public("", sizes=(2, 3), optional=("dt",))
def polar_decompose(A: Any, dt: Any = None) -> Any:
    """(U, P) with A = U @ P, U orthogonal and P symmetric, from the singular values.

    Of 2 rows P has no negative eigenvalue, and U reflects where the determinant of A is negative; of 3 rows U is a
    rotation, and P has a negative eigenvalue there. The derivative is right for equal singular values too; where two of
    them sum to 0, so that U is not determined, its turn in their common plane is left out.
    """
    a = real(A, dt)
    u, s, v = factors(detached(a))
    b = u.transpose() @ a @ v
    small = 8.0 * epsilon(s[0]) * s[0]
    turn, entries = _zero(b), _zero(b)
    for i in static(range(a.n)):
        entries[i, i] = s[i]
        for j in static(range(i + 1, a.n)):
            turn[i, j] = (b[i, j] - b[j, i]) * reciprocal(s[i] + s[j], small)
            turn[j, i] = -turn[i, j]
    r = custom_jvp(u @ v.transpose(), u @ turn @ v.transpose())
    p = r.transpose() @ a
    return r, custom_jvp(v @ entries @ v.transpose(), 0.5 * (p + p.transpose()))


@helper
def factors(a: Any) -> Any:
    """U, the singular values as a vector, and V, as `svd` describes them."""
    size = greatest(a)
    w = a * (1.0 / size)
    v = _zero(a)
    for i in static(range(a.n)):
        v[i, i] = 1.0
    eps = epsilon(size)
    for _ in range(20):
        turned = 0
        for p in static(range(a.n)):
            for q in static(range(p + 1, a.n)):
                wp, wq = w[:, p], w[:, q]
                alpha, beta, gamma = wp.norm_sqr(), wq.norm_sqr(), wp.dot(wq)
                if _abs(gamma) > eps * _sqrt(alpha * beta):
                    zeta = (beta - alpha) / (2.0 * gamma)
                    t = 1.0 / (_abs(zeta) + _sqrt(1.0 + zeta * zeta))
                    if zeta < 0.0:
                        t = -t
                    c = 1.0 / _sqrt(1.0 + t * t)
                    vp, vq = v[:, p], v[:, q]
                    w[:, p], w[:, q] = c * (wp - t * wq), c * (wq + t * wp)
                    v[:, p], v[:, q] = c * (vp - t * vq), c * (vq + t * vp)
                    turned = 1
        if turned == 0:
            break
    for last in static(range(a.n - 1, 0, -1)):
        for p in static(range(last)):
            if w[:, p].norm_sqr() < w[:, p + 1].norm_sqr():  # a swap that keeps the determinant
                wp, vp = w[:, p], v[:, p]
                w[:, p], w[:, p + 1] = w[:, p + 1], -wp
                v[:, p], v[:, p + 1] = v[:, p + 1], -vp
    if static(a.n == 2):
        u, s = _left2(w, eps * eps)
        return u, s * size, v
    else:
        u, s = _left3(w, eps * eps)
        return u, s * size, v


@helper
def _left2(w: Any, tiny: Any) -> Any:
    """The orthogonal factor, and the lengths, of columns that are orthogonal."""
    u = _zero(w)
    s0, s1 = _sqrt(w[:, 0].norm_sqr()), _sqrt(w[:, 1].norm_sqr())
    u[0, 0] = 1.0
    if s0 > tiny:
        u[:, 0] = w[:, 0] / s0
    u[0, 1], u[1, 1] = -u[1, 0], u[0, 0]
    if s1 > tiny:
        u[:, 1] = w[:, 1] / s1
    else:
        s1 = 0.0
    return u, _vector([s0, s1])


@helper
def _left3(w: Any, tiny: Any) -> Any:
    """The rotation whose columns have the directions of those of w, which are orthogonal, and their lengths along
    them: the last may be negative."""
    s0, s1 = _sqrt(w[:, 0].norm_sqr()), _sqrt(w[:, 1].norm_sqr())
    u0 = 0.0 * w[:, 0]
    u0[0] = 1.0
    if s0 > tiny:
        u0 = w[:, 0] / s0
    x, y, z = _abs(u0[0]), _abs(u0[1]), _abs(u0[2])
    axis = 0.0 * u0
    if x > y or x > z:  # another axis leans less on u0
        if y < z:
            axis[1] = 1.0
        else:
            axis[2] = 1.0
    else:
        axis[1] = 0.0
        axis[0] = 1.0
    u1 = axis - axis.dot(u0) * u0
    u1 = u1 / _sqrt(u1.norm_sqr())
    if s0 <= tiny:
        u1[0], u1[1], u1[2] = 0.0, 1.0, 0.0
    if s1 > tiny:
        u1 = w[:, 1] / s1
    else:
        s1 = 0.0
    u2 = u0.cross(u1)
    s2 = _max(-s1, _min(s1, u2.dot(w[:, 2])))  # rounding must not put it before s1
    u = _zero(w)
    u[:, 0], u[:, 1], u[:, 2] = u0, u1, u2
    return u, _vector([s0, s1, s2])
