"""Iterations share threads where a driver that ends loops lets them, and only there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sessions import skips

import quadrants_lab as qd
from quadrants_lab.runtime.session import current

pytestmark = skips("vulkan")


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    qd.init(arch=qd.vulkan, offline_cache=False)
    if not current().device.loop_limit:
        pytest.skip("the driver ends no loops")
    yield
    qd.reset()


def launched(kernel: Any, *args: Any) -> tuple[int | None, int]:
    """Rounds of an iteration as they are known before, and threads."""
    kernel(*args)
    frame = kernel.dispatcher.last.frame
    return frame.exe.rounds[0], 64 * frame.groups(0)


def test_rounds_of_nested_loops_and_branches() -> None:
    x = qd.field(qd.i32, 1 << 17)

    @qd.kernel
    def nest():
        for i in x:
            if i % 2 == 0:
                for j in range(3):
                    for k in range(2, 7):
                        x[i] += j * k
            for j in range(10, 4):
                x[i] += j

    enough = current().device.enough
    assert launched(nest) == (3 * (5 + 1) + 0, enough)
    expected = np.where(np.arange(1 << 17) % 2 == 0, 3 * 20, 0)
    assert (x.to_numpy() == expected).all()


def test_without_loops() -> None:
    x = qd.field(qd.i32, 1 << 20)

    @qd.kernel
    def fill():
        for i in x:
            x[i] = i

    assert launched(fill) == (0, current().device.enough)
    assert (x.to_numpy() == np.arange(1 << 20)).all()


def test_more_threads_than_enough_where_loops_are_long() -> None:
    """Each thread stays below half of what the driver allows."""
    size, trips = 1 << 16, 3000
    x = qd.field(qd.i32, size)

    @qd.kernel
    def long():
        for i in x:
            for j in range(trips):
                x[i] += (i ^ j) & 1

    rounds, threads = launched(long)
    assert rounds == trips
    device = current().device
    assert device.enough < threads < size
    assert size * trips / threads <= device.loop_limit / 2
    assert (x.to_numpy() == trips // 2).all()


def test_an_iteration_has_its_thread_where_nothing_tells() -> None:
    size = 1 << 15
    x, n = qd.field(qd.i32, size), qd.field(qd.i32, ())
    n[None] = 20000

    @qd.kernel
    def counts():
        for i in x:
            for _ in range(n[None]):
                x[i] += 1

    assert launched(counts) == (None, size)
    assert (x.to_numpy() == 20000).all()


def test_atomics_that_the_device_does_not_have() -> None:
    """They go round loops, too: nobody knows how often."""
    size = 1 << 16
    x, y, total = qd.field(qd.f64, 8), qd.field(qd.f32, 8), qd.field(qd.f64, ())

    @qd.kernel
    def scattered():
        for i in range(size):
            x[i % 8] += 1.0

    @qd.kernel
    def native():
        for i in range(size):
            y[i % 8] += 1.0

    @qd.kernel
    def reduced():
        for i in range(size):
            total[None] += 1.0

    device = current().device
    assert launched(scattered) == (None, size)
    assert launched(native) == (0, device.enough)
    assert launched(reduced) == (0, min(device.reducing_threads, size))
    assert x.to_numpy().tolist() == y.to_numpy().tolist() == [size / 8] * 8
    assert total[None] == size
