"""Forms in which torch meets a kernel's gradient. Each is a function of a device that returns pairs: a gradient that
kernels computed, and torch's own of the same function."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import quadrants_lab as qd

torch = pytest.importorskip("torch")
Pairs = Iterator[tuple[Any, Any]]
FORMS: dict[str, Callable[[str], Pairs]] = {}


def form(fn: Callable[[str], Pairs]) -> Callable[[str], Pairs]:
    FORMS[fn.__name__] = fn
    return fn


# --- kernels, and the same in torch --------------------------------------------------------------------------------

@qd.kernel
def stores(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = x[i] * qd.sin(x[i])

@qd.kernel
def adds(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] += x[i] * qd.sin(x[i])

@qd.kernel
def product(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray()):
    for i, j in qd.ndrange(x.shape[0], x.shape[1]):
        y[i, j] = x[i, j] * w[i, j]

@qd.kernel
def summed(x: qd.types.ndarray(), loss: qd.types.ndarray()):
    for i in range(x.shape[0]):
        loss[None] += x[i] * x[i] * x[i]

@qd.kernel
def norms(x: qd.types.ndarray(dtype=qd.math.vec2, ndim=1), y: qd.types.ndarray(ndim=1)):
    for i in range(x.shape[0]):
        y[i] += x[i].dot(x[i])

@qd.kernel
def swaps(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        x[i], y[i] = y[i], x[i]

@qd.kernel
def shrinks(y: qd.types.ndarray()):
    for i in range(y.shape[0]):
        y[i] = y[i] * y[i] * 0.5


def curve(x: Any) -> Any:
    return x * torch.sin(x)


def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """A function of torch's autograd, of what it does with its context on the way there and back."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Operation", (torch.autograd.Function,), methods).apply


def operation(kernel: Any, output: Callable[..., Any] = lambda x, *_: torch.zeros_like(x)) -> Any:
    """The usual pattern: forward launches the kernel and saves all, backward launches the gradient."""
    def forward(ctx, *inputs):
        y = output(*inputs)
        kernel(*inputs, y)
        ctx.save_for_backward(*inputs, y)
        return y

    def backward(ctx, dy):
        *inputs, y = ctx.saved_tensors
        y.grad = dy
        kernel.grad(*inputs, y)
        return tuple(x.grad for x in inputs)

    return function(forward, backward)


ours, ours_adding = operation(stores), operation(adds)


# --- tensors -------------------------------------------------------------------------------------------------------

def of(device: str, *values: float) -> Any:
    return torch.tensor(values or (0.5, -1.0, 2.0, 3.0), device=device)


def leaf(device: str, *values: float) -> Any:
    return of(device, *values).requires_grad_()


def zeros(device: str, *shape: int) -> Any:
    return torch.zeros(shape or (4,), device=device, requires_grad=True)


def weights(device: str) -> Any:
    return of(device, 1.0, 2.0, -1.0, 0.25)


def slope(x: Any, dy: Any = 1.0, of: Callable[[Any], Any] = curve) -> Any:
    """Torch's derivative at the values of ``x``."""
    x = x.detach().clone().requires_grad_()
    y = of(x)
    return torch.autograd.grad(y, x, torch.as_tensor(dy, dtype=y.dtype, device=y.device).expand(y.shape))[0]


def launch(kernel: Any, x: Any, y: Any, seed: Any) -> None:
    kernel(x, y)
    y.grad = seed
    kernel.grad(x, y)


# --- gradients that are launched by hand ---------------------------------------------------------------------------

@form
def a_leaf(device):
    x = leaf(device)
    launch(stores, x, zeros(device), weights(device))
    yield x.grad, slope(x, weights(device))

@form
def a_leaf_that_has_a_gradient(device):
    x = leaf(device)
    x.grad = own = weights(device)
    launch(stores, x, zeros(device), torch.ones_like(x))
    yield x.grad, weights(device) + slope(x)
    yield own, x.grad  # added in place, as torch does

@form
def a_parameter_that_an_optimizer_clears(device):
    x = torch.nn.Parameter(of(device))
    optimizer = torch.optim.SGD([x], lr=0.1)
    for set_to_none in (True, False, True, False, False):
        optimizer.zero_grad(set_to_none=set_to_none)
        launch(adds, x, zeros(device), weights(device))
        yield x.grad, slope(x, weights(device))
        optimizer.step()

@form
def a_gradient_that_is_removed_between_launch_and_gradient(device):
    x, y = leaf(device), zeros(device)
    stores(x, y)
    x.grad, y.grad = None, weights(device)
    stores.grad(x, y)
    yield x.grad, slope(x, weights(device))

@form
def a_computed_tensor(device):
    w = leaf(device)
    x = w * 3
    launch(stores, x, zeros(device), weights(device))
    x.backward(x.grad)
    yield w.grad, slope(w, weights(device), lambda w: curve(w * 3))

@form
def a_computed_tensor_whose_gradient_is_set(device):
    x = leaf(device) * 1
    x.grad = weights(device)
    launch(stores, x, zeros(device), torch.ones_like(x))
    yield x.grad, weights(device) + slope(x)

@form
def a_computed_tensor_that_was_launched_under_no_grad(device):
    x, y = leaf(device) * 1, zeros(device)
    with torch.no_grad():
        stores(x, y)
    y.grad = weights(device)
    stores.grad(x, y)
    yield x.grad, slope(x, weights(device))

@form
def a_retained_tensor(device):
    x = leaf(device) * 1
    x.retain_grad()
    launch(stores, x, zeros(device), weights(device))
    yield x.grad, slope(x, weights(device))
    x.sum().backward()  # torch adds
    yield x.grad, slope(x, weights(device)) + 1

@form
def a_seed_on_a_computed_tensor(device):
    x, y = leaf(device), zeros(device) * 1
    launch(stores, x, y, weights(device))
    yield x.grad, slope(x, weights(device))
    yield y.grad, torch.zeros_like(y)  # the kernel overwrote y

@form
def a_tensor_that_requires_no_gradient_any_more(device):
    x, w = leaf(device), leaf(device)
    x.grad = weights(device)
    x.requires_grad_(False)
    both, y = torch.stack([x, x]), zeros(device, 2, 4)
    launch(adds, x, zeros(device), weights(device))
    yield x.grad, weights(device)
    w = torch.stack([w, w]).detach().requires_grad_()
    product(both, w, y)
    y.grad = torch.ones(2, 4, device=device)
    product.grad(both, w, y)
    yield w.grad, both

@form
def an_expanded_seed(device):
    for kernel in (stores, adds):
        x = leaf(device)
        launch(kernel, x, zeros(device), torch.full((1,), 2.0, device=device).expand(4))
        yield x.grad, slope(x, 2.0)

@form
def a_transposed_seed(device):
    x, w = (torch.rand(3, 2, device=device, requires_grad=True) for _ in range(2))
    y, seed = zeros(device, 3, 2), torch.arange(6.0, device=device).reshape(2, 3).T
    product(x, w, y)
    y.grad = seed
    product.grad(x, w, y)
    yield x.grad, w * torch.arange(6.0, device=device).reshape(2, 3).T
    yield seed, torch.zeros_like(seed)  # it is y.grad, and the kernel overwrote y

@form
def a_strided_gradient_is_added_to_in_place(device):
    x, held = leaf(device), torch.ones(4, 3, device=device)
    x.grad = held[:, 1]
    for n in (1, 2):
        launch(stores, x, zeros(device), weights(device))
        yield held[:, 1], 1 + n * slope(x, weights(device))
    yield held[:, ::2], torch.ones(4, 2, device=device)

@form
def a_transposed_gradient(device):
    x, w, y = (torch.rand(3, 2, device=device, requires_grad=True) for _ in range(3))
    x.grad = torch.ones(2, 3, device=device).T
    w.grad = torch.ones(1, 2, device=device).expand(3, 2)
    product(x, w, y)
    y.grad = torch.full((3, 2), 2.0, device=device)
    product.grad(x, w, y)
    yield x.grad, 1 + 2 * w
    yield w.grad, 1 + 2 * x

@form
def a_gradient_written_by_torch_between_launches(device):
    x = leaf(device)
    for held in (torch.zeros(4, 2, device=device)[:, 0], torch.zeros(4, device=device)):
        x.grad = held
        for scale in (1.0, 2.0):
            x.grad.data.fill_(scale)  # which torch does not count
            launch(stores, x, zeros(device), weights(device))
            yield x.grad, scale + slope(x, weights(device))

@form
def a_sparse_gradient(device):
    x = leaf(device)
    x.grad = torch.tensor([0.0, 2.0, 0.0, 0.0], device=device).to_sparse()
    launch(stores, x, zeros(device), weights(device))
    yield x.grad, of(device, 0.0, 2.0, 0.0, 0.0) + slope(x, weights(device))

@form
def a_gradient_of_torch_that_has_a_graph(device):
    x = leaf(device)
    (x.grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    launch(stores, x, zeros(device), weights(device))
    yield x.grad.detach(), 3 * x.detach() ** 2 + slope(x, weights(device))

@form
def a_negative_view(device):
    x = leaf(device)
    launch(stores, x, zeros(device), torch._neg_view(weights(device)))
    yield x.grad, slope(x, -weights(device))

@form
def two_tensors_with_one_gradient(device):
    x, w, y = (torch.rand(3, 2, device=device, requires_grad=True) for _ in range(3))
    for held in (torch.zeros(3, 2, device=device), torch.zeros(2, 3, device=device).T):
        x.grad = w.grad = held
        product(x, w, y)
        y.grad = torch.ones(3, 2, device=device)
        product.grad(x, w, y)
        yield x.grad, w + x

@form
def after_a_backward_of_something_else(device):
    x, y = leaf(device), zeros(device)
    stores(x, y)
    (x * 5).sum().backward()
    y.grad = weights(device)
    stores.grad(x, y)
    (x * 7).sum().backward()
    yield x.grad, 12 + slope(x, weights(device))

@form
def a_tensor_with_other_memory(device):
    x = leaf(device)
    for values in ((1.0, 2.0), (3.0, 4.0, 5.0)):
        x.grad, x.data = None, of(device, *values)
        y = zeros(device, len(values))
        launch(stores, x, y, torch.ones_like(y))
        yield x.grad, slope(x)

@form
def numbers_and_vectors_of_one_tensor(device):
    x, n, y = torch.rand(3, 2, device=device, requires_grad=True), zeros(device, 3), zeros(device, 3, 2)
    norms(x, n)
    product(x, x.detach(), y)
    n.grad, y.grad = torch.ones_like(n), torch.ones_like(y)
    product.grad(x, x.detach(), y)
    norms.grad(x, n)
    yield x.grad, 3 * x

@form
def a_chain_of_kernels(device):
    x, h, y = leaf(device), zeros(device), zeros(device)
    stores(x, h)
    adds(h, y)
    y.grad = weights(device)
    adds.grad(h, y)
    stores.grad(x, h)
    yield x.grad, slope(x, weights(device), lambda x: curve(curve(x)))


# --- under a Tape --------------------------------------------------------------------------------------------------

@form
def a_constant_with_a_gradient_under_a_tape(device):
    """Kernels must not write to the `.grad` of a constant."""
    x, y, loss = leaf(device), zeros(device), torch.zeros((), device=device, requires_grad=True)
    constant = torch.zeros(4, device=device)
    constant.grad = torch.zeros(4, device=device)
    with qd.ad.Tape(loss):
        adds(x, constant)
        swaps(constant, y)
        summed(y, loss)
    yield x.grad, torch.zeros(4, device=device)
    yield constant.grad, torch.zeros(4, device=device)

@form
def under_a_tape(device):
    x, loss = leaf(device), torch.zeros((), device=device, requires_grad=True)
    x.grad = torch.ones(4, 2, device=device)[:, 0]
    for n in (1, 2):
        h = torch.zeros(4, device=device, requires_grad=True)
        with qd.ad.Tape(loss):
            adds(x, h)
            summed(h, loss)
        yield x.grad, 1 + n * slope(x, 1.0, lambda x: (curve(x) ** 3).sum())

@form
def under_a_tape_with_tensors_that_are_gone(device):
    x, loss = leaf(device), torch.zeros((), device=device, requires_grad=True)

    def run() -> None:
        h = torch.zeros(4, device=device, requires_grad=True) * 1
        h.grad = torch.zeros(1, device=device).expand(4)
        adds(x, h)
        summed(h, loss)

    with qd.ad.Tape(loss):
        run()
        loss.grad = None
    yield x.grad, slope(x, 1.0, lambda x: (curve(x) ** 3).sum())
