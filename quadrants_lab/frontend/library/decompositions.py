"""Computes eigenvalues, singular values and polar factors of small matrices, in the kernel language."""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library import greatest, helper, ops, public, real, reciprocal, static

# detached: the value without its derivative; custom_jvp: the value of the first argument with the derivative of the
# second; epsilon: the machine epsilon of the argument's dtype
detached, custom_jvp, epsilon = ops("detached custom_jvp epsilon")
_abs, _max, _min, _sqrt, _matrix, _vector, _zero = ops("abs max min sqrt Matrix Vector Matrix.zero_like")


@public("", sizes=(1, 2, 3, 4, 5, 6), optional=("dt",))
def sym_eig(A: Any, dt: Any = None) -> Any:
    """(w, Q): the eigenvalues of a symmetric matrix of up to 6 rows, in rising order, and the orthogonal matrix whose
    columns are their eigenvectors. If A is not symmetric, the result belongs to (A + A.transpose()) / 2.

    By cyclic Jacobi rotations (Golub and Van Loan, Matrix Computations, 8.5), exact to a few units in the last place of
    the greatest entry. Eigenvectors with equal eigenvalues have no derivative along each other, and this part of the
    derivative is left out.
    """
    a = real(A, dt)
    half = 0.5 * (a + a.transpose())
    w, q = _symmetric(detached(half))
    b = q.transpose() @ half @ q
    small = 8.0 * epsilon(w[0]) * _max(_abs(w[0]), _abs(w[a.n - 1]))
    turn, change = _zero(b), 0.0 * b[0, :]
    for i in static(range(a.n)):
        change[i] = b[i, i]
        for j in static(range(i + 1, a.n)):
            turn[i, j] = b[i, j] * reciprocal(w[j] - w[i], small)
            turn[j, i] = -turn[i, j]
    return custom_jvp(w, change), custom_jvp(q, q @ turn)


@public("", sizes=(1, 2, 3, 4, 5, 6), optional=("dt",))
def make_spd(A: Any, dt: Any = None) -> Any:
    """The symmetric matrix without negative eigenvalues that is nearest to the symmetric matrix A (N. Higham, Computing
    a nearest symmetric positive semidefinite matrix, 1988): its negative eigenvalues become 0.

    The derivative is that of Daletskii and Krein: the divided differences of max(w, 0), 0 at w = 0.
    """
    a = real(A, dt)
    half = 0.5 * (a + a.transpose())
    w, q = _symmetric(detached(half))
    b = q.transpose() @ half @ q
    kept, change = _zero(b), _zero(b)
    for i in static(range(a.n)):
        kept[i, i] = _max(w[i], 0.0)
        for j in static(range(a.n)):
            share = 0.0 * w[i]
            if w[i] > 0.0 and w[j] > 0.0:
                share = 1.0
            elif w[i] > 0.0:
                share = w[i] / (w[i] - w[j])
            elif w[j] > 0.0:
                share = w[j] / (w[j] - w[i])
            change[i, j] = share * b[i, j]
    return custom_jvp(q @ kept @ q.transpose(), q @ change @ q.transpose())


@helper
def _symmetric(a: Any) -> Any:
    """The eigenvalues of a symmetric matrix in rising order, and the matrix whose columns are its eigenvectors."""
    size = greatest(a)
    m = a * (1.0 / size)
    q = _zero(a)
    for i in static(range(a.n)):
        q[i, i] = 1.0
    eps = epsilon(size)
    for _ in range(30):
        turned = 0
        for i in static(range(a.n)):
            for j in static(range(i + 1, a.n)):
                off = m[i, j]
                if _abs(off) > eps * eps and _abs(off) > 0.5 * eps * _sqrt(_abs(m[i, i] * m[j, j])):
                    theta = (m[j, j] - m[i, i]) / (2.0 * off)
                    t = 1.0 / (_abs(theta) + _sqrt(1.0 + theta * theta))
                    if theta < 0.0:
                        t = -t
                    c = 1.0 / _sqrt(1.0 + t * t)
                    s = t * c
                    mi, mj = m[:, i], m[:, j]
                    ni, nj = c * mi - s * mj, c * mj + s * mi
                    ni[i], nj[j] = mi[i] - t * off, mj[j] + t * off
                    ni[j], nj[i] = 0.0, 0.0
                    m[:, i], m[:, j] = ni, nj
                    m[i, :], m[j, :] = ni, nj
                    qi, qj = q[:, i], q[:, j]
                    q[:, i], q[:, j] = c * qi - s * qj, c * qj + s * qi
                    turned = 1
        if turned == 0:
            break
    w = 0.0 * m[0, :]
    for i in static(range(a.n)):
        w[i] = m[i, i] * size
    for last in static(range(a.n - 1, 0, -1)):
        for i in static(range(last)):
            if w[i] > w[i + 1]:
                w[i], w[i + 1] = w[i + 1], w[i]
                q[:, i], q[:, i + 1] = q[:, i + 1], q[:, i]
    return w, q


@public("", sizes=(2,), optional=("dt",))
def eig(A: Any, dt: Any = None) -> Any:
    """(w, X) for a matrix A of 2 rows. Row k of w is eigenvalue k: its real and its imaginary part. Column k of X is
    the eigenvector, of length 1: rows 0 and 1 are real and imaginary part of its first entry, rows 2 and 3 of its
    second. Real eigenvalues are in falling order; of a complex pair the one with the positive imaginary part comes
    first.

    From the characteristic polynomial. A double eigenvalue has the derivative of the mean of the two.
    """
    a = real(A, dt)
    mean, half = 0.5 * a[0, 0] + 0.5 * a[1, 1], 0.5 * a[0, 0] - 0.5 * a[1, 1]
    rest = _matrix([[half, a[0, 1]], [a[1, 0], -half]])  # A minus the mean of its eigenvalues
    size = greatest(detached(rest))
    rest = rest * (1.0 / size)
    half = rest[0, 0]
    disc = half * half + rest[0, 1] * rest[1, 0]
    zero = 0.0 * disc
    r, turning = zero, zero  # half the distance of the eigenvalues: along the real axis, or the imaginary one
    if disc > 0.0:
        r = _sqrt(disc)
    if disc < 0.0:
        turning = _sqrt(-disc)
    x0, y0, x1, y1 = half, rest[1, 0], half, rest[1, 0]  # real parts of the eigenvectors
    if disc >= 0.0:
        if half == 0.0 and r == 0.0:  # a double eigenvalue: ``rest`` is nilpotent
            x0, y0, x1, y1 = zero, rest[1, 0], rest[0, 1], zero
            if y0 == 0.0:
                x0 = 1.0
            if x1 == 0.0:
                y1 = 1.0
        elif half >= 0.0:
            x0, y0, x1, y1 = half + r, rest[1, 0], -rest[0, 1], half + r
        else:
            x0, y0, x1, y1 = rest[0, 1], r - half, half - r, rest[1, 0]
    n0 = 1.0 / _sqrt(x0 * x0 + y0 * y0 + turning * turning)
    n1 = 1.0 / _sqrt(x1 * x1 + y1 * y1 + turning * turning)
    values = _matrix([[mean + size * r, size * turning], [mean - size * r, -size * turning]])
    vectors = _matrix([[x0 * n0, x1 * n1], [turning * n0, -turning * n1], [y0 * n0, y1 * n1], [zero, zero]])
    return values, vectors


@public("", sizes=(2, 3), optional=("dt",))
def svd(A: Any, dt: Any = None) -> Any:
    """(U, S, V) with A = U @ S @ V.transpose(). S is diagonal, and the absolute values of its entries fall.

    V is a rotation. If A has 3 rows, U is a rotation, too, and the last entry of S is negative if the determinant of A
    is negative. If A has 2 rows, no entry of S is negative, and U is a reflection if the determinant of A is negative.
    By one-sided Jacobi rotations (M. R. Hestenes, Inversion of matrices by biorthogonalization and related results,
    1958), exact to a few units in the last place of the greatest entry.

    The derivative is that of the factors as functions of A (J. Townsend, Differentiating the singular value
    decomposition, 2016). Where two singular values are equal, U and V have no derivative along a common rotation in the
    plane of the two. This part is left out, so that the derivatives of S and of U @ V.transpose() are still right.
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

    If the determinant of A is negative, U is a reflection for 2 rows; for 3 rows U is a rotation and P has a negative
    eigenvalue. Otherwise U is a rotation and P has no negative eigenvalue. The derivative is right for equal singular
    values, too. Where two singular values sum to 0, U is not determined, and its derivative leaves out the rotation in
    the plane of the two.
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
    v = _zero(w)
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
            if w[:, p].norm_sqr() < w[:, p + 1].norm_sqr():  # swap and negate: the determinant stays
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
    """For a matrix w of 2 rows with orthogonal columns: the orthogonal matrix of the columns' directions, and the
    vector of their lengths."""
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
    """For a matrix w of 3 rows with orthogonal columns: the rotation whose columns have their directions, and the
    vector of their lengths. If the determinant of w is negative, the last column of the rotation points backwards, and
    the last length is negative."""
    s0, s1 = _sqrt(w[:, 0].norm_sqr()), _sqrt(w[:, 1].norm_sqr())
    u0 = 0.0 * w[:, 0]
    u0[0] = 1.0
    if s0 > tiny:
        u0 = w[:, 0] / s0
    x, y, z = _abs(u0[0]), _abs(u0[1]), _abs(u0[2])
    axis = 0.0 * u0
    if x > y or x > z:  # another axis is further from the direction u0
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
    s2 = _max(-s1, _min(s1, u2.dot(w[:, 2])))  # rounding must not make it larger than s1
    u = _zero(w)
    u[:, 0], u[:, 1], u[:, 2] = u0, u1, u2
    return u, _vector([s0, s1, s2])
