"""Factorisations of matrices: what the factors satisfy, their gradients, and matrices that are hard."""

import numpy as np
import pytest
from lang.test_matrix_algebra import RNG, check, differences, draw, launch, wide
from running import define

import quadrants_lab as qd

# --- factorisations: what the factors have to satisfy, and gradients of what does not depend on their signs

def numpy_svd(a):
    """numpy's factors with the conventions of `qd.svd`."""
    u, s, vt = np.linalg.svd(a)
    v = vt.T
    n = len(a)
    if np.linalg.det(v) < 0:
        v[:, -1] *= -1
        u[:, -1] *= -1
    if n == 3 and np.linalg.det(u) < 0:
        u[:, -1] *= -1
        s[-1] *= -1
    return u, s, v


def polar(a):
    u, s, v = numpy_svd(a)
    return u @ v.T, v @ np.diag(s) @ v.T


def spd(a):
    w, q = np.linalg.eigh((a + a.T) / 2)
    return q @ np.diag(np.maximum(w, 0)) @ q.T


def symmetric(a):
    return (a + a.T) / 2


def parts(u, s, v):
    """What does not change with the signs of the columns: S, and the outer product of each pair of columns."""
    return (s, *(np.outer(u[:, k], v[:, k]) @ np.ones(len(s)) for k in range(2)))


SVD = """
u, s, v = qd.svd(a)
r0 = qd.Vector([{diagonal}])
r1 = u[:, 0].outer_product(v[:, 0]) @ qd.Vector.one(float, {n})
r2 = u[:, 1].outer_product(v[:, 1]) @ qd.Vector.one(float, {n})
"""


def expanded(n):
    return SVD.format(diagonal=", ".join(f"s[{k}, {k}]" for k in range(n)), n=n)


@pytest.mark.parametrize("n", [2, 3])
def test_svd(n):
    a = np.concatenate([wide(n), wide(n), draw(n, n)])
    check("a: " + expanded(n), lambda x: parts(*numpy_svd(x)), [a], tol=1e-11, gtol=1e-5)


@pytest.mark.parametrize("n", [2, 3])
def test_polar_decompose(n):
    """Singular values may be equal, or nearly equal."""
    turn = np.linalg.qr(draw(n, n, count=1)[0])[0]
    a = np.concatenate([wide(n), np.eye(n)[None], 2 * turn[None], (turn + 1e-7 * draw(n, n, count=1)[0])[None]])
    check("a: qd.polar_decompose(a)", polar, [a], tol=1e-11, gtol=1e-5)


EIGEN = """
w, q = qd.sym_eig(a)
r0 = w
r1 = q[:, 0].outer_product(q[:, 0]) @ qd.Vector.one(float, {n})
r2 = q[:, {last}].outer_product(q[:, {last}]) @ qd.Vector.one(float, {n})
"""


def eigen_parts(a):
    w, q = np.linalg.eigh(symmetric(a))
    return (w, *(np.outer(q[:, k], q[:, k]) @ np.ones(len(w)) for k in (0, -1)))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_sym_eig(n):
    """The gradient of the result is symmetric."""
    base = np.diag(np.arange(n) - 1.3)
    a = base + 0.3 * draw(n, n)
    check("a: " + EIGEN.format(n=n, last=n - 1), eigen_parts, [a], tol=1e-11, gtol=1e-5)


@pytest.mark.parametrize("n", [3, 4])
def test_make_spd(n):
    """Some eigenvalues are equal."""
    a = np.concatenate([draw(n, n), np.eye(n)[None], -np.eye(n)[None]])
    check("a: qd.make_spd(a)", spd, [a], tol=1e-11, gtol=1e-5)


EIG = """
w, x = qd.eig(a)
r0 = w
r1 = qd.Vector([x[0, 0] * x[2, 0] + x[1, 0] * x[3, 0], x[1, 0] * x[2, 0] - x[0, 0] * x[3, 0]])
r2 = qd.Vector([x[0, 1] * x[2, 1] + x[1, 1] * x[3, 1], x[1, 1] * x[2, 1] - x[0, 1] * x[3, 1]])
"""


def eig_parts(a):
    w, x = np.linalg.eig(a.astype(complex))
    order = sorted(range(2), key=lambda k: (-w[k].imag, -w[k].real) if abs(w[k].imag) > 1e-12 else (0, -w[k].real))
    w, x = w[order], x[:, order]
    product = [x[0, k] * np.conj(x[1, k]) for k in range(2)]
    return (np.stack([w.real, w.imag], 1), *(np.array([p.real, p.imag]) for p in product))


def test_eig():
    a = np.concatenate([draw(2, 2, count=8), [[[0.0, -1.0], [1.0, 0.0]]], [[[1.0, 2.0], [0.5, 3.0]]]])
    check("a: " + EIG, eig_parts, [a], tol=1e-11, gtol=1e-5)


@pytest.mark.parametrize("size", [1e-30, 1e25], ids=str)
def test_eigenvalues_of_tiny_and_huge_matrices(size):
    """The squares of the entries are beyond the range of the dtype."""
    a = np.array([[[1.0, 2.0], [2.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]])
    seed = np.array([[1.0, 0.0], [2.0, 0.0]])
    (w, x), grads = launch("a: qd.eig(a)", [size * a], [(2, 2), (4, 2)], [seed, np.zeros((4, 2))], qd.f32)
    _, plain = launch("a: qd.eig(a)", [a], [(2, 2), (4, 2)], [seed, np.zeros((4, 2))], qd.f32)
    np.testing.assert_allclose(w / size, [[[3, 0], [-1, 0]], [[0, 1], [0, -1]], [[1, 0], [1, 0]]], atol=1e-6)
    np.testing.assert_allclose((x**2).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(grads[0], plain[0], atol=1e-6)


@qd.kernel
def narrow_factors(a: qd.types.matrix(2, 2, qd.f32)) -> qd.types.matrix(2, 2, qd.f64):
    _, _, v = qd.svd(a, qd.f32)
    return v


@pytest.mark.filterwarnings("error")
def test_svd_of_a_dtype_that_is_not_the_default():
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    v = narrow_factors([[1, 2], [3, 4]]).to_numpy()
    np.testing.assert_allclose(v.T @ v, np.eye(2), atol=1e-12)


def test_matrices_whose_reciprocal_is_denormal():
    a = 3e38 * np.array([[[1.0, 0.0], [0.0, -0.5]]])
    (_, s, _), _ = launch("a: qd.svd(a)", [a], [(2, 2)] * 3, [np.ones((2, 2))] * 3, qd.f32)
    np.testing.assert_allclose(np.diag(s[0]) / 3e38, [1, 0.5], rtol=1e-6)
    (w, _), _ = launch("a: qd.sym_eig(0.5 * a)", [a], [(2,), (2, 2)], [np.ones(2), np.ones((2, 2))], qd.f32)
    np.testing.assert_allclose(w[0] / 3e38, [-0.25, 0.5], rtol=1e-6)


def test_roots_on_the_cut_have_no_negative_real_part():
    z = np.array([[-1.0, 0.0], [-4.0, 0.0], [0.0, 2.0], [-1.0, 1e-30], [-3.0, -4.0]])
    (w,), _ = launch("z: qd.math.csqrt(z)", [z], [(2,)], [np.ones(2)], qd.f32)
    right = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [5e-31, 1.0], [1.0, -2.0]])
    np.testing.assert_allclose(w, right, rtol=2.5e-7)  # two units in the last place


# --- what is hard: singular, equal, tiny and huge

def hard(n):
    rng = np.random.default_rng(11)

    def orthogonal():
        return np.linalg.qr(rng.normal(size=(n, n)))[0]

    special = [np.zeros((n, n)), np.eye(n), -np.eye(n), np.ones((n, n)), np.diag(np.arange(n) - 1.0), np.eye(n)[::-1]]
    special += [np.outer(rng.normal(size=n), rng.normal(size=n)) for _ in range(20)]
    special += [rng.normal(size=(n, n)) * 10.0 ** rng.integers(-15, 15) for _ in range(40)]
    special += [np.eye(n) + 10.0**-k * rng.normal(size=(n, n)) for k in range(3, 9)]
    special += [orthogonal() @ np.diag(10.0 ** rng.uniform(-9, 0, n)) @ orthogonal() for _ in range(80)]
    return np.array(special)


@pytest.mark.parametrize("fp", [qd.f64, qd.f32], ids=str)
@pytest.mark.parametrize("n", [2, 3])
def test_factors_to_machine_precision(n, fp):
    a = hard(n).astype(fp.numpy).astype(np.float64)
    size = np.abs(a).max(axis=(1, 2), keepdims=True) + 1e-300
    eps = np.finfo(fp.numpy).eps
    ones = [np.ones((n, n))] * 3

    def turned(x):
        return x.transpose(0, 2, 1)

    def close(got, want):
        assert np.abs(got - want).max() < 20 * eps

    (u, s, v), grads = launch("a: qd.svd(a)", [a], [(n, n)] * 3, ones, fp)
    close((u @ s @ turned(v)) / size, a / size)
    close(turned(u) @ u, np.eye(n))
    close(turned(v) @ v, np.eye(n))
    close(np.linalg.det(v), 1)
    sizes = np.abs(np.einsum("kii->ki", s))
    assert (np.diff(sizes) <= 0).all()
    close(sizes / size[:, 0], np.linalg.svd(a)[1] / size[:, 0])
    if n == 3:
        close(np.linalg.det(u), 1)
    assert np.isfinite(grads[0]).all()

    (r, p), grads = launch("a: qd.polar_decompose(a)", [a], [(n, n)] * 2, ones[:2], fp)
    close((r @ p) / size, a / size)
    close(turned(r) @ r, np.eye(n))
    close(p / size, turned(p) / size)
    assert np.isfinite(grads[0]).all()


@pytest.mark.parametrize("fp", [qd.f64, qd.f32], ids=str)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_eigenvectors_to_machine_precision(n, fp):
    a = hard(n).astype(fp.numpy).astype(np.float64)
    a = (a + a.transpose(0, 2, 1)).astype(fp.numpy).astype(np.float64)
    size = np.abs(a).max(axis=(1, 2), keepdims=True) + 1e-300
    eps = np.finfo(fp.numpy).eps
    (w, q), grads = launch("a: qd.sym_eig(a)", [a], [(n,), (n, n)], [np.ones(n), np.ones((n, n))], fp)
    assert np.abs((q * w[:, None, :]) @ q.transpose(0, 2, 1) / size - a / size).max() < 40 * eps
    assert np.abs(q.transpose(0, 2, 1) @ q - np.eye(n)).max() < 20 * eps
    assert np.abs((w - np.linalg.eigvalsh(a)) / size[:, 0]).max() < 30 * eps
    assert (np.diff(w) >= 0).all()
    assert np.isfinite(grads[0]).all()
    (d,), grads = launch("a: qd.make_spd(a)", [a], [(n, n)], [np.ones((n, n))], fp)
    assert (np.linalg.eigvalsh(d) / size[:, 0]).min() > -30 * eps
    assert np.isfinite(grads[0]).all()


def test_lengths_of_zeros_have_derivative_zero():
    zero = np.zeros((1, 3))
    kinks = [
        ("a: a.norm()", ()), ("a: qd.math.length(a)", ()), ("a: qd.math.distance(a, a)", ()),
        ("a: a.normalized()", (3,)), ("a: qd.math.csqrt(a.xy)", (2,)), ("a: qd.math.cpow(a.xy, 2.0)", (2,)),
    ]  # fmt: skip
    for text, shape in kinks:
        values, grads = launch(text, [zero], [shape], [np.ones(shape)])
        assert not np.any(values[0]), text
        assert not np.any(grads[0]), text


def test_refraction_decides_before_it_takes_the_root():
    x, n = np.array([[0.8, -0.6, 0.0]]), np.array([[0.0, 1.0, 0.0]])
    values, grads = launch("x, n: qd.math.refract(x, n, 1.7)", [x, n], [(3,)], [np.ones(3)])
    assert not np.any(values[0])
    assert not any(np.any(g) for g in grads)


def test_eigenvectors_of_repeated_eigenvalues():
    defective = [[[2.0, 1.0], [0.0, 2.0]], [[2.0, 0.0], [3.0, 2.0]]]
    a = np.array([np.eye(2), *defective, [[1.0, 0.0], [0.0, 3.0]], np.zeros((2, 2))])
    (w, x), grads = launch("a: qd.eig(a)", [a], [(2, 2), (4, 2)], [np.ones((2, 2)), np.zeros((4, 2))])
    for k in range(len(a)):
        for j in range(2):
            vector = x[k, ::2, j]
            assert np.linalg.norm(vector) == pytest.approx(1)
            np.testing.assert_allclose(a[k] @ vector, w[k, j, 0] * vector, atol=1e-12)
    assert np.isfinite(grads[0]).all()


def test_singular_systems_and_inverses_are_not_numbers():
    a = np.array([[[1.0, 2.0], [2.0, 4.0]]])
    (inverse,), _ = launch("a: a.inverse()", [a], [(2, 2)])
    (x,), _ = launch("a, b: qd.solve(a, b)", [a, np.array([[1.0, 3.0]])], [(2,)])
    assert not np.isfinite(inverse).any()
    assert not np.isfinite(x).any()


def test_dtype_that_is_asked_for():
    a = wide(3).astype(np.float32).astype(np.float64)
    qd.init(arch=qd.cpu, default_fp=qd.f32)
    x, out = qd.Matrix.field(3, 3, qd.f32, shape=4), qd.Matrix.field(3, 3, qd.f64, shape=4)
    x.from_numpy(a.astype(np.float32))
    body = "u, s, v = qd.svd(x[i], qd.f64)\n        out[i] = u @ s @ v.transpose()\n"
    made = define(f"def kernel():\n    for i in x:\n        {body}")
    made["kernel"].__globals__.update(x=x, out=out, qd=qd)
    qd.kernel(made["kernel"])()
    np.testing.assert_allclose(out.to_numpy(), a, rtol=1e-14, atol=1e-14)


def test_normal_random_numbers():
    qd.init(arch=qd.cpu, default_fp=qd.f64, random_seed=3)
    out = qd.field(qd.f64, shape=100_000)
    made = define("def kernel():\n    for i in out:\n        out[i] = qd.randn()\n")
    made["kernel"].__globals__.update(out=out, qd=qd)
    qd.kernel(made["kernel"])()
    x = out.to_numpy()
    moments = [np.mean(x**k) for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.1)
    assert np.isfinite(x).all()


STEPS = """
for _ in range(3):
    u, s, v = qd.svd(a)
    a = u @ (s * 0.5 + s * s * 0.25) @ v.transpose() + a.transpose() * 0.125
r0 = a
"""


def stepped(a):
    for _ in range(3):
        u, s, v = numpy_svd(a)
        a = u @ np.diag(s * 0.5 + s * s * 0.25) @ v.T + a.T * 0.125
    return a


@pytest.mark.parametrize("n", [2, 3])
def test_gradients_through_factors_in_a_loop(n):
    inputs, weights = [wide(n)], [RNG.uniform(-1, 1, (n, n))]
    (got,), (grad,) = launch("b: a = b" + STEPS, inputs, [(n, n)], weights)
    for k, a in enumerate(inputs[0]):
        np.testing.assert_allclose(got[k], stepped(a), rtol=1e-11, atol=1e-11)
        want = differences(stepped, [a], weights)[0]
        np.testing.assert_allclose(grad[k], want, atol=1e-5 * max(1, np.abs(want).max()))


def test_forward_mode_through_factors():
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    a, way = wide(3, 1)[0], RNG.uniform(-1, 1, (3, 3))
    x = qd.field(qd.f64, shape=(3, 3), needs_dual=True)
    y = qd.field(qd.f64, shape=(), needs_dual=True)
    x.from_numpy(a)
    rows = ", ".join(f"[{', '.join(f'x[{i}, {j}]' for j in range(3))}]" for i in range(3))
    body = f"        r, p = qd.polar_decompose(qd.Matrix([{rows}]))\n        y[None] = r[0, 1] + p[1, 2]\n"
    made = define("def kernel():\n    for _ in range(1):\n" + body)
    made["kernel"].__globals__.update(x=x, y=y, qd=qd)
    kernel = qd.kernel(made["kernel"])
    with qd.ad.FwdMode(loss=y, param=x, seed=way.reshape(-1).tolist()):
        kernel()

    def value(step):
        r, p = polar(a + step * way)
        return r[0, 1] + p[1, 2]

    assert y.dual[None] == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-6)
