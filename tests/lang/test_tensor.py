"""`qd.tensor` and `qd.Tensor`: fields and ndarrays under one name."""

import copy
import dataclasses
import pickle
import typing

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

BOTH = pytest.mark.parametrize("backend", list(qd.Backend))

session = session_of(EVERYWHERE)


@qd.kernel
def number(x: qd.Tensor):
    for i in range(x.shape[0]):
        x[i] = i

@qd.kernel
def squares(x: qd.Tensor, y: qd.Tensor, scale: qd.f32):
    for i in range(x.shape[0]):
        y[i] += scale * x[i] * x[i]


@BOTH
def test_made_as_asked(backend):
    x = qd.tensor(qd.f32, (4, 5), backend=backend, needs_grad=True)
    assert isinstance(x, qd.Tensor)
    assert isinstance(x, qd.Field if backend == qd.Backend.FIELD else qd.Ndarray)
    assert (x.shape, x.dtype, x.layout) == ((4, 5), qd.f32, None)
    assert isinstance(x.grad, qd.Tensor)
    assert x._unwrap() is qd.wrap(x) is x
    v = qd.Vector.tensor(3, qd.f32, 4, backend=backend)
    assert isinstance(v, qd.VectorTensor)
    assert not isinstance(v, qd.MatrixTensor)
    assert v.to_numpy().shape == (4, 3)
    m = qd.Matrix.tensor(2, 3, qd.f32, (4,), backend=backend, needs_grad=True)
    assert isinstance(m, qd.MatrixTensor)
    assert m.grad.to_numpy().shape == (4, 2, 3)
    assert qd.tensor(qd.math.vec3, 2, backend=backend).element_shape == (3,)


def test_the_default_is_an_ndarray():
    assert isinstance(qd.tensor(qd.i32, 3), qd.Ndarray)


@pytest.mark.parametrize(("options", "error", "said"), [
    ({"layout": (0,)}, ValueError, "permutation"),
    ({"layout": (0, 0)}, ValueError, "permutation"),
    ({"order": "ji"}, TypeError, "layout="),
    ({"backend": 7}, ValueError, "qd.Backend"),
    ({"name": "x"}, TypeError, "ndarray"),
])
def test_what_tensor_refuses(options, error, said):
    with pytest.raises(error, match=said):
        qd.tensor(qd.f32, (2, 3), **options)


def test_other_objects_are_no_tensors():
    for make in (qd.Tensor, qd.wrap):
        with pytest.raises(TypeError, match="int"):
            make(3)
    assert not isinstance(np.zeros(3), qd.Tensor)


@BOTH
def test_gradients(backend):
    x, y = (qd.tensor(qd.f32, 3, needs_grad=True, backend=backend) for _ in "xy")
    z = qd.ndarray(qd.f32, 3, needs_grad=True)
    number(x)
    squares(x, z, 2)
    squares(x, y, scale=2)
    y.grad.fill(1)
    squares.grad(x, y, 2)
    assert x.grad.to_numpy().tolist() == [0, 4, 8]
    loss = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def total(x: qd.Tensor):
        for i in range(x.shape[0]):
            loss[None] += x[i]

    with qd.ad.Tape(loss):
        squares(x, z, 3)
        total(z)
    assert x.grad.to_numpy().tolist() == [0, 6, 12]


@BOTH
@pytest.mark.parametrize("element", [(), (3,), (2, 3)])
def test_pickle(backend, element):
    made = [qd.tensor, qd.Vector.tensor, qd.Matrix.tensor][len(element)]
    x = made(*element, qd.f32, (2, 3), backend=backend, layout=(1, 0), needs_grad=True)
    x.from_numpy(np.random.default_rng(0).random((2, 3, *element), np.float32))
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert (type(y), y.dtype, y.shape, y.layout) == (type(x), qd.f32, (2, 3), (1, 0))
        assert (x.to_numpy() == y.to_numpy()).all()
        y.fill(0)
        assert x.to_numpy().all()


Array = qd.types.NDArray[qd.f32, 1]

OPTIONAL = [Array | None, None | Array, qd.types.NDArray | None, qd.Tensor | None, typing.Optional[qd.Template]]  # noqa: UP045


@pytest.mark.parametrize("annotation", OPTIONAL, ids=str)
def test_an_argument_may_be_none(annotation):
    y = qd.field(qd.f32, 3, needs_grad=True)

    @qd.func
    def shifted(v, by: annotation, i: int):
        w = v
        if qd.static(by is not None):
            w *= by[i]
        return w

    @qd.kernel
    def shift(x: Array, by: annotation):
        for i in x:
            y[i] = shifted(x[i], by, i)

    x, by = qd.ndarray(qd.f32, 3, needs_grad=True), qd.ndarray(qd.f32, 3, needs_grad=True)
    x.fill(2)
    by.from_numpy(np.array([1, 2, 3], np.float32))
    for given, want in ((None, [1, 1, 1]), (by, [1, 2, 3])):
        shift(x, given)
        assert y.to_numpy().tolist() == [2 * w for w in want]
        y.grad.fill(1)
        x.grad.fill(0)
        shift.grad(x, given)
        assert x.grad.to_numpy().tolist() == want


def test_what_an_array_or_none_does_not_take():
    @dataclasses.dataclass
    class Given:
        by: Array | None
        n: qd.i32

    @qd.kernel
    def known(given: Given) -> qd.i32:
        return given.n if qd.static(given.by is None) else given.by.shape[0]

    assert known(Given(None, 5)) == 5
    assert known(Given(np.zeros(3, np.float32), 5)) == 3
    with pytest.raises(ValueError, match="QL2044.*'given.by' of known must be a numpy array .*it is a field"):
        known(Given(qd.field(qd.f32, 3), 5))
    with pytest.raises(ValueError, match="QL2045"):
        known(Given(np.zeros(3, np.int32), 5))
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL2062"):

        @qd.kernel
        def unknown(x: int | None):
            pass
