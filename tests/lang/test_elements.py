"""Fields and ndarrays of vectors and matrices, from Python, and one entry of every element as a field."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsIndexError

VECTORS = pytest.mark.parametrize("make", [qd.Vector.field, qd.Vector.ndarray], ids=["field", "ndarray"])
MATRICES = pytest.mark.parametrize("make", [qd.Matrix.field, qd.Matrix.ndarray], ids=["field", "ndarray"])

session = session_of(EVERYWHERE)


@VECTORS
def test_elements_write_through(make) -> None:
    x = make(3, qd.f32, shape=(2,))
    x[0] = [1, 2, 3]
    held = x[0]
    held[1] = 5
    held.z = 7
    x[1] = x[0] + 1
    x[1].xy = [8, 9]
    x[1] += [0, 0, 0.5]
    assert x.to_numpy().tolist() == [[1, 5, 7], [8, 9, 8.5]]
    assert held.to_list() == [1, 5, 7]
    assert type(held[0]) is float
    x.fill(0)
    assert held.to_list() == [0, 0, 0]  # it is the memory, not a copy
    held.fill(2)
    assert x[0].x == 2


@MATRICES
def test_matrices(make) -> None:
    x = make(2, 3, qd.i32, shape=(2, 2))
    x[1, 0] = [[1, 2, 3], [4, 5, 6]]
    x[1, 0][0, 1] = 9
    assert x[1, 0].to_list() == [[1, 9, 3], [4, 5, 6]]
    assert (x.shape, x.element_shape, x.n, x.m) == ((2, 2), (2, 3), 2, 3)
    x.fill(qd.Matrix([[1, 2, 3], [4, 5, 6]]))
    assert (x.to_numpy() == [[1, 2, 3], [4, 5, 6]]).all()
    with pytest.raises(QuadrantsIndexError):
        x[0, 0][1]


@VECTORS
@pytest.mark.parametrize("value", [7, [1, 2], [1, 2, 3, 4], [[1, 2, 3]], "abc", [[1], [2, 3]], np.ones((3, 1))])
def test_the_wrong_element_shape_is_an_error(make, value) -> None:
    x = make(3, qd.f32, shape=2)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"has shape \(3,\)"):
        x[0] = value
    assert (x.to_numpy() == 0).all()


def test_indices_are_checked() -> None:
    x = qd.Vector.field(2, qd.f32, shape=3)
    with pytest.raises(qd.QuadrantsAssertionError, match="outside"):
        x[3]
    with pytest.raises(qd.QuadrantsAssertionError, match="outside"):
        x[0][2]
    with pytest.raises(qd.QuadrantsAssertionError, match="outside"):
        x[0][-1] = 1
    with pytest.raises(QuadrantsIndexError, match="one index"):
        x[0, 1]


def test_arithmetic_in_python_neither_wraps_nor_rounds() -> None:
    whole, small, half = (qd.Vector.field(2, dtype, shape=1) for dtype in (qd.i32, qd.u8, qd.f16))
    whole[0], small[0], half[0] = [2_000_000_000, -7], [200, 100], [0.5, 1.0]
    assert (whole[0] * 3).to_list() == [6_000_000_000, -21]
    assert (small[0] + small[0]).to_list() == [400, 200]
    assert (-small[0]).to_list() == [-200, -100]
    assert (half[0] * 1e6).to_list() == [5e5, 1e6]
    third = qd.Vector.ndarray(2, qd.f32, shape=1)
    third[0] = [1 / 3, 0.0]
    assert third[0].norm() == float(np.float32(1 / 3))
    assert (third[0] * 1e-30 * 1e-30).x > 0


def test_iterating_gives_python_numbers() -> None:
    for dtype, kind in ((qd.f32, float), (qd.u8, int), (qd.u1, int)):
        x = qd.Vector.field(2, dtype, shape=1)
        assert [type(v) for v in x[0]] == [kind, kind]
        rows = qd.Matrix.field(2, 1, dtype, shape=1)
        assert [type(v) for row in rows[0] for v in row] == [kind, kind]


def test_numpy_both_ways() -> None:
    x = qd.Matrix.field(2, 1, qd.f32, shape=3)
    assert x.to_numpy().shape == (3, 2)
    assert x.to_numpy(keep_dims=True).shape == (3, 2, 1)
    assert x[0].shape == (2, 1)
    x.from_numpy(np.arange(6).reshape(3, 2))
    x.from_numpy(np.arange(6).reshape(3, 2, 1))
    assert x[2][1, 0] == 5
    v = qd.Vector.field(2, qd.f32, shape=3)
    assert v.to_numpy(keep_dims=True).shape == (3, 2, 1)
    assert v.to_numpy(dtype=qd.f64).dtype == np.float64
    v.copy_from(x)
    assert v[2].y == 5
    with pytest.raises(ValueError, match="shape"):
        v.from_numpy(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="shape"):
        v.copy_from(qd.Vector.field(3, qd.f32, shape=3))


def test_gradients_have_the_same_elements() -> None:
    x = qd.Vector.field(3, qd.f64, shape=2, needs_grad=True, needs_dual=True)
    assert x.grad.element_shape == x.dual.element_shape == (3,)
    assert (x.has_grad(), x.has_dual(), x.grad.has_grad()) == (True, True, False)
    x.grad[1] = [1, 2, 3]
    qd.ad.clear_all_gradients()
    assert (x.grad.to_numpy() == 0).all()
    with pytest.raises(qd.QuadrantsRuntimeError, match="needs_grad"):
        qd.Vector.field(3, qd.i32, shape=2, needs_grad=True)


def test_types_make_fields() -> None:
    vec3 = qd.types.vector(3, qd.f32)
    made = [
        vec3.field(shape=2),
        vec3.ndarray(shape=2),
        qd.field(vec3, 2),
        qd.ndarray(vec3, 2, needs_grad=True),
    ]
    assert [x.element_shape for x in made] == [(3,)] * 4
    assert [type(x) for x in made] == [qd.MatrixField, qd.VectorNdarray] * 2
    assert type(qd.ndarray(qd.types.matrix(2, 2, qd.f32), ())) is qd.MatrixNdarray
    for bad in (qd.types.vector(3), qd.types.struct(a=qd.f32)):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match="elements of a field"):
            qd.field(bad, 2)


def test_one_entry_of_every_element() -> None:
    x = qd.Matrix.field(2, 2, qd.f32, shape=3)
    x.from_numpy(np.arange(12).reshape(3, 2, 2))
    entry = x.get_scalar_field(1, 0)
    assert entry.to_numpy().tolist() == [2, 6, 10]
    entry[0] = 7
    assert x[0][1, 0] == 7
    entry.fill(1)
    assert x.to_numpy()[:, 1, 0].tolist() == [1, 1, 1]
    assert (entry.shape, entry.dtype) == ((3,), qd.f32)
    with pytest.raises(IndexError):
        x.get_scalar_field(2, 0)


def test_entries_in_kernels():
    v = qd.Vector.field(3, qd.f32, 4, offset=-1, needs_grad=True)
    m = qd.Matrix.field(2, 2, qd.f32, 4, offset=-1)
    v1, m10 = v.get_scalar_field(1), m.get_scalar_field(1, 0)
    loss = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def k():
        for i in v1:
            v1[i] += i
            m10[i] = v1[i] * 2

    @qd.kernel
    def sum_squares():
        for i in v1:
            loss[None] += v1[i] * v1[i]

    k()
    assert v.to_numpy()[:, 1].tolist() == [-1, 0, 1, 2]
    assert m.to_numpy()[:, 1, 0].tolist() == [-2, 0, 2, 4]
    assert v.to_numpy().sum() == 2
    with qd.ad.Tape(loss):
        sum_squares()
    assert v.grad.to_numpy()[:, 1].tolist() == [-2, 0, 2, 4]
    assert v1.grad.to_numpy().tolist() == [-2, 0, 2, 4]


def test_entries_as_templates():
    @qd.kernel
    def fill(x: qd.template(), to: qd.f32):
        for i in x:
            x[i] = to
    v = qd.Vector.field(2, qd.f32, 3)
    for k in range(2):
        fill(v.get_scalar_field(k), k + 1)
    fill(v.get_scalar_field(0), 5)
    assert v.to_numpy().tolist() == [[5, 2]] * 3
    assert v.get_scalar_field(0) == v.get_scalar_field(0) != v.get_scalar_field(1)


@pytest.mark.parametrize("annotation", [
    qd.types.ndarray(dtype=qd.f32, element_dim=1),
    qd.types.ndarray(element_dim=1),
    qd.types.ndarray(dtype=qd.f32, element_shape=(3,)),
    qd.types.ndarray(dtype=qd.types.vector(3, qd.f32, unpacked=True)),
])
def test_elements_in_annotations(annotation):
    def k(x):
        for i in range(x.shape[0]):
            x[i][1] = 1.0
    k.__annotations__ = {"x": annotation}
    kernel = qd.kernel(k)
    x, y = np.zeros((2, 3), np.float32), qd.Vector.ndarray(3, qd.f32, 2)
    kernel(x)
    kernel(y)
    assert x.tolist() == y.to_numpy().tolist() == [[0, 1, 0]] * 2
    for bad in (qd.ndarray(qd.f32, 2), qd.Matrix.ndarray(3, 3, qd.f32, 2)):
        with pytest.raises(ValueError, match="QL2047"):
            kernel(bad)


def test_contradictory_annotations_are_errors():
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL2020"):
        qd.types.ndarray(dtype=qd.math.vec3, element_dim=1)


def test_element_types():
    assert qd.ndarray(qd.f32, 3).element_type is qd.f32
    assert qd.Vector.ndarray(3, qd.f32, 2).element_type == qd.types.vector(3, qd.f32)
    assert qd.Matrix.ndarray(3, 2, qd.i32, 2).element_type == qd.types.matrix(3, 2, qd.i32)
