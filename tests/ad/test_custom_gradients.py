"""Functions with a gradient of their own, under tapes and in forward mode."""

from __future__ import annotations

import runpy
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from ad.test_tape import field, for_y, session, total  # noqa: F401  # fixtures

import quadrants_lab as qd

# --- custom gradients

@qd.kernel
def scale(x: qd.template(), y: qd.template(), a: qd.f64):
    for i in x:
        y[i] = x[i] * a


def test_a_replaced_gradient_gets_the_arguments_and_the_memory() -> None:
    x, y, loss = field(3), field(3), field()
    x.fill(2.0)
    seen = []

    @qd.ad.grad_replaced
    def forward(a, *, b=1.0):
        scale(x, y, a * b)
        return "value"

    @qd.ad.grad_for(forward)
    def backward(a, *, b=1.0):
        seen.append((a, b, y[0]))
        for i in range(3):
            x.grad[i] += 100 * y.grad[i]

    with qd.ad.Tape(loss):
        assert forward(3.0, b=2.0) == "value"
        total(y, loss)
        scale(x, y, 0.0)
    assert seen == [(3.0, 2.0, 12.0)]
    assert x.grad.to_numpy().tolist() == [100 * 2 * 12.0] * 3
    assert y.to_numpy().tolist() == [0] * 3
    forward.grad(1.0)
    assert seen[-1] == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("inserted", [False, True])
def test_what_the_python_of_a_function_reads_is_kept_for_its_gradient(inserted: bool) -> None:
    x, y, loss = field(3), field(3), field()
    x.fill(3.0)

    @qd.ad.grad_replaced
    def square(a, b):
        b.from_numpy(a.to_numpy() ** 2)

    @qd.ad.grad_for(square)
    def backward(a, b):
        for i in range(3):
            a.grad[i] += 2 * a[i] * b.grad[i]

    tape = qd.ad.Tape(loss)
    if inserted:
        square(x, y)
    with tape:
        if inserted:
            tape.insert(square, [x, y])
        else:
            square(x, y)
        scale(y, x, 1.0)
        total(x, loss)
    assert x.grad.to_numpy().tolist() == [2 * 9 * 2 * 3.0] * 3
    assert x.to_numpy().tolist() == [9.0] * 3
    assert ("square", "scale") in [(kept.reader, kept.writer) for kept in tape.kept]


def test_a_replaced_method() -> None:
    loss = field()

    class Model:
        def __init__(self):
            self.x = field(3)

        @qd.ad.grad_replaced
        def forward(self, a):
            total(self.x, loss)

        @qd.ad.grad_for(forward)
        def backward(self, a):
            self.x.grad.fill(a)

    m = Model()
    with qd.ad.Tape(loss):
        m.forward(9.0)
    assert m.x.grad.to_numpy().tolist() == [9, 9, 9]


@qd.data_oriented
class Hidden:
    @qd.ad.no_grad
    @qd.kernel
    def scale(self, x: qd.template(), y: qd.template(), factor: qd.f32):
        for i in x:
            y[i] = x[i] * factor


@qd.ad.no_grad
def hidden_function(*args):
    scale(*args)


@pytest.mark.parametrize("hidden", [hidden_function, qd.ad.no_grad(scale), Hidden().scale])
def test_no_grad_counts_as_constant(hidden) -> None:
    x, y, loss = field(3), field(3), field()
    x.fill(2.0)
    with qd.ad.Tape(loss):
        hidden(x, y, 5.0)
        total(x, loss)
        total(y, loss)
    hidden.grad(x, y, 5.0)
    assert loss[None] == 3 * (4 + 100)
    assert x.grad.to_numpy().tolist() == [4, 4, 4]


def test_no_grad_ends_the_derivative_of_what_it_overwrites() -> None:
    """A constant overwrites y, whose derivative ends there; adding a constant to z leaves z's derivative alone."""
    x, y, z, loss = field(3), field(3), field(3), field()
    x.fill(2.0)

    @qd.kernel
    def reset():
        for i in y:
            y[i] = 0.5 * x[i]
            z[i] += x[i]

    hidden = qd.ad.no_grad(lambda: reset())
    with qd.ad.Tape(loss):
        scale(x, y, 3.0)
        scale(x, z, 3.0)
        hidden()
        for_y(y, loss)
        for_y(z, loss)
    assert x.grad.to_numpy().tolist() == [3, 3, 3]
    assert loss[None] == 3 * (1 + 8)


def test_no_grad_in_forward_mode() -> None:
    x, y, z = (qd.field(qd.f64, 3, needs_dual=True) for _ in range(3))
    x.fill(2.0)
    y.dual.fill(7)
    z.dual.fill(7)
    @qd.kernel
    def k():
        for i in x:
            y[i] = x[i]
            z[i] += x[i]
    with pytest.warns(qd.QuadrantsWarning, match="QL2096"), qd.ad.FwdMode(z, x, [1, 1, 1], clear_gradients=False):
        qd.ad.no_grad(lambda: k())()
    assert y.dual.to_numpy().tolist() == [0, 0, 0]
    assert z.dual.to_numpy().tolist() == [7, 7, 7]


def test_replaced_functions_nest() -> None:
    x, y, loss = field(3), field(3), field()
    x.fill(1.0)

    @qd.ad.grad_replaced
    def inner():
        scale(x, y, 2.0)

    @qd.ad.grad_for(inner)
    def inner_grad():
        raise AssertionError("belongs to outer")

    @qd.ad.grad_replaced
    def outer():
        inner()

    @qd.ad.grad_for(outer)
    def outer_grad():
        scale.grad(x, y, 2.0)

    with qd.ad.Tape(loss):
        outer()
        total(y, loss)
    assert x.grad.to_numpy().tolist() == [8, 8, 8]


def test_misuse_of_custom_gradients() -> None:
    loss = field()

    @qd.ad.grad_replaced
    def f():
        pass

    with pytest.raises(qd.QuadrantsRuntimeError, match="has no gradient"), qd.ad.Tape(loss):
        f()
    with pytest.raises(RuntimeError, match=r"\*\*python\*\* function"):
        qd.ad.grad_for(total)
    with pytest.raises(TypeError, match="decorates a Python function"):
        qd.ad.grad_replaced(total)
    with pytest.raises(TypeError, match="decorates a Python function"):
        qd.ad.no_grad(3)

    @qd.ad.grad_for(f)
    def g():
        pass

    with pytest.raises(RuntimeError, match="already"):

        @qd.ad.grad_for(f)
        def h():
            pass


def test_constants_of_one_array_as_two_arguments() -> None:
    x, loss = qd.ndarray(qd.f64, 3, needs_grad=True), field()

    @qd.kernel
    def squared(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in a:
            b[i] = a[i] * a[i]

    @qd.kernel
    def summed(a: qd.types.ndarray()):
        for i in a:
            loss[None] += a[i]

    x.fill(3.0)
    with qd.ad.Tape(loss):
        qd.ad.no_grad(lambda: squared(x, x))()
        summed(x)
    assert (loss[None], x.grad.to_numpy().tolist()) == (27.0, [0.0, 0.0, 0.0])


# the functions of a step, and what is launched in place of them to get the gradient of kernels
OVERWRITES = {
    "stores all of it": lambda b: ([b.replaced(b.double, b.back), b.sine], [b.double, b.sine]),
    "adds to what it holds": lambda b: (
        [b.replaced(b.double, b.back), b.replaced(b.add, b.back_of_add), b.sine], [b.double, b.add, b.sine]),
    "stores and then adds": lambda b: (
        [b.replaced(lambda: (b.double(), b.add()), lambda: (b.back_of_add(), b.back())), b.sine],
        [b.double, b.add, b.sine]),
    "clears by hand": lambda b: (
        [b.replaced(b.double, lambda: (b.back(), b.y.grad.fill(0))), b.sine], [b.double, b.sine]),
    "stores an array": lambda b: (
        [b.replaced(lambda: b.double_into(b.a), lambda: b.back_of_array(b.a)), lambda: b.sine_of(b.a)],
        [lambda: b.double_into(b.a), lambda: b.sine_of(b.a)]),
}  # fmt: skip


def overwriting() -> SimpleNamespace:
    x, y = (qd.field(qd.f64, 3, needs_grad=True) for _ in range(2))
    a = qd.ndarray(qd.f64, 3, needs_grad=True)

    @qd.kernel
    def double():
        for i in x:
            y[i] = 2.0 * x[i]

    @qd.kernel
    def back():
        for i in x:
            x.grad[i] += 2.0 * y.grad[i]

    @qd.kernel
    def add():
        for i in x:
            y[i] = y[i] + x[i]

    @qd.kernel
    def back_of_add():
        for i in x:
            x.grad[i] += y.grad[i]

    @qd.kernel
    def sine():
        for i in x:
            x[i] = qd.sin(y[i])

    @qd.kernel
    def double_into(a: qd.types.ndarray()):
        for i in a:
            a[i] = 2.0 * x[i]

    @qd.kernel
    def back_of_array(a: qd.types.ndarray()):
        for i in x:
            x.grad[i] += 2.0 * a.grad[i]

    @qd.kernel
    def sine_of(a: qd.types.ndarray()):
        for i in x:
            x[i] = qd.sin(a[i])

    def replaced(fn, gradient):
        forward = qd.ad.grad_replaced(lambda: fn())
        qd.ad.grad_for(forward)(lambda: gradient())
        return forward

    return SimpleNamespace(**locals())


@pytest.mark.parametrize("row", OVERWRITES.values(), ids=OVERWRITES)
def test_the_derivative_of_what_it_overwrites_ends(row) -> None:
    b, loss = overwriting(), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def measure():
        for i in b.x:
            loss[None] += b.x[i] * (i + 1)

    def gradients(functions, **options):
        b.x.fill(0.3)
        b.y.fill(0.1)
        with qd.ad.Tape(loss, **options):
            for _ in range(3):
                for function in functions:
                    function()
            measure()
        return np.array([b.x.grad.to_numpy(), b.y.grad.to_numpy()])

    own, kernels = row(b)
    right = gradients(kernels)
    for options in ({}, {}, {}, {"memory": 10000}):  # the second and the third one run again
        np.testing.assert_allclose(gradients(own, **options), right, rtol=1e-12)


# what a function with a custom gradient stores of y, 4 x 3 numbers or vectors: (its kernel's body, its gradient's)
PARTS = {
    "a range": ("for i in range(1, 3):\n        y[i, 0] = 2.0 * x[i, 0]",
                "for i in range(1, 3):\n        x.grad[i, 0] += 2.0 * y.grad[i, 0]"),
    "a range of the arguments": (
        "for i, j in qd.ndrange(n, (1, n)):\n        y[i + 1, 3 - j] = x[i, j]",
        "for i, j in qd.ndrange(n, (1, n)):\n        x.grad[i, j] += y.grad[i + 1, 3 - j]"),
    "a row from another one": (
        "for j in range(3):\n        y[1, j] = 2.0 * y[0, j]",
        "for j in range(3):\n        y.grad[0, j] += 2.0 * y.grad[1, j]"),
    "in an inner loop": (
        "for i in range(2):\n        for j in range(2):\n            y[i, j] = x[j, i]",
        "for i in range(2):\n        for j in range(2):\n            x.grad[j, i] += y.grad[i, j]"),
    "two boxes": (
        "for i in range(4):\n        y[i, 0] = x[i, 0]\n    for j in range(3):\n        y[1, j] = x[2, j] * y[2, j]",
        ("for j in range(3):\n        g = y.grad[1, j]\n        x.grad[2, j] += g * y[2, j]\n"
         "        y.grad[2, j] += g * x[2, j]\n        y.grad[1, j] = 0.0\n"
         "    for i in range(4):\n        x.grad[i, 0] += y.grad[i, 0]")),
    "in place": (
        "for i in range(3):\n        y[i, 1] = 2.0 * y[i, 1]",
        "for i in range(3):\n        y.grad[i, 1] = 2.0 * y.grad[i, 1]"),
    "one number": ("y[n, 1] = x[1, 1]", "x.grad[1, 1] += y.grad[n, 1]"),
    "zeros and a sum": (
        ("for i in range(3):\n        y[i, 1] = 0.0 * x[i, 1]\n        for j in range(n):\n"
         "            y[i, 1] += x[i, j]"),
        "for i in range(3):\n        for j in range(n):\n            x.grad[i, j] += y.grad[i, 1]"),
    "every second": (
        "for i in range(2):\n        y[2 * i, 1] = x[i, 1]",
        "for i in range(2):\n        x.grad[i, 1] += y.grad[2 * i, 1]\n        y.grad[2 * i, 1] = 0.0"),
    "under a condition": (
        "for i, j in y:\n        if i > j:\n            y[i, j] = x[i, j]",
        "for i, j in y:\n        if i > j:\n            x.grad[i, j] += y.grad[i, j]\n            y.grad[i, j] = 0.0"),
    "a loop that may end early": (
        ("for i in range(1):\n        for j in range(3):\n            if j == n:\n                break\n"
         "            y[i, j] = x[i, j]"),
        ("for i in range(1):\n        for j in range(n):\n            x.grad[i, j] += y.grad[i, j]\n"
         "            y.grad[i, j] = 0.0")),
    "a diagonal": (
        "for i in range(3):\n        y[i, i] = x[i, i]",
        "for i in range(3):\n        x.grad[i, i] += y.grad[i, i]\n        y.grad[i, i] = 0.0"),
    "a loop that may be empty": (
        "for i in range(3):\n        for j in range(n - 2):\n            y[i, 0] = x[i, 0]",
        "for i in range(3):\n        for j in range(n - 2):\n            x.grad[i, 0] += y.grad[i, 0]"),
}  # fmt: skip


@pytest.mark.parametrize("vectors", [False, True], ids=["numbers", "vectors"])
@pytest.mark.parametrize("row", PARTS.values(), ids=PARTS)
def test_the_derivative_of_a_part_that_it_overwrites_ends(row, vectors: bool, tmp_path) -> None:
    custom, gradients, kernel = overwriting_parts(row, vectors, tmp_path)
    right = gradients(kernel)
    for options in ({}, {}, {"memory": 10000}):  # the second one runs again
        np.testing.assert_allclose(gradients(custom, **options), right, rtol=1e-12)


@pytest.mark.parametrize("name", ["every second", "under a condition", "a loop that may end early", "a diagonal"])
def test_a_gradient_that_leaves_what_the_data_overwrite_is_told(name: str, tmp_path) -> None:
    forward, backward = PARTS[name]
    assert backward.count("= 0.0") == 1
    custom, gradients, _ = overwriting_parts((forward, backward[: backward.rindex("\n")]), False, tmp_path)
    with pytest.warns(qd.QuadrantsWarning, match=r"QL0426\]: the gradient of <lambda> leaves y.grad as it was"):
        gradients(custom)


def test_a_launch_that_cannot_be_repeated_takes_an_adjoint_that_was_left() -> None:
    x, y, loss, given = field(3), field(3), field(), np.array([1.0, 2.0, 3.0])

    @qd.kernel
    def first(a: qd.types.ndarray(ndim=1)):
        for i in y:
            y[i] = x[i] * a[i]

    @qd.kernel
    def some():
        for i in y:
            if x[i] > 1.0:
                y[i] = 5.0

    custom = qd.ad.grad_replaced(lambda: some())
    qd.ad.grad_for(custom)(lambda: None)
    x.from_numpy(np.array([0.5, 1.5, np.nan]))

    def run():
        with qd.ad.Tape(loss):
            first(given)
            custom()
            for_y(y, loss)

    with pytest.warns(qd.QuadrantsWarning, match="QL0426"):
        run()


def overwriting_parts(row, vectors: bool, tmp_path):
    """A function with a custom gradient of a row of `PARTS`; a function that returns gradients of a program that calls
    it, and the function's kernel."""
    make = partial(qd.Vector.field, 2) if vectors else qd.field
    x, y = (make(qd.f64, (4, 3), needs_grad=True) for _ in range(2))
    path, loss = tmp_path / "kernels.py", qd.field(qd.f64, (), needs_grad=True)
    head = "def {}(n: int):\n    {}\n\n@qd.kernel\n"
    path.write_text("@qd.kernel\n" + head.format("forward", row[0]) + head.format("backward", row[1]) + """\
def mix():
    for i, j in y:
        x[i, j] = qd.sin(y[i, j]) + 0.5 * x[i, j]

@qd.kernel
def measure():
    for i, j in x:
        loss[None] += (x[i, j] * x[i, j]).sum() * (i + 1) if qd.static(vectors) else x[i, j] ** 2 * (i + j)
""")
    b = runpy.run_path(str(path), {"qd": qd, "x": x, "y": y, "loss": loss, "vectors": vectors})
    custom = qd.ad.grad_replaced(lambda n: b["forward"](n))
    qd.ad.grad_for(custom)(lambda n: b["backward"](n))

    def gradients(function, **options):
        for f, first in ((x, 0.3), (y, 0.1)):
            f.from_numpy(first + 0.07 * np.arange(f.to_numpy().size).reshape(f.to_numpy().shape))
        with qd.ad.Tape(loss, **options):
            for n in (2, 1, 2):
                function(n)
                b["mix"]()
            b["measure"]()
        return np.array([x.grad.to_numpy(), y.grad.to_numpy()])

    return custom, gradients, b["forward"]
