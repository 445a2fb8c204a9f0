"""Side effects of an assert happen in every build; only the check itself depends on debug."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sessions import EVERYWHERE

import quadrants_lab as qd
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.specs import ScalarSpec, TemplateSpec
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.types import i32
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.compile.compiled import FORWARD


@pytest.fixture(params=EVERYWHERE)
def session(request):
    return request.param


@qd.func
def store(out: qd.template(), i, v):
    out[i] = v
    return v


@qd.func
def add(out: qd.template(), i, v):
    return qd.atomic_add(out[i], v) + v


@qd.func
def bump(v: qd.template()):
    v += 1
    return v


@qd.func
def tells(v):
    print("v is", v)
    return v


@qd.func
def inner(out: qd.template(), v):
    assert store(out, 6, v) == v
    return v

@qd.kernel
def holds(out: qd.template()):
    x = 1
    assert store(out, 0, 7) == 7
    assert bump(x) == 2, f"x is {store(out, 1, x)}"
    assert qd.atomic_add(x, 4) == 2
    out[2] = x
    assert store(out, 3, 0) > 0 or store(out, 4, 5) > 0
    for i in range(8):
        assert add(out, 5, 1) <= 8
    for i in range(4):
        if i % 2:
            assert store(out, 8 + i, i) == i
    assert inner(out, 3) == tells(3)

@qd.kernel
def fails(out: qd.template()):
    assert store(out, 0, 7) == 8, "seven is not {}".format(store(out, 1, 8))  # noqa: UP032

@qd.kernel
def in_a_loop(out: qd.template()):
    for _ in range(1):
        x = 0
        while x < 5:
            assert bump(x) > 0
            for j in range(2):
                assert add(out, j, x) > 0
        out[2] = x


@pytest.mark.parametrize("debug", [False, True], ids=["release", "debug"])
def test_what_an_assert_does(session, debug, capsys):
    qd.init(**session, debug=debug)
    out = qd.field(qd.i32, shape=12)
    holds(out)
    assert out.to_numpy().tolist() == [7, 2, 6, 0, 5, 8, 3, 0, 0, 1, 0, 3]
    assert capsys.readouterr().out == "v is 3\n"
    out.fill(0)
    in_a_loop(out)
    assert out.to_numpy().tolist() == [15, 15, 5] + [0] * 9
    if debug:
        with pytest.raises(qd.QuadrantsAssertionError, match="seven is not 8"):
            fails(out)
    else:
        fails(out)
    assert out.to_numpy().tolist() == [7, 8, 5] + [0] * 9


@qd.kernel
def squares(x: qd.template(), y: qd.template()):
    for i in x:
        s = 0.0
        for j in range(3):
            assert add(y, i, x[i] * x[i]) >= 0.0
            s += x[i]
        y[i] += s


@pytest.mark.parametrize("debug", [False, True], ids=["release", "debug"])
def test_gradient(session, debug):
    qd.init(**session, debug=debug)
    x, y = (qd.field(qd.f32, shape=4, needs_grad=True) for _ in range(2))
    x.from_numpy(np.array([1, 2, 3, 4], np.float32))
    squares(x, y)
    assert y.to_numpy().tolist() == [6.0, 18.0, 36.0, 60.0]
    y.grad.fill(1.0)
    squares.grad(x, y)
    assert x.grad.to_numpy().tolist() == [9.0, 15.0, 21.0, 27.0]


@qd.func
def searched(x: qd.template(), n):
    k = 0
    while x[k] < n:
        k += 1
    return k

@qd.kernel
def with_asserts(x: qd.template(), n: qd.i32):
    assert n > 3 or x[n] > 0, f"{n} of {x[2]}"
    for i in x:
        assert searched(x, n) < 8
        x[i] += 1
    assert qd.random() < 2.0

@qd.kernel
def without(x: qd.template(), n: qd.i32):
    for i in x:
        x[i] += 1


def code(kernel: qd.Kernel, x: qd.Field) -> str:
    """The IR that backends get, without its first line, which has the name; ids in order of appearance."""
    options = CompileOptions()
    ir = make_ir(lower(kernel.source, [TemplateSpec(x), ScalarSpec(i32)], options).kernel, FORWARD, options)
    numbers: dict[str, int] = {}
    text = print_kernel(ir).partition("\n")[2]
    return re.sub(r"[%#](\d+)", lambda m: f"%{numbers.setdefault(m[1], len(numbers))}", text)


def test_asserts_that_do_nothing_else_cost_nothing():
    """In a release build they leave no trace in the IR that backends get."""
    qd.init(arch=qd.cpu)
    x = qd.field(qd.i32, shape=8)
    assert code(with_asserts, x) == code(without, x)


@qd.kernel
def compares(x: qd.template(), n: qd.i32, what: qd.template()):
    v = x[n] * 2.0
    if qd.static(what == 0):
        assert v + 1.0 < 3.0
    if qd.static(what == 1):
        assert x[n] < qd.sin(v) and n < 4, "too large"  # noqa: PT018
    if qd.static(what == 2):
        assert n < 3 and x[n + 9] > 0.0  # noqa: PT018
    if qd.static(what == 3):
        assert v < 3.0, f"v is {v}"


@pytest.mark.parametrize(("what", "said"), [
    (0, "v + 1.0 < 3.0 (with v = 4.0)"), (1, "too large (with x[n] = 2.0, v = 4.0, n = 3)"),
    (2, "n < 3 and x[n + 9] > 0.0 (with n = 3)"), (3, "v is 4.0"),
])  # fmt: skip
def test_a_failed_assert_tells_what_it_read(what, said):
    """What is behind `and` may be out of bounds, and was perhaps not evaluated."""
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    x = qd.field(qd.f32, 4)
    x.fill(2.0)
    with pytest.raises(qd.QuadrantsAssertionError, match=re.escape(f"compares: {said}\n")):
        compares(x, 3, what)
