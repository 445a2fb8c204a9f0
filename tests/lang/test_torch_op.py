"""`qd.torch_op`: kernels and programs in torch's autograd, against torch's own derivatives and differences in f64."""

import gc
import threading

import pytest
from sessions import CPU_ALONE, EVERYWHERE, NEEDS_F64, session_of

import quadrants_lab as qd

torch = pytest.importorskip("torch")

session = session_of(EVERYWHERE)


@qd.kernel
def square(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = x[i] * x[i]

@qd.kernel
def mix(x: qd.types.ndarray(), w: qd.types.ndarray(), at: qd.types.ndarray(), k: float, y: qd.types.ndarray(),
        loss: qd.types.ndarray(ndim=0)):  # fmt: skip
    for i in range(at.shape[0]):
        y[i] = k * qd.sin(x[at[i]]) * w[i]
        loss[None] += y[i] * x[i]

@qd.kernel
def double(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = 2 * x[i]

@qd.kernel
def advance(x: qd.types.ndarray(), t: qd.i32):
    for i in range(x.shape[0]):
        x[i] = x[i] + 0.1 * qd.sin(x[i])


squared = qd.torch_op(square, outputs={"y": "x"})
mixed = qd.torch_op(mix, outputs={"y": lambda at, x: torch.empty(at.shape, dtype=x.dtype), "loss": ()})


@qd.torch_op(outputs={"y": "x"})
def walk(x, y, steps=3):
    """A program of several launches, with an array of its own in f64."""
    double(x, y)
    for t in range(steps):
        advance(y, t)


def leaf(*values):
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def right_walk(x):
    y = 2 * x
    for _ in range(3):
        y = y + 0.1 * torch.sin(y)
    return y


def scaled(factor, recompute=False, state=None):
    """y = factor * x**2, by way of a field that is written first; ``state`` is added to and never set to anything."""
    held = qd.field(qd.f32, 2, needs_grad=True)

    @qd.kernel
    def hold(x: qd.types.ndarray()):
        for i in range(2):
            held[i] = x[i] * x[i]

    @qd.kernel
    def give(y: qd.types.ndarray()):
        for i in range(2):
            held[i] = held[i] * held[i]
            y[i] = factor[None] * held[i]

    @qd.kernel
    def add(y: qd.types.ndarray()):
        state[None] += 1.0
        for i in range(2):
            y[i] = y[i] * state[None]

    @qd.torch_op(outputs={"y": "x"}, recompute=recompute)
    def op(x, y):
        hold(x)
        give(y)
        if state is not None:
            add(y)

    return op, held


# --- derivatives ---------------------------------------------------------------------------------------------------

@NEEDS_F64
@pytest.mark.parametrize("recompute", [False, True])
def test_gradcheck(recompute):
    x, w = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    at = torch.tensor([3, 0, 1, 1])
    op = qd.torch_op(mix, outputs=mixed.outputs, recompute=recompute)
    assert torch.autograd.gradcheck(lambda x, w: op(x, w, at, 1.5), (x, w))
    assert torch.autograd.gradcheck(lambda x: op(x, w=w.detach(), at=at, k=0.5), x)
    assert torch.autograd.gradcheck(qd.torch_op(walk.fn, outputs={"y": "x"}, recompute=recompute), x)


def test_what_is_in_grad_is_added_to_and_never_read():
    x = leaf(1, 2)
    x.grad = torch.full((2,), 100.0)
    before = x.grad
    squared(x).sum().backward()
    assert x.grad.tolist() == [102, 104]
    assert x.grad is before
    y = squared(x)
    y.retain_grad()
    (y.sum() + y[0]).backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([2, 1], [106, 108])


def test_outputs_of_which_only_some_are_used():
    at = torch.tensor([0, 1])
    for which in (0, 1):
        x, w = leaf(0.5, 0.25), leaf(2, 3)
        mixed(x, w, at, 1.0)[which].sum().backward()
        p, q = leaf(0.5, 0.25), leaf(2, 3)
        y = torch.sin(p) * q
        (y, (y * p).sum())[which].sum().backward()
        torch.testing.assert_close((x.grad, w.grad), (p.grad, q.grad))


def test_inputs_that_need_no_gradient():
    x, w, at = torch.tensor([0.5, 0.25]), leaf(2, 3), torch.tensor([0, 1])
    _, loss = mixed(x, w, at, 1.0)
    loss.backward()
    assert x.grad is None
    torch.testing.assert_close(w.grad, torch.sin(x) * x)
    (only,) = torch.autograd.grad(squared(w).sum(), w)
    assert only.tolist() == [4, 6]


def test_called_twice_before_backward():
    x, z = leaf(1, 2), leaf(3, 4)
    for op, slope in ((squared, 2), (qd.torch_op(square, outputs={"y": "x"}, recompute=True), 2)):
        x.grad = z.grad = None
        a, b = op(x), op(z)
        b.sum().backward()
        a.sum().backward()
        assert (x.grad.tolist(), z.grad.tolist()) == ([slope, 2 * slope], [3 * slope, 4 * slope])
    x.grad = None
    squared(squared(x)).sum().backward()
    assert x.grad.tolist() == [4, 32]


def test_backward_twice():
    x = leaf(1, 2)
    y = walk(x)
    first = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
    kept = first.clone()
    second = torch.autograd.grad(3 * y.sum(), x)[0]
    torch.testing.assert_close((first, second), (kept, 3 * kept))
    y = squared(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_layouts_of_inputs_and_gradients():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = squared(x.T[1])
    y.backward(torch.ones(1).expand(2))
    assert x.grad.tolist() == [[0, 2, 0], [0, 8, 0]]
    x.grad = None
    squared(x[1, ::2]).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [6, 0, 10]]
    assert squared(torch.ones(3)._neg_view()).tolist() == [1, 1, 1]
    empty = torch.zeros(0, requires_grad=True)
    squared(empty).sum().backward()
    assert empty.grad.shape == (0,)


def test_vectors_and_methods():
    @qd.data_oriented
    class Turned:
        @qd.kernel
        def turn(self, x: qd.types.ndarray(qd.math.vec2, 1), y: qd.types.ndarray(qd.math.vec2, 1)):
            for i in range(x.shape[0]):
                y[i] = qd.Matrix([[0.0, -1.0], [1.0, 0.0]]) @ x[i] * x[i].norm_sqr()

        def program(self, x, y):
            self.turn(x, y)

    one = Turned()
    for fn in (one.turn, one.program):
        x = torch.tensor([[1.0, 2.0], [0.5, 0.0]], requires_grad=True)
        qd.torch_op(fn, outputs={"y": "x"})(x)[:, 0].sum().backward()
        right = torch.tensor([[1.0, 2.0], [0.5, 0.0]], requires_grad=True)
        (-right[:, 1] * (right * right).sum(1)).sum().backward()
        torch.testing.assert_close(x.grad, right.grad)


def test_integer_outputs_have_no_gradient():
    @qd.kernel
    def count(x: qd.types.ndarray(), y: qd.types.ndarray(), n: qd.types.ndarray(dtype=qd.i32, ndim=0)):
        for i in range(x.shape[0]):
            y[i] = x[i] * 3
            if x[i] > 0:
                n[None] += 1
    op = qd.torch_op(count, outputs={"y": "x", "n": torch.empty((), dtype=torch.int32)})
    x = leaf(1, -2, 3)
    y, n = op(x)
    assert (n.item(), n.requires_grad) == (2, False)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_random_numbers_are_those_of_the_forward_pass():
    @qd.kernel
    def noise(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            y[i] = x[i] * qd.random(float)
    x = leaf(1, 1, 1)
    op = qd.torch_op(noise, outputs={"y": "x"})
    first, _ = op(x), op(x)
    first.sum().backward()
    assert x.grad.tolist() == first.tolist()
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2123.*'y'"):
        qd.torch_op(noise, outputs={"y": "x"}, recompute=True)(x).sum().backward()


# --- no gradients --------------------------------------------------------------------------------------------------

def test_without_gradients_nothing_is_recorded(monkeypatch):
    from quadrants_lab.lang import torch_op as module
    monkeypatch.setattr(module, "Recorded", None)
    x = leaf(1, 2)
    with torch.no_grad():
        y = squared(x)
    assert (y.tolist(), y.requires_grad) == ([1, 4], False)
    with torch.inference_mode():
        assert squared(torch.ones(2)).tolist() == [1, 1]
    assert not squared(x.detach()).requires_grad


def test_nothing_is_kept_when_the_graph_is_gone():
    from quadrants_lab.runtime.interop.tensors import Tensor
    factor = qd.field(qd.f32, (), needs_grad=True)
    op, held = scaled(factor)
    x = leaf(1, 2)
    gc.collect()
    before = len(Tensor.known)
    for _ in range(3):
        op(x).sum().backward()
        op(x)
    gc.collect()  # torch 2.11 on Python 3.12 does not free a graph that nobody went through at once
    assert len(Tensor.known) == before
    assert factor._memory.watchers == held._memory.watchers == ()


# --- where it is called --------------------------------------------------------------------------------------------

def test_backward_in_another_thread():
    x = leaf(1, 2)
    y = walk(x).sum()
    raised = []
    def run():
        try:
            y.backward()
        except BaseException as e:
            raised.append(e)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not raised
    right = leaf(1, 2)
    right_walk(right).sum().backward()
    torch.testing.assert_close(x.grad, right.grad)


def test_a_tape_does_not_see_the_backward_pass():
    x, loss = leaf(1, 2), qd.field(qd.f32, (), needs_grad=True)
    @qd.kernel
    def measure(x: qd.types.ndarray()):
        for i in range(x.shape[0]):
            loss[None] += x[i]
    y, z = squared(x).sum(), leaf(3, 4)
    with qd.ad.Tape(loss):
        measure(z)
        y.backward()
        measure(z)
    assert (x.grad.tolist(), z.grad.tolist()) == ([2, 4], [2, 2])


def test_exceptions_leave_nothing_behind():
    @qd.torch_op(outputs={"y": "x"})
    def fails(x, y):
        square(x, y)
        raise KeyError("no")
    x = leaf(1, 2)
    with pytest.raises(KeyError):
        fails(x)
    squared(x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    with pytest.raises(ValueError, match="QL2052.*meta"):
        squared(torch.ones(2, device="meta", requires_grad=True))
    with pytest.raises(ValueError, match="bfloat16"):
        squared(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))


def write_to_the_input(x, y):
    square(x, y)
    advance(x, 0)


def write_in_torch(x, y):
    square(x, y)
    y.mul_(2)
    advance(y, 0)


def write_in_torch_at_the_end(x, y):
    square(x, y)
    y.mul_(2)


def pass_a_view(x, y):
    square(x[:1], y)


def pass_a_numpy_view(x, y):
    square(x.detach().numpy(), y)


def pass_a_view_of_the_output(x, y):
    square(x, y.view(2))


def compute_of_a_tensor_between(x, y):
    h = torch.zeros_like(x, requires_grad=True)
    square(x, h)
    square(h * 2, y)


def compute_the_output(x, y):
    y.copy_(x * 2)


def return_a_result(x, y):
    return x * 2


@CPU_ALONE
@pytest.mark.parametrize(("fn", "said"), [
    (write_to_the_input, "QL2124.*write_to_the_input writes to its argument 'x'"),
    (write_in_torch, "QL2125.*a tensor that kernels of torch_op write_in_torch use"),
    (write_in_torch_at_the_end, "QL2125"),
    (pass_a_view, "QL2129.*a view of 'x' as argument 'x'"),
    (pass_a_numpy_view, "QL2129.*a view of 'x'"),
    (pass_a_view_of_the_output, "QL2125.*argument 'y' of kernel square"),
    (compute_of_a_tensor_between, "QL2125.*argument 'x' of kernel square"),
    (compute_the_output, "QL2125.*the output 'y' from 'x'"),
    (return_a_result, "QL2120.*returns an array, of type Tensor"),
])
def test_programs_whose_gradient_would_be_wrong(fn, said):
    with pytest.raises((qd.QuadrantsRuntimeError, TypeError), match=said):
        qd.torch_op(fn, outputs={"y": "x"})(leaf(1, 2))


@CPU_ALONE
def test_second_derivatives_are_refused_by_name():
    x = leaf(1, 2)
    (g,) = torch.autograd.grad(squared(x).sum(), x, create_graph=True)
    assert g.tolist() == [2, 4]
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2128.*torch_op square"):
        g.sum().backward()
    y = x * 1
    (g,) = torch.autograd.grad((squared(y) * x).sum(), y, create_graph=True)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2128"):
        g.sum().backward()


@CPU_ALONE
@pytest.mark.parametrize("recompute", [False, True])
def test_a_batch_of_gradients_is_a_loop_over_them(recompute):
    """``is_grads_batched`` is a vmap over the gradient."""

    @qd.kernel
    def both(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray(), z: qd.types.ndarray()):
        for i in range(x.shape[0]):
            y[i] = qd.sin(x[i]) * x[0] * w[i]
            z[i] = x[i] * x[i]

    op = qd.torch_op(both, outputs={"y": "x", "z": "x"}, recompute=recompute)
    given = leaf(1, 2, 3), leaf(4, 5, 6)
    plain, batched = (torch.autograd.functional.jacobian(op, given, vectorize=how) for how in (False, True))
    for a, b in zip(plain, batched, strict=True):
        assert all(map(torch.equal, a, b))
    z = op(*given)[1]
    (of_x,) = torch.autograd.grad(z, given[0], torch.eye(3), is_grads_batched=True)
    assert torch.equal(of_x, torch.diag(2 * given[0].detach()))


@CPU_ALONE
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transformations_are_refused():
    x = leaf(1, 2)
    y = squared(x)
    for name, run in {
        "torch.func, as vmap": lambda: torch.func.vmap(lambda v: torch.autograd.grad(y, x, v)[0])(torch.eye(2)),
        "torch.func": lambda: torch.func.vmap(squared)(torch.ones(2, 2)),
        "torch.func.": lambda: torch.func.grad(lambda x: squared(x).sum())(x.detach()),
        "torch.jit.trace": lambda: torch.jit.trace(squared, (torch.ones(2),)),
    }.items():
        with pytest.raises(qd.QuadrantsRuntimeError, match=f"QL2127.*{name}"):
            run()
    loss = qd.field(qd.f32, (), needs_grad=True)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2121"), qd.ad.Tape(loss):
        squared(x)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2127.*forward mode"), torch.autograd.forward_ad.dual_level():
        squared(torch.autograd.forward_ad.make_dual(x, torch.ones(2)))


@CPU_ALONE
def test_compiled_functions_break_off_and_go_on():
    x = leaf(1, 2)
    compiled = torch.compile(lambda x: squared(x * 2) + 1, backend="eager")
    for _ in range(2):
        y = compiled(x)
        assert y.tolist() == [5, 17]
    y.sum().backward()
    assert x.grad.tolist() == [8, 16]


@CPU_ALONE
def test_arguments_that_make_no_operation():
    takes = {"outputs": {"y": "x"}}
    for fn, options, said in (
        (square, {"outputs": {"z": "x"}}, "no parameter 'z'"),
        (square, {"outputs": {}}, "none are given"),
        (3, takes, "not 3"),
        (square, {"outputs": ["y"]}, "must be a dict"),
        (type, takes, "no signature"),
    ):
        with pytest.raises(TypeError, match=f"QL2120.*{said}"):
            qd.torch_op(fn, **options)
    for like, said in (("z", "by 'z'"), (2.5, "not like 2.5"), (lambda q: q, "by 'q'"), ((-1,), "not like")):
        with pytest.raises(TypeError, match=f"QL2120.*{said}"):
            qd.torch_op(square, outputs={"y": like})(torch.ones(2))
    with pytest.raises(TypeError, match="QL2126.*'xs'.*list"):
        qd.torch_op(lambda xs, y: None, outputs={"y": 2})([leaf(1)])
    with pytest.raises(TypeError, match=r"QL2120.*argument 'x', which is of type list"):
        squared([1.0])
    with pytest.raises(TypeError, match=r"QL2049.*torch_op square: missing(.|\n)*it takes \(x\), and makes y itself"):
        squared()
    assert qd.torch_op(square, outputs={"y": 2})(torch.ones(2)).tolist() == [1, 1]
    assert repr(squared) == "<qd.torch_op square(x: qd.types.ndarray(dtype=None, ndim=None)) -> y>"


# --- the sample ----------------------------------------------------------------------------------------------------

def right_step(state, force, dt):
    x, a, v, w = state.unbind(1)
    s, c, m, g = torch.sin(a), torch.cos(a), 0.2, 10.0
    cart = (force + m * w**2 * s - m * g * s * c) / (1 + m * s * s)
    v, w = v + dt * cart, w + dt * (g * s - cart * c)
    return torch.stack([x + dt * v, a + dt * w, v, w], 1)


@CPU_ALONE
def test_balanced_poles(monkeypatch):
    from quadrants_lab.kernels import balance
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    torch.manual_seed(1)
    net = torch.nn.Linear(4, 1, dtype=torch.float64)
    begin = (0.5 * torch.randn(3, 4, dtype=torch.float64)).requires_grad_()
    ours = torch.autograd.grad(balance.fall(net, begin, 12), [begin, *net.parameters()])
    monkeypatch.setattr(balance, "step", right_step)
    right = torch.autograd.grad(balance.fall(net, begin, 12), [begin, *net.parameters()])
    torch.testing.assert_close(ours, right)


@CPU_ALONE
def test_poles_are_balanced():
    from quadrants_lab.kernels import balance
    losses = balance.main(carts=8, rounds=12)
    assert losses[-1] < 0.3 * losses[0]
