"""Funcs that Python can call, functions of Python in kernels, and what a kernel cannot call."""

import math

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)


@qd.pyfunc
def doubled(a):
    return a * 2


@qd.real_func
def clipped(a: qd.f32) -> qd.f32:
    if a > 1.0:
        return 1.0
    return a

@qd.kernel
def call(x: qd.f32) -> qd.f32:
    return doubled(x) + clipped(x)


def table(k):
    return [math.factorial(j) for j in range(k)]


@pytest.mark.filterwarnings("ignore:.*is a Python function")
def test_python_functions_run_when_the_kernel_is_compiled():
    @qd.kernel
    def warned() -> qd.i32:
        return sum((1, 2)) + table(4)[3] + divmod(7, 2)[1]
    @qd.kernel
    def silent() -> qd.i32:
        return qd.static(sum((1, 2)) + table(4)[3]) + int(math.sqrt(4.0))
    with pytest.warns(qd.QuadrantsWarning, match="'table' is a Python function"):
        assert warned() == 3 + 6 + 1
    assert silent() == 11


@qd.func
def fibonacci(n: qd.template()):
    r = 1
    if qd.static(n > 1):
        r = fibonacci(n - 1) + fibonacci(n - 2)
    return r


@qd.func
def determinant(m):
    if qd.static(m.n == 1):
        return m[0, 0]
    total = 0.0
    for k in qd.static(range(m.n)):
        minor = qd.Matrix([[m[i, j] for j in range(m.n) if j != k] for i in range(1, m.n)])
        total += (-1) ** k * m[0, k] * determinant(minor)
    return total


@qd.func
def is_even(n: qd.template()):
    if qd.static(n == 0):
        return 1
    return is_odd(n - 1)


@qd.func
def is_odd(n: qd.template()):
    if qd.static(n == 0):
        return 0
    return is_even(n - 1)


@qd.func
def endless(n: qd.template()):
    return 1 + endless(n + 1) * endless(n + 2)


def test_a_func_calls_itself_where_qd_static_ends_it():
    @qd.kernel
    def fib() -> qd.i32:
        return fibonacci(7)

    @qd.kernel
    def det() -> qd.f32:
        return determinant(qd.Matrix([[2.0, 1.0, 0.5], [0.25, 4.0, 1.0], [1.0, 0.0, 3.0]]))

    @qd.kernel
    def parity() -> qd.i32:
        return is_even(7) * 10 + is_even(6)

    @qd.kernel
    def never() -> qd.i32:
        return endless(0)

    assert fib() == 21
    assert det() == pytest.approx(2 * 12 - (0.75 - 1) + 0.5 * -4)
    assert parity() == 1
    with pytest.raises(qd.QuadrantsSyntaxError, match="'endless' calls itself") as caught:
        never()
    assert str(caught.value).count("in this call") == 1


@qd.func
def powered(a, factor=2.0, *, power=3, shift):
    return (a * factor) ** power + shift


def test_defaults_of_keyword_only_parameters():
    @qd.kernel
    def right() -> qd.f32:
        return powered(1.0, shift=0.5) + powered(1.0, 3.0, power=2, shift=100.0)

    @qd.kernel
    def missing() -> qd.f32:
        return powered(1.0)

    @qd.kernel
    def too_many() -> qd.f32:
        return powered(1.0, 2.0, 3, 4.0)

    assert right() == 8.5 + 109
    with pytest.raises(qd.QuadrantsTypeError, match="'shift' is missing"):
        missing()
    with pytest.raises(qd.QuadrantsTypeError, match="takes 2 arguments, 4 given"):
        too_many()


def test_numpy_arrays_become_vectors_and_matrices():
    rows, numbers = np.array([[0.5, 0.25], [2.0, 3.0]]), np.array([1, 2])
    @qd.kernel
    def k() -> qd.f32:
        m, v = qd.Matrix(rows), qd.Vector(numbers)
        a, b = numbers
        return (m @ v).sum() + 10 * a + 100 * b
    assert k() == 0.5 + 0.5 + 2 + 6 + 210


def test_pythons_functions_of_sequences():
    x = qd.field(qd.f32, 3)
    x.fill(2.0)
    dims = (3, 4)

    @qd.kernel
    def sums() -> qd.f32:
        m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
        return sum([x[0], x[1], 5]) + sum(m).y + sum(m[0, :], 10.0) + sum(dims) + sum([])

    @qd.kernel
    def quantifiers(a: qd.f32) -> qd.i32:
        v = qd.Vector([a, 1.0])
        found = 0
        if any(v > 3.0):
            found += 1
        if all(v > 0.5) and not any([a > 10.0, a < 0.0]) and all(dims) and all([]):
            found += 2
        return found

    assert sums() == 9 + 6 + 13 + 7
    assert [quantifiers(a) for a in (4.0, 1.0, 0.0, 11.0)] == [3, 2, 0, 1]


def test_methods_are_called_by_their_class():
    @qd.kernel
    def k() -> qd.f32:
        v = qd.Vector([3.0, 4.0])
        return qd.Vector.normalized(v, 1e-9)[0] + qd.Vector.dot(v, [1.0, 2.0]) + qd.Matrix.norm(v) + qd.Matrix.max(v)
    @qd.kernel
    def wrong() -> qd.f32:
        return qd.Vector.norm(3.0)
    assert k() == pytest.approx(0.6 + 11 + 5 + 4)
    with pytest.raises(qd.QuadrantsTypeError, match="number 3.0 is neither a list"):
        wrong()


def test_kernels_and_the_api_are_called_from_python_only():
    @qd.kernel
    def launch() -> qd.f32:
        return call(1.0)
    @qd.kernel
    def allocate():
        qd.field(qd.f32, 3)
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL1618.*a kernel cannot launch a kernel"):
        launch()
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"qd\.field cannot be used inside a kernel"):
        allocate()


def test_logging_level():
    assert qd.is_logging_effective("warn")
    assert not qd.is_logging_effective("info")
    qd.set_logging_level("trace")
    assert qd.is_logging_effective("debug")
    with pytest.raises(Exception, match="one of trace, debug"):
        qd.set_logging_level("loud")


@pytest.mark.parametrize("name", ["mesh_local", "Mesh"])
def test_unsupported_names_raise_with_a_reason(name):
    with pytest.raises(NotImplementedError, match="outside"):
        getattr(qd, name)
    @qd.kernel
    def use():
        qd.mesh_local(1)
    with pytest.raises(qd.QuadrantsNameError, match="outside"):
        use()
