"""Sparse matrices against numpy's, and the peer's."""

import sys

import numpy as np
import pytest
from lang import sparse_programs
from lang.sparse_programs import DENSE, RIGHT, built, listed
from peer.process import printed
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.runtime.session import current

pytest.importorskip("scipy")
session = session_of(EVERYWHERE)
X = np.linalg.solve(DENSE.astype(np.float64), RIGHT)


def test_values():
    A, B, D, R = DENSE, DENSE[:, :2], DENSE, RIGHT
    solved = [[True, X]] * 3
    want = [A, B, B.T, A + A, -A, A * A, A @ B, A / 2, D @ R, D @ R, *(v for pair in solved for v in pair), X, True]
    for found, expected in zip(sparse_programs.results(qd), [*want, [[0, 2.5], [-1, 0]]], strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-3)


@CPU_ALONE
@pytest.mark.peer
def test_the_peer_finds_the_same(session, kept):
    for a, b in zip(printed(kept, sparse_programs.__file__, "quadrants"), sparse_programs.results(qd), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


@CPU_ALONE
def test_text_and_files(session, capsys, tmp_path):
    A = built(qd, DENSE[:2, :3])
    assert str(A) == "[ 4,  1,  0]\n[ 1,  3, -1]"
    A[0, 2] = 0.5
    assert listed(A) == [[4, 1, 0.5], [1, 3, -1]]
    A.mmwrite(str(tmp_path / "a.mtx"))
    assert (tmp_path / "a.mtx").read_text().splitlines()[2:4] == ["2 3 6", "1 1 4"]
    builder = qd.linalg.SparseMatrixBuilder(2, 2, max_num_triplets=3, dtype=qd.f64)

    @qd.func
    def put(A, i):
        A[i, 0] += 0.25

    @qd.kernel
    def fill(A: qd.types.sparse_matrix_builder()):
        for i in range(1):
            put(A, i)

    fill(builder)
    builder.print_triplets()
    assert capsys.readouterr().out == "n=2, m=2, num_triplets=1 (max=3)\n[0, 0] = 0.25\n"
    assert builder.build().dtype is qd.f64
    assert listed(builder.build()) == [[0, 0], [0, 0]]


@CPU_ALONE
def test_matrices_without_factors_report_it(session):
    indefinite = np.array([[1, 2], [2, 1]], np.float32)
    for kind, matrix, good in (
        ("LLT", indefinite, False), ("LDLT", indefinite, True), ("LU", np.ones((2, 2), np.float32), False),
        ("LU", np.array([[0, 1], [2, 3]], np.float32), True),
    ):  # fmt: skip
        solver = qd.linalg.SparseSolver(solver_type=kind)
        solver.compute(built(qd, matrix))
        assert solver.info() is good, (kind, matrix)
        if good:
            np.testing.assert_allclose(matrix @ solver.solve(RIGHT[:2]), RIGHT[:2], atol=1e-5)
        else:
            with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2135.*info\(\) is False"):
                solver.solve(RIGHT[:2])


@CPU_ALONE
def test_errors(session):
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2135.*with room for 3"):
        built(qd, DENSE, room=3)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2135.*no sparse solver QR"):
        qd.linalg.SparseSolver(solver_type="QR")
    A, y = built(qd, DENSE), qd.field(qd.f32, (), needs_grad=True)
    with pytest.raises(AssertionError, match="Dimension mismatch"):
        A @ RIGHT[:3]
    solver = qd.linalg.SparseSolver()
    solver.compute(A)
    for what in (lambda: built(qd, DENSE), lambda: A @ RIGHT, lambda: solver.solve(RIGHT)):
        with qd.ad.Tape(y), pytest.raises(qd.QuadrantsRuntimeError, match="QL2132.*has no derivative"):
            what()


@CPU_ALONE
def test_a_solver_within_a_gradient_of_ones_own(session):
    b, x, y = (qd.field(qd.f32, shape, needs_grad=True) for shape in (4, 4, ()))

    def solved(v):
        solver = qd.linalg.SparseSolver(solver_type="LU")
        solver.compute(built(qd, DENSE))
        return solver.solve(v)

    @qd.ad.grad_replaced
    def solve():
        x.from_numpy(solved(b.to_numpy()))

    @qd.ad.grad_for(solve)
    def transposed():
        b.grad.from_numpy(np.linalg.solve(DENSE.T, x.grad.to_numpy()).astype(np.float32))

    @qd.kernel
    def last():
        y[None] += x[2]

    b.from_numpy(RIGHT)
    with qd.ad.Tape(y):
        solve()
        last()
    np.testing.assert_allclose(y[None], X[2], atol=1e-4)
    np.testing.assert_allclose(b.grad.to_numpy(), np.linalg.inv(DENSE)[2], atol=1e-4)
    with qd.ad.Tape(y):
        qd.ad.no_grad(lambda: x.from_numpy(solved(b.to_numpy())))()
        last()
    np.testing.assert_allclose(y[None], X[2], atol=1e-4)


@CPU_ALONE
def test_launches_that_are_watched_and_not_differentiated(session):
    with qd.profiler.profiling(current()):
        A = built(qd, DENSE)
    np.testing.assert_allclose(A @ RIGHT, DENSE @ RIGHT, atol=1e-4)
    qd.ad.program(lambda: built(qd, DENSE) and None)()


@CPU_ALONE
def test_without_scipy(session, monkeypatch):
    from quadrants_lab.lang.sparse_matrix import _scipy
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    _scipy.cache_clear()
    with pytest.raises(qd.QuadrantsRuntimeError, match="(?s)QL2135.*pip install scipy"):
        built(qd, DENSE)
    _scipy.cache_clear()
