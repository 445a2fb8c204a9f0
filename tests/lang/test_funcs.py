"""Funcs that Python can call, functions of Python in kernels, and what a kernel cannot call."""

from __future__ import annotations

import math

import pytest
from sessions import EVERYWHERE

import quadrants_lab as qd


@pytest.fixture(autouse=True, params=EVERYWHERE)
def session(request):
    qd.init(**request.param)
    yield
    qd.reset()


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


def test_pyfunc_and_real_func():
    assert call(3.0) == 7.0
    assert doubled(4) == 8
    assert "pyfunc" in qd.pyfunc.__name__


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

    with pytest.warns(qd.QuadrantsWarning, match="'sum' is a Python function"):
        assert warned() == 3 + 6 + 1
    assert silent() == 11


def test_kernels_and_the_api_are_called_from_python_only():
    @qd.kernel
    def launch() -> qd.f32:
        return call(1.0)

    @qd.kernel
    def allocate():
        qd.field(qd.f32, 3)

    with pytest.raises(qd.QuadrantsTypeError, match="a kernel cannot launch a kernel"):
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


@pytest.mark.parametrize("name", ["activate", "simt", "create_stream", "Mesh"])
def test_what_is_outside_says_so(name):
    with pytest.raises(NotImplementedError, match="outside"):
        getattr(qd, name)

    @qd.kernel
    def use():
        qd.activate(1)

    with pytest.raises(qd.QuadrantsNameError, match="outside"):
        use()
