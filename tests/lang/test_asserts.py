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
from quadrants_lab.runtime.compile.specialisation import FORWARD


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
    """In a release build such asserts leave no trace in the IR that backends get."""
    qd.init(arch=qd.cpu)
    x = qd.field(qd.i32, shape=8)
    assert code(with_asserts, x) == code(without, x)


@qd.func
def raised(x: qd.template(), by) -> qd.f32:
    """Changes an element of x, and returns it."""
    x[1] += by
    return x[1]

@qd.func
def counted(k: qd.ref(qd.i32)) -> qd.i32:
    k += 1
    return k

@qd.func
def halved(v: qd.f32) -> qd.f32:
    return v / 2


@qd.kernel
def compares(x: qd.template(), s: qd.template(), n: qd.i32, what: qd.template()):
    v = x[n] * 2.0
    if qd.static(what == "number"):
        assert v + 1.0 < 3.0
    if qd.static(what == "own text"):
        assert x[n] < qd.sin(v) and n < 4, "too large"  # noqa: PT018
    if qd.static(what == "values in the text"):
        assert v < 3.0, f"v is {v}"
    if qd.static(what == "and"):
        assert n < 3 and x[n + 9] > v  # noqa: PT018
    if qd.static(what == "or"):
        assert not (n == 3 or x[n + 9] > 0.0)  # noqa: PT018
    if qd.static(what == "attribute behind and"):
        assert n < 3 and s[n + 9].a > 0.0  # noqa: PT018
    if qd.static(what == "attribute"):
        assert s[n].a > 0.0
    if qd.static(what == "chain"):
        assert 0.0 < x[0] < x[1] < x[n + 9]
    if qd.static(what == "conditional"):
        assert (x[n + 9] if n < 3 else v) < 3.0
    if qd.static(what == "index with a condition"):
        assert x[0 if n < 9 else n + 9] > 5.0
    if qd.static(what == "call"):
        assert halved(x[n]) > v
    if qd.static(what == "call with effects"):
        assert x[1] > raised(x, 1.0)
    if qd.static(what == "index with effects"):
        assert x[int(raised(x, 1.0))] < 0.0
    if qd.static(what == "atomic"):
        assert qd.atomic_add(x[1], 1.0) > 2.0
    if qd.static(what == "by reference"):
        k = n - 3
        assert k < 1 and counted(k) < 1  # noqa: PT018
    if qd.static(what == "changed behind or"):
        k = n - 3
        assert n < 3 or counted(k) + k < 1
    if qd.static(what == "comprehension"):
        assert sum([x[i] for i in range(2)]) > v


@pytest.mark.parametrize(("what", "said", "after"), [
    ("number", "v + 1.0 < 3.0 (with v = 4.0)", 2),
    ("own text", "too large (with x[n] = 2.0, n = 3, v = 4.0)", 2),
    ("values in the text", "v is 4.0", 2),
    ("and", "n < 3 and x[n + 9] > v (with n = 3, v = 4.0)", 2),
    ("or", "not (n == 3 or x[n + 9] > 0.0) (with n = 3)", 2),
    ("attribute behind and", "n < 3 and s[n + 9].a > 0.0 (with n = 3)", 2),
    ("attribute", "s[n].a > 0.0 (with s[n].a = 0.0, n = 3)", 2),
    ("chain", "0.0 < x[0] < x[1] < x[n + 9] (with x[0] = 2.0, n = 3)", 2),
    ("conditional", "(x[n + 9] if n < 3 else v) < 3.0 (with n = 3, v = 4.0)", 2),
    ("index with a condition", "x[0 if n < 9 else n + 9] > 5.0 (with x[0 if n < 9 else n + 9] = 2.0, n = 3)", 2),
    ("call", "halved(x[n]) > v (with x[n] = 2.0, n = 3, v = 4.0)", 2),
    ("call with effects", "x[1] > raised(x, 1.0) (with x[1] = 2.0)", 3),
    ("index with effects", "x[int(raised(x, 1.0))] < 0.0 (with x[int(raised(x, 1.0))] = 2.0)", 3),
    ("atomic", "qd.atomic_add(x[1], 1.0) > 2.0\n", 3),
    ("by reference", "k < 1 and counted(k) < 1 (with k = 0)", 2),
    ("changed behind or", "n < 3 or counted(k) + k < 1 (with n = 3)", 2),
    ("comprehension", "sum([x[i] for i in range(2)]) > v (with v = 4.0)", 2),
])  # fmt: skip
def test_a_failed_assert_tells_what_it_read(what, said, after):
    """It tells the values that the test has seen, and reads nothing for that: ``after`` is the element that calls with
    effects change once."""
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    x = qd.field(qd.f32, 4)
    s = qd.Struct.field({"a": qd.f32}, shape=4)
    x.fill(2.0)
    with pytest.raises(qd.QuadrantsAssertionError, match=re.escape(f"compares: {said}")):
        compares(x, s, 3, what)
    assert x[1] == after
