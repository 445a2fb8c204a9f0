"""torch tensors as kernel arguments, their gradients, and fields and ndarrays to and from torch."""

import re
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from sessions import CPU_ALONE, EVERYWHERE, NEEDS_F64, session_of, sessions

import quadrants_lab as qd

torch = pytest.importorskip("torch")
forward_ad = torch.autograd.forward_ad
FakeTensorMode = pytest.importorskip("torch._subclasses").FakeTensorMode


@qd.kernel
def add_squares(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] += x[i] * x[i]

@qd.kernel
def total(x: qd.types.ndarray(), loss: qd.types.ndarray()):
    for i in range(x.shape[0]):
        loss[0] += x[i] * x[i]

@qd.kernel
def scaled(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = x[i] * 3

@qd.kernel
def double(x: qd.types.ndarray()):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2


session = session_of(EVERYWHERE)


@NEEDS_F64
@pytest.mark.parametrize("dtype", "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())
@pytest.mark.filterwarnings("ignore::quadrants_lab.QuadrantsWarning")
def test_kernels_use_the_memory_of_tensors(dtype):
    x = torch.full((4,), 3, dtype=getattr(torch, dtype))
    double(x)
    assert x.tolist() == [6] * 4
    double(x[1:3])
    assert x.tolist() == [6, 12, 12, 6]


def refusals() -> dict[str, Any]:
    x = torch.ones(4, 4)
    return {
        "QL2043.*strides.*contiguous": x[:, 0],
        "QL2043.*strides .0,.": torch.ones(1).expand(4),
        "QL2043.*contiguous": x.T,
        "QL2043.*to_dense": x.to_sparse(),
        "QL2042.*x.float": torch.ones(4, dtype=torch.bfloat16),
        "QL2042.*complex": torch.ones(4, dtype=torch.complex64),
        "QL2052.*meta": torch.ones(4, device="meta"),
        "QL2052.*resolve_neg": torch.ones(4)._neg_view(),
        "QL2042.*float8_e5m2.*x.float": torch.ones(4).to(torch.float8_e5m2),
        "QL2042.*qint8.*x.dequantize": torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.qint8),
        "QL2043.*nested tensor.*each of its parts": torch.nested.nested_tensor([x, x[0:2]]),
        "QL2043.*sparse_csr.*to_dense": x.to_sparse_csr(),
        "QL2052.*FakeTensor.*torch.export": FakeTensorMode().from_tensor(torch.ones(4)),
    }


@NEEDS_F64
@pytest.mark.parametrize("x", [
    np.ones(2, ">f4"), np.ones(2, ">i8"), np.ones(2, np.complex64) * 1j, np.ones(2, np.longdouble),
    torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.complex128) * 1j,
], ids=lambda x: f"{type(x).__module__} {x.dtype}")  # fmt: skip
def test_the_help_for_a_dtype_says_what_to_pass(x):
    """An array that kernels take, with all that the one of the other dtype has."""
    x, of_torch = deepcopy(x), isinstance(x, torch.Tensor)
    with pytest.raises(ValueError, match="QL2042") as e:
        double(x)
    advice = re.search(r"help: pass (.*?), which", str(e.value))
    other = eval(advice[1], {"x": x, "np": np, "torch": torch})
    double(other.reshape(-1))
    assert sum(map(float, other.reshape(-1))) == 4
    field = qd.field(qd.f32, 2)
    if of_torch or x.dtype.kind == "c":
        with pytest.raises(ValueError, match=f"(?s)QL20(16|42).*{re.escape(advice[1])}"):
            (field.from_torch if of_torch else field.from_numpy)(x)


@pytest.mark.parametrize("said", refusals())
def test_tensors_that_kernels_cannot_use(said):
    with pytest.raises(ValueError, match=f"(?s){said}"):
        double(refusals()[said])
    with pytest.raises(RuntimeError):  # as Quadrants' class has it
        double(refusals()[said])
    if "contiguous" not in said and "strides" not in said and "resolve_neg" not in said:  # of these it makes copies
        with pytest.raises(ValueError, match=f"(?s){said}"):
            qd.torch_op(scaled, outputs={"y": (4,)})(refusals()[said])


@pytest.mark.parametrize("how", ["vmap", "grad", "functionalize", "jvp", "forward mode"])
@pytest.mark.parametrize("launch", ["kernel", "torch_op"])
def test_transformations_of_torch_are_refused(how, launch):
    """Without an error the kernel would compute with other memory, or the derivative would be lost."""
    def call(x: Any) -> Any:
        if launch == "torch_op":
            return qd.torch_op(scaled, outputs={"y": "x"})(x)
        y = torch.zeros_like(x)
        scaled(x, y)
        return y

    x, say = torch.ones(4), "QL2052.*a tensor (under|with)|QL2127"
    forms = {
        "vmap": lambda: torch.vmap(call)(torch.ones(2, 4)),
        "grad": lambda: torch.func.grad(lambda x: call(x).sum())(x),
        "functionalize": lambda: torch.func.functionalize(call)(x),
        "jvp": lambda: torch.func.jvp(call, (x,), (x,)),
        "forward mode": lambda: call(forward_ad.make_dual(x, x)),
    }
    with forward_ad.dual_level() if how == "forward mode" else nullcontext(), pytest.raises(RuntimeError, match=say):
        forms[how]()


def test_empty_and_zero_dimensional_tensors():
    @qd.kernel
    def k(x: qd.types.ndarray(ndim=0)):
        x[None] += 1
    x = torch.zeros(())
    k(x)
    k(x)
    assert x.item() == 2
    double(torch.zeros(0))


@NEEDS_F64
def test_a_tensor_keeps_its_identity_and_not_its_memory():
    x = torch.ones(3)
    double(x)
    x.set_(torch.full((2,), 5.0))
    double(x)
    assert x.tolist() == [10, 10]
    x.data = torch.ones(2, dtype=torch.float64)
    double(x)
    assert x.tolist() == [2, 2]
    qd.init(arch=qd.cpu)
    double(x)
    assert x.tolist() == [4, 4]


def test_tensors_numpy_arrays_and_ndarrays_in_turn():
    for _ in range(3):
        x, y, z = torch.ones(3), np.ones(3, np.float32), qd.ndarray(qd.f32, 3)
        double(x), double(y), z.fill(1), double(z)
        assert x.tolist() == y.tolist() == z.to_numpy().tolist() == [2, 2, 2]


def test_nothing_is_kept_of_a_tensor_that_is_gone():
    from quadrants_lab.runtime.interop.tensors import Tensor
    before = len(Tensor.known)
    for _ in range(20):
        double(torch.ones(3))
    assert len(Tensor.known) <= before + 1


# --- gradients -------------------------------------------------------------------------------------------------

def test_torch_sees_that_a_kernel_wrote():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    loss = (y * y).sum()
    double(y.detach())
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


# --- tapes -----------------------------------------------------------------------------------------------------

def test_values_of_tensors_that_a_tape_needs_are_saved():
    @qd.kernel
    def square(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in range(a.shape[0]):
            b[i] = a[i] * a[i]
    x, h, loss = (torch.tensor([v], requires_grad=True) for v in (1.5, 0.0, 0.0))
    with qd.ad.Tape(loss):
        square(x, h)
        square(h, x)
        total(x, loss)
    assert x.item() == pytest.approx(1.5**4)
    assert x.grad.item() == pytest.approx(8 * 1.5**7)


def test_what_torch_writes_under_a_tape():
    x, y = torch.tensor([2.0, 3.0], requires_grad=True), torch.zeros(2, requires_grad=True)
    loss = torch.zeros(1, requires_grad=True)
    with qd.ad.Tape(loss):
        add_squares(x, y)
        with torch.no_grad():
            x.mul_(10)  # after it was read
            y[0] = 7  # a constant from here on
        total(y, loss)
    assert loss.item() == 49 + 81
    assert x.grad.tolist() == [0, 2 * 9 * 2 * 3]
    assert x.tolist() == [20, 30]


def test_losses_that_no_tape_takes():
    with pytest.raises(RuntimeError, match="requires_grad"):
        qd.ad.Tape(torch.zeros(1))
    with pytest.raises(RuntimeError, match="0-d"):
        qd.ad.Tape(torch.zeros(2, requires_grad=True))


def test_a_chain_that_a_tensor_breaks_is_named():
    x, h, loss = torch.ones(2, requires_grad=True), torch.zeros(2), torch.zeros(1, requires_grad=True)
    def run():
        with qd.ad.Tape(loss):
            add_squares(x, h)
            total(h, loss)
    with pytest.warns(qd.QuadrantsWarning, match="gradient"):
        run()


@NEEDS_F64
def test_loop_bounds_in_tensors_are_read_at_every_launch():
    @qd.kernel
    def power(n: qd.types.ndarray(), x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            v = x[i]
            for _ in range(n[i]):
                v = v * v
            y[i] = v
    n, x = torch.tensor([1, 2], dtype=torch.int32), torch.full((2,), 1.5, dtype=torch.float64, requires_grad=True)
    y = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    for k in (0, 1, 3):
        n[0] = k
        x.grad, y.grad = None, torch.ones(2, dtype=torch.float64)
        power(n, x, y)
        power.grad(n, x, y)
        assert x.grad.tolist() == pytest.approx([2**k * 1.5 ** (2**k - 1), 4 * 1.5**3])


# --- to and from -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("make", ["field", "ndarray"])
def test_scalars_to_and_from_torch(make):
    x = getattr(qd, make)(qd.f32, (2, 3))
    x.from_torch(torch.arange(6, dtype=torch.float64, requires_grad=True).reshape(3, 2).T)
    assert x.to_numpy().tolist() == [[0, 2, 4], [1, 3, 5]]
    copy = x.to_torch(device="cpu")
    assert (copy.dtype, copy.tolist()) == (torch.float32, x.to_numpy().tolist())
    copy += 1
    assert x[0, 0] == 0
    with pytest.raises(ValueError, match="shape"):
        x.from_torch(torch.zeros(3, 2))
    with pytest.raises(TypeError, match="from_numpy"):
        x.from_torch(np.zeros((2, 3)))
    with pytest.raises(TypeError, match="x.float"):
        x.from_torch(torch.zeros(2, 3, dtype=torch.bfloat16))


@pytest.mark.parametrize(("x", "shape", "kept"), [
    (lambda: qd.Vector.field(3, qd.f32, 2), (2, 3), (2, 3, 1)),
    (lambda: qd.Matrix.field(3, 1, qd.f32, 2), (2, 3), (2, 3, 1)),
    (lambda: qd.Matrix.field(1, 3, qd.f32, 2), (2, 1, 3), (2, 1, 3)),
    (lambda: qd.Vector.ndarray(3, qd.f32, 2), (2, 3), None),
    (lambda: qd.Matrix.ndarray(3, 1, qd.f32, 2), (2, 3, 1), None),
])
def test_elements_to_and_from_torch(x, shape, kept):
    made = x()
    assert made.to_torch().shape == made.to_numpy().shape == shape
    if kept:
        assert made.to_torch(keep_dims=True).shape == made.to_numpy(keep_dims=True).shape == kept
    made.from_torch(torch.ones(shape) * 2)
    assert made.to_torch().sum() == 12


def test_structs_to_and_from_torch():
    s = qd.types.struct(a=qd.f32, v=qd.math.vec3).field(shape=2)
    s.from_torch({"a": torch.ones(2), "v": torch.ones(2, 3) * 2})
    out = s.to_torch()
    assert (out["a"].tolist(), out["v"].shape) == ([1, 1], (2, 3))


@CPU_ALONE
@pytest.mark.parametrize("make", ["field", "ndarray"])
def test_views_without_a_copy(make):
    x = getattr(qd, make)(qd.i32, 4)
    views = [
        x.to_torch(copy=False),
        x.to_torch(copy=None),
        torch.from_dlpack(x),
        torch.utils.dlpack.from_dlpack(x.to_dlpack()),
        torch.from_numpy(x.to_numpy(copy=False)),
        torch.from_numpy(np.from_dlpack(x)),
    ]
    for n, view in enumerate(views):
        view[1] = n + 1
        assert x[1] == n + 1
    x[2] = 9
    assert all(view[2] == 9 for view in views)
    qd.init(arch=qd.cpu)
    assert views[0][2] == 9
    with pytest.raises(ValueError, match="meta"):
        qd.field(qd.f32, 3).to_torch("meta", copy=False)


@CPU_ALONE
def test_gradients_follow_what_a_view_writes():
    n, x, y = qd.field(qd.i32, ()), qd.field(qd.f64, (), needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    view = n.to_torch(copy=False)
    @qd.kernel
    def power():
        for _ in range(1):
            v = x[None]
            for _ in range(n[None]):
                v = v * v
            y[None] = v
    for k in (1, 3, 5):
        view.fill_(k)
        x[None], x.grad[None], y.grad[None] = 1.1, 0, 1
        power()
        power.grad()
        assert x.grad[None] == pytest.approx(2**k * 1.1 ** (2**k - 1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of torch's")
@pytest.mark.parametrize("session", sessions("cuda"), indirect=True)
def test_writes_to_tensors_of_a_gpu_under_a_tape(session) -> None:
    x, w = (torch.full((1000,), value, device="cuda", requires_grad=True) for value in (0.5, 0.25))
    loss = torch.zeros((), device="cuda", requires_grad=True)

    @qd.kernel
    def add_up(x: qd.Tensor, w: qd.Tensor, loss: qd.Tensor):
        for i in range(x.shape[0]):
            loss[None] += qd.sin(x[i]) * w[i]

    def program() -> None:
        with qd.ad.Tape(loss):
            add_up(x, w, loss)
            w.data[500:] = 2.0  # which torch does not count
            add_up(x, w, loss)

    with pytest.warns(qd.QuadrantsWarning, match="QL0415"):
        program()
    new = torch.where(torch.arange(1000) < 500, 0.25, 2.0)
    torch.testing.assert_close(x.grad.cpu(), np.cos(0.5) * (0.25 + new))
    torch.testing.assert_close(w.grad.cpu(), np.sin(0.5) * torch.where(torch.arange(1000) < 500, 2.0, 1.0))
