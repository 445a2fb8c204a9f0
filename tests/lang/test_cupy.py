"""Data exchanged with CuPy, and what CuPy computes on a GPU (sorts, products and solutions of sparse matrices): nothing
goes by way of the host."""

import numpy as np
import pytest
from sessions import CPU_ALONE, session_of, sessions

import quadrants_lab as qd

session = session_of(sessions("cuda"))
DTYPES = ["f32", "f64", "i32", "i64", "u32", "u64"]


@pytest.fixture
def cupy(session):
    return pytest.importorskip("cupy")


def numbers(dtype, n=5000):
    rng, t = np.random.default_rng(n), np.dtype(getattr(qd, dtype).numpy)
    if t.kind == "f":
        return np.concatenate([rng.normal(size=n - 4), [0.0, -0.0, np.inf, -np.inf]]).astype(t)
    return rng.integers(np.iinfo(t).min, np.iinfo(t).max, n, t, endpoint=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(session, cupy, dtype):
    for make in (lambda: qd.field(getattr(qd, dtype), (4, 3)), lambda: qd.Vector.ndarray(3, getattr(qd, dtype), 4)):
        x, y, values = make(), make(), numbers(dtype, 12).reshape(4, 3)
        x.from_numpy(values)
        theirs = x.to_cupy()
        assert type(theirs) is cupy.ndarray
        np.testing.assert_array_equal(cupy.asnumpy(theirs), values)
        theirs += 1
        y.from_cupy(theirs)
        np.testing.assert_array_equal(y.to_numpy(), values + 1)
        np.testing.assert_array_equal(x.to_numpy(), values)
        y.from_cupy(cupy.asarray(values, order="F"))
        np.testing.assert_array_equal(y.to_numpy(), values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts(session, cupy, dtype, monkeypatch):
    x = numbers(dtype)
    keys, values = qd.ndarray(getattr(qd, dtype), len(x)), qd.ndarray(qd.i32, len(x))
    keys.from_numpy(x)
    values.from_numpy(np.arange(len(x), dtype=np.int32))
    monkeypatch.setattr(qd.algorithms, "_sort_by_two_digits", None)  # CuPy sorts
    qd.algorithms.parallel_sort(keys, values)
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(keys.to_numpy(), x[order])
    if dtype not in ("f32", "f64"):  # numpy takes -0 and 0 for equal
        np.testing.assert_array_equal(values.to_numpy(), order)
    keys.from_numpy(x)
    qd.algorithms.parallel_sort(keys)
    np.testing.assert_array_equal(keys.to_numpy(), x[order])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sparse_matrices(session, cupy, dtype, monkeypatch):
    sparse = pytest.importorskip("scipy.sparse")
    n, t = 500, getattr(qd, dtype)
    poisson = sparse.diags([-1.0, 2.5, -1.0], [-1, 0, 1], (n, n))
    A, x = qd.linalg.SparseMatrix(sm=poisson, dtype=t), qd.ndarray(t, n)
    x.from_numpy(np.random.default_rng(0).normal(size=n).astype(t.numpy))
    at_host = A.matrix @ x.to_numpy()
    monkeypatch.setattr("quadrants_lab.lang.sparse_matrix._as_given", None)  # nothing goes by way of the host
    eps = np.finfo(t.numpy).eps
    y = A @ x
    np.testing.assert_allclose(y.to_numpy(), at_host, rtol=8 * eps, atol=8 * eps)
    solution, done = qd.linalg.SparseCG(A, y, max_iter=n, atol=1e-4 if dtype == "f32" else 1e-10).solve()
    assert done
    np.testing.assert_allclose(solution.to_numpy(), x.to_numpy(), atol=1e-3 if dtype == "f32" else 1e-9)
    assert not qd.linalg.SparseCG(A, y, max_iter=2, atol=1e-12).solve()[1]
    A[0, 0] = 7.0  # the copy on the GPU is another one afterwards
    np.testing.assert_allclose((A @ x).to_numpy(), A.matrix @ x.to_numpy(), rtol=8 * eps, atol=8 * eps)


@CPU_ALONE
def test_without_cupy_the_error_says_what_to_install(session, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(ImportError, match="pip install cupy-cuda12x"):
        qd.field(qd.f32, 3).to_cupy()
