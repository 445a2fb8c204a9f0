"""Launches and their failures: asserts, bounds, prints, interrupts, threads."""

import os
import signal

import numpy as np
import pytest
from child import Worker, interrupt_when
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.backends.cpu import layout
from quadrants_lab.runtime.session import current

session = session_of(EVERYWHERE)

@qd.kernel
def read_at(x: qd.template(), i: qd.i32) -> qd.f32:
    return x[i]

@qd.kernel
def divide(a: qd.i32, b: qd.i32) -> qd.i32:
    return a // b

@qd.kernel
def spin(x: qd.template(), n: qd.i32):
    for i in x:
        v = x[i]
        for _ in range(n):
            v = qd.sin(v) + 0.1
        x[i] = v


@pytest.mark.parametrize("options", [{"debug": True}, {"check_out_of_bound": True}])
def test_bounds(options) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, **options)
    x = qd.field(qd.f32, 4, name="x")
    for bad in (4, -1, 2**31 - 1):
        with pytest.raises(AssertionError, match=rf"index {bad} is out of bounds for axis 0 of x with extent 4"):
            read_at(x, bad)
        assert read_at(x, 3) == 0.0


@qd.kernel
def in_a_stepped_loop(x: qd.types.ndarray()) -> None:
    for i in range(2, 3):
        for _ in range(2):
            for j in range(9, 3, -2):
                x[i, j] = 1.0

@qd.kernel
def over_vectors(x: qd.types.ndarray()) -> None:
    for at in qd.grouped(qd.ndrange(1, (4, 5))):
        x[at + 1] = 2.0

@qd.kernel
def in_parallel_steps(x: qd.types.ndarray()) -> None:
    for s in range(3, 5, 3):
        x[0, s + 4] = 1.0

@qd.kernel
def of_an_entry(x: qd.types.ndarray()) -> None:
    for s in range(2, 3):
        x[0, 0] = qd.Vector([1.0, 2.0])[s]

@qd.kernel
def divides(x: qd.types.ndarray()) -> None:
    for s in range(2, 3):
        x[0, 0] = 7 // (s - 2)


@pytest.mark.parametrize(
    ("fails", "where"),
    [(in_a_stepped_loop, "i = 2, j = 9"), (over_vectors, r"at\[0\] = 0, at\[1\] = 4"), (in_parallel_steps, "s = 3"),
     (of_an_entry, "s = 2"), (divides, "s = 2")],
)  # fmt: skip
def test_a_failed_check_names_the_iteration(session, fails, where) -> None:
    qd.init(arch=session, offline_cache=False, debug=True, simulate=True)
    with pytest.raises(AssertionError, match=rf", in the iteration {where} \(kernel {fails.name}\)"):
        fails(np.zeros((4, 5), np.float32))


def test_integer_division_by_zero() -> None:
    assert divide(7, 0) == 0
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    with pytest.raises(qd.QuadrantsAssertionError, match="division by zero"):
        divide(7, 0)
    assert divide(-7, 2) == -4


@CPU_ALONE
@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name != "posix", reason="POSIX signals")
def test_an_interrupt_stops_a_launch_and_leaves_things_usable() -> None:
    x = qd.field(qd.f32, 64)
    spin(x, 1)
    block = current().device._block
    interrupt_when(lambda: block.word(layout.RUNNING))
    with pytest.raises(KeyboardInterrupt):
        spin(x, 2_000_000_000)
    x.fill(0)
    spin(x, 1)
    assert x[5] == np.float32(0.1)


@CPU_ALONE
def test_a_reset_in_another_thread_waits_for_the_launch() -> None:
    x = qd.field(qd.f32, 64)
    spin(x, 1)
    other = Worker(lambda: spin(x, 200_000))
    qd.reset()
    other.end()
    with pytest.raises(qd.QuadrantsRuntimeError):
        spin(x, 1)
