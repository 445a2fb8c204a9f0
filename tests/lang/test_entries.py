"""One entry of every element as a field; what is said of elements in annotations and types."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)


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
