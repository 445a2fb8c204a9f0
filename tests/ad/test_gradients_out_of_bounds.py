"""Where indices are checked, a gradient tells of one that is out of bounds: it does not go to another element."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import EVERYWHERE

import quadrants_lab as qd

CHECKS = [{"debug": True}, {"check_out_of_bound": True}]


@pytest.fixture(autouse=True, params=EVERYWHERE)
def start(request):
    yield lambda **options: qd.init(**request.param, **options)
    qd.reset()


def field(*shape):
    return qd.field(qd.f32, shape, needs_grad=True)


@pytest.mark.parametrize("checks", CHECKS, ids=["debug", "bounds"])
def test_loads(start, checks) -> None:
    start(**checks)
    x, y = field(4), field()

    @qd.kernel
    def k(shift: qd.i32):
        for i in range(4):
            y[None] += x[i + shift] * x[i + shift]

    x.fill(1.0)
    y.grad[None] = 1.0
    k.grad(0)
    assert x.grad.to_numpy().tolist() == [2.0] * 4
    for shift, index in ((1, 4), (-1, -1)):
        x.grad.fill(0.0)
        says = f"index {index} is out of bounds for axis 0 of x with extent 4"
        with pytest.raises(qd.QuadrantsAssertionError, match=says):
            k.grad(shift)
        assert x.grad[0] in (0.0, 2.0), "nothing goes to element 0 that is not its own"


@pytest.mark.parametrize("checks", CHECKS, ids=["debug", "bounds"])
def test_stores_and_atomics(start, checks) -> None:
    start(**checks)
    x, y, z = field(4), field(4), field(4)

    @qd.kernel
    def stores(shift: qd.i32):
        for i in range(4):
            y[i + shift] = qd.sin(x[i])

    @qd.kernel
    def atomics(shift: qd.i32):
        for i in range(4):
            z[i + shift] += x[i] * x[i]

    for kernel, name in ((stores, "y"), (atomics, "z")):
        kernel.grad(0)
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        z.grad.fill(1.0)
        with pytest.raises(qd.QuadrantsAssertionError, match=f"index 4 is out of bounds for axis 0 of {name}"):
            kernel.grad(1)


@pytest.mark.parametrize("checks", CHECKS, ids=["debug", "bounds"])
def test_indices_from_data_in_a_loop(start, checks) -> None:
    start(**checks)
    x, y, at = field(4), field(), qd.field(qd.i32, 6)
    at.from_numpy(np.array([0, 1, 2, 3, 0, 9], np.int32))
    @qd.kernel
    def k(n: qd.i32):
        for i in range(2):
            v = x[i]
            for j in range(n):
                v = qd.sin(v) * x[at[j]]
            y[None] += v
    k.grad(5)
    with pytest.raises(qd.QuadrantsAssertionError, match="index 9 is out of bounds for axis 0 of x"):
        k.grad(6)


def test_ndarrays(start) -> None:
    start(check_out_of_bound=True)
    @qd.kernel
    def k(a: qd.types.ndarray(), b: qd.types.ndarray(), n: qd.i32):
        for i in range(n):
            b[0] += a[i] * a[i]
    a, b = (qd.ndarray(qd.f32, n, needs_grad=True) for n in (3, 1))
    a.fill(2.0)
    b.grad.fill(1.0)
    k.grad(a, b, 3)
    assert a.grad.to_numpy().tolist() == [4.0] * 3
    with pytest.raises(qd.QuadrantsAssertionError, match="index 3 is out of bounds for axis 0 of a"):
        k.grad(a, b, 4)
