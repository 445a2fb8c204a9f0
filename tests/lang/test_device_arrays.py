"""Arrays of other libraries on the GPU as kernel arguments: without a copy, ordered with the owner's stream."""

import ctypes
from typing import Any

import numpy as np
import pytest
from lang.test_exported_arrays import double, total
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.backends.cuda import driver

OURS = sessions("cuda")

session = session_of(OURS)


@qd.kernel
def powers(x: qd.types.ndarray(), n: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        v = x[i]
        for _ in range(n[i]):
            v = v * x[i]
        y[i] = v


class Owned:
    """An array of another library in device memory, which that library uses in its ``stream``."""

    def __init__(self, values: Any, dtype: Any = np.float32, stream: int | None = 7, read_only: bool = False) -> None:
        self.values = np.array(values, dtype)
        self.device = driver.current()
        self.device.enter()
        self.address = self.device.allocate(self.values.nbytes)
        self.device.upload(self.address, self.values.ctypes.data, self.values.nbytes)
        self.about: dict[str, Any] = {
            "shape": self.values.shape, "typestr": self.values.dtype.str, "data": (self.address, read_only),
            "strides": None, "version": 3, "stream": stream,
        }  # fmt: skip

    def tolist(self) -> list[Any]:
        self.device.wait("reading")
        self.device.download(self.values.ctypes.data, self.address, self.values.nbytes)
        return self.values.tolist()


class Theirs(Owned):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.about


class Exported(Owned):
    """Exports by DLPack only; the capsule lives as long as the object."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: int) -> Any:
        from quadrants_lab.runtime.interop.dlpack import _Tensor

        assert stream > 2
        self.extents = (ctypes.c_int64 * self.values.ndim)(*self.values.shape)
        self.made = _Tensor(self.address, 2, 0, self.values.ndim, 2, 32, 1, self.extents, None, 0)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.made), b"dltensor", None)


def on_stand_in() -> Any:
    device = driver.current()
    if not hasattr(device, "put"):
        pytest.skip("there is a device, whose streams are no stand-ins")
    return device


@pytest.mark.parametrize("kind", [Theirs, Exported])
def test_memory_is_shared(kind):
    x = kind([1, 2, 3], stream=None) if kind is Theirs else kind([1, 2, 3])
    for _ in range(3):
        double(x)
    assert x.tolist() == [8, 16, 24]
    assert total(x) == 48


def test_launches_come_after_what_the_owner_does_and_before_what_it_does_next():
    device = on_stand_in()
    x = Theirs([1, 2, 3])
    there = (ctypes.c_float * 3).from_address(x.address)
    device.put(7, lambda: there.__setitem__(0, 10.0))
    double(x)
    seen: list[float] = []
    device.put(7, lambda: seen.append(there[0]))
    device.drain(7)
    assert seen == [20.0]


def test_the_default_stream_needs_no_order():
    device = on_stand_in()
    device._streams.clear()
    for stream in (None, 0, 1):
        double(Theirs([1, 2, 3], stream=stream))
    assert not device._streams


def test_shapes_and_dtypes():
    x = Theirs(np.arange(6).reshape(2, 3), np.int32, None)
    @qd.kernel
    def add(x: qd.types.ndarray(dtype=qd.math.ivec3, ndim=1), y: qd.types.ndarray(dtype=qd.i32, ndim=2)):
        for i in range(x.shape[0]):
            y[i, 0] += x[i][2]
    add(x, x)
    assert x.tolist() == [[2, 1, 2], [8, 4, 5]]
    x.about["strides"] = (12, 4)
    add(x, x)
    assert x.tolist() == [[4, 1, 2], [13, 4, 5]]
    double(Theirs([], stream=None))


def test_unusable_arrays_are_refused():
    flat = Theirs(np.zeros((2, 4)), stream=None)
    for change, said in (
        ({"strides": (4, 8)}, "QL2043.*strides"),
        ({"mask": flat}, "QL2043.*mask"),
        ({"typestr": "<c8"}, "QL2042"),
        ({"data": (64, False)}, "QL2052.*no GPU"),
    ):
        x = Theirs(np.zeros((2, 4)), stream=None)
        x.about |= change
        with pytest.raises(ValueError, match=f"(?s){said}"):
            total(x)
    read_only = Theirs([1, 2], stream=None, read_only=True)
    assert total(read_only) == 3
    with pytest.raises(ValueError, match=r"(?s)QL2048.*read-only"):
        double(read_only)


def test_a_gpu_array_is_refused_on_the_cpu():
    x = Theirs([1, 2], stream=None)
    qd.init(arch=qd.cpu, offline_cache=False)
    with pytest.raises(ValueError, match=r"(?s)QL2052.*Theirs.*qd.cuda"):
        double(x)


def test_adstacks_are_sized_for_what_is_there_now():
    """Another library gives no notice of its writes, so sizes are computed before each launch."""
    device = on_stand_in()
    x, y = (qd.ndarray(qd.f32, shape=(3,), needs_grad=True) for _ in range(2))
    n = Theirs([1, 2, 3], np.int32)
    x.fill(2)
    def gradient() -> list[float]:
        y.grad.fill(1)
        x.grad.fill(0)
        powers(x, n, y)
        powers.grad(x, n, y)
        return x.grad.to_numpy().tolist()
    assert gradient() == [4.0, 12.0, 32.0]
    there = (ctypes.c_int32 * 3).from_address(n.address)
    device.put(7, lambda: there.__setitem__(0, 5))
    assert gradient() == [192.0, 12.0, 32.0]


@pytest.mark.parametrize("kind", [Theirs, Exported])
def test_for_derivatives_they_are_constants(kind):
    on_stand_in()  # a GPU does not see these arrays
    x, y = (qd.ndarray(qd.f32, shape=(3,), needs_grad=True) for _ in range(2))
    w = kind([1, 2, 3])
    @qd.kernel
    def scaled(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i] += w[i] * x[i]
    scaled(x, w, y)
    y.grad.fill(1)
    scaled.grad(x, w, y)
    assert x.grad.to_numpy().tolist() == w.tolist() == [1, 2, 3]


def test_under_a_tape():
    """Gradients see what memory held at their launch; writes in between are restored afterwards."""
    x = Theirs([1, 2, 3], stream=None)
    z, loss = qd.field(qd.f32, shape=3, needs_grad=True), qd.field(qd.f32, shape=(), needs_grad=True)
    @qd.kernel
    def add(x: qd.types.ndarray()):
        for i in z:
            loss[None] += z[i] * x[i]
    with qd.ad.Tape(loss):
        add(x)
        double(x)
        add(x)
    assert z.grad.to_numpy().tolist() == [3, 6, 9]
    assert x.tolist() == [2, 4, 6]


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or hasattr(driver.current(), "put"):
        pytest.skip("torch has no GPU here")
    return torch


def test_torch_tensors(torch):
    x = torch.arange(3.0, device="cuda")
    double(x)
    version = x._version
    double(x[1:])
    assert x.tolist() == [0, 4, 8]
    double(x)
    assert x._version > version
    with pytest.raises(ValueError, match=r"(?s)QL2043"):
        double(torch.ones(4, 4, device="cuda").T[0])
    assert total(torch.ones(5, device="cuda", dtype=torch.float16)) == 5


def test_gradients_of_torch_tensors(torch):
    x = torch.full((3,), 2.0, device="cuda", requires_grad=True)
    n = torch.tensor([1, 2, 3], device="cuda", dtype=torch.int32)
    y = torch.zeros(3, device="cuda", requires_grad=True)
    y.grad = torch.ones(3, device="cuda")
    powers(x, n, y)
    powers.grad(x, n, y)
    assert x.grad.is_cuda
    assert x.grad.tolist() == [4.0, 12.0, 32.0]
    n[0] = 5
    x.grad = None
    powers(x, n, y)
    y.grad = torch.ones(3, device="cuda")
    powers.grad(x, n, y)
    assert x.grad.tolist() == [192.0, 12.0, 32.0]


def test_streams_of_torch(torch):
    x = torch.zeros(1 << 24, device="cuda")
    for _ in range(10):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x.copy_(torch.rand(1 << 24, device="cuda"))
            x.fill_(3)
            double(x)
            y = x + 1
        stream.synchronize()
        assert y.min() == y.max() == 7
        torch.cuda.synchronize()


@pytest.mark.parametrize("recompute", [False, True])
def test_operations_of_torch(torch, recompute):
    def twice(x, n, y):
        powers(x, n, y)
        double(y)
    op = qd.torch_op(twice, outputs={"y": "x"}, recompute=recompute)
    n = torch.tensor([2, 3], device="cuda", dtype=torch.int32)
    x = torch.full((2,), 1.1, device="cuda", requires_grad=True)
    for _ in range(10):
        with torch.cuda.stream(torch.cuda.Stream()):
            h = x
            for _ in range(50):
                h = torch.cos(h)
            ours = torch.autograd.grad((op(h, n) * op(2 * h, n)).sum(), x, retain_graph=True)
            right = torch.autograd.grad((4 * h ** (n + 1) * (2 * h) ** (n + 1)).sum(), x)
        torch.cuda.synchronize()
        torch.testing.assert_close(ours, right)


def test_streams_of_cupy(torch):
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(10):
            x = cupy.zeros(1 << 22, np.float32)
            x += 3
            double(x)
            y = x + 1
            stream.synchronize()
            assert float(y.min()) == float(y.max()) == 7
