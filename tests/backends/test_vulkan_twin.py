"""llvmpipe without threads runs what is small, beside the device that runs the rest: one order, one memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from vulkan_rig import device

import quadrants_lab as qd
from quadrants_lab.backends.vulkan import api, queue
from quadrants_lab.runtime.session import current

pytestmark = pytest.mark.skipif(
    not device().physical.target.cuts_loops or api.LLVMPIPE_THREADS in os.environ, reason="not llvmpipe as it comes"
)
BIG = 1 << 16


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(queue, "_HEAVY", 1 << 60)  # nothing is, however slow the machine
    qd.init(arch=qd.vulkan)
    yield
    qd.reset()


class Counters:
    """``up`` is small, ``spread`` is not: it adds up what ``up`` left, ``BIG`` times over."""

    def __init__(self) -> None:
        self.c = qd.field(qd.i32, ())
        self.x = qd.field(qd.i32, BIG)

        @qd.kernel
        def up():
            self.c[None] += 1

        @qd.kernel
        def spread():
            for i in self.x:
                self.x[i] += self.c[None]

        self.up, self.spread = up, spread


def lanes() -> list[bool]:
    """Of what runs: whether it is in the twin's."""
    both = current().device.logical.queue
    return [s.lane is both.twin for s in both.running]


def test_each_goes_where_it_belongs(session: None) -> None:
    k = Counters()
    for launch, on_twin in ((k.up, True), (k.spread, False), (k.up, True)):
        launch()
        assert lanes() == [on_twin]
        qd.sync()


def test_the_order_is_that_of_the_launches(session: None) -> None:
    k = Counters()
    expected, count = 0, 0
    for small, big in ((1, 1), (40, 1), (1, 40), (3, 2), (70, 70)):
        for _ in range(small):
            k.up()
        for _ in range(big):
            k.spread()
        count += small
        expected += big * count
    assert k.x.to_numpy().tolist() == [expected] * BIG


def test_small_ones_follow_big_ones_that_still_run(session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    k = Counters()
    k.up()
    k.spread()
    qd.sync()
    monkeypatch.setattr(current().device.logical.queue, "_fence_status", lambda *a: 1)  # never found done
    monkeypatch.setattr(queue, "_PATIENCE", -1)  # each in a submission of its own
    k.spread()
    k.up()
    k.spread()
    assert lanes() == [False, False, False]
    qd.sync()
    assert (k.c[None], k.x[7]) == (2, 1 + 1 + 2)


def test_as_many_groups_as_iterations_ask_for(session: None) -> None:
    """The same kernel goes here or there as its arguments are."""

    @qd.kernel
    def squares(a: qd.types.ndarray(qd.i32, ndim=1)):
        for i in a:
            a[i] += i * i

    for n, on_twin in ((1, True), (64, True), (500, True), (5000, False), (65, True)):
        a = qd.ndarray(qd.i32, (n,))
        squares(a)
        assert lanes() == [on_twin]
        assert (a.to_numpy() == np.arange(n, dtype=np.int32) ** 2).all()


def test_loops_inside_run_on_threads_where_there_are_groups_for_them(session: None) -> None:
    x = qd.field(qd.i32, 500)

    @qd.kernel
    def sums(n: qd.i32):
        for i in x:
            for j in range(n):
                x[i] += j

    sums(4)
    assert lanes() == [False]
    assert x.to_numpy().tolist() == [6] * 500


def test_what_keeps_the_twin_busy_for_long_moves(session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    k = Counters()
    monkeypatch.setattr(queue, "_HEAVY", 0)
    monkeypatch.setattr(current().device.logical.queue, "_fence_status", lambda *a: 1)  # seen at work
    for on_twin in (True, True, False, False):  # what it takes at first is the compiler's
        k.up()
        assert lanes() == [on_twin]
        qd.sync()
    assert k.c[None] == 4


def test_who_chose_a_number_of_threads_has_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(api.LLVMPIPE_THREADS, "2")
    api.threadless.cache_clear()
    qd.init(arch=qd.vulkan)
    k = Counters()
    k.up()
    assert lanes() == [False]
    assert k.c[None] == 1
    assert os.environ[api.LLVMPIPE_THREADS] == "2"
    qd.reset()
    api.threadless.cache_clear()


def test_sessions_that_end_while_both_were_used() -> None:
    for _ in range(5):
        qd.init(arch=qd.vulkan)
        k: Any = Counters()
        for _ in range(40):
            k.up()
        k.spread()
        k.up()
    qd.reset()
