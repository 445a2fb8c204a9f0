"""Where a compiler's gradient is wrong, the doctor goes from the launch to element, iteration and statement."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from check.bench import Bench
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import rewrite
from quadrants_lab.pipelines import derivatives
from quadrants_lab.runtime.check import dot_product, first_difference as narrowing
from quadrants_lab.runtime.check.by_hand import Forward
from quadrants_lab.runtime.check.dot_product import find_mismatch
from quadrants_lab.runtime.check.first_difference import narrow
from quadrants_lab.runtime.check.tangent import Tangents
from quadrants_lab.runtime.observe.observers import watch

session = session_of(EVERYWHERE)


@pytest.fixture
def wrong_sine(monkeypatch):
    """Makes the compiler use the sine as the derivative of the sine."""
    right = derivatives.gradient

    def worse(kernel: N.Kernel) -> N.Kernel:
        def one(s: N.Stmt) -> N.Stmt:
            return replace(s, prim="sin") if isinstance(s, N.Op) and s.prim == "cos" else s

        return replace(kernel, body=rewrite(kernel.body, one))

    monkeypatch.setattr(derivatives, "gradient", lambda *keeps: (*right(*keeps), worse))


def test_without_room_for_tangents_it_names_elements_only(wrong_sine, monkeypatch) -> None:
    b = Bench(qd.f32)
    x, y = b.x, b.y
    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.sin(x[i])
    monkeypatch.setattr(dot_product, "MOST_BYTES", 3)  # y's tangent alone takes 4
    (found,) = qd.ad.check(run, y, x).verdicts
    assert found.kind == "wrong"
    assert found.wrong is not None
    assert not found.causes


def test_no_element_is_named_that_is_right() -> None:
    b = Bench(qd.f32)
    x, y = b.x, b.y
    x.fill(0.5)

    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.sin(x[i]) * x[i]

    launches = Forward(repeatable=True)
    with watch(launches):
        run()
    tangents = Tangents(launches, y._memory)
    parted = find_mismatch(tangents, x._memory, np.ones(4), -1.0)  # taken for wrong wherever it is
    assert parted is not None
    assert narrow(tangents, parted, -1.0) is not None
    assert narrow(tangents, parted, 1e-3) is None
    launches.clear()


def cause_of(program, b, **more):
    report = qd.ad.check(program, b.y, b.x, **more)
    (found,) = report["x"].causes
    assert found.kind == "dot product", str(report)
    return found


def test_the_operation_whose_derivative_is_wrong(wrong_sine) -> None:
    b = Bench(qd.f32)
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            a = x[i] * x[i] + 0.25
            c = qd.sin(a) * 3.0  # here
            if c > 0.9:
                y[None] += qd.exp(c) * x[i]

    found = cause_of(run, b)
    assert found.statement.endswith("# here")
    assert found.kernel == "run"
    assert found.launch == 1
    at = found.iteration[0]
    shown = dict(found.values)
    v = float(b.x[at])
    np.testing.assert_allclose(shown["a"], v * v + 0.25, rtol=1e-5)
    c = 3.0 * np.sin(v * v + 0.25)
    np.testing.assert_allclose(
        shown["its derivative by forward mode"], 3.0 * np.cos(v * v + 0.25) * np.exp(c) * v, rtol=1e-3
    )


def test_one_iteration_among_many_of_the_second_launch(wrong_sine) -> None:
    n = 100
    x, w = (qd.field(qd.f32, (n, n), needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def one():
        for i, j in x:
            w[i, j] = 2.0 * x[i, j]

    @qd.kernel
    def two():
        for i, j in w:
            v = w[i, j]
            if i == 77 and j == 77:
                v = 1000.0 * qd.sin(v)  # here
            y[None] += v / 10000.0

    b = Bench(qd.f32)
    b.x, b.y = x, y
    found = cause_of(lambda: (one(), two()), b)
    assert found.statement.endswith("# here")
    assert (found.launch, found.iteration) == (2, (77, 77))


@pytest.mark.parametrize("slow", ["the interpreter", "the path"])
def test_an_iteration_of_many_trips_ends_with_what_is_known(wrong_sine, monkeypatch, slow) -> None:
    b = Bench(qd.f32)
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            v = qd.sin(x[i])
            for _ in range(100):
                v = v * 0.99 + 0.001
            y[None] += v

    if slow == "the path":
        monkeypatch.setattr(narrowing, "MOST_PATH", 50)
    else:
        clock = itertools.count(narrowing.monotonic(), 1.0)  # at each look at it a second has gone by
        monkeypatch.setattr(narrowing, "monotonic", lambda: next(clock))
    found = cause_of(run, b)
    assert found.label.startswith("x.grad[")
    assert ("it adds" in dict(found.values)) == (slow == "the path")  # a write is reached, and no operation


def test_in_a_loop_and_behind_other_tasks_at_least_the_line_that_reads(wrong_sine) -> None:
    b = Bench(qd.f32)
    x, y, w = b.x, b.y, b.w
    @qd.kernel
    def run():
        for i in x:
            w[i] = 2.0 * x[i]
        for i in x:
            v = w[i]
            for _ in range(3):
                v = qd.sin(v) + 0.1
            y[None] += v
    found = cause_of(run, b)
    assert found.statement == "w[i] = 2.0 * x[i]"
    assert found.iteration


def test_a_gradient_of_ones_own_names_the_wrong_iteration() -> None:
    n = 64
    x, y = qd.field(qd.f32, n, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(np.linspace(0.1, 1.0, n, dtype=np.float32))

    @qd.kernel
    def cubes():
        for i in x:
            y[None] += x[i] ** 3

    @qd.kernel
    def slopes():
        for i in x:
            factor = 3.0
            if i == 50:
                factor = 2.5
            x.grad[i] += factor * x[i] * x[i] * y.grad[None]  # here

    forward = qd.ad.grad_replaced(lambda: cubes())

    @qd.ad.grad_for(forward)
    def back():
        slopes()

    report = qd.ad.check(lambda: forward(), y, x)
    (found,) = report["x"].causes
    assert found.kind == "custom gradient"
    assert found.statement.endswith("# here")
    assert found.iteration == (50,)
    assert dict(found.values)["x[i]"] == x[50]
