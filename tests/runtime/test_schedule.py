"""`kernel.schedule()`: what a device does with each task and why, in one sentence a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sessions import EVERYWHERE, in_turn, sessions

import quadrants_lab as qd
from quadrants_lab.backends.cpu import jit

N = 100_000
LANES = pytest.mark.skipif(not jit.vector_bytes(), reason="a processor without lanes")


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=2)


def sentence(kernel: qd.Kernel) -> str:
    """The sentence about the kernel's only task, without its line."""
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


def asking(x: Any, lanes: int = 0, colours: int = 0) -> qd.Kernel:
    @qd.kernel
    def asked():
        qd.loop_config(lanes=lanes, colours=colours)
        for i, j in qd.ndrange((1, 399), (1, 399)):
            x[i, j] += 1.0
            x[i, j + 1] += qd.sin(0.01 * j)
    return asked


ASKED = [
    ({"lanes": 8}, "8 lanes, as qd.loop_config says; 2 colours: sums reach along a row"),
    ({"lanes": 1}, "no lanes, as qd.loop_config says; 2 colours: sums reach along a row"),
    ({"lanes": 64, "colours": 2}, "64 lanes, as qd.loop_config says; 2 colours: sums reach along a row"),
    ({"colours": 1, "lanes": 2}, "2 lanes, as qd.loop_config says; 1 colour, as qd.loop_config says"),
    ({"colours": 1, "lanes": 1}, "no lanes, as qd.loop_config says; 1 colour, as qd.loop_config says"),
]


@LANES
@pytest.mark.parametrize(("options", "said"), ASKED)
def test_loop_config_has_the_last_word(options: dict[str, int], said: str) -> None:
    """`qd.loop_config` decides the schedule and so the code, but not the results."""
    x, y = (qd.field(qd.f32, (400, 400)) for _ in range(2))
    asked, free = asking(x, **options), asking(y)
    asked()
    free()
    assert sentence(asked).startswith(said)
    assert f"<{options['lanes']} x float>" in asked.code("llvm") or options["lanes"] == 1
    np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=1e-6)


@LANES
def test_the_gradient_has_the_lanes_of_its_loop() -> None:
    x, y = (qd.field(qd.f64, 1000, needs_grad=True) for _ in range(2))
    @qd.kernel
    def cubes():
        qd.loop_config(lanes=4)
        for i in x:
            y[i] = x[i] * x[i] * x[i]
    x.fill(2.0)
    cubes()
    y.grad.fill(1.0)
    cubes.grad()
    assert sentence(cubes.grad).startswith("4 lanes, as qd.loop_config says")
    assert (x.grad.to_numpy() == 12.0).all()


@LANES
def test_loop_config_is_about_the_next_loop_and_says_what_has_no_effect() -> None:
    x = qd.field(qd.i32, 1000)
    @qd.kernel
    def three():
        qd.loop_config(lanes=8)
        for i in x:
            if i == 2000:
                print(i)
        for i in x:
            x[i] += i
        qd.loop_config(lanes=2)
        qd.loop_config(colours=2)
        for i in x:
            x[i] += 1
    first, second, third = three.schedule().splitlines()
    assert "qd.loop_config(lanes=8) has no effect: prints come from one iteration at a time" in first
    assert "qd.loop_config" not in second
    assert "2 lanes, as qd.loop_config says; qd.loop_config(colours=2) has no effect: no sums of " in third


@pytest.mark.parametrize("options", in_turn(sessions("c", "cuda", "vulkan", "metal"), ("c", "cuda", "vulkan", "metal")))
def test_loop_config_has_no_effect_on_other_devices(options: Any) -> None:
    qd.init(**options)
    x = qd.field(qd.f32, (400, 400))
    asked, free = asking(x, lanes=8, colours=1), asking(x)
    asked()
    assert sentence(asked).endswith("; qd.loop_config(lanes=8, colours=1) has no effect on this device")
    assert sentence(asked).startswith(sentence(free))


def test_kernels_that_ask_for_other_lanes_are_others_to_the_cache(tmp_path: Path) -> None:
    found = set()
    for lanes in (1, 4, 8):
        qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path))
        x = qd.field(qd.f32, (400, 400))
        asking(x, lanes=lanes)()
        found.add(len(list(tmp_path.rglob("*"))))
    assert len(found) == 3


# --- the table of prices ----------------------------------------------------------------------------------------

def primes(i):
    prime, d = 1, 2
    while d * d <= i:
        if i % d == 0:
            prime = 0
            break
        d += 1
    return prime


def primes_of_u32(i):
    prime, d, n = 1, qd.u32(2), qd.cast(i, qd.u32)
    while d * d <= n:
        if n % d == 0:
            prime = 0
            break
        d += qd.u32(1)
    return prime


def primes_in_range(i):
    prime = 1
    for d in range(2, 245):
        if d * d > i:
            break
        if i % d == 0:
            prime = 0
            break
    return prime


def greatest_divisor(i):
    a, b = i, 360
    while b != 0:
        a, b = b, a % b
    return a


def collatz(i):
    v, n = i + 1, 0
    while v > 1 and n < 500:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        n += 1
    return n


def mandelbrot(i):
    a, x, z, n = 0.001 * i, 0.0, 0.0, 0
    while x * x + z * z < 4.0 and n < 200:
        x, z = x * x - z * z + a, 2.0 * x * z
        n += 1
    return n


def root(i):
    v, n = 1.0, 0
    while qd.abs(v * v - i) > 1e-3 and n < 50:
        v = 0.5 * (v + i / v)
        n += 1
    return n


def one_draw(i):
    return qd.cast(qd.random() * 100.0, qd.i32)


def one_digit(i):
    return qd.random(qd.i32) % 10


def drawn_in_a_branch(i):
    v = 0.5
    if i % 2 == 0:
        v = qd.random()
    return qd.cast(v * 100.0, qd.i32)


WITH_LANES = (collatz, mandelbrot, root, one_draw, one_digit, drawn_in_a_branch)
ALONE = (primes, primes_of_u32, primes_in_range, greatest_divisor)


@LANES
@pytest.mark.parametrize("body", [*WITH_LANES, *ALONE], ids=lambda f: f.__name__)
def test_lanes_where_they_are_faster(body: Any) -> None:
    """On a Zen 4, those in lanes take at most half of their time without. Searches for primes take 7 times as long in
    lanes; Euclid's algorithm would take half, which the price of a division does not show."""
    y, step = qd.field(qd.i32, N), qd.func(body)
    @qd.kernel
    def k():
        for i in y:
            y[i] = step(i)
    assert (" lanes: " in sentence(k)) == (body in WITH_LANES)


TRIPS = {
    "the same": np.full(N, 20), "one in 64": np.where(np.arange(N) % 64 == 5, 500, 3),
    "none and negative": np.where(np.arange(N) % 3 == 1, -2, 0),
    "long at the end": np.where(np.arange(N) < N - 1, 1, 900),
    "evenly": np.random.default_rng(0).integers(0, 65, N),
}  # fmt: skip


@pytest.mark.parametrize("trips", TRIPS.values(), ids=TRIPS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_group_whose_trips_differ_does_not_wait(trips: Any, threads: int) -> None:
    """Groups of both kinds, and a last one that is not full, compute the same as without lanes."""
    qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=threads)
    n = qd.field(qd.i32, N)
    n.from_numpy(trips.astype(np.int32))
    free, alone = (qd.field(qd.i32, N) for _ in range(2))
    def made(y: Any, lanes: int) -> qd.Kernel:
        @qd.kernel
        def k(first: qd.i32):
            qd.loop_config(lanes=lanes)
            for i in range(first, N):
                v = i
                for j in range(1, n[i]):
                    v = v * 1103515245 + 12345 + j
                y[i] = v
        return k
    made(alone, 1)(3)
    k = made(free, 0)
    k(3)
    assert (free.to_numpy() == alone.to_numpy()).all()
    waits = "a group of iterations that would wait for few of them runs alone" in sentence(k)
    assert waits == bool(jit.vector_bytes())
