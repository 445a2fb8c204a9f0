"""Views: runs of elements of an ndarray as arguments of kernels."""

import numpy as np
import pytest
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)


@qd.func
def scale(v, i, by):
    v[i] *= by + v.shape[0]

@qd.kernel
def scaled(v: qd.BufferView[qd.f32], by: qd.f32):
    for i in range(v.size):
        scale(v, i, by)

@qd.kernel
def weighted(v: qd.BufferView, w: qd.types.BufferViewType(qd.f32), y: qd.template()):
    for i in range(v.size):
        y[None] += v[i] * v[i] * w[v.size - 1 - i]


def array(values, **how):
    made = qd.ndarray(qd.f32, len(values), **how)
    made.from_numpy(np.array(values, np.float32))
    return made


def test_a_kernel_sees_a_part():
    a = array(np.ones(8))
    for _ in range(2):
        scaled(a[2:5], 1.0)
    scaled(a[:], 2.0)
    scaled(a[4:4], 7.0)
    assert a.to_numpy().tolist() == [10, 10, 160, 160, 160, 10, 10, 10]


def test_gradients_go_to_the_elements_of_the_array():
    a, b = (array(values, needs_grad=True) for values in ([1, 2, 3, 4, 5], [0.5, 2, 4, 8]))
    y = qd.field(qd.f32, (), needs_grad=True)
    with qd.ad.Tape(y):
        weighted(a[1:4], b[1:4].subview(0, 3), y)
    assert y[None] == 4 * 8 + 9 * 4 + 16 * 2
    assert a.grad.to_numpy().tolist() == [0, 2 * 2 * 8, 2 * 3 * 4, 2 * 4 * 2, 0]
    assert b.grad.to_numpy().tolist() == [0, 16, 9, 4]


@CPU_ALONE
def test_views_of_views(session):
    a = array(range(10))
    v = a[2:8]
    w = v[1:].subview(1, 2)
    assert (v.offset, v.size, v.shape, w.offset, w.size) == (2, 6, (6,), 4, 2)
    assert w.get_ndarray() is a
    assert qd.BufferView(a, 4, 2) == w
    for wrong, what in (
        (lambda: v.subview(5, 2), "out of range: offset=5, size=2, parent size=6"), (lambda: a[::2], "step 1, not 2"),
        (lambda: qd.BufferView(a, -1, 2), "out of range"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=what):
            wrong()
    with pytest.raises(TypeError, match="sliced outside of kernels"):
        v[0]
    for wrong in (lambda: qd.BufferView(qd.ndarray(qd.f32, (2, 2)), 0, 1), lambda: scaled(a, 1.0)):
        with pytest.raises(TypeError, match="QL2133|QL2051"):
            wrong()
    with pytest.raises((TypeError, IndexError)):
        qd.ndarray(qd.f32, (2, 2))[0:1]
