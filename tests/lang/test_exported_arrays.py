"""Arrays of other libraries on the host, which export their memory by DLPack or numpy's array interface."""

import sys

import numpy as np
import pytest
from child import run
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd


class ByDlpack:
    """Stands in for an array of JAX or CuPy."""

    def __init__(self, array, device=None):
        self.array = array
        self.device = device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class ByInterface:
    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


KINDS = pytest.mark.parametrize("kind", [ByDlpack, ByInterface])

session = session_of(EVERYWHERE)


@qd.kernel
def double(x: qd.types.ndarray()):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2

@qd.kernel
def total(x: qd.types.ndarray()) -> qd.f32:
    out = 0.0
    for i in range(x.shape[0]):
        out += x[i]
    return out


@KINDS
def test_memory_is_shared(kind):
    data = np.arange(3, dtype=np.float32)
    x = kind(data)
    for _ in range(3):
        double(x)
    assert data.tolist() == [0, 8, 16]
    assert total(x) == 24


@KINDS
def test_read_only_memory_is_only_read(kind):
    data = np.ones(3, np.float32)
    data.flags.writeable = False
    assert total(kind(data)) == total(data) == 3
    for x in (kind(data), data):
        with pytest.raises(ValueError, match="QL2048"):
            double(x)


@qd.kernel
def mixed(a: qd.types.ndarray(), b: qd.types.ndarray(), x: qd.template(), y: qd.template()):
    for i, j, k in a:
        y[None] += a[i, j, k] * x[i] * b[j, k]
        a[i, j, k] = 100 * i + 10 * j + k


def test_arrays_in_fortran_order_are_copied_in_and_out(session):
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 3, 2), np.float32).T, np.asfortranarray(rng.random((3, 4), np.float32))
    x, y = qd.field(qd.f32, 2, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.fill(2.0)
    expected = np.einsum("ijk,jk->i", a, b)
    b.flags.writeable = False  # it is only read
    with qd.ad.Tape(y):
        mixed(a, b, x, y)
    np.testing.assert_allclose(y[None], 2 * expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(x.grad.to_numpy(), expected, rtol=1e-5)
    i, j, k = np.indices(a.shape)
    assert (a == 100 * i + 10 * j + k).all()
    assert a.flags.f_contiguous


def test_arrays_in_fortran_order_that_cannot_be_copied():
    a = np.ones((3, 2), np.float32).T
    with pytest.raises(ValueError, match="QL2043"):  # writes to one would not be seen through the other
        mixed(a.reshape(2, 3, 1, order="A"), a, None, None)
    a.flags.writeable = False
    with pytest.raises(ValueError, match="QL2048"):
        double_all(a)


@qd.kernel
def double_all(x: qd.types.ndarray()):
    for i in qd.grouped(x):
        x[i] = x[i] * 2


@KINDS
def test_strides_are_checked(kind):
    data = np.arange(8, dtype=np.float32)
    for view in (data[::2], data[::-1], np.broadcast_to(data[:1], 4), data.reshape(2, 4).T):
        with pytest.raises(ValueError, match="(?s)QL2043.*ascontiguousarray"):
            total(kind(view))
    assert total(kind(np.ascontiguousarray(data[::2]))) == 12


def test_objects_without_shareable_memory_are_refused():
    gpu = ByDlpack(np.ones(3, np.float32), device=(2, 0))
    with pytest.raises(ValueError, match="(?s)QL2052.*ByDlpack"):
        total(gpu)
    for x in ([1.0], 3, np.float32(3), "text", None):
        with pytest.raises(ValueError, match="QL2044"):
            total(x)
    with pytest.raises(ValueError, match="QL2042"):
        total(ByInterface(np.ones(3, complex)))


def test_elements_are_the_last_axes():
    @qd.kernel
    def k(x: qd.types.ndarray(dtype=qd.math.vec3)):
        for i in range(x.shape[0]):
            x[i][1] = 5
    data = np.zeros((2, 3), np.float32)
    k(ByDlpack(data))
    assert data[:, 1].tolist() == [5, 5]


def test_a_gradient_takes_them_as_constants():
    @qd.kernel
    def scale(c: qd.types.ndarray(), x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            y[i] = c[i] * x[i]
    x, y = (qd.ndarray(qd.f32, 2, needs_grad=True) for _ in "xy")
    y.grad.fill(1)
    scale.grad(ByDlpack(np.array([3, 4], np.float32)), x, y)
    assert x.grad.to_numpy().tolist() == [3, 4]


@CPU_ALONE
def test_fields_and_ndarrays_export_their_memory():
    for x in (qd.field(qd.f32, 3), qd.ndarray(qd.f32, 3)):
        view = np.from_dlpack(x)
        x.to_numpy(copy=False)[1] = 7
        assert x[1] == view[1] == 7
        assert x.__dlpack_device__() == (1, 0)
        assert "dltensor" in repr(x.to_dlpack())
        assert "dltensor_versioned" in repr(x.to_dlpack(versioned=True))
        with pytest.raises(ValueError, match="convert"):
            x.to_numpy(dtype=np.float64, copy=False)
        assert x.to_numpy(dtype=np.float64, copy=None)[1] == 7


@CPU_ALONE
def test_nothing_imports_torch():
    program = (
        "import sys, numpy as np, quadrants_lab as qd\n"
        "qd.init(arch=qd.cpu)\n"
        "qd.field(qd.f32, 3).to_numpy(copy=False)\n"
        "qd.ad.Tape(qd.field(qd.f32, (), needs_grad=True))\n"
        "assert 'torch' not in sys.modules\n"
    )
    run(sys.executable, "-c", program)
