"""Second derivatives: constants, recomputation, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from ad.test_second import ON_CPU, changes, close, cubes, filled, real, scalar  # noqa: F401  # fixtures

import quadrants_lab as qd


def test_constants_have_no_second_derivative(real) -> None:
    """The results of stop_grad, of a no_grad function and of writes by Python have no derivative."""
    x, loss = filled([1, 2, 3], real), scalar(real)
    y, z = (qd.field(real, 3, needs_grad=True) for _ in range(2))

    @qd.kernel
    def f():
        for i in x:
            loss[None] += (qd.stop_grad(x[i]) + y[i] + z[i]) * x[i] ** 2

    @qd.kernel
    def square(y: qd.template()):
        for i in x:
            y[i] = x[i] ** 2

    @qd.ad.no_grad
    def constant():
        square(z)

    def program():
        square(z)
        constant()
        square(y)
        y[1] = 7.0
        f()

    a, v = x.to_numpy(), np.array([1, 1, 2], real.numpy)
    found = qd.ad.hessian_vector(program, loss, x, v)
    close(found, (2 * a + 2 * a**2 + np.where([True, False, True], 12 * a**2, 14)) * v)


def test_checkpoints_and_random_numbers(real) -> None:
    x, drawn, loss = filled([0.5, 0.9], real), qd.field(real, 2), scalar(real)

    @qd.kernel
    def f(checkpoint: qd.template()):
        for i in x:
            drawn[i] = qd.random(real)
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=checkpoint)
            for _ in range(9):
                v = v + 0.1 * qd.sin(v)
            loss[None] += v * v * drawn[i]

    @qd.kernel
    def counted():
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            for k in range(12):
                j = 0
                while j < (k * k + i) % 4:
                    v = v + 0.1 * qd.sin(v)
                    j += 1
            loss[None] += v * v

    def counted_by_numpy(a):
        total = 0.0
        for i in range(2):
            v = a[i]
            for _ in range(sum((k * k + i) % 4 for k in range(12))):
                v = v + 0.1 * np.sin(v)
            total += v * v
        return total

    @qd.kernel
    def draw():
        for i in x:
            r = qd.random(real)
            drawn[i] = r
            loss[None] += x[i] ** 3 * r

    def by_numpy(a):
        v = a
        for _ in range(9):
            v = v + 0.1 * np.sin(v)
        return (v * v * drawn.to_numpy()).sum()

    for checkpoint in (True, False):
        found = qd.ad.hessian_vector(lambda: f(checkpoint), loss, x, [1, 2])
        close(found, changes(by_numpy, x.to_numpy().astype(float), np.array([1.0, 2])), 1e-8)
    found = qd.ad.hessian_vector(counted, loss, x, [1, 2])
    close(found, changes(counted_by_numpy, x.to_numpy().astype(float), np.array([1.0, 2])), 1e-8)
    found = qd.ad.hessian_vector(draw, loss, x, [1, 1])
    close(found, 6 * x.to_numpy() * drawn.to_numpy())


def test_exponents_that_change(real) -> None:
    x, p, loss = filled([2, 3, 0.5], real), filled([0, 1.5, 0], real), scalar(real)
    @qd.kernel
    def f():
        for i in x:
            loss[None] += x[i] ** p[i]
    a, b = x.to_numpy(), p.to_numpy()
    one, zero = np.ones(3), np.zeros(3)
    along_x = qd.ad.hessian_vector(f, loss, [x, p], [one, zero])
    along_p = qd.ad.hessian_vector(f, loss, [x, p], [zero, one])
    close(along_x[0], b * (b - 1) * a ** (b - 2))
    close(along_x[1], a ** (b - 1) * (1 + b * np.log(a)))
    close(along_p[0], along_x[1])
    close(along_p[1], a**b * np.log(a) ** 2)


def test_ndarrays_in_place(real) -> None:
    """The loss is one of them; every launch has a trip count of its own, and tensors are fields or arrays."""
    a, total = qd.Vector.ndarray(2, real, 3, needs_grad=True), filled([0], real, qd.ndarray)
    scale = qd.tensor(real, (), needs_grad=True)
    scale[None] = 0.5

    @qd.kernel
    def square(a: qd.types.ndarray(), scale: qd.Tensor, n: qd.i32):
        for i in range(n):
            a[i] = a[i] * a[i] * scale[None]

    @qd.kernel
    def measure(a: qd.types.ndarray(), total: qd.types.ndarray()):
        for i in a:
            total[0] += a[i].norm_sqr() ** 2

    def program():
        a.fill(1.5)
        for n in range(4):
            square(a, scale, n)
        measure(a, total)

    def by_numpy(a):
        a, by = np.array(a[:6]).reshape(3, 2), a[6]
        for n in range(4):
            a[:n] = a[:n] ** 2 * by
        return ((a * a).sum(axis=1) ** 2).sum()

    at, v = np.array([1.5] * 6 + [0.5]), np.array([1, 0.5, -1, 2, 0, 0.3, 0.2])
    along_a, along_scale = qd.ad.hessian_vector(program, total, [a, scale], [v[:6], v[6]])
    want = changes(by_numpy, at, v)
    close(along_a, want[:6].reshape(3, 2), 1e-8)
    close(along_scale, want[6], 1e-8)


@ON_CPU
def test_memory_of_others_has_no_second_derivative(real) -> None:
    a, loss = filled([1, 2], real, qd.ndarray), scalar(real)
    @qd.kernel
    def f(a: qd.types.ndarray()):
        for i in a:
            loss[None] += a[i] ** 3
    a._memory.foreign = True  # as that of a tensor
    x = filled([1], real)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2103.*memory of another library"):
        qd.ad.hessian_vector(lambda: f(a), loss, x, [1])


@ON_CPU
def test_warnings_are_those_of_a_tape(real) -> None:
    x, hidden, loss = filled([1, 2], real), qd.field(real, 2), scalar(real)

    @qd.kernel
    def f():
        for i in x:
            hidden[i] = x[i] * x[i]
        for i in x:
            loss[None] += hidden[i] + int(x[i])

    def told(run: Callable[[], object]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
        return [str(w.message) for w in caught]

    def under_a_tape():
        with qd.ad.Tape(loss):
            program()

    def program():
        f()
        x[0] = 3.0
        f()

    want = told(under_a_tape)
    assert [text[8:14] for text in want] == ["QL0406", "QL0407", "QL0415"]
    assert told(lambda: qd.ad.hessian_vector(program, loss, x, [1, 1])) == want
    assert told(lambda: qd.ad.hessian_vector(lambda: None, loss, x, [1, 1]))[0].startswith("warning[QL2096]")


@ON_CPU
@pytest.mark.parametrize("checks", [{"debug": True}, {"check_out_of_bound": True}])
def test_checked_launches(real, checks) -> None:
    qd.reset()
    qd.init(arch=qd.cpu, default_fp=real, **checks)
    x, loss = filled([1, -2, 0.5, 3], real), scalar(real)
    found = qd.ad.hessian_vector(lambda: cubes(x, loss), loss, x, [1, 2, 3, 4])
    close(found, 6 * x.to_numpy() * [1, 2, 3, 4] + np.array([6, 4, 6, 4]))
