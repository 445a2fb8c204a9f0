"""More of `torch_forms`: kernels within a `torch.autograd.Function` whose backward function the user wrote."""

from typing import Any

import pytest
from lang.torch_forms import (
    FORMS,
    adds,
    curve,
    form,
    function,
    leaf,
    operation,
    ours,
    ours_adding,
    product,
    shrinks,
    slope,
    stores,
    summed,
    torch,
    weights,
)  # fmt: skip

import quadrants_lab as qd

__all__ = ["FORMS"]  # of both files


@form
def an_operation_on_a_leaf(device):
    for apply in (ours, ours_adding):
        x = leaf(device)
        (apply(x) * weights(device)).sum().backward()
        yield x.grad, slope(x, weights(device))

@form
def an_operation_on_a_computed_tensor(device):
    for apply in (ours, ours_adding):
        x = leaf(device)
        (apply(x * 3) * weights(device)).sum().backward()
        yield x.grad, slope(x, weights(device), lambda x: curve(x * 3))

@form
def an_operation_with_a_strided_gradient(device):
    x = leaf(device)
    (torch.stack([ours(x), ours(2 * x)], dim=1) * torch.arange(8.0, device=device).reshape(4, 2)).sum().backward()
    w = torch.arange(8.0, device=device).reshape(4, 2)
    yield x.grad, slope(x, 1.0, lambda x: (curve(x) * w[:, 0] + curve(2 * x) * w[:, 1]).sum())

@form
def one_gradient_for_two_operations(device):
    x, w = leaf(device), leaf(device)
    ((ours(x) + ours(w)) * weights(device)).sum().backward()  # torch hands the same array to both
    yield x.grad, slope(x, weights(device))
    yield w.grad, slope(w, weights(device))

@form
def two_operations_on_one_tensor(device):
    for make in (lambda x: x, lambda x: x * 1):
        x = leaf(device)
        h = make(x)
        (ours(h) + 3 * ours_adding(h) + h * h).sum().backward()
        yield x.grad, slope(x, 1.0, lambda x: 4 * curve(x) + x * x)

@form
def backward_twice(device):
    for make in (lambda x: x, lambda x: x * 1):
        x = leaf(device)
        loss = (ours(make(x)) * weights(device)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        yield x.grad, 2 * slope(x, weights(device))

@form
def autograd_grad(device):
    x = leaf(device)
    x.grad = weights(device)
    loss = ours(x).sum()
    for _ in range(2):
        yield torch.autograd.grad(loss, x, retain_graph=True)[0], slope(x)
        yield x.grad, weights(device)

@form
def backward_for_other_inputs(device):
    x, w = leaf(device), leaf(device)
    (ours(x) * w).sum().backward(inputs=[w])
    yield w.grad, curve(x)
    (ours(x) * w).sum().backward(inputs=[x])
    yield x.grad, slope(x, w.detach())

@form
def an_operation_whose_output_requires_a_gradient(device):
    for make in (lambda x: x, lambda x: x * 1):
        x = leaf(device)
        apply = operation(stores, lambda x: torch.zeros_like(x, requires_grad=True))
        (apply(make(x)) * weights(device)).sum().backward()
        yield x.grad, slope(x, weights(device))

@form
def an_operation_of_two_kernels(device):
    def forward(ctx, x):
        h, y = (torch.zeros_like(x, requires_grad=True) for _ in range(2))
        stores(x, h)
        adds(h, y)
        adds(x, y)
        ctx.save_for_backward(x, h, y)
        return y

    def backward(ctx, dy):
        x, h, y = ctx.saved_tensors
        y.grad = dy
        adds.grad(x, y)
        adds.grad(h, y)
        stores.grad(x, h)
        return x.grad

    apply = function(forward, backward)
    for make in (lambda x: x, lambda x: x * 1):
        x = leaf(device)
        loss = (apply(make(x)) * weights(device)).sum()
        for n in (1, 2):
            loss.backward(retain_graph=True)
            yield x.grad, n * slope(x, weights(device), lambda x: curve(curve(x)) + curve(x))

@form
def an_operation_that_clears_its_gradients(device):
    def forward(ctx, x, how):
        ctx.how, y = how, torch.zeros_like(x)
        stores(x, y)
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx, dy):
        x, y = ctx.saved_tensors
        y.grad = dy
        x.grad = None if ctx.how == "none" else torch.zeros_like(x) if ctx.how == "new" else x.grad.zero_()
        stores.grad(x, y)
        return x.grad, None

    apply = function(forward, backward)
    for how in ("none", "new", "in place"):
        for make in (lambda x: x, lambda x: x * 1):
            x = leaf(device)
            apply(make(x), how).sum().backward()
            yield x.grad, slope(x)

@form
def an_operation_that_adds_to_what_it_got(device):
    def forward(ctx, x):
        y = x.detach().clone()
        adds(x, y)
        ctx.save_for_backward(x)
        return y

    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        y = torch.zeros_like(x)
        x.grad = y.grad = dy
        adds.grad(x, y)
        return x.grad

    apply = function(forward, backward)
    x, w = leaf(device), leaf(device)
    ((apply(x) + apply(2 * w)) * weights(device)).sum().backward()
    yield x.grad, slope(x, weights(device), lambda x: x + curve(x))
    yield w.grad, slope(w, weights(device), lambda w: 2 * w + curve(2 * w))

@form
def an_operation_that_detaches(device):
    def forward(ctx, x):
        y = torch.zeros_like(x)
        stores(x.detach(), y)
        ctx.save_for_backward(x)
        return y

    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        y = torch.zeros_like(x, requires_grad=True)
        y.grad = dy
        stores.grad(x, y)
        return x.grad

    apply = function(forward, backward)
    x = leaf(device)
    x.grad = weights(device)
    (apply(x) + apply(2 * x)).sum().backward()
    yield x.grad, weights(device) + slope(x, 1.0, lambda x: curve(x) + curve(2 * x))

@form
def an_operation_that_returns_nothing_for_what_its_kernel_added(device):
    def forward(ctx, x):
        y = torch.zeros_like(x)
        stores(x, y)
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx, dy):
        x, y = ctx.saved_tensors
        y.grad = dy
        stores.grad(x, y)

    apply = function(forward, backward)
    for before in (None, weights(device)):
        x = leaf(device)
        x.grad = before
        for _ in range(2):
            apply(x).sum().backward()
        yield x.grad, 2 * slope(x) + (0 if before is None else weights(device))

@form
def a_parameter_that_is_no_input(device):
    held = torch.rand(3, 2, device=device, requires_grad=True)

    def forward(ctx, x):
        y = torch.zeros_like(x)
        product(x, held, y)
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx, dy):
        x, y = ctx.saved_tensors
        y.grad = dy
        product.grad(x, held, y)
        return x.grad

    apply = function(forward, backward)
    x, strided = torch.rand(3, 2, device=device, requires_grad=True), torch.zeros(2, 3, device=device).T
    held.grad = strided
    for n in (1, 2):
        x.grad = None
        (apply(x) + apply(x)).sum().backward()
        yield x.grad, 2 * held
        yield held.grad, 2 * n * x  # to which only kernels add
        yield strided, held.grad
        assert held.grad is strided
    held.grad = None
    (apply(x) + apply(held) + held).sum().backward()
    yield held.grad, x + 2 * held + 1

@form
def an_input_twice(device):
    def forward(ctx, x, w):
        y = torch.zeros_like(x)
        product(x, w, y)
        ctx.save_for_backward(x, w, y)
        return y

    def backward(ctx, dy):
        x, w, y = ctx.saved_tensors
        y.grad = dy
        product.grad(x, w, y)
        return (x.grad, None) if x is w else (x.grad, w.grad)

    apply = function(forward, backward)
    x, w = (torch.rand(3, 2, device=device, requires_grad=True) for _ in range(2))
    (apply(x, x) + apply(x, w)).sum().backward()
    yield x.grad, 2 * x + w
    yield w.grad, x
    x.grad = w.grad = None
    x.requires_grad_(False)
    apply(x, w).sum().backward()
    yield w.grad, x

@form
def an_operation_in_place(device):
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        shrinks(x)
        ctx.mark_dirty(x)
        return x

    def backward(ctx, dy):
        x = ctx.saved_tensors[0].requires_grad_()
        x.grad = dy
        shrinks(x)
        shrinks.grad(x)
        return x.grad

    apply = function(forward, backward)
    x, w = leaf(device), leaf(device)
    ((apply(x * 1) + apply(w * 2)) * weights(device)).sum().backward()
    yield x.grad, slope(x, weights(device), lambda x: x * x * 0.5)
    yield w.grad, slope(w, weights(device), lambda w: w * w * 2)

@form
def a_tape_in_a_backward_function(device):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.detach() ** 3).sum()

    def backward(ctx, dy):
        x, loss = ctx.saved_tensors[0], torch.zeros((), device=dy.device, requires_grad=True)
        with qd.ad.Tape(loss):
            summed(x, loss)
        return x.grad * dy

    apply = function(forward, backward)
    for make in (lambda x: x, lambda x: x * 1):
        x = leaf(device)
        loss = apply(make(x)) * 2
        loss.backward(retain_graph=True)
        loss.backward()
        yield x.grad, 2 * slope(x, 2.0, lambda x: (x**3).sum())

@form
def under_checkpointing(device):
    from torch.utils.checkpoint import checkpoint

    x = leaf(device)
    for reentrant in (True, False):
        x.grad = None
        checkpoint(lambda x: ours(ours(x * 2)), x, use_reentrant=reentrant).sum().backward()
        yield x.grad, slope(x, 1.0, lambda x: curve(curve(x * 2)))

@form
def with_saved_tensors_elsewhere(device):
    x = leaf(device)
    with torch.autograd.graph.save_on_cpu():
        loss = ours(ours(x)).sum()
    loss.backward()
    yield x.grad, slope(x, 1.0, lambda x: curve(curve(x)))

@form
def after_a_pass_that_failed(device):
    x = leaf(device)
    x.grad = weights(device)

    def fail(_: Any) -> None:
        raise ValueError("in a hook")

    h = x * 1
    handle = h.register_hook(fail)
    loss = (ours(x) + ours(h)).sum()
    with pytest.raises(ValueError, match="in a hook"):
        loss.backward(retain_graph=True)
    handle.remove()
    x.grad = weights(device)
    loss.backward()
    yield x.grad, weights(device) + 2 * slope(x)
