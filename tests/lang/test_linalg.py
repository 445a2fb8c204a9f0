"""`qd.linalg`: solutions of linear equations whose matrix is a kernel, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)
N = 12


@qd.kernel
def product(v: qd.Tensor, out: qd.Tensor, skew: qd.f32):
    for i in range(N):
        s = 3.0 * v[i]
        if i > 0:
            s -= (1.0 + skew) * v[i - 1]
        if i < N - 1:
            s -= v[i + 1]
        out[i] = s


@pytest.mark.parametrize("solve", ["MatrixFreeCG", "MatrixFreeBICGSTAB"])
@pytest.mark.parametrize("make", [qd.field, qd.ndarray])
def test_solution(solve, make, capsys):
    skew = 0.0 if solve == "MatrixFreeCG" else 0.5
    operator = qd.linalg.LinearOperator(lambda v, out: product(v, out, skew))
    b, x = make(qd.f32, N), make(qd.f32, N)
    right = np.random.default_rng(0).standard_normal(N)
    b.from_numpy(right.astype(np.float32))
    x.fill(1.0)
    solver = getattr(qd.linalg, solve)
    assert not solver(operator, b, x, maxiter=1)
    assert solver(operator, b, x, tol=1e-5, quiet=False)
    matrix = 3 * np.eye(N) - (1 + skew) * np.eye(N, k=-1) - np.eye(N, k=1)
    assert x.to_numpy() == pytest.approx(np.linalg.solve(matrix, right), abs=1e-4)
    assert "iteration 0: residual" in capsys.readouterr().out


def test_what_does_not_fit():
    operator = qd.linalg.LinearOperator(lambda v, out: None)
    with pytest.raises(qd.QuadrantsTypeError, match="one real dtype"):
        qd.linalg.MatrixFreeCG(operator, qd.field(qd.i32, 3), qd.field(qd.i32, 3))
    with pytest.raises(qd.QuadrantsRuntimeError, match="shapes differ"):
        operator.matvec(qd.field(qd.f32, 3), qd.field(qd.f32, 4))
    with pytest.raises(AttributeError, match="sparse matrices"):
        str(qd.linalg.SparseMatrixBuilder)
