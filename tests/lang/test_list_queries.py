"""What kernels ask of lists, tuples and vectors: the extremes of their entries, whether a number is among them, whether
there are any. Python is the reference."""

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd

session = session_of(sessions("cpu"), default_fp=qd.f64)  # lists are gone in the IR, which all backends take
X = np.array([0.5, 3.5, -2.0, 7.0])
FIVE, EMPTY = (1, 2, 3, 5), ()


def greatest(v, k):
    return max([v, 2.0 * k, 1.0]) + max((v, 3.0))


def least_of_many(v, k):
    return min([v * j for j in range(1, 4)]) + min([k, 2])


def among(v, k):
    a = [k, 7]
    if 2 in a:
        return v
    return v * v if k not in (1, 9) else 1.0


def among_constants(v, k):
    found = 0.0
    if k in FIVE:
        found += v
    if k not in {2: 0.0, 3: 1.0}:
        found += 10.0 * v
    if 4 in FIVE or 5 not in FIVE or k in EMPTY:
        found += 100.0
    return found


def any_entries(v, k):
    a, b, found = [v], [], {"v": v}
    if a:
        v += a[-1]
    if b:
        v += b[-1]
    if not b:
        v *= 2.0
    if not a:
        v = 0.0
    return v if found else b[0]


@pytest.mark.parametrize("fn", [greatest, least_of_many, among, among_constants, any_entries], ids=lambda f: f.__name__)
def test_python_is_the_reference(fn):
    x, y = (qd.field(qd.f64, shape=4, needs_grad=True) for _ in range(2))
    inlined = qd.func(fn)
    @qd.kernel
    def each():
        for i in x:
            y[i] = inlined(x[i], i)
    x.from_numpy(X)
    each()
    np.testing.assert_allclose(y.to_numpy(), [fn(float(v), k) for k, v in enumerate(X)], rtol=1e-12)
    y.grad.fill(1.0)
    each.grad()
    slopes = [(fn(float(v) + 1e-6, k) - fn(float(v) - 1e-6, k)) / 2e-6 for k, v in enumerate(X)]
    np.testing.assert_allclose(x.grad.to_numpy(), slopes, rtol=1e-6)


def test_vectors_have_extremes_and_members():
    @qd.kernel
    def of(v: qd.types.vector(3, qd.f64), w: qd.types.vector(3, qd.f64)) -> qd.types.vector(5, qd.f64):
        pairs = max([v, w])
        return qd.Vector([max(v), min(v), 1.0 * (2.0 in v), 1.0 * (9.0 not in w), max(pairs)])
    np.testing.assert_array_equal(of([1, 2, 3], [4, 0, 9]), [3, 1, 1, 0, 9])


def test_the_greatest_of_no_entries_is_an_error():
    @qd.kernel
    def none() -> qd.f64:
        return max([])
    with pytest.raises(qd.QuadrantsCompilationError, match=r"QL1604.*'max\(\[\]\)' cannot be called"):
        none()
