"""What the gradient of a torch tensor is: every form against torch's own derivative of the same function, and
operations written by hand as `torch.autograd.Function` against differences."""

import gc
import re
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lang.torch_forms import adds, curve, function, operation, ours, slope, stores, torch
from lang.torch_function_forms import FORMS
from sessions import session_of, sessions, skips

import quadrants_lab as qd
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.interop.tensors import Tensor

GPU = torch.cuda.is_available() and not backend("cuda").probe()
# the backend, the device of the tensors
PLACES: dict[str, tuple[str, str, list[Any]]] = {
    **{arch: (arch, "cpu", skips(arch)) for arch in ("cpu", "c", "vulkan", "metal", "cuda", "wasm")},
    "cuda_tensors": ("cuda", "cuda", [pytest.mark.skipif(not GPU, reason="torch has no GPU")]),
}
SOME = [  # by day on backends whose memory is not torch's
    "a_leaf", "an_expanded_seed", "a_strided_gradient_is_added_to_in_place", "numbers_and_vectors_of_one_tensor",
    "two_tensors_with_one_gradient", "under_a_tape", "an_operation_on_a_leaf", "one_gradient_for_two_operations",
]  # fmt: skip
by_hand = session_of(sessions("cpu"), autouse=False, default_fp=qd.f64)
session = session_of(sessions("cpu"), autouse=False)


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    arch, device, _ = PLACES[request.param]
    qd.init(arch=getattr(qd, arch), simulate=device == "cpu", enable_fallback=False, offline_cache=False)
    yield device
    qd.reset()


def cases() -> Iterator[Any]:
    for place, (arch, on, marks) in PLACES.items():
        for name in SOME if on == "cuda" and not GPU else FORMS:
            by_day = name in SOME or arch == "cpu" or on == "cuda"
            yield pytest.param(place, name, id=f"{place}-{name}", marks=marks + [pytest.mark.slow] * (not by_day))


@pytest.mark.parametrize(("device", "name"), [*cases()], indirect=["device"])
@pytest.mark.filterwarnings("error", "ignore:.*QL2054")
def test_gradients_are_those_of_torch(device, name):
    compared = 0
    for found, right in FORMS[name](device):
        torch.testing.assert_close(found.detach(), right.detach(), rtol=2e-5, atol=2e-5)
        compared += 1
    assert compared


@pytest.mark.parametrize("device", [pytest.param("cuda_tensors", marks=PLACES["cuda_tensors"][2])], indirect=True)
def test_gradients_follow_the_streams_of_cuda(device):
    """Each launch waits for what torch has put into its stream, and what torch puts there later waits for the launch,
    also where the gradient is a copy."""
    n = 1 << 22
    for _ in range(10):
        with torch.cuda.stream(torch.cuda.Stream()):
            x, held = torch.rand(n, device=device, requires_grad=True), torch.zeros(n, 2, device=device)
            h = x
            for _ in range(20):
                h = torch.cos(h)
            found = torch.autograd.grad((ours(h) * ours(2 * h)).sum(), x, retain_graph=True)
            right = torch.autograd.grad((curve(h) * curve(2 * h)).sum(), x)
            z = h.detach().requires_grad_()
            z.grad, y = held[:, 1], torch.zeros_like(z, requires_grad=True)
            stores(z, y)
            y.grad = torch.sin(h.detach())
            held.add_(1.0)
            stores.grad(z, y)
            again = held[:, 1] * 2
        torch.cuda.synchronize()
        torch.testing.assert_close(found, right)
        torch.testing.assert_close(again, 2 + 2 * slope(z, torch.sin(h.detach())))


# --- operations written by hand ------------------------------------------------------------------------------------

A = qd.types.ndarray
vec3 = qd.types.vector(3, qd.f64)


@qd.kernel
def log_sum_exp(x: A(), y: A()):
    for _ in range(1):
        s = 0.0
        for i in range(x.shape[0]):
            s += qd.exp(x[i])
        y[None] = qd.log(s)

@qd.kernel
def gather(x: A(), at: A(dtype=qd.i32), y: A()):
    for i in at:
        y[i] = x[at[i]] * x[at[i]]

@qd.kernel
def distances(p: A(dtype=vec3, ndim=1), q: A(dtype=vec3, ndim=1), y: A(dtype=qd.f64, ndim=2)):
    for i, j in y:
        y[i, j] = (p[i] - q[j]).norm()

@qd.kernel
def overwrites(x: A(), y: A()):
    for i in x:
        y[i] = x[i]
        for _ in range(3):
            y[i] = y[i] * y[i] - 0.25 * x[i]


def real(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def whole(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


OPERATIONS = {  # the kernel; its output, of the inputs' shape if none is given; its inputs
    "log_sum_exp": (log_sum_exp, lambda x: x.new_zeros(()), lambda: [real(4)]),
    "gather": (gather, lambda x, at: x.new_zeros(5), lambda: [real(3), whole(0, 2, 2, 1, 0)]),
    "distances": (distances, lambda p, q: p.new_zeros(2, 2), lambda: [real(2, 3), real(2, 3)]),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.filterwarnings("error")
def test_gradcheck_of_operations_written_by_hand(by_hand, name):
    kernel, output, inputs = OPERATIONS[name]
    torch.manual_seed(0)
    apply, given = operation(kernel, *([] if output is None else [output])), inputs()
    assert torch.autograd.gradcheck(apply, given)
    assert torch.autograd.gradcheck(lambda *x: apply(*[v * 2 if v.requires_grad else v for v in x]), given)
    assert not any(x.grad.any() for x in given if x.requires_grad)  # that of torch.autograd.grad goes nowhere else


def test_what_a_kernel_overwrites_is_kept_for_the_last_launch_and_by_torch_op(by_hand):
    right = lambda x: slope(x, of=lambda x: (y := (z := x * x - x / 4) * z - x / 4) * y - x / 4)
    x = real(3)
    apply = operation(overwrites, lambda x: torch.zeros_like(x, requires_grad=True))
    apply(x).sum().backward()
    torch.testing.assert_close(x.grad, right(x))
    loss = apply(x).sum() + apply(2 * x).sum()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"(?s)QL0416.*qd\.torch_op"):
        loss.backward()
    x.grad = None
    qd.torch_op(overwrites, outputs={"y": "x"})(x).sum().backward()
    torch.testing.assert_close(x.grad, right(x))


# --- what a launch leaves ------------------------------------------------------------------------------------------

def test_a_launch_gives_each_tensor_that_requires_one_a_gradient(session):
    x, y, z = torch.ones(4, requires_grad=True), torch.zeros(4), torch.ones(4, requires_grad=True) * 2
    for block in (torch.no_grad, torch.enable_grad, torch.inference_mode):
        x.grad = None
        with block():
            stores(x, y)
        assert x.grad.tolist() == [0] * 4
        x.sum().backward()  # torch can write to it
        assert x.grad.tolist() == [1] * 4
    stores(z, y)
    assert z.grad.tolist() == [0] * 4
    assert y.grad is None
    assert x.grad.tolist() == [1] * 4


def test_a_gradient_that_ends_at_a_computed_tensor_is_told(session):
    x, y = torch.ones(4, requires_grad=True), torch.zeros(4, requires_grad=True)
    loss = torch.zeros((), requires_grad=True)
    def run(x: Any) -> None:
        stores(x, y)
        y.grad = torch.ones(4)
        stores.grad(x, y)
    z = x * 2
    with pytest.warns(qd.QuadrantsWarning, match=r"(?s)QL2054.*'x'.*does not carry it on.*x\.backward\(x\.grad\)"):
        run(z)
    assert (x.grad, z.grad.tolist()) == (None, pytest.approx(slope(z).tolist()))
    kept, given = x * 2, x * 2
    kept.retain_grad()
    given.grad = torch.zeros(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for meant in (z, kept, given, x):  # the first was told of
            run(meant)
    with pytest.warns(qd.QuadrantsWarning, match="QL2054"), qd.ad.Tape(loss):
        add_up(x * 2, loss)  # which is gone when the Tape ends


@qd.kernel
def add_up(x: A(), loss: A()):
    for i in range(x.shape[0]):
        loss[None] += x[i]


def test_a_gradient_of_zeros_is_told_only_outside_of_torch(session):
    x, y = torch.ones(4, requires_grad=True), torch.zeros(4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (ours(x) * 0).sum().backward()
    with pytest.warns(qd.QuadrantsWarning, match="QL0409"):
        adds.grad(x, y)


def squared(make, begin):
    """The usual function; ``make``: what forward makes of its input, ``begin``: what backward makes of its gradient."""
    @qd.kernel
    def stores(x: A(), y: A()):
        for i in x:
            y[i] = x[i] * x[i]

    def forward(ctx, x):
        x, y = make(x), torch.zeros_like(x)
        stores(x, y)
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx, dy):
        x, y = ctx.saved_tensors
        y.grad = begin(dy)
        stores.grad(x, y)
        return x.grad

    return function(forward, backward)


@pytest.mark.parametrize(("make", "begin", "says"), [
    (torch.clone, torch.clone, "QL0425.*x has no gradient.*x is read here.*a tensor that Operation.forward makes"),
    (lambda x: x, lambda dy: None, "QL0409.*y.grad is 0 everywhere.*set it in Operation.backward: y.grad = dy"),
    (lambda x: x, torch.zeros_like, ""),
    (lambda x: x.clone().requires_grad_(), torch.clone, ""),
    (lambda x: x, torch.clone, ""),
])  # fmt: skip
def test_a_backward_function_that_adds_nothing_is_told(session, make, begin, says):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        (squared(make, begin)(torch.ones(4, requires_grad=True)) * 2).sum().backward()
    found = [str(w.message) for w in seen]
    assert all(re.search(f"(?s){says}", text) for text in found), found
    assert len(found) == bool(says)


def test_a_kernel_over_data_adds_nothing_and_nothing_is_wrong(session):
    """Another kernel of the function passes the gradient on."""
    def forward(ctx, data, w):
        h, y = torch.zeros_like(w, requires_grad=True), torch.zeros_like(w)
        stores(data, h)
        adds(h, y)
        adds(w, y)
        ctx.save_for_backward(data, w, h, y)
        return y

    def backward(ctx, dy):
        data, w, h, y = ctx.saved_tensors
        y.grad = dy.clone()
        adds.grad(w, y)
        adds.grad(h, y)
        stores.grad(data, h)
        return None, w.grad

    w = torch.ones(4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(forward, backward)(torch.ones(4), w).sum().backward()
    assert w.grad.abs().min() > 0


def test_torch_still_warns_those_who_read_what_it_does_not_fill(session):
    y = torch.zeros(4)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        z = torch.ones(4, requires_grad=True) * 2
        stores(z, y)
        assert not seen
        assert (torch.ones(4, requires_grad=True) * 2).grad is None
    assert ["not a leaf" in str(w.message) for w in seen] == [True]


def test_arrays_of_numpy_are_constants(session):
    @qd.kernel
    def scaled(x: A(), w: A(), y: A()):
        for i in x:
            y[i] += x[i] * w[i]
    x, w, y = torch.ones(4, requires_grad=True), np.arange(4, dtype=np.float32), torch.zeros(4, requires_grad=True)
    for constant in (w, torch.from_numpy(w), qd.ndarray(qd.f32, 4)):
        if isinstance(constant, qd.Ndarray):
            constant.from_numpy(w)
        x.grad, y.grad = None, torch.ones(4)
        scaled(x, constant, y)
        scaled.grad(x, constant, y)
        assert x.grad.tolist() == w.tolist()
        assert getattr(constant, "grad", None) is None


def test_nothing_stays_of_a_pass_or_of_a_tensor(session):
    gc.disable()
    try:
        x, w = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
        for apply in (ours, operation(adds, lambda x: torch.zeros_like(x, requires_grad=True))):
            h = x * 1
            loss = (apply(x) * apply(h) * w).sum()
            loss.backward(retain_graph=True)
            loss.backward(inputs=[w])
        assert not x._backward_hooks
        of = weakref.ref(Tensor.known[id(h)].ndarrays[0])
        grad = weakref.ref(of().grad)
        del h, loss
        assert of() is grad() is None
    finally:
        gc.enable()


def test_threads_differentiate_each_its_own(session):
    wrong: list[Any] = []
    def work(n: int) -> None:
        for _ in range(20):
            x = torch.full((4,), float(n), requires_grad=True)
            (ours(x) + ours(x * 2)).sum().backward()
            right = slope(x, of=lambda x: curve(x) + curve(2 * x))
            if not torch.allclose(x.grad, right, atol=1e-4):
                wrong.append((n, x.grad, right))
    ours(torch.ones(4))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
