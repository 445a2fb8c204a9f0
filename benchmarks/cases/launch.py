"""Cases that measure the time of a repeated call: their kernels do almost nothing, so that only the launch is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases import Case, Timed
from benchmarks.cases.loops import LOOPS
from benchmarks.engine import qd, synced

N = 16


def awaited(make: Callable[[], Timed]) -> Timed:
    """A case in which each run launches once and waits."""
    timed = make()
    return Timed(synced(timed.run), timed.value)


def serial() -> Timed:
    c = qd.field(qd.f32, shape=())

    @qd.kernel
    def k():
        c[None] = c[None] * 0.5 + 1.0

    return Timed(k, lambda: c[None])


def two_loops(**options: Any) -> Timed:
    """A kernel of two loops. ``options`` are passed to `qd.kernel`."""
    x, y = (qd.ndarray(qd.f32, shape=(N,)) for _ in range(2))

    @qd.kernel(**options)
    def k(a: qd.types.ndarray(qd.f32, ndim=1), b: qd.types.ndarray(qd.f32, ndim=1)):
        for i in range(a.shape[0]):
            a[i] = a[i] * 0.5 + 1.0
        for i in range(b.shape[0]):
            b[i] = b[i] * 0.5 + a[0]

    return Timed(lambda: k(x, y), lambda: y[N - 1])


def field_loop() -> Timed:
    x = qd.field(qd.f32, shape=N)

    @qd.kernel
    def k():
        for i in x:
            x[i] = x[i] * 0.5 + 1.0

    return Timed(k, lambda: x[N - 1])


def rotate() -> Timed:
    """A kernel that turns each vector by an angle of its own."""
    x, a = qd.Vector.field(2, qd.f32, shape=N), qd.field(qd.f32, shape=N)
    x.fill(0.5)
    a.fill(0.1)

    @qd.kernel
    def k():
        for i in x:
            c, s = qd.cos(a[i]), qd.sin(a[i])
            x[i] = qd.Matrix([[c, -s], [s, c]]) @ x[i]

    return Timed(k, lambda: x[N - 1][0])


def det() -> Timed:
    m, d = qd.Matrix.field(3, 3, qd.f32, shape=N), qd.field(qd.f32, shape=N)
    m.fill(0.5)

    @qd.kernel
    def k():
        for i in m:
            d[i] = m[i].determinant()

    return Timed(k, lambda: d[N - 1])


def scalars() -> Timed:
    c = qd.field(qd.f32, shape=())

    @qd.kernel
    def k(a: qd.i32, b: qd.f32):
        c[None] = a * b

    return Timed(lambda: k(3, 0.5), lambda: c[None])


def returned() -> Timed:
    c = qd.field(qd.f32, shape=())

    @qd.kernel
    def k() -> qd.f32:
        return c[None]

    return Timed(k, lambda: c[None])


def _arrays(make: Callable[[], Any]) -> Timed:
    x, y = make(), make()

    @qd.kernel
    def k(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in range(a.shape[0]):
            b[i] = a[i] + 1.0

    return Timed(lambda: k(x, y), lambda: y[N - 1])


def ndarrays() -> Timed:
    return _arrays(lambda: qd.ndarray(qd.f32, shape=(N,)))


def numpy_and_scalars() -> Timed:
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)

    @qd.kernel
    def k(a: qd.types.ndarray(), b: qd.types.ndarray(), s: qd.f32, t: qd.f32, m: qd.i32):
        for i in range(m):
            b[i] = a[i] * s + t

    return Timed(lambda: k(x, y, 2.0, 0.5, N), lambda: y[N - 1])


def adstack_gradient(trips: int = 3) -> Timed:
    loop = LOOPS["sin"](N, trips)
    loop.kernel()
    return Timed(loop.kernel.grad, loop.first_gradient)


def read_scalar() -> Timed:
    c = qd.field(qd.f32, shape=())
    c[None] = 2.0
    return Timed(lambda: c[None], lambda: c[None])


def write_scalar() -> Timed:
    c = qd.field(qd.f32, shape=())

    def write() -> None:
        c[None] = 2.0

    return Timed(write, lambda: c[None])


CASES = [
    Case("launch", "serial kernel", serial),
    Case("launch", "field kernel", field_loop),
    Case("launch", "2 scalars", scalars),
    Case("launch", "two qd.ndarray", ndarrays),
    Case("launch", "two numpy arrays", lambda: _arrays(lambda: np.zeros(N, np.float32))),
    Case("launch", "numpy + scalars", numpy_and_scalars),
    Case("launch", "adstack gradient", adstack_gradient),
    Case("launch", "read 0-d field", read_scalar),
    Case("launch", "write 0-d field", write_scalar),
]
