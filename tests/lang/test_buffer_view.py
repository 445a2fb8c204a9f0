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


@qd.func
def declared(v: qd.BufferView[qd.f32], i: qd.i32, by: qd.f32):
    v[i] = by

@qd.func
def declared_of_any(v: qd.BufferView[None], i, by):
    declared(v, i, by)

@qd.func
def undeclared(v, i, by):
    v[i] += by

@qd.kernel
def through_funcs(v: qd.BufferView[qd.f32], at: qd.i32):
    for i in range(v.size):
        if i == 0:
            declared_of_any(v, at, 7.0)

@qd.kernel
def added(v: qd.BufferView, at: qd.i32):
    for i in range(v.size):
        if i == 1:
            undeclared(v, at, 7.0)

@qd.kernel
def read(v: qd.BufferView, at: qd.i32) -> qd.f32:
    found = 0.0
    for i in range(1):
        found += v[at]
    return found

@qd.kernel
def written(v: qd.BufferView, at: qd.i32):
    v[at] = 7.0


@pytest.mark.parametrize("kernel", [through_funcs, added, read, written], ids=lambda k: k.name)
def test_views_go_through_funcs(kernel):
    a = array(np.arange(8.0))
    kernel(a[2:5], 2)
    assert a.to_numpy().tolist()[:4] == [0, 1, 2, 3]
    assert a.to_numpy()[4] == (4 if kernel is read else 11 if kernel is added else 7)


@pytest.mark.parametrize("checks", [{"debug": True}, {"check_out_of_bound": True}], ids=["debug", "check_out_of_bound"])
@pytest.mark.parametrize("kernel", [through_funcs, added, read, written], ids=lambda k: k.name)
@pytest.mark.parametrize("at", [3, -1, 100])
def test_a_debug_session_checks_indices_against_the_view(session, kernel, checks, at):
    """The array around it has these elements, and they stay as they were."""
    here = next(p.values[0] for p in EVERYWHERE if p.values[0]["arch"] == session)
    qd.init(**here, **checks)
    a = array(np.arange(8.0))
    def launch():
        kernel(a[2:5], at)
        qd.sync()
    with pytest.raises(qd.QuadrantsAssertionError, match=rf"QL2070.*index {at} is out of bounds for 'v' with extent 3"):
        launch()
    assert a.to_numpy().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


@CPU_ALONE
def test_a_func_that_is_declared_to_take_a_view_takes_no_other(session):
    @qd.kernel
    def of_integers(v: qd.BufferView):
        declared(v, 0, 1.0)

    @qd.kernel
    def whole(a: qd.types.ndarray()):
        declared(a, 0, 1.0)

    for call, what in (
        (lambda: of_integers(qd.ndarray(qd.i32, 4)[:2]), "a view of i32 is not a view of f32"),
        (lambda: whole(qd.ndarray(qd.f32, 4)), "an ndarray with 1 axis is not a view of f32"),
    ):  # fmt: skip
        with pytest.raises(qd.QuadrantsTypeError, match=f"QL1433.*{what}"):
            call()
