"""Cases with large data: 16 M numbers of f32, 2048 bodies, 1 M particles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Case, Timed
from benchmarks.cases.launch import awaited
from benchmarks.engine import qd

N = 1 << 24
BODIES = 2048
PARTICLES = 1 << 20
GRID = 256


def _field(values: np.ndarray) -> Any:
    f = qd.field(qd.f32, shape=values.shape)
    f.from_numpy(values.astype(np.float32))
    return f


def copy(size: int = N) -> Timed:
    x, y = _field(np.full(size, 0.5)), _field(np.zeros(size))

    @qd.kernel
    def k():
        for i in x:
            y[i] = x[i]

    return Timed(k, lambda: y[size - 1])


def saxpy(size: int = N) -> Timed:
    x, y = _field(np.linspace(0, 1, size)), _field(np.zeros(size))

    @qd.kernel
    def k():
        for i in x:
            y[i] = 2.0 * x[i] + 0.5 * y[i]

    return Timed(k)


def atomic_sum(size: int = N) -> Timed:
    x, s = _field(np.full(size, 2.0**-10)), qd.field(qd.f32, shape=())

    @qd.kernel
    def k():
        for i in x:
            s[None] += x[i]

    def value() -> float:
        s[None] = 0.0
        k()
        return float(s[None])

    return Timed(k, value)


def sin_exp(size: int = N) -> Timed:
    x, y = _field(np.linspace(0, 1, size)), _field(np.zeros(size))

    @qd.kernel
    def k():
        for i in x:
            y[i] = qd.sin(x[i]) * qd.exp(x[i])

    return Timed(k, lambda: y[size // 3])


def stencil(size: int = N) -> Timed:
    x, y = _field(np.linspace(0, 1, size) ** 2), _field(np.zeros(size))

    @qd.kernel
    def k():
        for i in range(1, size - 1):
            y[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]

    return Timed(k, lambda: y[size // 3])


def n_body(bodies: int = BODIES) -> Timed:
    rng = np.random.default_rng(0)
    px, py, pz = (_field(rng.random(bodies)) for _ in range(3))
    ax, ay, az = (_field(np.zeros(bodies)) for _ in range(3))

    @qd.kernel
    def k():
        for i in px:
            fx = 0.0
            fy = 0.0
            fz = 0.0
            for j in range(bodies):
                dx = px[j] - px[i]
                dy = py[j] - py[i]
                dz = pz[j] - pz[i]
                r = 1.0 / qd.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
                w = r * r * r
                fx += dx * w
                fy += dy * w
                fz += dz * w
            ax[i] = fx
            ay[i] = fy
            az[i] = fz

    return Timed(k, lambda: ax[7])


def particles_to_grid(spread: bool = True) -> Timed:
    """Particles add their mass to a grid. With ``spread`` they are everywhere, otherwise all of them are in one
    cell."""
    rng = np.random.default_rng(1)
    px, py = (_field(0.05 + 0.9 * rng.random(PARTICLES) if spread else np.full(PARTICLES, 0.4)) for _ in range(2))
    mass = _field(np.zeros((GRID, GRID)))

    @qd.kernel
    def k():
        for p in px:
            sx = px[p] * GRID
            sy = py[p] * GRID
            bx = qd.cast(sx - 0.5, qd.i32)
            by = qd.cast(sy - 0.5, qd.i32)
            fx = sx - bx
            fy = sy - by
            for a in qd.static(range(3)):
                wx = 0.75 - (fx - 1.0) * (fx - 1.0)
                if qd.static(a == 0):
                    wx = 0.5 * (1.5 - fx) * (1.5 - fx)
                if qd.static(a == 2):
                    wx = 0.5 * (fx - 0.5) * (fx - 0.5)
                for b in qd.static(range(3)):
                    wy = 0.75 - (fy - 1.0) * (fy - 1.0)
                    if qd.static(b == 0):
                        wy = 0.5 * (1.5 - fy) * (1.5 - fy)
                    if qd.static(b == 2):
                        wy = 0.5 * (fy - 0.5) * (fy - 0.5)
                    mass[bx + a, by + b] += wx * wy

    def value() -> float:
        mass.fill(0.0)
        k()
        return float(mass[GRID // 2, GRID // 3])

    return Timed(k, value)


def hot_cell() -> Timed:
    """A million atomic additions to an element whose index is read from data and is always the same."""
    at, targets = qd.field(qd.i32, PARTICLES), _field(np.zeros(1024))
    at.fill(517)
    x = _field(np.full(PARTICLES, 2.0**-10))

    @qd.kernel
    def k():
        for i in x:
            targets[at[i]] += x[i]

    def value() -> float:
        targets.fill(0.0)
        k()
        return float(targets[517])

    return Timed(k, value)


def local_stack(size: int = 64, iterations: int = 20_000) -> Timed:
    """Each iteration visits a tree of numbers, with a stack in a local vector of ``size`` elements."""
    x, y = (qd.field(qd.i32, iterations) for _ in range(2))
    x.from_numpy((np.arange(iterations) * 7919 % 1000).astype(np.int32))

    @qd.kernel
    def k():
        for i in x:
            kept = qd.Vector([0 for _ in range(size)])
            top = 0
            kept[top] = x[i]
            top += 1
            total = 0
            while top > 0:
                top -= 1
                v = kept[top]
                total += v
                if v > 1 and top < size - 2:
                    kept[top] = v // 2
                    top += 1
                    kept[top] = v // 3
                    top += 1
            y[i] = total

    return Timed(k, lambda: float(y[17]))


def local_elimination(iterations: int = 20_000) -> Timed:
    """Each iteration does a Gaussian elimination, by loops over a local matrix."""
    x = _field(np.linspace(0, 1, iterations))
    y = _field(np.zeros(iterations))

    @qd.kernel
    def k():
        for i in x:
            a = qd.Matrix([[1.0 / (r + c + 1) + (5.0 if r == c else 0.0) for c in range(6)] for r in range(6)])
            for p in range(6):
                a[p, p] += x[i]
            for p in range(6):
                for r in range(p + 1, 6):
                    by = a[r, p] / a[p, p]
                    for c in range(p, 6):
                        a[r, c] -= by * a[p, c]
            y[i] = a[5, 5]

    return Timed(k, lambda: y[17])


CASES = [
    Case("throughput", "saxpy, 16M", partial(awaited, saxpy)),
    Case("throughput", "atomic sum, 16M", partial(awaited, atomic_sum)),
    Case("throughput", "sin*exp, 16M", partial(awaited, sin_exp)),
    Case("throughput", "3-point stencil, 16M", partial(awaited, stencil)),
    Case("throughput", "n-body, 2048", partial(awaited, n_body)),
    Case("throughput", "particles to grid, 1M", partial(awaited, particles_to_grid)),
    Case("throughput", "one hot cell, 1M", partial(awaited, hot_cell)),
    Case("throughput", "local stack of 64, 20k", partial(awaited, local_stack)),
    Case("throughput", "local 6 x 6 elimination, 20k", partial(awaited, local_elimination)),
]
