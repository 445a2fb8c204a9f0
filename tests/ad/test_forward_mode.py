"""`qd.ad.FwdMode`: tangents of whole programs, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import CPU_ALONE, WITH_F64, session_of

import quadrants_lab as qd

session = session_of(WITH_F64, default_fp=qd.f64)


def dual_field(shape, dtype=qd.f64, **options):
    return qd.field(dtype, shape, needs_dual=True, **options)


@qd.kernel
def sines(x: qd.template(), n: qd.i32, y: qd.template()):
    for i in x:
        v = x[i]
        for _ in range(n):
            v = qd.sin(v) + 0.1
        y[i] += v * v


def sines_by_hand(x, d, n):
    for _ in range(n):
        x, d = np.sin(x) + 0.1, d * np.cos(x)
    return x * x, 2 * x * d


def test_a_directional_derivative_through_loops() -> None:
    x, y = dual_field(4), dual_field(4)
    x.from_numpy(np.linspace(0.1, 1, 4))
    seed = [1.0, 0.0, -2.0, 0.5]
    for n in (0, 1, 7):
        y.fill(0)
        with qd.ad.FwdMode(loss=y, param=x, seed=seed):
            sines(x, n, y)
            assert x.dual.to_numpy().tolist() == seed
        value, slope = sines_by_hand(x.to_numpy(), np.array(seed), n)
        np.testing.assert_allclose(y.to_numpy(), value, rtol=1e-13)
        np.testing.assert_allclose(y.dual.to_numpy(), slope, rtol=1e-13)
        assert not x.dual.to_numpy().any()


@pytest.mark.parametrize("shape", [(), 1])
def test_a_parameter_of_one_entry_needs_no_seed_and_duals_add_up_if_asked(shape) -> None:
    a, y = dual_field(shape), dual_field(3)
    a.fill(2.0)
    @qd.kernel
    def square():
        for i in y:
            y[i] += (a[None] if qd.static(shape == ()) else a[0]) ** 2
    with qd.ad.FwdMode(loss=y, param=a):
        square()
    assert y.dual.to_numpy().tolist() == [4.0] * 3
    with qd.ad.FwdMode(loss=y, param=a, clear_gradients=False):
        square()
    assert y.dual.to_numpy().tolist() == [8.0] * 3


@qd.kernel
def add_squares(x: qd.template(), grid: qd.template()):
    for i in x:
        grid[i] += x[i] * x[i]


@pytest.mark.parametrize("how", ["fill", "elements", "numpy"])
def test_what_python_writes_over_a_result_is_a_constant(how) -> None:
    """A grid that Python clears before each step; what Python writes over the parameter's values leaves its seed."""
    x, grid, y = dual_field(3), dual_field(3), dual_field(3)
    with qd.ad.FwdMode([y, grid], x, seed=[1, 2, 3]):
        x.fill(3.0)
        for _ in range(2):
            if how == "fill":
                grid.fill(0.5)
            elif how == "elements":
                for i in range(2):
                    grid[i] = 0.5
            else:
                grid.from_numpy(np.full(3, 0.5))
            add_squares(x, grid)
        add_squares(grid, y)
        grid[0] = 7.0
    last = 6 * 3 + (18 if how == "elements" else 0)  # the last element was not cleared
    value = 9.5 if how != "elements" else 18.0
    assert grid.dual.to_numpy().tolist() == [0, 12, last]
    assert y.dual.to_numpy().tolist() == [2 * 9.5 * 6, 2 * 9.5 * 12, 2 * value * last]
    assert x.dual.to_numpy().tolist() == [0, 0, 0]


def test_what_python_writes_over_a_parameter_that_was_used_is_a_constant() -> None:
    x, y = dual_field(3), dual_field(3)
    x.fill(2.0)
    with qd.ad.FwdMode(y, x, seed=[1, 1, 1]):
        add_squares(x, y)
        x[1] = 5.0
        with pytest.warns(qd.QuadrantsWarning, match="QL0415.*x was written from Python.*under a FwdMode"):
            add_squares(x, y)
    assert y.to_numpy().tolist() == [8, 29, 8]
    assert y.dual.to_numpy().tolist() == [8, 4, 8]


@CPU_ALONE
@pytest.mark.parametrize("early", [False, True])
def test_what_python_writes_by_a_shared_array_is_a_constant(session, early) -> None:
    x, y = dual_field(3), dual_field(3)
    x.fill(2.0)
    shared = x.to_numpy(copy=False) if early else None
    with qd.ad.FwdMode(y, x, seed=[1, 1, 1]):
        add_squares(x, y)
        shared = x.to_numpy(copy=False) if shared is None else shared
        shared[1] = 5.0
        with pytest.warns(qd.QuadrantsWarning, match="QL0415"):
            add_squares(x, y)
        shared[2] = 1.0
        add_squares(x, y)
    assert y.to_numpy().tolist() == [12, 54, 9]
    assert y.dual.to_numpy().tolist() == [12, 4, 8]


@pytest.mark.parametrize("kind", ["field", "ndarray", "numpy"])
def test_a_chain_that_ends_between_two_launches_is_named(kind) -> None:
    """The loss has a tangent, but a part of the tangent is lost."""
    x, loss = dual_field(3), dual_field(())
    make = {"field": qd.field, "ndarray": qd.ndarray, "numpy": lambda dtype, n: np.zeros(n)}[kind]

    @qd.kernel
    def squares(t: qd.Tensor):
        for i in x:
            t[i] = x[i] * x[i]

    @qd.kernel
    def measure(t: qd.Tensor):
        for i in x:
            loss[None] += t[i] + x[i]

    middle = make(qd.f64, 3)
    with qd.ad.FwdMode(loss, x, [1, 0, 0]):
        squares(middle)
        with pytest.warns(qd.QuadrantsWarning, match="QL0407.*the tangent stops at t"):
            measure(middle)


@pytest.mark.parametrize("fp", [qd.f32, qd.f64], ids=str)
def test_extremes_give_the_winners_tangent(fp) -> None:
    x, low, high = dual_field(6, fp), dual_field((), fp), dual_field((), fp)
    x.from_numpy(np.array([0.3, -0.8, 0.5, 0.9, -0.2, 0.1]))
    low[None], high[None] = 10, 10
    @qd.kernel
    def k():
        for i in x:
            qd.atomic_min(low[None], qd.sin(x[i]))
            qd.atomic_max(high[None], qd.sin(x[i]))
    with qd.ad.FwdMode([low, high], x, seed=[1, 2, 3, 4, 5, 6], clear_gradients=False):
        high.dual[None] = 7
        k()
    assert low.dual[None] == pytest.approx(2 * np.cos(-0.8), rel=1e-6)
    assert high.dual[None] == 7  # nobody beat what was there


def test_a_later_loop_may_overwrite_what_a_maximum_was_taken_of() -> None:
    x, y, high = dual_field(3), dual_field(3), dual_field(())

    @qd.kernel
    def k():
        for i in x:
            qd.atomic_max(high[None], qd.sin(x[i]))
        for i in y:
            qd.atomic_max(high[None], y[i])
        for i in x:
            x[i] = 0.0

    for other, expected in ((0.5, np.cos(1.2)), (3.0, 0.0)):
        x.from_numpy(np.array([0.1, 1.2, 0.3]))
        y.fill(other)
        high[None] = -1.0
        with qd.ad.FwdMode(loss=high, param=x, seed=[1.0, 1.0, 1.0]):
            k()
        assert high.dual[None] == pytest.approx(expected)


def test_returned_values_and_prints_come_once(capsys) -> None:
    x, y = dual_field(()), dual_field(())
    x[None] = 3.0
    @qd.kernel
    def k() -> qd.f64:
        y[None] = x[None] * 2
        print("here")
        return x[None] + 1
    with qd.ad.FwdMode(y, x):
        assert k() == 4.0
    assert capsys.readouterr().out == "here\n"
    assert y.dual[None] == 2


def test_beside_a_tape() -> None:
    x, y = qd.field(qd.f64, 3, needs_dual=True, needs_grad=True), qd.field(qd.f64, (), needs_dual=True, needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i] ** 2
    with qd.ad.FwdMode(y, x, seed=[1, 0, 1]), qd.ad.Tape(y):
        k()
    assert x.grad.to_numpy().tolist() == [2, 4, 6]
    assert y.dual[None] == 8


def test_misuse_says_what_to_do() -> None:
    x, y, plain = dual_field(3), dual_field(3), qd.field(qd.f64, 3)
    with pytest.raises(qd.QuadrantsRuntimeError, match="`seed` is not set"):
        qd.ad.FwdMode(y, x)
    with pytest.raises(qd.QuadrantsAssertionError, match="a number for each entry"):
        qd.ad.FwdMode(y, x, seed=[1.0])
    with pytest.raises(qd.QuadrantsRuntimeError, match="needs_dual=True"):
        qd.ad.FwdMode(y, plain, seed=[1, 1, 1])
    with pytest.raises(qd.QuadrantsRuntimeError, match="needs_dual=True"):
        qd.ad.FwdMode(plain, x, seed=[1, 1, 1])
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="must be a field"):
        qd.ad.FwdMode(y, [x, x], seed=[1, 1, 1])
    with pytest.warns(qd.QuadrantsWarning, match="QL2096") as caught, qd.ad.FwdMode(y, x, seed=[1, 1, 1]):
        pass
    assert caught[0].filename == __file__


@pytest.mark.parametrize("seed", [[1.0, 0, 1, 0, 0, 1], np.array([[1.0, 0], [1, 0], [0, 1]])], ids=["flat", "shaped"])
def test_fields_of_vectors(seed) -> None:
    x, y = qd.Vector.field(2, qd.f64, 3, needs_dual=True), dual_field(3)
    x.from_numpy(np.arange(6.0).reshape(3, 2))
    @qd.kernel
    def k():
        for i in x:
            y[i] += x[i].norm_sqr()
    with qd.ad.FwdMode(y, x, seed):
        k()
    assert y.dual.to_numpy().tolist() == [0, 4, 10]
