"""What a gradient reports of its stacks, the memory that they take, and its arguments."""

import numpy as np
import pytest
from oracle.sines import slopes
from runtime.test_gradient import Array, by_array, by_field, make, session, start  # noqa: F401  # fixtures

import quadrants_lab as qd

# --- reports and memory

@qd.kernel
def linear(x: qd.template(), n: qd.template(), y: qd.template()):
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = v * 0.95 + 0.01
        y[None] += v


def test_a_linear_update_needs_no_stack_and_the_report_says_why() -> None:
    x, y = make()
    n = qd.field(qd.i32, ())
    for count in (1, 20, 50, 512, 4096, 0, 3):
        n[None] = count
        x.grad.fill(0)
        linear.grad(x, n, y)
        np.testing.assert_allclose(x.grad.to_numpy(), 0.95**count, atol=1e-12)
        assert len(linear.sizes()) == 0
        assert "no stack for 'v'" in str(linear.sizes())


def test_memory_does_not_grow_after_the_largest_launch() -> None:
    from quadrants_lab.runtime import session as S
    x, y = make(16)
    n = qd.field(qd.i32, ())
    heaps = []
    for count in (4096, 1, 20, 50, 512, 4096, 0, 3):
        n[None] = count
        by_field.grad(x, n, y)
        heaps.append(S.current().device.heap_bytes)
    assert len(set(heaps)) == 1


def test_sizes_belong_to_the_last_launch() -> None:
    x, y = make()
    a, b = qd.field(qd.i32, ()), qd.field(qd.i32, ())
    a[None], b[None] = 3, 5
    for n, depth in ((a, 3), (b, 5), (a, 3), (b, 5)):
        by_field.grad(x, n, y)
        assert by_field.sizes()[0].depth == depth


# --- arguments

@qd.kernel
def squares(a: Array, y: qd.template()):
    for i in a:
        y[None] += a[i] * a[i]


def test_arrays_with_and_without_gradient_meet_different_code() -> None:
    _, y = make()
    with_grad, without = qd.ndarray(qd.f64, 2, needs_grad=True), qd.ndarray(qd.f64, 2)
    with_grad.fill(3)
    for _ in range(2):
        squares.grad(np.ones(2), y)
        squares.grad(with_grad, y)
        squares.grad(without, y)
        squares.grad(with_grad, y)
    assert with_grad.grad.to_numpy().tolist() == [24, 24]


@pytest.mark.parametrize(("args", "message"), [
    ((np.ones((2, 2)), np.ones(2, np.int32)), "must have 1 axis"),
    ((np.ones(2), np.ones(2)), "argument 'counts' of by_array must have dtype i32"),
    ((np.ones(2), np.ones((2, 2), np.int32)), "must have 1 axis"),
    ((np.ones(2), [1, 2]), "must be a numpy array"),
    ((None, np.ones(2, np.int32)), "must be a numpy array"),
])
def test_wrong_arguments_of_a_gradient(args, message) -> None:
    _, y = make()
    x = qd.ndarray(qd.f64, 2, needs_grad=True)
    for _ in range(2):
        with pytest.raises(TypeError, match=message):
            by_array.grad(*args, y)
        by_array.grad(x, np.ones(2, np.int32), y)
    assert x.grad.to_numpy().sum() == pytest.approx(4 * np.cos(0), rel=1e-12)


@qd.kernel
def until_half(x: qd.template(), limit: qd.f16, y: qd.template()):
    for i in x:
        v = x[i]
        while v < limit:
            v = v * v + 1.0
        y[None] += v


def test_slow_scalars_reach_the_counting_slice() -> None:
    x, y = make(1)
    x.fill(0.5)
    for limit, depth in ((100.0, 5), (1.0, 1), (0.25, 0)):
        until_half.grad(x, limit, y)
        assert max((row.depth for row in until_half.sizes()), default=0) == depth


def test_a_gradient_over_the_memory_budget_is_an_error_before_the_launch() -> None:
    start(ad_stack_budget_bytes=1000, cpu_max_num_threads=2)
    x, y = make()
    n = qd.field(qd.i32, ())
    n[None] = 50  # 2 threads, 50 slots of 8 bytes
    by_field.grad(x, n, y)
    before = x.grad.to_numpy()
    n[None] = 100
    with pytest.raises(qd.QuadrantsRuntimeError, match="needs 1664 bytes of adstacks for 2 threads") as e:
        by_field.grad(x, n, y)
    assert "v: 800 bytes per thread, 100 x f64; kept as operand of sin" in str(e.value)
    np.testing.assert_array_equal(x.grad.to_numpy(), before)
    n[None] = 3
    x.grad.fill(0)
    by_field.grad(x, n, y)
    np.testing.assert_allclose(x.grad.to_numpy(), slopes(x.to_numpy(), 3, plus=0.1), atol=1e-12)
