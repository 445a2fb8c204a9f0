"""The gradient of a kernel by hand is that of its last launch, in whatever mode that was."""

import warnings

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd

session = session_of(sessions("cpu"), default_fp=qd.f64)
pytestmark = pytest.mark.filterwarnings("error")  # what is not expected


def numbers(*shape: int) -> qd.Field:
    return qd.field(qd.f64, shape=shape, needs_grad=True, needs_dual=True)


def in_place():
    """A kernel that overwrites what its gradient needs, and its input."""
    x, y = numbers(3), numbers()

    @qd.kernel
    def k():
        for i in x:
            x[i] = x[i] * x[i]
        for i in x:
            y[None] += qd.sin(x[i])

    return k, x, y


def slope(k, x, y) -> float:
    x.grad.fill(0.0)
    y.grad[None] = 1.0
    k.grad()
    return x.grad[0]


def at(v: float) -> float:
    return np.cos(v * v) * 2 * v


@pytest.mark.filterwarnings("ignore:note")
@pytest.mark.parametrize("launches", [1, 2])
@pytest.mark.parametrize("options", [{}, {"validation": True}, {"memory": 100}])
def test_the_last_launch_was_under_a_tape(options, launches: int) -> None:
    k, x, y = in_place()
    x.fill(0.9)
    k()
    x.fill(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with qd.ad.Tape(y, **options):
            for _ in range(launches):
                k()
    assert slope(k, x, y) == pytest.approx(at(0.5**launches))
    assert slope(k, x, y) == pytest.approx(at(0.5**launches))


def weighing():
    """A kernel that adds the squares of x, each times a random number, to y, and stores these numbers."""
    x, y, drawn = numbers(3), numbers(), qd.field(qd.f64, shape=3)

    @qd.kernel
    def weigh():
        for i in x:
            w = qd.random(qd.f64)
            drawn[i] = w
            y[None] += w * x[i] ** 2

    return weigh, x, y, drawn


def test_the_last_launch_was_repeated_for_a_checkpoint() -> None:
    k, x, y = in_place()
    x.fill(0.5)
    @qd.ad.checkpoint
    def twice():
        k()
        k()
    with qd.ad.Tape(y):
        twice()
    assert slope(k, x, y) == pytest.approx(at(0.25))


def test_draws_and_reads_are_not_those_of_a_repeated_launch() -> None:
    weigh, x, y, drawn = weighing()

    @qd.kernel
    def halve():
        for i in x:
            x[i] = x[i] / 2

    @qd.ad.checkpoint
    def both():
        weigh()
        halve()

    x.fill(0.5)
    with qd.ad.Tape(y):
        both()
        weigh()
    slope(weigh, x, y)  # without a warning that halve wrote x since
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * 0.25 * drawn.to_numpy())


def test_the_last_launch_is_not_one_of_a_check_of_gradients() -> None:
    k, x, y = in_place()
    x.fill(0.5)
    with qd.ad.Tape(y, grad_check=[x]):
        k()
    assert slope(k, x, y) == pytest.approx(at(0.5), rel=1e-14)


def test_no_gradient_ran_under_the_tape() -> None:
    k, x, y = in_place()
    x.fill(0.5)
    def fails() -> None:
        with qd.ad.Tape(y):
            k()
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        fails()
    assert slope(k, x, y) == pytest.approx(at(0.5))


def test_forward_mode_keeps_nothing_and_an_error_says_so() -> None:
    k, x, y = in_place()
    x.fill(0.9)
    k()
    with qd.ad.FwdMode(loss=y, param=x, seed=[1.0, 0.0, 0.0]):
        k()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"its last launch, under qd.ad.FwdMode, kept none of them"):
        slope(k, x, y)
    x.fill(0.7)
    k()
    assert slope(k, x, y) == pytest.approx(at(0.7))


@pytest.mark.parametrize("by", ["FwdMode", "Tape"])
def test_no_warning_where_the_last_launch_read_what_is_there(by: str) -> None:
    x, y = numbers(3), numbers()
    @qd.kernel
    def cubes():
        for i in x:
            y[None] += x[i] ** 3
    x.fill(2.0)
    cubes()
    x.fill(0.5)
    with qd.ad.FwdMode(y, x, [1.0, 0.0, 0.0]) if by == "FwdMode" else qd.ad.Tape(y, validation=True):
        cubes()
    assert slope(cubes, x, y) == pytest.approx(0.75)
    x.fill(3.0)
    with pytest.warns(qd.QuadrantsWarning, match="QL0417.*which Python wrote after cubes was launched"):
        cubes.grad()


@pytest.mark.parametrize("by", ["FwdMode", "Tape"])
def test_random_draws_are_those_of_the_last_launch(by: str) -> None:
    weigh, x, y, drawn = weighing()
    x.fill(0.5)
    weigh()
    with qd.ad.FwdMode(y, x, [1.0, 0.0, 0.0]) if by == "FwdMode" else qd.ad.Tape(y, validation=True):
        weigh()
    slope(weigh, x, y)
    np.testing.assert_array_equal(x.grad.to_numpy(), drawn.to_numpy())  # times 2 x, which is 1


def test_the_last_launch_was_that_of_value_and_grad() -> None:
    x, y = numbers(3), numbers()
    @qd.kernel
    def squares():
        for i in x:
            y[None] += x[i] * x[i]
    x.fill(0.5)
    squares()
    x.fill(0.7)
    y.grad[None] = 1.0
    squares.value_and_grad()
    assert slope(squares, x, y) == pytest.approx(1.4)
    squares()
    x.fill(3.0)
    with pytest.warns(qd.QuadrantsWarning, match="QL0417"):
        squares.grad()
