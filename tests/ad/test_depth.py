"""Values and gradients of deep programs."""

from __future__ import annotations

import numpy as np
import pytest
from oracle.sines import sines
from programs.deep import PROGRAMS, X, define, made
from sessions import EVERYWHERE

import quadrants_lab as qd

BY_NIGHT = [("metal", name) for name in ("elifs", "conditions", "funcs")]  # a C++ compiler takes seconds over them
WAYS = [
    pytest.param(*p.values, n, id=f"{p.id}-{n}", marks=[*p.marks, *[pytest.mark.slow] * ((p.id, n) in BY_NIGHT)])
    for p in EVERYWHERE for n in PROGRAMS
]  # fmt: skip


@pytest.mark.parametrize(("options", "name"), WAYS)
def test_gradient(options, name):
    make, n = PROGRAMS[name]
    program = make(n)
    qd.init(**options)
    kernel, x, y = made(program)
    y.grad.fill(1.0)
    kernel()
    np.testing.assert_allclose(y.to_numpy(), program.value(X), rtol=1e-5)
    kernel.grad()
    np.testing.assert_allclose(x.grad.to_numpy(), program.slope(X), rtol=1e-5)
    qd.reset()


@pytest.mark.parametrize("bound", [
    " + ".join(f"m[{j}]" for j in range(1000)),
    "qd.max(" * 150 + "m[0]" + "".join(f", m[{j}] - 1)" for j in range(150)) + " * 1000",
], ids=["sum", "maximum"])
def test_trip_counts_of_many_parts(bound):
    """Their stacks are counted: an expression for each would be evaluated before each launch, part by part."""
    qd.init(arch=qd.cpu, offline_cache=False)
    x, y = (qd.field(qd.f64, shape=2, needs_grad=True) for _ in range(2))
    m = qd.field(qd.i32, shape=1000)
    m.fill(1)
    x.from_numpy(np.array([0.5, 0.75]))
    text = f"""
@qd.kernel
def k():
    for i in x:
        v = x[i]
        for _ in range(({bound}) // 100):
            v = qd.sin(v)
        y[i] = v
"""
    k = define(text, x=x, y=y, m=m)["k"]
    y.grad.fill(1.0)
    k()
    k.grad()
    v, slope = sines(x.to_numpy(), 10)
    np.testing.assert_allclose(y.to_numpy(), v, rtol=1e-12)
    np.testing.assert_allclose(x.grad.to_numpy(), slope, rtol=1e-12)
    assert [row.how for row in k.sizes()] == ["counted by the counting slice"]
    qd.reset()


def test_keeping_an_array_of_many_axes():
    """The task that copies the array has an index for each axis, here ten."""
    qd.init(arch=qd.cpu, offline_cache=False)
    x = qd.field(qd.f32, shape=(1, 2) * 5, needs_grad=True)
    x.fill(3.0)
    @qd.kernel
    def square():
        for at in qd.grouped(x):
            x[at] = x[at] * x[at]
    square()
    x.grad.fill(1.0)
    square.grad()
    assert (x.to_numpy() == 9.0).all()
    assert (x.grad.to_numpy() == 6.0).all()
    qd.reset()
