"""Cases in which the iterations of a parallel loop make very different numbers of trips of an inner loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Case, Timed
from benchmarks.engine import qd, synced
from benchmarks.others import DIVERGENT

PRIMES = 60000
N = 1 << 16


def _timed(make: Callable[[Any], Any], n: int) -> Timed:
    y = qd.field(qd.i32, shape=(n,))
    return Timed(synced(make(y)), lambda: float(y.to_numpy().sum()))


def primes(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            prime = 1
            d = 2
            while d * d <= i:
                if i % d == 0:
                    prime = 0
                    break
                d += 1
            y[i] = prime

    return k


def for_primes(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            prime = 1
            for d in range(2, 245):
                if d * d > i:
                    break
                if i % d == 0:
                    prime = 0
                    break
            y[i] = prime

    return k


def unsigned(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            n = qd.cast(i, qd.u32)
            d = qd.cast(2, qd.u32)
            prime = 1
            while d * d <= n:
                if n % d == 0:
                    prime = 0
                    break
                d += qd.cast(1, qd.u32)
            y[i] = prime

    return k


def one_long(y: Any) -> Any:
    trips = qd.field(qd.i32, shape=y.shape)
    trips.from_numpy(np.where(np.arange(N) % 64 == 0, 2000, 10).astype(np.int32))

    @qd.kernel
    def k():
        for i in y:
            v = 0.001 * i
            for _ in range(trips[i]):
                v = 3.5 * v * (1.0 - v) if v < 1.0 else 0.5 * v
            y[i] = qd.cast(v, qd.i32)

    return k


def escape(y: Any) -> Any:
    @qd.kernel
    def k():
        for i in y:
            a = (i % 256) * (3.0 / 256.0) - 2.0
            b = (i // 256) * (2.0 / 256.0) - 1.0
            x = 0.0
            z = 0.0
            n = 0
            while x * x + z * z < 4.0 and n < 200:
                x, z = x * x - z * z + a, 2.0 * x * z + b
                n += 1
            y[i] = n

    return k


MAKERS = ((primes, PRIMES), (for_primes, PRIMES), (unsigned, PRIMES), (one_long, N), (escape, N))
CASES = [
    Case("divergent", name, partial(_timed, *of)) for name, of in zip(DIVERGENT, MAKERS, strict=True)
]
