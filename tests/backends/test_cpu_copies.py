"""Sums at places from data, which threads add up in private copies: no term is lost, none is counted twice."""

from __future__ import annotations

import numpy as np
import pytest
from rigs.cpu_rig import load

import quadrants_lab as qd
from quadrants_lab.backends.cpu import jit, layout as L
from quadrants_lab.backends.cpu.schedule import CpuSchedule
from quadrants_lab.backends.lower import sums
from quadrants_lab.runtime import session

THREADS, COUNT = 4, 200_000


@pytest.fixture(autouse=True)
def several_threads():
    qd.init(arch=qd.cpu, cpu_max_num_threads=THREADS, offline_cache=False)


def room() -> int:
    """How many bytes the session's device has allocated for copies."""
    return session.current().device._block.word(L.COPIES_BYTES)


def copied(kernel: qd.Kernel) -> list[tuple[str, int]]:
    """Which buffers the kernel's last specialisation may copy, and how many of their axes are fixed."""
    made = CpuSchedule()(kernel.dispatcher.last.kernel)
    return [(t.buffer.name, len(t.fixed)) for task in made.tasks for t in sums.copied(made, task)]


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i32, qd.u32, qd.i64, qd.u64], ids=str)
def test_no_sum_is_lost_and_none_is_made_twice(dtype):
    at, y = qd.field(qd.i32, shape=COUNT), qd.field(dtype, shape=(3, 37, 5))
    places = np.random.default_rng(0).integers(0, 37, COUNT).astype(np.int32)
    at.from_numpy(places)

    @qd.kernel
    def scatter(k: qd.i32):
        for i in at:
            y[k, at[i], 2] += 1
            y[k, at[i], 4] -= 2

    for k in (1, 1, 2):
        scatter(k)
    expected = np.zeros((3, 37, 5), dtype.numpy)
    once = np.bincount(places, minlength=37)
    with np.errstate(over="ignore"):
        for k, times in ((1, 2), (2, 1)):
            expected[k, :, 2] = (times * once).astype(dtype.numpy)
            expected[k, :, 4] = (np.zeros(1, np.int64) - 2 * times * once).astype(dtype.numpy)
    np.testing.assert_array_equal(y.to_numpy(), expected)
    assert copied(scatter) == [("y", 1)]
    assert room() >= (THREADS - 1) * 37 * 5 * np.dtype(dtype.numpy).itemsize


def test_ndarrays_and_steps_that_read_what_the_step_before_left():
    n = 53
    at = qd.field(qd.i32, shape=COUNT)
    at.from_numpy((np.arange(COUNT) * 7919 % n).astype(np.int32))
    @qd.kernel
    def step(y: qd.types.NDArray[qd.f64, 2], t: qd.i32):
        for i in at:
            y[t + 1, at[i]] += y[t, at[i]] / COUNT + 1.0
    y = qd.ndarray(qd.f64, (4, n))
    for t in range(3):
        step(y, t)
    expected, hits = np.zeros((4, n)), np.bincount(at.to_numpy(), minlength=n)
    for t in range(3):
        expected[t + 1] = hits * (expected[t] / COUNT + 1.0)
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-12)
    assert copied(step) == [("y", 1)]


def test_an_array_that_is_passed_twice_is_not_copied():
    @qd.kernel
    def both(a: qd.types.NDArray[qd.i32, 1], b: qd.types.NDArray[qd.i32, 1]):
        for i in range(COUNT):
            a[i % 11] += 1
            b[i % 7] += 1
    x = qd.ndarray(qd.i32, (11,))
    both(x, x)
    i = np.arange(COUNT)
    np.testing.assert_array_equal(x.to_numpy(), np.bincount(i % 11, minlength=11) + np.bincount(i % 7, minlength=11))
    assert not copied(both)


def test_targets_that_are_also_read_are_not_copied():
    y, n, order = qd.field(qd.i32, shape=8), qd.field(qd.i32, shape=2), qd.field(qd.i32, shape=COUNT)
    @qd.kernel
    def tickets():
        for i in range(COUNT):
            order[qd.atomic_add(n[i % 2], 1) * 2 + i % 2] = i
            y[i % 8] += 1
    tickets()
    np.testing.assert_array_equal(np.sort(order.to_numpy()), np.arange(COUNT))
    assert copied(tickets) == [("y", 0)]


def test_other_atomics_beside_the_sums_reach_the_array_itself():
    y, order = qd.field(qd.i32, shape=3), qd.field(qd.i32, shape=COUNT)

    @qd.kernel
    def tickets():
        for i in range(COUNT):
            order[qd.atomic_add(y[0], 1)] = i
            y[1] += 1

    @qd.kernel
    def bits():
        for i in range(COUNT):
            y[0] ^= i * 7919
            y[2] -= 1

    tickets()
    np.testing.assert_array_equal(np.sort(order.to_numpy()), np.arange(COUNT))
    assert y.to_numpy().tolist() == [COUNT, COUNT, 0]
    y.fill(0)
    bits()
    every = np.bitwise_xor.reduce((np.arange(COUNT, dtype=np.int64) * 7919).astype(np.int32))
    assert y.to_numpy().tolist() == [every, 0, -COUNT]


def test_an_index_out_of_range_that_is_never_used_touches_nothing():
    y, z = qd.field(qd.f32, shape=(2, 16)), qd.field(qd.f32, shape=(2, 16))
    @qd.kernel
    def last(t: qd.i32, times: qd.i32):
        for i in range(COUNT):
            if t + 1 < 2:
                y[t + 1, i % 16] += 1.0
            z[1, i % 16] += 1.0
    last(1_000_000, 1)
    assert not y.to_numpy().any()
    np.testing.assert_array_equal(z.to_numpy()[1], COUNT / 16)
    last(0, 1)
    np.testing.assert_array_equal(y.to_numpy()[1], COUNT / 16)


def test_loops_of_unknown_length_are_timed_first():
    y = qd.field(qd.f64, shape=13)
    @qd.kernel
    def walks(m: qd.i32):
        for i in range(20_000):
            k = 0
            while k < m + i % 3:
                y[(i + k) % 13] += 1.0
                k += 1
    for m in (0, 40):
        walks(m)
    i = np.arange(20_000)
    hits = sum(np.bincount((i[i % 3 + m > k] + k) % 13, minlength=13) for m in (0, 40) for k in range(m + 2))
    np.testing.assert_array_equal(y.to_numpy(), hits)
    assert room()


@pytest.mark.parametrize("threads", [1, THREADS])
@pytest.mark.parametrize("run", [1, 100, 1000, COUNT])
def test_runs_of_iterations_that_add_to_one_place(run, threads):
    """Groups that share a place are summed up first, others are not, and the last group is not full."""
    qd.init(arch=qd.cpu, cpu_max_num_threads=threads, offline_cache=False)
    n = COUNT - 7
    places = np.random.default_rng(run).integers(0, 50, COUNT // run + 1).repeat(run)[:n].astype(np.int32)
    x = np.arange(n, dtype=np.int32) % 5
    total, hits = qd.Vector.field(2, qd.f64, shape=50), qd.field(qd.i32, shape=50)
    table = qd.field(qd.u64, shape=(3, 50))

    @qd.kernel
    def along(at: qd.types.NDArray[qd.i32, 1], x: qd.types.NDArray[qd.i32, 1]):
        for i in at:
            total[at[i]] += qd.Vector([x[i], 0.5])
            hits[at[i]] -= 1

    @qd.kernel
    def in_rows(at: qd.types.NDArray[qd.i32, 1], x: qd.types.NDArray[qd.i32, 1], row: qd.i32):
        for i, j in qd.ndrange(3, (1, n)):
            table[row, at[j]] += x[j] + i

    along(places, x)
    in_rows(places, x, 2)
    if jit.vector_bytes():
        for k in along, in_rows:
            made = CpuSchedule(width=16)(k.dispatcher.last.kernel)
            assert made.tasks[0].aggregate
    of_x, all_ = np.bincount(places, x, 50), np.bincount(places, minlength=50)
    np.testing.assert_array_equal(total.to_numpy(), np.stack([of_x, all_ * 0.5], 1))
    np.testing.assert_array_equal(hits.to_numpy(), -all_)
    in_row = 3 * np.bincount(places[1:], x[1:], 50) + 3 * np.bincount(places[1:], minlength=50)
    np.testing.assert_array_equal(table.to_numpy()[2], in_row)
    assert not table.to_numpy()[:2].any()


def test_sums_in_lanes():
    x, y = qd.field(qd.f32, shape=COUNT, needs_grad=True), qd.field(qd.f32, shape=64, needs_grad=True)
    x.from_numpy(np.linspace(0.0, 3.0, COUNT, dtype=np.float32))
    @qd.kernel
    def waves():
        for i in x:
            y[i * 7 % 64] += qd.sin(x[i])
    waves()
    expected = np.bincount(np.arange(COUNT) * 7 % 64, np.sin(x.to_numpy().astype(float)), 64)
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-4)
    assert copied(waves) == [("y", 0)]


def test_a_launch_that_fails_leaves_no_copies_for_the_next():
    qd.init(arch=qd.cpu, cpu_max_num_threads=THREADS, debug=True, offline_cache=False)
    y = qd.field(qd.f32, shape=5)
    @qd.kernel
    def counts(most: qd.i32):
        for i in range(COUNT):
            y[i % 5] += 1.0
            assert i < most, "too far"
    with pytest.raises(qd.QuadrantsAssertionError):
        counts(COUNT // 2)
    y.fill(0.0)
    counts(COUNT)
    np.testing.assert_array_equal(y.to_numpy(), COUNT / 5)


def test_large_targets_and_few_sums_go_without_copies():
    y, few = qd.field(qd.f32, shape=1 << 20), qd.field(qd.i32, shape=1000)
    @qd.kernel
    def sparse():
        for i in few:
            y[i * i] += 1.0
    assert not room()
    sparse()
    assert copied(sparse) == [("y", 0)]
    assert not room()
    assert np.count_nonzero(y.to_numpy()) == 1000


def test_threads_that_meet_without_copies_lose_no_sum():
    y, at, sums = qd.field(qd.i32, shape=1 << 23), qd.field(qd.i32, shape=1024), 1 << 22
    at.fill(5)
    @qd.kernel
    def hot():
        for i in range(sums):
            y[at[i & 1023]] += 1
    for n in range(1, 4):
        hot()
        assert y[5] == n * sums
    assert "label %atomic, label %plain" in hot.code("llvm")  # threads that happen not to meet lose no sum either
    assert copied(hot) == [("y", 0)]
    assert not room()


def test_targets_belong_to_one_task():
    """Each task has targets of its own, and what is in step with the task's index is private instead."""
    exe = load("""
kernel sums(n: i32) forward next %40 {
  buffer @y: field f32[64x64]
  buffer @at: field i32[64]
  offload range_for bounds { #30
    %0: i32 = const 0
    %1: i32 = arg n
    yield %0, %1
  } do (%2: i32 'i') {
    %3: i32 = arg n
    %4: i32 = const 3
    %5: i32 = sub %3, %4
    %6: i32 = load @at[%2]
    %7: f32 = const 1.0
    %8: f32 = atomic add @y[%5, %6], %7
    yield
  }
}
""")
    made = CpuSchedule()(exe.kernel)
    (found,) = sums.copied(made, made.tasks[0])
    assert (found.fixed, found.sums) == ((5,), 1)


@pytest.mark.parametrize("count", [16, COUNT])
def test_a_task_that_is_too_short_for_threads_adds_plainly(count):
    at, y = qd.field(qd.i32, shape=count), qd.field(qd.f32, shape=4)
    at.from_numpy((np.arange(count) % 4).astype(np.int32))
    @qd.kernel
    def scatter():
        for i in at:
            y[at[i]] += 1.0
    scatter()
    np.testing.assert_array_equal(y.to_numpy(), count / 4)
    assert ("atomicrmw" in scatter.code("llvm")) == (count == COUNT)


@pytest.mark.skipif(not jit.vector_bytes(), reason="a processor without lanes")
@pytest.mark.parametrize("threads", [1, THREADS])
@pytest.mark.parametrize("elements", [8, 1 << 16], ids=["copies", "too many elements for copies"])
def test_rows_of_sums_run_in_lanes(threads, elements):
    """The adjoint of a layer's weights. Where no other thread adds, all lanes of a row add at once."""
    qd.init(arch=qd.cpu, cpu_max_num_threads=threads, offline_cache=False)
    rows, width = 3000, 75
    x, g = qd.field(qd.i32, shape=(rows, 8)), qd.field(qd.i32, shape=(rows, width))
    w = qd.field(qd.i32, shape=(elements, width))
    draw = np.random.default_rng(0)
    x.from_numpy(draw.integers(-9, 9, (rows, 8)).astype(np.int32))
    g.from_numpy(draw.integers(-9, 9, (rows, width)).astype(np.int32))

    @qd.kernel
    def weigh():
        for b, j in g:
            for i in range(8):
                w[i, j] += x[b, i] * g[b, j]
                w[7 - i, j] -= g[b, j]

    weigh()
    expected = x.to_numpy().T @ g.to_numpy() - g.to_numpy().sum(0)
    np.testing.assert_array_equal(w.to_numpy()[:8], expected)
    assert copied(weigh) == [("w", 0)]
    assert CpuSchedule(jit.vector_bytes() // 4)(weigh.dispatcher.last.kernel).tasks[0].lanes
    assert "atomicrmw" in weigh.code("llvm")  # where threads meet
