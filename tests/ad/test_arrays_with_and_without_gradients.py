"""One kernel takes arrays with gradients and arrays without: each gradient is that of a launch of its own."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)
START = np.linspace(1.0, 2.0, 8).astype(np.float32)


@pytest.fixture
def results(session):
    return qd.field(qd.f32, shape=8, needs_grad=True)


def given(kind: str):
    if kind == "numpy":
        return START.copy()
    made = qd.ndarray(qd.f32, 8, needs_grad=kind == "with a gradient")
    made.from_numpy(START)
    return made


@pytest.fixture(params=["numpy", "without a gradient"])
def first(request):
    """Makes the array for the first of two launches; the array for the second launch has a gradient."""
    return given(request.param)


def gradient(kernel, *args) -> np.ndarray:
    kernel(*args)
    y = args[-1]
    y.grad.fill(1.0)
    kernel.grad(*args)
    return args[0].grad.to_numpy()


def test_random_draws(first, results) -> None:
    @qd.kernel
    def scaled(x: qd.types.ndarray(), y: qd.template()):
        for i in y:
            y[i] = x[i] * qd.random()

    scaled(first, results)
    found = gradient(scaled, given("with a gradient"), results)
    np.testing.assert_allclose(found * START, results.to_numpy(), rtol=1e-5)


def test_random_draws_of_a_launch_with_other_arrays() -> None:
    @qd.kernel
    def scaled(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(8):
            y[i] = x[i] * qd.random()

    x, y, x_other, y_other = (given("with a gradient") for _ in range(4))
    scaled(x, y)
    scaled(x_other, y_other)
    y.grad.fill(1.0)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL0416.* random numbers of its last launch"):
        scaled.grad(x, y)
    assert not x.grad.to_numpy().any()
    np.testing.assert_allclose(gradient(scaled, x, y) * START, y.to_numpy(), rtol=1e-5)


def test_overwritten_values(first, results) -> None:
    @qd.kernel
    def squared(x: qd.types.ndarray(), y: qd.template()):
        for i in y:
            x[i] = x[i] * x[i]
            y[i] = x[i]

    squared(first, results)
    np.testing.assert_allclose(gradient(squared, given("with a gradient"), results), 2 * START, rtol=1e-5)


def test_back_to_an_array_without_one(results) -> None:
    z = qd.field(qd.f32, shape=8, needs_grad=True)
    z.fill(3.0)

    @qd.kernel
    def scaled(x: qd.types.ndarray(), z: qd.template(), y: qd.template()):
        for i in y:
            y[i] = x[i] * z[i] * qd.random()

    scaled(given("with a gradient"), z, results)
    for kind in ("numpy", "without a gradient"):
        x = given(kind)
        scaled(x, z, results)
        results.grad.fill(1.0)
        z.grad.fill(0.0)
        scaled.grad(x, z, results)
        np.testing.assert_allclose(z.grad.to_numpy() * 3.0, results.to_numpy(), rtol=1e-5, err_msg=kind)


def test_winners() -> None:
    """The gradient finds the winners by computing the values again, which must be rounded as in the launch."""

    @qd.kernel
    def most(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            qd.atomic_max(y[i], w[i] * x[i] - 1.0)

    w = qd.ndarray(qd.f32, 64)
    k = np.arange(3, 67).astype(np.float32)
    w.from_numpy(1 / k)
    most(k.copy(), w, np.full(64, -9, np.float32))
    x, y = (qd.ndarray(qd.f32, 64, needs_grad=True) for _ in range(2))
    x.from_numpy(k)
    y.fill(-9.0)
    np.testing.assert_allclose(gradient(most, x, w, y), 1 / k)
