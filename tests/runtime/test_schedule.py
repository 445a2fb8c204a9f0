"""`kernel.schedule()`: what a device does with each task and why, in one sentence a task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sessions import EVERYWHERE

import quadrants_lab as qd
from quadrants_lab.backends.cpu import jit

N = 100_000
LANES = pytest.mark.skipif(not jit.vector_bytes(), reason="a processor without lanes")


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=2)


def sentence(kernel: qd.Kernel) -> str:
    """Of its only task, without the line."""
    (row,) = kernel.schedule().splitlines()
    where, _, what = row.partition(": ")
    assert where.removeprefix("line ").isdigit()
    return what


@LANES
def test_lanes_name_the_functions() -> None:
    x = qd.field(qd.f32, N)
    @qd.kernel
    def sines():
        for i in x:
            x[i] = qd.sin(x[i]) + qd.exp(x[i])
    sines()
    lanes = jit.vector_bytes()  # four vectors of f32
    assert f"{lanes} lanes: sin, exp; a thread takes " in sentence(sines)
    assert f'offload struct_for lanes {lanes} grain' in sines.ir("cpu schedule")
    assert f'why "{lanes} lanes: sin, exp"' in sines.ir("after cpu schedule")


def test_straight_code_is_left_to_llvm() -> None:
    x, y = qd.field(qd.f32, N), qd.field(qd.f32, ())
    @qd.kernel
    def squares():
        for i in x:
            y[None] += x[i] * x[i]
    squares()
    assert sentence(squares).startswith("LLVM's vectors, if it finds that they pay; each thread reduces its share of y")


def test_a_gradient_of_a_stencil_says_its_colours() -> None:
    x, y = (qd.field(qd.f32, (400, 400), needs_grad=True) for _ in range(2))
    @qd.kernel
    def smooth():
        for i, j in qd.ndrange((1, 399), (1, 399)):
            y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1]
    smooth()
    y.grad.fill(1)
    smooth.grad()
    assert "2 colours: sums reach 2 rows further" in sentence(smooth.grad)


def test_sums_at_places_from_data() -> None:
    at, y = qd.field(qd.i32, N), qd.field(qd.f32, 64)
    @qd.kernel
    def hits():
        for i in at:
            y[at[i]] += 1.0
    hits()
    assert "each thread may add to a copy of y" in sentence(hits)
    assert ("groups of" in sentence(hits)) == bool(jit.vector_bytes())


def test_a_line_for_each_task() -> None:
    x = qd.field(qd.f32, 8)
    @qd.kernel
    def two(n: qd.i32):
        x[0] = n
        for i in range(8):
            x[i] += 1.0
    first, second = two.schedule().splitlines()  # its code depends on no argument
    assert first.endswith(": one thread")
    assert second.endswith("; the launch takes a few microseconds at most")


@pytest.mark.parametrize("options", EVERYWHERE)
def test_every_backend_has_a_sentence(options: Any) -> None:
    qd.init(**options)
    x = qd.field(qd.f32, 1000)
    x.from_numpy(np.ones(1000, np.float32))
    @qd.kernel
    def doubled():
        for i in x:
            x[i] *= 2.0
    doubled()
    assert sentence(doubled)
