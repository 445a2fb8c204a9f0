"""`qd.linalg`: solutions of linear equations whose matrix is a kernel, against numpy."""

import numpy as np
import pytest
from sessions import CPU_ALONE, EVERYWHERE, session_of

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


@qd.kernel
def shifted_double(v: qd.Tensor, out: qd.Tensor):
    for i in v:
        out[i] = 2.0 * v[i] + 0.5 * qd.cast(i, qd.f32) * v[i]

@qd.kernel
def nothing(v: qd.Tensor, out: qd.Tensor):
    for i in v:
        out[i] = 0.0 * v[i]

@qd.kernel
def steep(v: qd.Tensor, out: qd.Tensor):
    for i in v:
        out[i] = 1e20 * v[i]


@pytest.mark.parametrize("solve", ["MatrixFreeCG", "MatrixFreeBICGSTAB"])
def test_offsets_and_break_down(solve):
    solver = getattr(qd.linalg, solve)
    b, x = qd.field(qd.f32, 3, offset=2), qd.field(qd.f32, 3, offset=2)
    b.from_numpy(np.float32([3.0, 7.0, -8.0]))
    assert solver(qd.linalg.LinearOperator(shifted_double), b, x, tol=1e-5)
    assert x.to_numpy() == pytest.approx([1.0, 2.0, -2.0], abs=1e-5)
    assert not solver(qd.linalg.LinearOperator(nothing), b, x)
    exact, x = qd.linalg.LinearOperator(shifted_double), qd.field(qd.f32, 3, offset=2)
    b.fill(0.0)
    assert not solver(exact, b, x, tol=0.0)
    assert x.to_numpy().tolist() == [0.0, 0.0, 0.0]
    b.fill(1e-25)  # the square of which is 0
    assert not solver(qd.linalg.LinearOperator(steep), b, x, tol=0.0)


def test_mismatched_operands_are_refused():
    operator = qd.linalg.LinearOperator(lambda v, out: None)
    with pytest.raises(qd.QuadrantsTypeError, match="one real dtype"):
        qd.linalg.MatrixFreeCG(operator, qd.field(qd.i32, 3), qd.field(qd.i32, 3))
    with pytest.raises(qd.QuadrantsRuntimeError, match="shapes differ"):
        operator.matvec(qd.field(qd.f32, 3), qd.field(qd.f32, 4))
    x = qd.field(qd.f32, 3)
    for b in (qd.field(qd.f32, 4), qd.field(qd.f32, 3, offset=2)):
        with pytest.raises(qd.QuadrantsRuntimeError, match="one shape and offset"):
            qd.linalg.MatrixFreeBICGSTAB(operator, b, x)
    with pytest.raises(qd.QuadrantsTypeError, match="LinearOperator of a kernel, not a function"):
        qd.linalg.MatrixFreeCG(lambda v, out: None, x, x)
    with pytest.raises(qd.QuadrantsTypeError, match="not a ndarray"):
        qd.linalg.MatrixFreeCG(operator, np.zeros(3, np.float32), x)


@CPU_ALONE  # no backend takes part in that
def test_derivatives_end_with_a_name(session):
    x, b, y = (qd.field(qd.f32, shape, needs_grad=True) for shape in (3, 3, ()))
    operator = qd.linalg.LinearOperator(shifted_double)
    keys = qd.field(qd.i32, 3)
    for solver in (qd.linalg.MatrixFreeCG, qd.linalg.MatrixFreeBICGSTAB):
        with qd.ad.Tape(y), pytest.raises(qd.QuadrantsRuntimeError, match="a matrix-free solver has no derivative"):
            solver(operator, b, x)
    for sorted in ((x,), (keys, x)):
        with qd.ad.Tape(y), pytest.raises(qd.QuadrantsRuntimeError, match="parallel_sort has no derivative"):
            qd.algorithms.parallel_sort(*sorted)
    x.from_numpy(np.array([3, 1, 2], np.float32))

    @qd.kernel
    def least():
        y[None] += x[0]

    with qd.ad.Tape(y):
        qd.algorithms.parallel_sort(keys)
        qd.ad.no_grad(qd.algorithms.parallel_sort)(x)
        least()
    assert (y[None], x.grad.to_numpy().tolist()) == (1.0, [0.0, 0.0, 0.0])
