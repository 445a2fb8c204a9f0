"""A gradient outside of a Tape belongs to its kernel's last launch: writes since then are warned about."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)
pytestmark = pytest.mark.filterwarnings("error")  # what is not expected


def field(*shape, **options):
    return qd.field(qd.f32, shape, needs_grad=True, **options)


def test_python_writes_in_between() -> None:
    x, y = field(name="x"), field(name="y")

    @qd.kernel
    def square():
        for _ in range(1):
            y[None] += x[None] ** 2

    y.grad[None] = 1
    for k in range(3):
        x[None] = 3.0
        square()
        x[None] = 5.0 + k
        with pytest.warns(qd.QuadrantsWarning, match="QL0417.*reads x, which Python wrote after square was launched"):
            square.grad()
    square.grad()  # once is enough
    square()
    square.grad()
    y[None] = 0.0  # which the gradient does not read
    square.grad()


def test_another_kernel_writes_in_between() -> None:
    x, y = field(4, name="x"), field(name="y")

    @qd.kernel
    def measure():
        for i in range(3):
            y[None] += qd.sin(x[i])

    @qd.kernel
    def move():
        for i in x:
            x[i] += 0.1

    @qd.kernel
    def mark():
        for _ in range(1):
            x[3] = 1.0

    y.grad[None] = 1
    measure()
    mark()
    measure.grad()
    measure()
    move()
    with pytest.warns(qd.QuadrantsWarning, match="QL0417.*reads x, which move wrote"):
        measure.grad()


def test_arguments() -> None:
    @qd.kernel
    def measure(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in a:
            b[0] += a[i] ** 2
    a, b, c = (qd.ndarray(qd.f32, n, needs_grad=True) for n in (4, 1, 4))
    a.fill(2.0)
    b.grad.fill(1.0)
    measure(a, b)
    a.fill(3.0)
    with pytest.warns(qd.QuadrantsWarning, match="QL0417.*reads a, which Python wrote"):
        measure.grad(a, b)
    measure(a, b)
    measure.grad(c, b)  # another array is another program


def test_steps_of_time_by_hand() -> None:
    """Writes of other launches to other time steps do not make a gradient stale."""
    u, f = field(6, 4), field(6, 4)

    @qd.kernel
    def forces(t: qd.i32):
        for i in range(4):
            f[t, i] = qd.sin(u[t, i])

    @qd.kernel
    def step(t: qd.i32):
        for i in range(4):
            u[t + 1, i] = u[t, i] + 0.1 * f[t, i] * u[t, i]

    for _ in range(2):
        u.fill(0.3)
        u.grad.fill(0.0)
        f.grad.fill(0.0)
        for t in range(5):
            forces(t)
            step(t)
        u.grad[5, 0] = 1.0
        for t in reversed(range(5)):
            step.grad(t)
            forces.grad(t)
    v, d = 0.3, 1.0
    for _ in range(5):
        d *= 1 + 0.1 * (np.cos(v) * v + np.sin(v))
        v += 0.1 * np.sin(v) * v
    assert abs(u.grad[0, 0] - d) < 1e-5


def test_a_gradient_of_ones_own_finds_what_its_tape_put_back() -> None:
    x, y = field(4), field()
    x.fill(0.5)

    @qd.kernel
    def cubes():
        for i in x:
            y[None] += x[i] ** 3

    @qd.kernel
    def halve():
        for i in x:
            x[i] = 0.5 * x[i]

    @qd.ad.grad_replaced
    def energy():
        cubes()

    @qd.ad.grad_for(energy)
    def energy_slope():
        cubes.grad()

    for memory in (None, 1 << 20):
        x.fill(0.5)
        with qd.ad.Tape(y, memory=memory):
            energy()
            halve()
        np.testing.assert_allclose(x.grad.to_numpy(), 0.75, rtol=1e-6)


def test_a_loop_of_gradients_looks_for_writers_once(monkeypatch) -> None:
    """Between the gradients nothing is written, so they share what was found, and each compares its own elements."""
    from quadrants_lab.runtime.observe import gradient_warnings

    x, y, loss = field(8, name="x"), field(8, name="y"), field(name="loss")

    @qd.kernel
    def use(t: qd.i32):
        loss[None] += x[t] * x[t] + y[t]

    @qd.kernel
    def write(t: qd.i32):
        x[t] = 2.0

    looks = []
    found = gradient_warnings.suspects
    monkeypatch.setattr(gradient_warnings, "suspects", lambda *args: looks.append(args) or found(*args))
    use(7)
    write(3)
    loss.grad[None] = 1.0
    for t in (7, 6, 5, 4):
        use.grad(t)
    assert len(looks) == 1
    write(2)
    use.grad(3)
    assert len(looks) == 2
    with pytest.warns(qd.QuadrantsWarning, match="QL0417.*reads x, which write wrote after use was launched"):
        use.grad(2)
    assert len(looks) == 2
    use.grad(2)  # once is enough


def test_an_argument_of_another_type_is_refused_as_in_the_launch() -> None:
    """To compare elements, the arguments of the gradient are read before they are checked."""
    x, loss = field(8, name="x"), field(name="loss")

    @qd.kernel
    def use(t: qd.i32):
        loss[None] += x[t] * x[t]

    @qd.kernel
    def write(t: qd.i32):
        x[t] = 2.0

    use(7)
    write(3)
    loss.grad[None] = 1.0
    use.grad(7)
    for wrong in ("7", None):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match="argument 't' of use is i32"):
            use.grad(wrong)
