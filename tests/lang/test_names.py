"""Operations, funcs and annotations under other names than their own: what a kernel computes, and its gradient, is the
same. `frontend/test_names.py` compares the IR of every operation."""

import warnings

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

N = 40
X = np.linspace(-1.0, 2.0, N, dtype=np.float32)

session = session_of(EVERYWHERE)

op = {0: qd.atomic_add}[0]
TABLE = {"loops": [range, qd.ndrange]}
T = qd.template
template = qd.template()


@qd.func
def by_default(target: T(), value, f=qd.atomic_add):
    f(target, value)


@qd.func
def given(f: T(), target: template, value):
    f(target, value)


FUNCS = [by_default]


@qd.kernel
def funcs(x: qd.template(), y: qd.template()):
    s = 0.0
    for i in x:
        t = x[i]
        for _ in TABLE["loops"][0](2):
            FUNCS[0](t, t * t * 0.25)
        given(op, s, t)
    y[None] = s


def twice(t):
    for _ in range(2):
        t = t + t * t * 0.25
    return t


def test_value_and_gradient():
    x = qd.field(qd.f32, shape=N, needs_grad=True)
    y = qd.field(qd.f32, shape=(), needs_grad=True)
    x.from_numpy(X)
    funcs(x, y)
    assert y[None] == pytest.approx(twice(X.astype(np.float64)).sum(), rel=1e-5)
    y.grad[None] = 1.0
    funcs.grad(x, y)
    assert x.grad.to_numpy() == pytest.approx(twice(X + 1e-30j).imag * 1e30, rel=1e-4, abs=1e-5)


@qd.kernel
def deep(y: qd.template()):
    for _ in range(1):
        s = 0
        for a in range(2):
            for b in range(2):
                for c in range(2):
                    for d in range(2):
                        for e in range(2):
                            for g in range(2):
                                qd.static_print("here")
                                n = 0
                                n = 2.5
                                by_default(s, n)
        y[None] = s


def test_a_loop_that_is_lowered_again_speaks_once(capsys):
    """A loop finds its carried values by lowering its body first; only the last lowering gives messages."""
    y = qd.field(qd.i32, shape=())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        deep(y)
    assert y[None] == 2 * 2**6
    assert [str(w.message).split(":")[0] for w in caught] == ["warning[QL1901]"]
    assert capsys.readouterr().out == "here\n"


@qd.kernel
def only_read(x: qd.template(), y: qd.template()):
    s = 2.0
    for f in qd.static([qd.atomic_add, qd.max]):
        for i in x:
            if qd.static(f is qd.max):
                y[i] = f(s, x[i])
            else:
                f(s, 1.0)


def test_what_one_copy_of_a_loop_changes_another_may_read():
    x, y = qd.field(qd.f32, shape=4), qd.field(qd.f32, shape=4)
    x.from_numpy(np.array([1, 9, 2, 7], np.float32))
    only_read(x, y)
    assert y.to_numpy().tolist() == [6, 9, 6, 7]


@qd.data_oriented
class Chooses:
    def __init__(self, op, func):
        self.op, self.func, self.dtype = op, func, qd.i32

    @qd.func
    def inner(self, target: qd.template(), value):
        self.op(target, value)

    @qd.kernel
    def through(self, x: qd.template(), y: qd.template()):
        s = 0.0
        for i in x:
            self.inner(s, x[i])
        t = 0.0
        for i in x:
            self.func(t, x[i])
        y[None] = s + 100.0 * t + qd.cast(x[0] * 0.5, self.dtype)


@qd.func
def first(target: qd.template(), value):
    qd.atomic_max(target, value)


@qd.func
def second(target: qd.template(), value):
    target += value


def test_attributes_of_an_object_are_looked_at_before_each_launch():
    x, y = qd.field(qd.f32, shape=4), qd.field(qd.f32, shape=())
    x.from_numpy(np.array([1, 9, 2, 7], np.float32))
    chooses = Chooses(qd.atomic_add, first)
    chooses.through(x, y)
    assert y[None] == 19 + 900
    chooses.op = qd.atomic_max
    chooses.through(x, y)
    assert y[None] == 9 + 900
    chooses.func, chooses.dtype = second, qd.f32
    chooses.through(x, y)
    assert y[None] == 9 + 1900 + 0.5
    assert len(Chooses.through.dispatcher.plans) == 3
    chooses.func, chooses.dtype, chooses.op = first, qd.i32, qd.atomic_add
    chooses.through(x, y)
    assert y[None] == 19 + 900
    assert len(Chooses.through.dispatcher.plans) == 3


class Settings(dict):
    """A dict whose keys are its attributes; others are a KeyError, also those that the front end asks for."""

    __getattr__ = dict.__getitem__


SETTINGS = Settings(factor=2.0, inner=Settings(n=3))


def test_a_captured_dict_with_keys_as_attributes():
    y = qd.field(qd.f32, shape=())
    @qd.kernel
    def reads():
        y[None] = SETTINGS.factor * SETTINGS.inner.n + SETTINGS["factor"]
    reads()
    assert y[None] == 8.0
