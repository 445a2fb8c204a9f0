"""Operations of torch whose memory changes between the forward pass and the backward one."""

import pytest
from lang.test_torch_op import double, leaf, scaled, session, square, squared, torch, walk  # noqa: F401  # fixtures

import quadrants_lab as qd
from quadrants_lab.runtime.session import current


def test_torch_refuses_what_was_changed_in_place():
    x = leaf(1, 2)
    y = squared(x)
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()
    z = walk(x)  # whose gradient reads what it left in its output
    z.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        z.sum().backward()


def test_what_no_gradient_reads_may_change():
    op, x = qd.torch_op(double, outputs={"y": "x"}), leaf(1, 2)
    y = op(x)
    y.mul_(3)
    with torch.no_grad():
        x.mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]


@pytest.mark.parametrize("recompute", [False, True])
def test_tensors_that_are_no_arguments(recompute):
    weight = torch.tensor([2.0, 3.0])
    @qd.kernel
    def weigh(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            y[i] = w[i] * x[i]
    op = qd.torch_op(lambda x, y: weigh(x, weight, y), outputs={"y": "x"}, recompute=recompute)
    x = leaf(1, 2)
    y, z = op(x), op(x)
    y.sum().backward()
    assert x.grad.tolist() == [2, 3]
    weight.mul_(2)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2122.*w"):
        z.sum().backward()


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("mark", [qd.ad.checkpoint, qd.ad.program])
def test_stretches_that_are_made_again(mark, recompute):
    held = qd.field(qd.f32, 2, needs_grad=True)

    @qd.kernel
    def take(x: qd.types.ndarray()):
        for i in range(2):
            held[i] = x[i]

    @qd.kernel
    def multiply():
        for i in range(2):
            held[i] = held[i] * held[i]

    @qd.kernel
    def give(y: qd.types.ndarray()):
        for i in range(2):
            y[i] = held[i]

    @mark
    def eighth_power():
        for _ in range(3):
            multiply()

    @qd.torch_op(outputs={"y": "x"}, recompute=recompute)
    def op(x, y):
        take(x)
        eighth_power()
        give(y)

    x = leaf(1, 2)
    for _ in range(3):
        y = op(x)
        for _ in range(2):
            assert torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == [8, 1024]


@pytest.mark.parametrize("recompute", [False, True])
def test_fields_in_a_program(recompute):
    factor = qd.field(qd.f32, (), needs_grad=True)
    factor[None] = 3
    op, held = scaled(factor, recompute)
    factor.grad[None], held.grad[0] = 50, 60  # stale
    x = leaf(1, 2)
    for _ in range(2):
        op(x).sum().backward()
        assert (x.grad.tolist(), factor.grad[None]) == ([12, 96], 17)
        x.grad = None
    assert held.to_numpy().tolist() == [1, 16]


def test_fields_that_a_second_call_overwrote_are_named():
    factor = qd.field(qd.f32, (), needs_grad=True)
    factor[None] = 3
    op, _ = scaled(factor)
    x, z = leaf(1, 2), leaf(3, 4)
    first, second = op(x), op(z)
    second.sum().backward()
    assert z.grad.tolist() == [12 * 27, 12 * 64]
    with pytest.raises(qd.QuadrantsRuntimeError, match="(?s)QL2122.*held.*torch_op op.*recompute"):
        first.sum().backward()
    kept = op(x)
    factor[None] = 4
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2122.*factor"):
        kept.sum().backward()


def test_recomputed_programs_may_share_fields():
    factor = qd.field(qd.f32, (), needs_grad=True)
    factor[None] = 3
    op, held = scaled(factor, recompute=True)
    x, z = leaf(1, 2), leaf(3, 4)
    first, second = op(x), op(z)
    first.sum().backward()
    assert held.to_numpy().tolist() == [81, 256]  # as the last call left it
    second.sum().backward()
    assert (x.grad.tolist(), z.grad.tolist()) == ([12, 96], [12 * 27, 12 * 64])
    y = op(x)
    factor[None] = 4
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2122.*factor"):
        y.sum().backward()


def test_a_state_is_not_recomputed():
    factor, state = qd.field(qd.f32, (), needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    factor[None] = 3
    op, _ = scaled(factor, recompute=True, state=state)
    y = op(leaf(1, 2))
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2123.*'y'"):
        y.sum().backward()
    assert state[None] == 1  # as after the forward pass


def test_a_session_that_is_over():
    x = leaf(1, 2)
    y = squared(x)
    qd.init(arch=qd.cpu)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2001"):
        y.sum().backward()
    squared(x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_an_operation_whose_launches_are_timed():
    x = leaf(1, 2)
    with qd.profiler.profiling(current()):
        squared(x).sum().backward()
    assert x.grad.tolist() == [2, 4]


@qd.kernel
def multiply(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] += x[i] * w[i]


def test_what_torch_computes_from_constants_may_be_used():
    @qd.torch_op(outputs={"y": "x"})
    def shifted(x, y):
        y.fill_(1.0)
        if x.max() > 0.5:
            multiply(x, torch.ones(2) * 3.0, y)
    x = leaf(1, 2)
    shifted(x).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_inputs_may_be_the_same_tensor_or_views_of_one():
    times = qd.torch_op(multiply, outputs={"y": "x"})
    x = leaf(1, 2, 3)
    times(x, x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]
    x.grad = None
    times(x[:2], x[1:]).sum().backward()
    assert x.grad.tolist() == [2, 4, 2]


def compute_in_torch(x, y):
    square(x * 2.0, y)


def copy_in_torch(x, y):
    y.copy_(x)
    square(y, torch.zeros(2))


@pytest.mark.parametrize("fn", [compute_in_torch, copy_in_torch])
def test_what_torch_computes_from_an_input_is_refused(fn):
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2125.*'x' of kernel square.*computed from 'x' within"):
        qd.torch_op(fn, outputs={"y": "x"})(leaf(1, 2))
