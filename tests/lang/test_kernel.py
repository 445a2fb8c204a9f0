"""Kernels as Python objects: arguments, values, errors before anything is launched."""

from __future__ import annotations

import linecache
import traceback
from decimal import Decimal
from operator import setitem

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.runtime.memory.refusals import ArgumentError

Array = qd.types.ndarray(dtype=qd.f32, ndim=1)

session = session_of(EVERYWHERE)


@qd.kernel
def add(a: qd.i32, b: float) -> qd.f32:
    return a + b

@qd.kernel
def increment(a: Array):
    for i in a:
        a[i] += 1.0

@qd.kernel
def two() -> (qd.f32, qd.i32):
    return 1.5, 2

@qd.func
def doubled(x):
    return 2.0 * x


def test_scalars_in_and_values_out() -> None:
    assert add(1, 2) == 3.0
    assert type(add(1, 2)) is float
    assert add(a=1, b=2.5) == add(1, b=2.5) == 3.5
    assert add(np.int32(3), np.float64(2)) == 5.0
    assert add(True, 1) == 2.0
    with pytest.raises(TypeError, match="'a' of add is i32, 4294967295 is given: i32 holds integers from"):
        add(2**32 - 1, 0)
    assert two() == (1.5, 2)


@pytest.mark.parametrize(("args", "kwargs", "message"), [
    ((1,), {}, "missing: b"),
    ((1, 2, 3), {}, "takes 2 arguments, 3 were given"),
    ((1,), {"c": 2}, "no argument 'c'"),
    ((1, 2), {"b": 2}, "given twice"),
    ((), {"b": 2}, "takes 2 arguments"),
])
def test_arity(args, kwargs, message) -> None:
    for _ in range(2):  # before and after the launch path was specialised
        with pytest.raises(qd.QuadrantsSyntaxError, match=message):
            add(*args, **kwargs)
        add(1, 2)


@pytest.mark.parametrize("bad", [1.5, "a", None, 2**40, np.float32(3), [1], np.ones(())])
def test_a_scalar_of_the_wrong_type(bad) -> None:
    for _ in range(2):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match="argument 'a' of add is i32"):
            add(bad, 1.0)
        add(1, 1)


def test_arrays_are_shared_not_copied() -> None:
    a = np.zeros(4, np.float32)
    increment(a)
    increment(a)
    b = qd.ndarray(qd.f32, 4)
    increment(b)
    increment(a)
    assert (a == 3).all()
    assert (b.to_numpy() == 1).all()
    assert b.version == 1


READ_ONLY = np.ones(4, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(("bad", "message"), [
    (np.ones(4), "must have dtype f32"),
    (np.ones((2, 2), np.float32), "must have 1 axis"),
    (np.ones(8, np.float32)[::2], "not C-contiguous"),
    (np.frombuffer(bytearray(17), np.float32, 4, 1), r"not aligned\n.*x\.copy\(\)"),
    (np.ones(4, np.complex64), "no dtype of the language"),
    (np.ones(4, ">f4"), "no dtype of the language"),
    ([1.0, 2.0], "it is of type list"),
    (READ_ONLY, "read-only"),
])
def test_an_array_of_the_wrong_kind(bad, message) -> None:
    for _ in range(2):
        with pytest.raises(ArgumentError, match=message):
            increment(bad)
        increment(np.ones(4, np.float32))
    with pytest.raises(ValueError, match=message):
        increment(bad)


def test_a_field_is_no_array_argument() -> None:
    with pytest.raises(TypeError, match="qd.template"):
        increment(qd.field(qd.f32, 4))
    with pytest.raises(TypeError, match="must have dtype f32, the array has i32"):
        increment(qd.ndarray(qd.i32, 4))


def test_defaults_of_parameters() -> None:
    @qd.kernel
    def scaled(x: qd.f32, by: qd.f32 = 2.0) -> qd.f32:
        return x * by
    assert scaled(3.0) == 6.0
    assert scaled(3.0) == 6.0
    assert scaled(3.0, 3.0) == 9.0
    assert scaled(x=1.0) == 2.0


def test_default_dtypes_follow_the_session() -> None:
    @qd.kernel
    def third(x: float) -> float:
        return x / 3
    assert third(1.0) == np.float32(1) / np.float32(3)
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    assert third(1.0) == 1 / 3


@pytest.mark.parametrize(("parameters", "said"), [
    ("a", "QL2061.*parameter 'a' has no annotation"),
    ("a: str", "QL2062.*not an annotation of the language.*help: use a dtype"),
    ("a: np.float32", "QL2062.*help: write qd.f32"),
    ("a: np.bool_", "QL2062.*help: write qd.u1"),
    ("a: np.ndarray", "QL2062.*help: write qd.types.ndarray"),
    ("*a: qd.f32", r"QL2060.*\*a: f32 is a parameter for any number.*help: name every parameter"),
    ("**a: qd.f32", "QL2060.*any number.*help: name every parameter"),
    ("a: qd.f32, /", "QL2060.*a: f32 is positional only.*help: leave out the '/'"),
    ("*, a: qd.f32", "QL2060.*a: f32 is keyword only.*help: leave out the '.'"),
])
def test_signatures_are_read_when_the_kernel_is_defined(parameters, said) -> None:
    lines = [f"def k({parameters}):\n", "    pass\n"]
    linecache.cache["signature"] = len("".join(lines)), None, lines, "signature"
    names = {"qd": qd, "np": np}
    exec(compile("".join(lines), "signature", "exec", dont_inherit=True), names)
    with pytest.raises(SyntaxError, match=f"(?s){said}"):
        qd.kernel(names["k"])


def test_methods_need_a_class_that_is_data_oriented() -> None:
    class A:
        @qd.kernel
        def method(self):
            pass

    with pytest.raises(SyntaxError, match="write @qd.data_oriented above class A"):
        A().method()


def test_what_cannot_be_decorated() -> None:
    for given, said in ((3, "an object of type int"), (str, "the class str")):
        with pytest.raises(TypeError, match=f"decorates a function, not {said}"):
            qd.kernel(given)
    with pytest.raises(SyntaxError, match="decorated twice"):
        qd.kernel(add)
    with pytest.raises(SyntaxError, match="lambda"):
        qd.kernel(lambda: 3)


def test_funcs_are_called_from_kernels_only() -> None:
    @qd.kernel
    def use(x: qd.f32) -> qd.f32:
        return doubled(x)
    assert use(2.0) == 4.0
    with pytest.raises(qd.QuadrantsRuntimeError, match="only from kernels"):
        doubled(2.0)


def test_a_compile_error_leaves_the_kernel_usable() -> None:
    @qd.kernel
    def broken():
        undefined_name + 1  # noqa: F821
    for _ in range(2):
        with pytest.raises(qd.QuadrantsNameError, match="undefined_name"):
            broken()
    assert add(1, 1) == 2


def test_kernels_meet_the_next_session() -> None:
    x = qd.field(qd.f32, 2)
    @qd.kernel
    def fill():
        for i in x:
            x[i] = 3.0
    fill()
    qd.init(arch=qd.cpu, offline_cache=False)
    with pytest.raises(qd.QuadrantsRuntimeError, match="field x, which kernel fill uses"):
        fill()
    assert add(1, 1) == 2
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="call qd.init"):
        add(1, 1)


def test_ir_and_code_can_be_read() -> None:
    assert "kernel add(a: i32, b: f32)" in add.ir()
    assert "kernel add" in add.ir("front end")
    assert "offload" in add.ir("after offload")
    assert "define" in add.code("llvm")
    assert add.code()
    with pytest.raises(KeyError, match="QL2068.*kernel add has no stage 'nothing': there are front end"):
        add.ir("nothing")
    with pytest.raises(qd.QuadrantsRuntimeError, match="did you mean 'simplify'"):
        add.ir("after simplfy")
    for text in (add.ir, add.code):
        with pytest.raises(KeyError, match="QL2068.*kernel add has no stage '5': there are"):
            text(5)
    with pytest.raises(KeyError, match="the stages of metal are msl"):
        add.code("metal")
    with pytest.raises(qd.QuadrantsRuntimeError, match="launch it once"):
        increment.ir()
    increment(np.ones(1, np.float32))
    assert "ndarray f32" in increment.ir()


def test_a_stage_of_a_gradient_is_not_that_of_the_kernel_that_counts_its_pushes() -> None:
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    @qd.kernel
    def grows():
        for i in x:
            v = x[i]
            while v < 1.0:
                v = qd.sin(v) * v + 0.5
            y[None] += v
    grows()
    grows.grad()
    assert "counted" in str(grows.sizes())
    for stage in ("simplify", "drop unused gradients"):
        assert "kernel grows() reverse" in grows.grad.ir(stage)
    assert "kernel grows() forward" in grows.grad.ir("plain atomics")


def test_a_kernel_without_its_decorator_is_told_of_it() -> None:
    x = qd.field(qd.f32, 4)
    with pytest.raises(qd.QuadrantsRuntimeError, match="put @qd.kernel above the function"):
        for _ in x:
            pass


def test_kernels_look_like_functions() -> None:
    assert add.__name__ == "add"
    assert repr(add) == "<qd.kernel add(a, b)>"


@qd.kernel
def half(a: qd.f16) -> qd.f16:
    return a * 0.5

@qd.kernel
def same(a: qd.u64) -> qd.u64:
    return a


def test_scalars_that_compiled_code_takes_only_the_slow_way() -> None:
    for _ in range(2):
        assert half(3.0) == 1.5
        assert same(2**64 - 1) == 2**64 - 1
        assert same(5) == 5
        with pytest.raises(TypeError, match="argument 'a' of same is u64"):
            same("5")


def test_static_compares_any_python_objects() -> None:
    x = qd.field(qd.i32, shape=())
    way, kinds = "downhill", {"uphill", "level"}
    @qd.kernel
    def chosen() -> qd.i32:
        r = 0
        if qd.static(way == "downhill"):
            r += 1
        if qd.static(way != "uphill"):
            r += 10
        if qd.static(way in kinds):
            r += 100
        if qd.static(x.dtype == qd.i32):
            r += 1000
        return r
    assert chosen() == 1011


async def waits():
    pass


MISTAKES = {
    "a coroutine": (lambda: qd.kernel(waits), "'async def waits' is not part of the kernel language.*write def"),
    "a field as a number": (lambda: float(qd.field(qd.f32, ())), r"is no number.*read an element: x\[None\]"),
    "a field as an integer": (lambda: int(qd.field(qd.i32, ())), "is no number"),
    "no arch": (lambda: qd.init(arch=[]), "QL2030.*arch is an empty list.*name one"),
    "a decimal as a number": (lambda: qd.field(qd.f32, ()).fill(Decimal(1)), "takes a number.*float.* makes one"),
    "a dtype of numpy": (lambda: qd.field(np.dtype("f4"), ()), "is not a dtype.*write qd.f32"),
    "a write by a slice": (lambda: setitem(qd.field(qd.f32, (2, 2)), slice(9), 1.0), r"QL2013.*fill.* writes it"),
    "a member that a struct lacks": (lambda: qd.types.struct(a=qd.f32, b=qd.i32)(c=1), "no member 'c'.*it has a, b"),
    "a matrix field without dtype": (lambda: qd.Matrix.field(3, qd.f32, shape=4), r"^Matrix.field.* missing"),
    "a name that is misspelt": (lambda: qd.feild, r"did you mean qd.field\?$"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_said_of_a_mistake(name: str) -> None:
    mistake, says = MISTAKES[name]
    with pytest.raises(Exception, match=f"(?s){says}") as raised:
        mistake()
    assert "Did you mean" not in "".join(traceback.format_exception_only(raised.value))
