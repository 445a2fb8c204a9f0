"""Loops in loops whose ends depend on memory, in serial and in parallel tasks: values, and gradients of what they find.

llvmpipe ran such loops of a serial task also in lanes of its vectors that are no threads. These lanes read 0, and went
round until the driver stopped them, unless a 0 ended the loop."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd

session = session_of(sessions("cpu", "c", "vulkan", "wasm", "cuda"))


@qd.func
def by_break(slots: qd.template(), free: int) -> int:
    j = 0
    while True:
        if slots[j] == free:
            break
        j += 1
    return j


@qd.func
def by_condition(slots: qd.template(), free: int) -> int:
    j = 0
    while slots[j] != free:
        j += 1
    return j


@qd.func
def by_continue(slots: qd.template(), free: int) -> int:
    j, found = -1, False
    while not found:
        j += 1
        if slots[j] != free:
            continue
        found = True
    return j


@qd.func
def by_halves(slots: qd.template(), free: int) -> int:
    j, found = 0, False
    while not found:
        while slots[j] != free:
            j += 1
            if j % 4 == 0:
                break
        found = slots[j] == free
    return j


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "one iteration"])
@pytest.mark.parametrize("free", [-1, 0, 5])
@pytest.mark.parametrize("find", [by_break, by_condition, by_continue, by_halves], ids=lambda f: f.__name__)
def test_loops_that_end_by_what_they_read(session: str, find: qd.Func, free: int, serial: bool) -> None:
    n = 6
    slots, x, y = qd.field(qd.i32, 8), qd.field(qd.f32, 8, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def take(n: int, times: int):
        qd.loop_config(serialize=serial)
        for _ in range(times):
            for p in range(n):
                j = find(slots, free)
                slots[j] = 100 + p

    @qd.kernel
    def total(at: int):
        qd.loop_config(serialize=serial)
        for _ in range(1):
            for p in range(3):
                y[None] += (p + 1.0) * x[find(slots, 100 + at + p)] ** 2

    slots.fill(free)
    take(n, 1)
    assert slots.to_numpy().tolist() == [*(100 + p for p in range(n)), free, free]
    x.from_numpy(np.arange(8, dtype=np.float32))
    with qd.ad.Tape(y):
        total(2)
    assert y[None] == sum((p + 1) * (2 + p) ** 2 for p in range(3))
    assert x.grad.to_numpy().tolist() == [0, 0, 4, 12, 24, 0, 0, 0]
