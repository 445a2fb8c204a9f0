"""Which overwritten values a launch saves for its gradient, how many, and that memory stays as the launch left it."""

from __future__ import annotations

import numpy as np
import pytest
from programs import PROGRAMS, overwrites as P
from running import Bench, f64, job_of
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

# program -> rows of the report: buffer, values that are kept, bytes
KEPT = {
    "relaxation_in_place": [("x", 16, 128)],
    "sorting_by_swaps": [("x", 8, 64)],
    "prefix_product_in_place": [("x", 8, 64)],
    "lu_in_place": [("a", 20, 160)],
    "links_of_a_tree": [],
    "a_part_in_place": [("y", 4, 32), ("x", 4, 32)],
    "moved_after_it_was_read": [("pos", 12, 96)],
    "ping_pong_of_two_planes": [],
    "atomics_of_ones_own_element": [("y", 6, 48), ("x", 6, 48)],
}


@pytest.mark.parametrize("name", KEPT)
def test_the_report(name):
    program = PROGRAMS[name]
    assert program.fn is getattr(P, name)
    bench = Bench(f64)
    job = job_of(program, program.cases[0])
    bench.run(job)
    sizes = bench.kernels[job.fn, False].sizes()
    assert [(k.name, k.elements, k.bytes) for k in sizes.kept] == KEPT[name]
    for k in sizes.kept:
        assert k.reason == f"overwritten at line {k.line}"
        assert f"kept of {k.name}: {k.elements} values, {k.bytes} bytes a launch" in str(sizes)


session = session_of(EVERYWHERE, autouse=False)


def field(*shape):
    return qd.field(qd.f32, shape, needs_grad=True)


def test_memory_is_left_as_the_launch_left_it(session):
    x, y, seen = field(8), field(), qd.field(qd.i32, 8)

    @qd.kernel
    def k():
        for i in x:
            seen[i] += 1
            for _ in range(seen[i]):
                x[i] = qd.sin(x[i]) + 0.2
        for i in x:
            y[None] += x[i] * x[i]
        for i in x:
            x[i] = 0.0

    start = np.linspace(0.1, 0.9, 8, dtype=np.float32)
    found = []
    for _ in range(2):
        x.from_numpy(start)
        seen.fill(1)
        y.fill(0.0)
        k()
        y.grad[None] = 1.0
        for _ in range(2):  # the gradient of one launch, twice
            x.grad.fill(0.0)
            k.grad()
            found.append(x.grad.to_numpy())
            assert not x.to_numpy().any()
            assert (seen.to_numpy() == 2).all()
    v, d = start.astype(np.float64), 1.0
    for _ in range(2):
        d, v = d * np.cos(v), np.sin(v) + 0.2
    for got in found:
        np.testing.assert_allclose(got, 2 * v * d, rtol=1e-5)


def test_each_launch_of_a_tape_has_its_own(session):
    x, y = field(5), field()

    @qd.kernel
    def step(a: qd.f32):
        for i in x:
            x[i] = a * qd.sin(x[i]) * x[i]

    @qd.kernel
    def total():
        for i in x:
            y[None] += x[i]

    x.from_numpy(np.linspace(0.5, 1.2, 5, dtype=np.float32))
    v = np.linspace(0.5, 1.2, 5)
    d = np.ones(5)
    tape = qd.ad.Tape(y)
    with tape:
        for k in range(4):
            step(1.0 + 0.1 * k)
            d, v = d * (1.0 + 0.1 * k) * (np.cos(v) * v + np.sin(v)), (1.0 + 0.1 * k) * np.sin(v) * v
        total()
    np.testing.assert_allclose(x.grad.to_numpy(), d, rtol=1e-4)
    np.testing.assert_allclose(x.to_numpy(), v, rtol=1e-5)
    own = next(k for k in tape.kept if (k.name, k.reader, k.writer) == ("x", "step", "step"))
    assert own.elements >= 20
    assert own.bytes == 4 * own.elements


def test_only_the_rows_that_are_written_are_kept(session):
    u, y = field(1000, 4), field()
    @qd.kernel
    def row(t: qd.i32):
        for i in range(4):
            u[t, i] = u[t, i] * u[t, i]
        for i in range(4):
            y[None] += u[t, i]
    u.fill(3.0)
    row(7)
    y.grad[None] = 1.0
    row.grad(7)
    assert u.grad[7, 2] == 6.0
    assert [(k.elements, k.bytes) for k in row.sizes().kept] == [(4, 16)]


def test_a_gradient_that_fails_puts_memory_back(session):
    qd.init(arch=getattr(qd, session), simulate=True, check_out_of_bound=True)
    x, y, at = field(6), field(6), qd.field(qd.i32, 6)

    @qd.kernel
    def k():
        for i in x:
            y[i] = x[i] * x[at[i]]
        for i in x:
            x[i] = x[i] * x[i]

    x.from_numpy(np.arange(6, dtype=np.float32))
    k()
    left = x.to_numpy()
    y.grad.fill(1.0)
    at[3] = 17
    with pytest.raises(qd.QuadrantsAssertionError, match="index 17 is out of bounds"):
        k.grad()
    assert np.array_equal(x.to_numpy(), left)
    at[3] = 0
    x.grad.fill(0.0)
    y.grad.fill(1.0)  # of which the one that failed has used some
    k.grad()
    np.testing.assert_allclose(x.grad.to_numpy(), [15, 0, 0, 0, 0, 0])
    assert np.array_equal(x.to_numpy(), left)


def test_arguments(session):
    @qd.kernel
    def k(a: qd.types.ndarray(), y: qd.types.ndarray(), n: qd.i32):
        for i in range(n):
            a[i] = a[i] * a[i]
        for i in a:
            y[0] += a[i]

    y = qd.ndarray(qd.f32, 1, needs_grad=True)
    y.grad.fill(1.0)
    for size in (4, 9, 2):
        a, b = (qd.ndarray(qd.f32, size, needs_grad=True) for _ in range(2))
        a.fill(3.0)
        k(a, y, size - 1)
        k.grad(a, y, size - 1)
        assert a.grad.to_numpy().tolist() == [6.0] * (size - 1) + [1.0]
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL0416.*its last launch was one with other arguments"):
            k.grad(b, y, size - 1)


def test_a_checkpoint_where_writes_are_repeated(session):
    """If the gradient repeats the writes of a loop, the loop's values are kept without checkpoints."""
    x, y = field(3), field()

    @qd.kernel
    def k(n: qd.i32):
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            for _ in range(n):
                x[i] = qd.sin(x[i] + v)
                v = x[i] * v
            y[None] += v

    x.from_numpy(np.array([0.4, 0.7, 1.0], np.float32))
    k(5)
    y.grad[None] = 1.0
    k.grad(5)
    for n, start in enumerate((0.4, 0.7, 1.0)):
        p, v, dp, dv = start, start, 1.0, 1.0
        for _ in range(5):
            p, dp = np.sin(p + v), np.cos(p + v) * (dp + dv)
            v, dv = p * v, dp * v + p * dv
        assert abs(x.grad[n] - dv) < 2e-5


@pytest.mark.parametrize("high", [4.0, 30.0])
def test_maxima_of_two_loops_into_one_element(session, high):
    x, y, m, z = field(4), field(4), field(), field()

    @qd.kernel
    def k():
        for i in x:
            qd.atomic_max(m[None], x[i])
        for i in y:
            qd.atomic_max(m[None], y[i])
        z[None] = m[None] * m[None]

    x.from_numpy(np.array([1, 2, high, 3], np.float32))
    y.from_numpy(np.array([0, 9, 1, 2], np.float32))
    k()
    z.grad[None] = 1
    k.grad()
    x_wins = high > 9
    assert x.grad.to_numpy().tolist() == [0, 0, 2 * high if x_wins else 0, 0]
    assert y.grad.to_numpy().tolist() == [0, 0 if x_wins else 18, 0, 0]
    assert m[None] == max(high, 9)


def test_a_launch_whose_gradient_would_be_an_error(session):
    x, y, count = field(6), field(6), qd.field(qd.i32, ())
    @qd.kernel
    def pack():
        for i in x:
            if x[i] > 0.5:
                y[qd.atomic_add(count[None], 1)] = x[i] * x[i]
        for i in x:
            x[i] = y[i] * y[i] * x[i]
    x.from_numpy(np.array([1, 0, 1, 0, 0, 1], np.float32))
    pack()
    assert (count[None], x.to_numpy().tolist()) == (3, [1, 0, 1, 0, 0, 0])
    with pytest.raises(qd.QuadrantsCompilationError, match="QL0403"):
        pack.grad()
