"""`qd.ad.hessian_vector`: products with Hessians of whole programs, against closed forms and numpy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from complex_step import gradient
from sessions import EVERYWHERE, sessions

import quadrants_lab as qd

ON_CPU = pytest.mark.parametrize("real", sessions("cpu"), indirect=True)


@pytest.fixture(autouse=True, params=EVERYWHERE)
def real(request):
    """A session, and the floating-point dtype that its device has."""
    dtype = qd.f32 if request.param["arch"] == "metal" else qd.f64
    qd.init(**request.param, default_fp=dtype)
    yield dtype
    qd.reset()


def close(found: Any, want: Any, tol: float = 1e-11) -> None:
    """To ``tol`` of the greatest number, in f32 to 1e-4."""
    assert found.shape == np.shape(want)
    tol = tol if found.dtype == np.float64 else 1e-4
    assert np.abs(found - want).max(initial=0) <= tol * max(1.0, np.abs(want).max(initial=0)), (found, want)


def changes(f: Callable[[Any], Any], x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """How the gradient of ``f``, numpy code of analytic operations, changes along v."""
    h = 1e-5
    return (gradient(f, x + h * v) - gradient(f, x - h * v)) / (2 * h)


def filled(values: Any, real: Any, make: Any = None) -> Any:
    values = np.asarray(values, real.numpy)
    x = (make or qd.field)(real, values.shape, needs_grad=True)
    x.from_numpy(values)
    return x


def scalar(real: Any) -> Any:
    return qd.field(real, (), needs_grad=True)


@qd.kernel
def cubes(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] ** 3 + x[i] * x[(i + 1) % 4]


def test_a_polynomial(real) -> None:
    x, loss = filled([1, -2, 0.5, 3], real), scalar(real)
    v = np.array([1.0, 2, -1, 0.5])
    a = x.to_numpy().astype(float)
    for way in (v, -v, np.zeros(4)):
        found = qd.ad.hessian_vector(lambda: cubes(x, loss), loss, x, way)
        close(found, 6 * a * way + np.roll(way, 1) + np.roll(way, -1))
        close(x.grad.to_numpy(), 3 * a * a + np.roll(a, 1) + np.roll(a, -1))  # as a Tape leaves it
        assert loss[None] == pytest.approx((a**3 + a * np.roll(a, -1)).sum(), rel=1e-5)
        assert loss.grad[None] == 1


def test_a_loop_with_trips_from_data(real) -> None:
    x, n, loss = filled([0.3, 0.7, -1.2, 0.1], real), qd.field(qd.i32, 4), scalar(real)

    @qd.kernel
    def f():
        for i in x:
            v = x[i]
            for k in range(n[i]):
                v = qd.sin(v) + 0.2 * qd.exp(-v * x[(i + 1) % 4]) if k % 2 == 0 else v * v + 0.1
            loss[None] += v * v

    def by_numpy(a):
        total = 0.0
        for i in range(4):
            v = a[i]
            for k in range(trips[i]):
                v = np.sin(v) + 0.2 * np.exp(-v * a[(i + 1) % 4]) if k % 2 == 0 else v * v + 0.1
            total += v * v
        return total

    for trips in ([0, 1, 2, 5], [7, 3, 0, 4]):
        n.from_numpy(np.array(trips, np.int32))
        v = np.array([1.0, -0.5, 0.3, 2])
        close(qd.ad.hessian_vector(f, loss, x, v), changes(by_numpy, x.to_numpy().astype(float), v), 1e-8)


def test_logistic_regression(real) -> None:
    rng = np.random.default_rng(0)
    rows, labels, way = rng.normal(size=(20, 5)), rng.integers(0, 2, 20), rng.normal(size=5)
    w, loss, data = filled(rng.normal(size=5), real), scalar(real), qd.field(real, (20, 5))
    y = qd.field(qd.i32, 20)
    data.from_numpy(rows.astype(real.numpy))
    y.from_numpy(labels.astype(np.int32))

    @qd.kernel
    def f():
        for i in range(20):
            z = 0.0
            for j in range(5):
                z += data[i, j] * w[j]
            loss[None] += qd.log(1.0 + qd.exp(z)) - y[i] * z

    p = 1 / (1 + np.exp(-rows @ w.to_numpy()))
    close(qd.ad.hessian_vector(f, loss, w, way), rows.T @ (p * (1 - p) * (rows @ way)))
    close(w.grad.to_numpy(), rows.T @ (p - labels))


def test_a_net_of_springs(real) -> None:
    """Vectors, and a sparse Hessian: a point meets its neighbours alone."""
    rng = np.random.default_rng(1)
    n, links = 6, np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 3)], np.int32)
    x = qd.Vector.field(2, real, n, needs_grad=True)
    ends, loss = qd.Vector.field(2, qd.i32, len(links)), scalar(real)
    x.from_numpy(rng.normal(size=(n, 2)).astype(real.numpy))
    ends.from_numpy(links)

    @qd.func
    def energy(a, b):
        return 0.5 * ((a - b).norm() - 1.0) ** 2

    @qd.kernel
    def f():
        for k in ends:
            loss[None] += energy(x[ends[k][0]], x[ends[k][1]])

    def by_numpy(a):
        d = a[links[:, 0]] - a[links[:, 1]]
        return (0.5 * (np.sqrt((d * d).sum(axis=1)) - 1) ** 2).sum()

    at = x.to_numpy().astype(float)
    v = np.zeros((n, 2))
    v[5] = 0.3, -0.8
    found = qd.ad.hessian_vector(f, loss, x, v)
    close(found, changes(by_numpy, at, v), 1e-8)
    assert not found[:4].any()


def test_twenty_steps_in_place(real) -> None:
    """Each step overwrites what the gradient of the one before reads; a copy and two planes in turn are in between."""
    x, u, loss = filled([0.4, -0.2, 0.9], real), qd.field(real, 3, needs_grad=True), scalar(real)
    start = x.to_numpy().astype(float)

    @qd.kernel
    def kick(x: qd.template(), u: qd.template()):
        for i in x:
            u[i] -= 0.1 * qd.sin(x[i]) * x[(i + 1) % 3]

    @qd.kernel
    def drift():
        for i in x:
            x[i] += 0.1 * u[i]

    @qd.kernel
    def measure():
        for i in x:
            loss[None] += x[i] ** 2 + u[i] * x[(i + 1) % 3]

    def program():
        x.from_numpy(start.astype(real.numpy))
        u.fill(0)
        for _ in range(20):
            kick(x, u)
            drift()
        measure()

    def by_numpy(a):
        x, u = np.array(a), np.zeros_like(a)
        for _ in range(20):
            u = u - 0.1 * np.sin(x) * np.roll(x, -1)
            x = x + 0.1 * u
        return (x**2 + u * np.roll(x, -1)).sum()

    v = np.array([1.0, 0.5, -2])
    for _ in range(2):
        close(qd.ad.hessian_vector(program, loss, x, v), changes(by_numpy, start, v), 1e-8)
        close(x.grad.to_numpy(), gradient(by_numpy, start))


@pytest.mark.filterwarnings("error:.*QL2102")
def test_a_recorded_program_again_and_again(real) -> None:
    """As a Newton method does: the same launches from other values, among gradients of the same Tape."""
    x, y, loss = filled([0.4, -0.2, 0.9], real), qd.field(real, 3, needs_grad=True), scalar(real)

    @qd.kernel
    def begin():
        for i in x:
            y[i] = x[i] * x[(i + 1) % 3]

    @qd.kernel
    def step():
        for i in y:
            y[i] = y[i] + 0.2 * qd.sin(y[i])

    @qd.kernel
    def end():
        for i in y:
            loss[None] += y[i] ** 2

    @qd.ad.program
    def program():
        begin()
        for _ in range(4):
            step()
        end()

    def by_numpy(a):
        y = a * np.roll(a, -1)
        for _ in range(4):
            y = y + 0.2 * np.sin(y)
        return (y * y).sum()

    for n in range(6):
        v = np.cos(np.arange(3.0) + n)
        at = x.to_numpy().astype(float)
        close(qd.ad.hessian_vector(program, loss, x, v), changes(by_numpy, at, v), 1e-8)
        close(x.grad.to_numpy(), gradient(by_numpy, at))
        x.from_numpy((at + 0.1 * v).astype(real.numpy))
        with qd.ad.Tape(loss):
            program()
        close(x.grad.to_numpy(), gradient(by_numpy, x.to_numpy().astype(float)))


def test_matrices_of_an_ndarray(real) -> None:
    rng = np.random.default_rng(2)
    m, loss = qd.Matrix.ndarray(2, 2, real, 3, needs_grad=True), scalar(real)
    values = rng.normal(size=(3, 2, 2)) + 2 * np.eye(2)
    m.from_numpy(values.astype(real.numpy))

    @qd.kernel
    def f(m: qd.types.ndarray()):
        for i in m:
            a = m[i]
            loss[None] += a.inverse()[0, 1] + a.determinant() * a.trace() + (a @ a.transpose()).norm_sqr()

    def by_numpy(a):
        det = a[:, 0, 0] * a[:, 1, 1] - a[:, 0, 1] * a[:, 1, 0]
        square = a @ a.transpose(0, 2, 1)
        return (-a[:, 0, 1] / det + det * (a[:, 0, 0] + a[:, 1, 1])).sum() + (square * square).sum()

    v = rng.normal(size=(3, 2, 2))
    close(qd.ad.hessian_vector(lambda: f(m), loss, m, v), changes(by_numpy, m.to_numpy().astype(float), v), 1e-8)
    close(m.grad.to_numpy(), gradient(by_numpy, m.to_numpy().astype(float)))


def test_several_parameters(real) -> None:
    x, a, loss = filled([1, 2, 3], real), filled([0.5, -1, 2], real, qd.ndarray), scalar(real)

    @qd.kernel
    def f(a: qd.types.ndarray()):
        for i in a:
            loss[None] += x[i] * x[i] * a[i]

    def program():
        f(a)

    p, q = x.to_numpy(), a.to_numpy()
    one, both = np.ones(3, real.numpy), [2 * q + 2 * p, 2 * p]
    for found, want in zip(qd.ad.hessian_vector(program, loss, [x, a], [one, one]), both, strict=True):
        close(found, want)
    named = qd.ad.hessian_vector(program, loss, {"x": x, "a": a}, {"a": one, "x": one})
    assert list(named) == ["x", "a"]
    for found, want in zip(named.values(), both, strict=True):
        close(found, want)
    close(qd.ad.hessian_vector(program, loss, a, one), np.zeros(3))  # x stays where it is


def test_members_of_structs(real) -> None:
    s, loss = qd.types.struct(p=real, q=real).field(shape=3, needs_grad=True), scalar(real)
    s.p.fill(2.0)
    s.q.fill(3.0)

    @qd.kernel
    def f():
        for i in s:
            loss[None] += s[i].p ** 2 * s[i].q

    p, q = qd.ad.hessian_vector(f, loss, [s.p, s.q], [[1, 0, 2], [0, 1, 0]])
    close(p, [6, 4, 12])
    close(q, [4, 0, 8])


def test_pieces(real) -> None:
    """abs, min, max and integers are linear or constant in pieces; an atomic maximum is what its winner is."""
    x, y, loss = filled([0.5, -0.7, 2, -1.1], real), filled([0, 0], real), scalar(real)

    @qd.kernel
    def f():
        for i in y:
            y[i] = -9.0
        for i in x:
            qd.atomic_max(y[i % 2], qd.sin(x[i]) * x[(i + 1) % 4])
        for i in x:
            loss[None] += abs(x[i]) + qd.max(x[i], 0.1) + 2.0 * qd.floor(x[i])
            loss[None] += qd.min(x[i] * x[i], 1.5) * x[0] + (x[i] if int(x[i]) == 2 else 0.0)
        for i in y:
            loss[None] += y[i] * y[i]

    def by_numpy(a):
        products = np.sin(a) * np.roll(a, -1)
        first = products[0] if products[0].real > products[2].real else products[2]
        second = products[1] if products[1].real > products[3].real else products[3]
        linear = sum(v if v.real > 0 else -v for v in a) + sum(v for v in a if v.real > 0.1)
        bounded = sum((v * v if (v * v).real < 1.5 else 1.5) * a[0] for v in a)
        return linear + bounded + first**2 + second**2

    v = np.array([1.0, 2, -0.4, 0.3])
    close(qd.ad.hessian_vector(f, loss, x, v), changes(by_numpy, x.to_numpy().astype(float), v), 1e-8)


def test_an_atomic_maximum_that_many_win(real) -> None:
    x, y, loss = filled([2.0, 2.0, 1.0], real), scalar(real), scalar(real)

    @qd.kernel
    def f():
        for i in x:
            qd.atomic_max(y[None], x[i] * x[i])

    @qd.kernel
    def square():
        loss[None] += y[None] * y[None]

    def program():
        f()
        square()

    y[None] = -1.0
    found = qd.ad.hessian_vector(program, loss, x, [1, 1, 0])
    close(x.grad.to_numpy(), [16, 16, 0])  # the mean of the winners' derivatives, 2 * 4 * 2 * 2 / 2
    close(found, [24, 24, 0])  # 12 x^2 / 2 along both


def test_what_is_constant(real) -> None:
    """Of stop_grad, of a no_grad function and of what Python writes there is no derivative."""
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
def test_a_parameter_of_an_earlier_session(real) -> None:
    x = filled([1, 2], real)
    qd.init(arch=qd.cpu, default_fp=real)
    loss = scalar(real)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2001"):
        qd.ad.hessian_vector(lambda: None, loss, x, [1, 1])


@ON_CPU
def test_everything_else_is_as_under_a_tape(real) -> None:
    x, loss = filled([1, 2, 3, 4], real), scalar(real)
    other = qd.field(real, 4, needs_grad=True, needs_dual=True)
    other.dual.fill(5)
    qd.ad.hessian_vector(lambda: cubes(x, loss), loss, x, [1, 0, 0, 0])
    gradient_, value = x.grad.to_numpy(), loss[None]
    with qd.ad.Tape(loss):
        cubes(x, loss)
    assert (x.grad.to_numpy() == gradient_).all()
    assert loss[None] == value
    assert x.dual is None
    assert (other.dual.to_numpy() == 5).all()
    other.fill(2)
    close(qd.ad.hessian_vector(lambda: cubes(other, loss), loss, other, [1, 0, 0, 0]), [12, 1, 0, 1])


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
    assert [text[8:14] for text in want] == ["QL0406", "QL0407", "QL0415", "QL0407"]
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
