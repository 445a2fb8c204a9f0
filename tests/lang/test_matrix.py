"""Vectors and matrices outside of kernels."""

import copy
import pickle

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd

session = session_of(sessions("cpu"))

V, W = [1, 2, 3], [1.5, 2.0, -3.0]


def test_made_from_sequences_arrays_and_values():
    assert qd.Vector(V).to_list() == V
    assert qd.Vector((1, 2)).to_list() == [1, 2]
    assert qd.Vector(np.array(W), qd.f32).to_numpy().dtype == np.float32
    assert qd.Vector([1.0, -2.0], dt=qd.i32).to_list() == [1, -2]
    assert qd.Vector([1.5, -2.5]).cast(qd.i32).to_list() == [1, -2]
    assert qd.Vector([-1]).cast(qd.u8).to_list() == [255], "wraps as in a kernel"
    assert qd.Matrix([[1, 2], [3, 4]]).to_list() == [[1, 2], [3, 4]]
    assert qd.Matrix([qd.Vector(V), qd.Vector(V)]).shape == (2, 3)
    assert isinstance(qd.Matrix(V), qd.Vector)
    assert isinstance(qd.Vector(V), qd.Matrix)
    for bad in (3, "abc", [[1, 2], [3]], ["a"], [[[1]]]):
        with pytest.raises(qd.QuadrantsTypeError, match="QL2111"):
            qd.Vector(bad)


def test_shape_and_dtype():
    v, m = qd.Vector(V), qd.Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], qd.f64)
    assert (v.n, v.m, v.ndim, v.shape, v.get_shape(), len(v), v.dtype) == (3, 1, 1, (3,), (3,), 3, None)
    assert (m.n, m.m, m.ndim, m.shape, len(m), m.dtype) == (2, 3, 2, (2, 3), 2, qd.f64)
    assert (qd.Vector(V, qd.f32) + 1).dtype is qd.f32
    assert (v + 1).dtype is None


def test_elements_are_read_and_written():
    v, m = qd.Vector(W), qd.Matrix([[1, 2], [3, 4]])
    assert (v[0], v[-1], v.x, v.zy.to_list(), v.rgb.to_list()) == (1.5, -3.0, 1.5, [-3.0, 2.0], W)
    assert (v.stp.to_list(), v[0:2].to_list(), m[0, 1], m[0, :].to_list()) == (W, W[:2], 2, [1, 2])
    v.x = 5
    v.zy = [7, 8]
    v[0] += 1
    assert v.to_list() == [6, 8, 7]
    m[0, 1] = 9
    assert list(m) == [[1, 9], [3, 4]]
    m.fill(2)
    assert m.to_list() == [[2, 2], [2, 2]]
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL2113"):
        v.w  # noqa: B018
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL2113"):
        v.xx = [1, 2]
    with pytest.raises(AttributeError):
        v.xr  # noqa: B018
    for value, name in ((v, "X"), (v, "n"), (m, "x")):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)
    with pytest.raises(IndexError, match="QL2112"):
        m[0]
    with pytest.raises(IndexError):
        v[3]


def test_arithmetic_is_that_of_numpy():
    a, b, n = np.array(V), np.array(W), np.array([[1, 2], [3, 4]])
    v, w, m = qd.Vector(V), qd.Vector(W), qd.Matrix([[1, 2], [3, 4]])
    same = [
        (v + w, a + b), (v * 2, a * 2), (2 - v, 2 - a), (2 / v, 2 / a), (v / 2, a / 2), (w // 2, b // 2),
        (v % 2, a % 2), (v**2, a**2), (2**v, 2**a), (-v, -a), (abs(w), abs(b)), (v & 1, a & 1), (v | 4, a | 4),
        (v ^ 1, a ^ 1), (v << 1, a << 1), (v >> 1, a >> 1), (~v, ~a), (v == w, a == b), (v < w, a < b),
        (v != 3, a != 3),
        (m @ m, n @ n), (m @ qd.Vector([1, 2]), n @ [1, 2]), (qd.Vector([1, 2]) @ m, [1, 2] @ n), (v @ v, a @ a),
        (a + w, a + b), (v + V, a + V), (V + v, a + V), (np.float64(2) * v, 2 * a), (m + 1, n + 1),
    ]  # fmt: skip
    for k, (got, want) in enumerate(same):
        np.testing.assert_array_equal(np.asarray(got), want, err_msg=str(k))
        assert isinstance(got, qd.Matrix) or np.ndim(want) == 0, k
    u = v
    u += 1
    assert v.to_list() == V
    with pytest.raises(qd.QuadrantsTypeError, match="QL2110"):
        v + m
    with pytest.raises(qd.QuadrantsTypeError, match="QL2110"):
        m @ v


def test_methods_are_numpys():
    a, b = np.array(V), np.array(W)
    v, w = qd.Vector(V), qd.Vector(W)
    m = qd.Matrix([[1.0, 2.0], [3.0, 5.0]])
    n = m.to_numpy()
    same = [
        (v.sum(), 6), (w.max(), 2.0), (w.min(), -3.0), (v.norm(), np.linalg.norm(a)), (v.norm_sqr(), 14),
        (v.norm(1.0), np.sqrt(15)), (v.norm_inv(), 1 / np.sqrt(14)), (w.normalized(), b / np.linalg.norm(b)),
        (w.normalized(1.0), b / (np.linalg.norm(b) + 1)), (v.dot(w), a @ b), (v.cross(w), np.cross(a, b)),
        (qd.Vector([1, 2]).cross(qd.Vector([3, 4])), -2), (v.outer_product(w), np.outer(a, b)), (m.trace(), 6.0),
        (m.transpose(), n.T), (m.determinant(), -1.0), (m.inverse(), np.linalg.inv(n)), (m.frobenius_inner(m), 39.0),
        (v.cast(qd.f32), a), (w.cast(int), [1, 2, -3]), (qd.Vector([0.0, 0.0]).normalized(), [0.0, 0.0]),
    ]  # fmt: skip
    for k, (got, want) in enumerate(same):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12, err_msg=str(k))
    assert v.any()
    assert not qd.Vector([0, 1]).all()
    assert np.isnan(qd.Matrix([[1.0, 1.0], [1.0, 1.0]]).inverse().to_numpy()).all()
    for bad in (lambda: v.transpose(), lambda: v.trace(), lambda: v.dot(qd.Vector([1])), lambda: m.cross(m)):
        with pytest.raises(qd.QuadrantsTypeError, match="QL2110"):
            bad()


def test_constructors():
    assert qd.Matrix.zero(qd.f32, 2, 3).to_list() == [[0.0] * 3] * 2
    assert qd.Vector.one(int, 2).dtype is qd.i32
    assert qd.Vector.unit(3, 1).to_list() == [0, 1, 0]
    assert qd.Matrix.identity(qd.f64, 2).to_list() == [[1.0, 0.0], [0.0, 1.0]]
    assert qd.Matrix.diag(2, 2.5).to_list() == [[2.5, 0.0], [0.0, 2.5]]
    assert qd.Matrix.rows([qd.Vector(V), W]).to_list() == [V, W]
    assert qd.Matrix.cols([V, W]).shape == (3, 2)
    with pytest.raises(qd.QuadrantsTypeError, match="QL2110"):
        qd.Vector.unit(3, 3)


def test_the_place_of_the_one_in_a_unit_vector_may_be_computed():
    @qd.kernel
    def axes() -> qd.types.matrix(3, 3, qd.f32):
        m, plain = qd.Matrix.zero(qd.f32, 3, 3), 0
        qd.loop_config(serialize=True)
        for i in range(3):
            m += qd.Vector.unit(3, (i + 1) % 3, qd.f32).outer_product(qd.Vector([1.0, 2.0, 3.0]) * i)
            plain += qd.Vector.unit(3, i)[i] // 1
        m[0, 0] += plain
        return m
    assert axes().to_list() == [[5.0, 4.0, 6.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]


def test_numpys_and_the_languages_functions_give_values():
    w = qd.Vector(W)
    same = [
        (qd.sin(w), np.sin(W)), (qd.max(w, 1), [1.5, 2, 1]), (qd.floor(w), [1, 2, -3]), (np.exp(w), np.exp(W)),
        (qd.floor(w, qd.i32), [1, 2, -3]), (qd.cast(w, qd.i32), [1, 2, -3]), (qd.abs(w), np.abs(W)),
        (qd.select(w > 0, w, 0), [1.5, 2, 0]), (qd.pow(w, 2), np.square(W)),
        *zip(qd.frexp(w), np.frexp(W), strict=True), *zip(divmod(w, 2), divmod(np.array(W), 2), strict=True),
    ]  # fmt: skip
    for got, want in same:
        assert isinstance(got, qd.Vector)
        np.testing.assert_allclose(got.to_numpy(), want)


def test_copies_and_pickles_are_values_of_their_own():
    x = qd.Vector.field(2, qd.f32, shape=1)
    s = qd.types.struct(at=qd.types.vector(2, qd.f32))(at=[1, 2])
    for value in (qd.Vector([1, 2], qd.f32), qd.Matrix([[1, 2]], qd.i32), x[0], s.at, qd.Vector(V)):
        for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert (again.to_list(), again.dtype) == (value.to_list(), value.dtype)
            again.fill(7)
            assert value.to_list() != again.to_list()
    assert copy.deepcopy(s).to_dict() == s.to_dict()


def test_printing():
    assert str(qd.Vector(V)) == "[1 2 3]"
    assert repr(qd.Matrix([[1, 2], [3, 4]])) == "[[1 2]\n [3 4]]"


def test_types():
    vec, mat = qd.types.vector(3, qd.f64), qd.types.matrix(2, 3, int)
    assert vec(1).to_list() == [1.0] * 3
    assert (vec(1, 2, 3).dtype, mat(1).dtype) == (qd.f64, qd.i32)
    assert qd.math.vec4(qd.math.vec2(1, 2), 3, [4]).to_list() == [1.0, 2.0, 3.0, 4.0]
    assert qd.math.vec3(1).dtype is qd.f32
    assert qd.math.uvec2(1, 2**32 - 1).to_list() == [1, 2**32 - 1]
    assert qd.math.mat2(1, 2, 3, 4).to_list() == [[1, 2], [3, 4]] == qd.math.mat2([1, 2], qd.math.vec2(3, 4)).to_list()
    assert (vec.shape, mat.shape, mat.n, mat.m, vec.ndim) == ((3,), (2, 3), 2, 3, 1)
    assert vec == qd.types.vector(3, qd.f64)
    assert (repr(vec), repr(mat)) == ("qd.types.vector(3, f64)", "qd.types.matrix(2, 3, int)")
    assert mat.rebuild([1, 2, 3, 4, 5, 6]).to_list() == [[1, 2, 3], [4, 5, 6]]
    for bad in (lambda: vec(1, 2), lambda: qd.types.vector()(1), lambda: mat([1, 2])):
        with pytest.raises(qd.QuadrantsTypeError, match="QL2114"):
            bad()
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL2114"):
        vec()
    for n in (0, -1, 2.5, "a"):
        with pytest.raises(qd.QuadrantsTypeError, match="QL2114.*not a number of rows"):
            qd.types.vector(n, qd.f32)
        with pytest.raises(qd.QuadrantsTypeError, match="QL2114.*not a number of rows"):
            qd.types.matrix(2, n, qd.f32)


def test_session_defaults_hold_when_a_value_is_made():
    qd.init(arch=qd.cpu, default_fp=qd.f64, default_ip=qd.i64)
    assert (qd.math.vec2(1).dtype, qd.math.ivec2(1).dtype) == (qd.f64, qd.i64)
