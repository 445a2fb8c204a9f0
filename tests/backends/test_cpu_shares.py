"""Sums into one element have the same bits in each run, and for any number of threads."""

from typing import Any

import numpy as np
import pytest
from sessions import ended  # noqa: F401  # a fixture

import quadrants_lab as qd

ROWS, COLUMNS = 150, 301


class Program:
    """Kernels that sum and multiply into elements, and what they make of the same numbers; all that they compute, as
    bytes."""

    def __init__(self, dtype: Any) -> None:
        rng, real = np.random.default_rng(3), np.float64 if dtype is qd.f64 else np.float32
        self.x = qd.field(dtype, ROWS * COLUMNS, needs_grad=True)
        self.grid = qd.field(dtype, (ROWS, COLUMNS), needs_grad=True)
        self.w, self.loss, self.product = (qd.field(dtype, (), needs_grad=True) for _ in range(3))
        self.trips = qd.field(qd.i32, ROWS * COLUMNS)
        self.x.from_numpy(rng.random(ROWS * COLUMNS).astype(real))
        self.grid.from_numpy(rng.random((ROWS, COLUMNS)).astype(real))
        self.trips.from_numpy(rng.integers(0, 20, ROWS * COLUMNS).astype(np.int32))
        self.w[None], self.product[None] = 0.7, 1.0

    def launch(self, kernel: Any) -> list[bytes]:
        with qd.ad.Tape(self.loss):
            kernel(self.x, self.grid, self.w, self.trips, self.loss)
        made = self.loss, self.w.grad, self.x.grad, self.grid.grad
        return [field.to_numpy().tobytes() for field in made]


@qd.kernel
def plain(x: qd.template(), grid: qd.template(), w: qd.template(), trips: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] * w[None]

@qd.kernel
def scalar(x: qd.template(), grid: qd.template(), w: qd.template(), trips: qd.template(), loss: qd.template()):
    for i in range(70):
        v = x[i]
        for j in range(trips[i]):
            v = qd.tan(v) * 0.3 + grid[j, i]
        loss[None] -= v * w[None]

@qd.kernel
def in_lanes(x: qd.template(), grid: qd.template(), w: qd.template(), trips: qd.template(), loss: qd.template()):
    for i in x:
        v = x[i]
        for _ in range(trips[i]):
            v = qd.sin(v * w[None]) + 0.1
        loss[None] += v

@qd.kernel
def stencil(x: qd.template(), grid: qd.template(), w: qd.template(), trips: qd.template(), loss: qd.template()):
    """A kernel whose gradient runs in two colours, and at the same time sums into w.grad."""
    for i, j in qd.ndrange((1, ROWS - 1), (1, COLUMNS - 1)):
        loss[None] += (grid[i - 1, j] + grid[i + 1, j] - 2 * grid[i, j] + grid[i, j + 1] * w[None]) ** 2

@qd.kernel
def two(x: qd.template(), grid: qd.template(), w: qd.template(), trips: qd.template(), loss: qd.template()):
    """Two sums, one of them for the second loop alone."""
    mean = 0.0
    for i in x:
        mean += x[i]
        loss[None] += x[i] * x[i]
    for i in x:
        loss[None] += (x[i] - mean / x.shape[0]) ** 2


KERNELS = {k.__name__: k for k in (plain, scalar, in_lanes, stencil, two)}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", KERNELS)
def test_bits_do_not_depend_on_threads(name: str, dtype: str) -> None:
    found = set()
    for threads in (1, 2, 3, 7):
        qd.init(arch=qd.cpu, cpu_max_num_threads=threads, default_fp=getattr(qd, dtype))
        program = Program(getattr(qd, dtype))
        found |= {tuple(program.launch(KERNELS[name])) for _ in range(3)}
    assert len(found) == 1


@pytest.mark.parametrize("dtype", [qd.f16, qd.f32, qd.f64])
def test_products(dtype: Any) -> None:
    """A product is rounded to the element's dtype once, at its end."""
    found = set()
    for threads in (1, 4):
        qd.init(arch=qd.cpu, cpu_max_num_threads=threads, default_fp=qd.f64)
        x, n = qd.field(dtype, ()), qd.field(qd.i32, 1000)
        n.fill(3)

        @qd.kernel
        def k(x: qd.template(), n: qd.template()):
            for i in n:
                v = 1.0
                for _ in range(n[i]):
                    v *= 1.0 + 1e-3 * (i % 3 - 1)
                qd.atomic_mul(x[None], v)

        for _ in range(3):
            x[None] = 2.0
            k(x, n)
            found.add(float(x[None]))
    assert len(found) == 1
    exact = 2.0 * np.prod((1.0 + 1e-3 * (np.arange(1000) % 3 - 1)) ** 3)
    assert found.pop() == pytest.approx(exact, rel={qd.f16: 2e-3, qd.f32: 2e-5, qd.f64: 1e-12}[dtype])


def test_no_iterations_leave_the_element() -> None:
    qd.init(arch=qd.cpu)
    total = qd.field(qd.f32, 3)
    one = qd.field(qd.f32, ())
    @qd.kernel
    def k(n: qd.i32):
        for i in range(n):
            one[None] += total[i]
    one[None] = 5.0
    k(0)
    assert one[None] == 5.0


def test_a_launch_that_stops_and_the_next_one() -> None:
    """The partial sums of a launch that stopped do not enter the sums of the next launch."""
    qd.init(arch=qd.cpu, debug=True)
    x, total = qd.field(qd.f32, 1000), qd.field(qd.f32, ())
    x.fill(1.0)
    @qd.kernel
    def k(limit: qd.f32):
        for i in x:
            assert x[i] < limit
            total[None] += x[i]
    with pytest.raises(AssertionError):
        k(0.5)
    total[None] = 0.0
    k(2.0)
    assert total[None] == 1000.0
