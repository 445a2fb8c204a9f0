"""Blocks of threads: shared memory, barriers and what threads make of their values together, against numpy, on every
backend; their gradients against differences."""

import numpy as np
import pytest
from running import define
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.op_table import OPS
from quadrants_lab.frontend.source import function_source
from quadrants_lab.ir.options import CompileOptions

block, subgroup, warp = qd.simt.block, qd.simt.subgroup, qd.simt.warp
session = session_of(EVERYWHERE)
RNG = np.random.default_rng(3)
N, BLOCK = 200, 64


def groups(v, size, fn):
    """Applies ``fn`` to each group of ``size`` threads of a block."""
    parts = [v[i : i + BLOCK] for i in range(0, len(v), BLOCK)]
    return np.concatenate([fn(p[i : i + size]) for p in parts for i in range(0, len(p), size)])


def wrapped(values):
    """An integer as it wraps in 32 bits."""
    return np.asarray(values, np.int64).astype(np.uint32).view(np.int32)


@qd.kernel
def reversed_blocks(out: qd.types.NDArray, v: qd.types.NDArray):
    qd.loop_config(block_dim=64)
    for i in range(v.shape[0]):
        held = block.SharedArray((64,), qd.f32)
        held[block.thread_idx()] = v[i]
        block.sync()
        out[i] = held[63 - block.thread_idx()] + 1000.0 * (block.global_thread_idx() - i)


def test_threads_read_what_others_wrote():
    """The memory of blocks grows with the loop."""
    for n in (10, 300, 64, 0, N):
        v, out = RNG.random(n).astype(np.float32), np.zeros(n, np.float32)
        reversed_blocks(out, v)
        want = np.zeros(-(-n // 64) * 64, np.float32)
        want[:n] = v
        np.testing.assert_array_equal(out, want.reshape(-1, 64)[:, ::-1].reshape(-1)[:n])


@qd.kernel
def summed_blocks(out: qd.types.NDArray, v: qd.types.NDArray):
    qd.loop_config(block_dim=64)
    for i in range(v.shape[0]):
        held = block.SharedArray(64, qd.f32)
        t = block.thread_idx()
        held[t] = v[i]
        block.sync()
        stride = 32
        while stride > 0:
            if t < stride:
                held[t] += held[t + stride]
            block.sync()
            stride //= 2
        if t == 0:
            out[i // 64] = held[0]


def test_a_reduction_in_shared_memory():
    v, out = RNG.random(N).astype(np.float32), np.zeros(4, np.float32)
    summed_blocks(out, v)
    np.testing.assert_allclose(out, np.pad(v, (0, 56)).reshape(4, 64).sum(1), rtol=1e-5)


@qd.kernel
def counted(out: qd.types.NDArray, v: qd.types.NDArray):
    qd.loop_config(block_dim=64)
    for i, j in qd.ndrange(v.shape[0], (1, 21)):
        bins = block.SharedArray((5,), qd.i32)
        qd.atomic_add(bins[v[i, j - 1]], 1)
        block.sync()
        if block.thread_idx() < 5:
            out[((i * 20) + j - 1) // 64, block.thread_idx()] += bins[block.thread_idx()]


def test_shared_atomics_in_a_loop_over_two_axes():
    v = RNG.integers(0, 5, (9, 20)).astype(np.int32)
    out = np.zeros((3, 5), np.int32)
    counted(out, v)
    parts = np.split(v.reshape(-1), [64, 128])
    np.testing.assert_array_equal(out, [np.bincount(p, minlength=5) for p in parts])


@qd.kernel
def conditional(out: qd.types.NDArray, n: qd.i32):
    qd.loop_config(block_dim=32)
    for i in range(64):
        held = block.SharedArray(32, qd.i32)
        t = block.thread_idx()
        x = t
        if n > 2:
            held[t] = x
            block.sync()
            x = held[(t + 1) % 32]
            block.sync()
        else:
            x = -t
        for k in range(n):
            y = x
            held[t] = x + k
            block.sync()
            x = held[(t + 3) % 32] + y
            block.sync()
        out[i] = x


@pytest.mark.parametrize("n", [0, 2, 3])
def test_barriers_in_loops_and_ifs_that_threads_agree_on(n):
    out, t = np.zeros(64, np.int32), np.arange(32)
    conditional(out, n)
    x = np.roll(t, -1) if n > 2 else -t
    for k in range(n):
        x = np.roll(x + k, -3) + x
    np.testing.assert_array_equal(out, np.tile(x, 2))


@qd.kernel
def teams(out: qd.types.NDArray, sizes: qd.types.NDArray):
    """A kernel in which each block works on one element for as long as it takes."""
    qd.loop_config(block_dim=32)
    for i in range(sizes.shape[0] * 32):
        team, t = i // 32, i % 32
        if sizes[team] == 0:
            continue
        held = block.SharedArray(32, qd.i32)
        for k in range(sizes[team]):
            held[t] += t
            block.sync()
            out[team, t] += held[(t + 1) % 32]
            block.sync()
            if held[0] + held[1] >= 3:
                break
        rounds = 0
        while True:
            block.sync()
            rounds += 1
            if rounds * 2 > sizes[team]:
                break
        out[team, t] += 1000 * rounds

@qd.kernel
def teams_of_two_axes(out: qd.types.NDArray, sizes: qd.types.NDArray):
    qd.loop_config(block_dim=32)
    for team, t in qd.ndrange(sizes.shape[0], 32):
        held = block.SharedArray(32, qd.i32)
        for k in range(sizes[team]):
            held[t] += t + k
            block.sync()
            out[team, t] += held[(t + 1) % 32]
            block.sync()


def test_a_block_for_each_element():
    sizes, out = np.array([2, 0, 5, 1], np.int32), np.zeros((4, 32), np.int32)
    teams(out, sizes)
    t = (np.arange(32) + 1) % 32
    for n, row in zip(sizes, out, strict=True):
        np.testing.assert_array_equal(row, n and t * sum(range(1, min(n, 3) + 1)) + 1000 * (n // 2 + 1))
    out[:] = 0
    teams_of_two_axes(out, sizes)
    for n, row in zip(sizes, out, strict=True):
        np.testing.assert_array_equal(row, sum((k + 1) * t + k * (k + 1) // 2 for k in range(n)))


@qd.kernel
def counted_down(out: qd.types.NDArray, start: qd.types.NDArray):
    qd.loop_config(block_dim=256)
    for i in range(out.shape[0]):
        left = start[0]
        while left > 0:
            block.sync()
            left -= start[1]
            out[i] += 1


def test_a_condition_is_read_by_all_threads_before_one_changes_it():
    out = np.zeros(512, np.int32)
    counted_down(out, np.array([7, 2], np.int32))
    np.testing.assert_array_equal(out, np.full(512, 4))


@qd.kernel
def halved(rounds: qd.types.NDArray, v: qd.types.NDArray, most: qd.types.NDArray):
    """Each block goes on until all of its values are small, which it votes on."""
    qd.loop_config(block_dim=64)
    for i in range(v.shape[0]):
        k = 0
        while k < most[0] and block.sync_any_nonzero(v[i] > 1.0):
            v[i] *= 0.5
            k += 1
        if block.reduce_all_max(v[i], 64, qd.f32) > 1.0:
            block.sync()
            k = -1
        j = 0
        while j < 3 and i // 64 > j:
            block.sync()
            j += 1
        rounds[i] = 10 * k + j


def test_what_a_block_finds_together_decides_on_barriers():
    v, rounds = np.float32(RNG.random(N) * 4 * np.repeat([1, 100, 8, 0], 64)[:N]), np.zeros(N, np.int32)
    k = [int(np.ceil(np.log2(max(1.0, p.max())))) for p in np.split(v, [64, 128, 192])]
    halved(rounds, v, np.array([6], np.int32))
    np.testing.assert_array_equal(rounds, np.repeat([10 * (-1 if n > 6 else n) + b for b, n in enumerate(k)], 64)[:N])


def scan(ufunc):
    return lambda size: lambda v: groups(v, size, ufunc.accumulate)


def whole(ufunc):
    return lambda size: lambda v: groups(v, size, lambda p: np.full(len(p), ufunc.reduce(p)))


def before(ufunc, identity):
    def shifted(p):
        return np.concatenate([[identity], ufunc.accumulate(p)[:-1]])

    return lambda size: lambda v: groups(v, size, shifted)


UFUNCS = {"add": (np.add, 0), "mul": (np.multiply, 1), "min": (np.minimum, 2**31 - 1), "max": (np.maximum, -(2**31)),
          "and": (np.bitwise_and, -1), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0)}  # fmt: skip
FAMILIES = {
    **{f"inclusive_{n}": scan(u) for n, (u, _) in UFUNCS.items()},
    **{f"exclusive_{n}": before(u, e) for n, (u, e) in UFUNCS.items()},
    **{f"reduce_all_{n}": whole(UFUNCS[n][0]) for n in ("add", "min", "max")},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_reductions_and_scans(name):
    op = getattr(subgroup, name)
    tiled = getattr(subgroup, f"{name}_tiled")
    of_block = getattr(block, name, None)
    x, out = qd.field(qd.i32, N), qd.field(qd.i32, (3, N))
    v = RNG.integers(-3, 9, N).astype(np.int32)
    x.from_numpy(v)

    @qd.kernel
    def k():
        qd.loop_config(block_dim=64)
        for i in range(N):
            out[0, i] = op(x[i])
            out[1, i] = tiled(x[i], 2)
            if qd.static(of_block is not None):
                out[2, i] = of_block(x[i], 64, qd.i32)

    k()
    found = out.to_numpy()
    for n, size in enumerate((32, 4) if of_block is None else (32, 4, 64)):
        np.testing.assert_array_equal(found[n], wrapped(FAMILIES[name](size)(v.astype(np.int64))))


@qd.func
def further(a, b):
    return qd.max(a, b) + 1


def test_shuffles_votes_and_scans_of_lanes():
    v = RNG.integers(0, 40, 128).astype(np.int32)
    x, out = qd.field(qd.i32, 128), qd.field(qd.i32, (22, 128))
    x.from_numpy(v)

    @qd.kernel
    def k():
        qd.loop_config(block_dim=64)
        for i in range(128):
            a = x[i]
            everyone = qd.u32(0xFFFFFFFF)
            out[0, i] = subgroup.shuffle(a, 5)
            out[1, i] = subgroup.shuffle_up(a, 2)
            out[2, i] = warp.shfl_down_i32(everyone, a, 2)
            out[3, i] = subgroup.shuffle_xor(a, 3)
            out[4, i] = subgroup.broadcast_first(a)
            out[5, i] = subgroup.all_true(a)
            out[6, i] = subgroup.any_true_tiled(a > 30, 1)
            out[7, i] = subgroup.all_equal_tiled(i // 16, 4)
            out[8, i] = qd.bit_cast(subgroup.ballot_first_n(a > 20, 8), qd.i32)
            out[9, i] = qd.cast(subgroup.ballot(a > 20) >> qd.u64(8), qd.i32)
            out[10, i] = subgroup.segmented_reduce_add(a, a % 5 == 0)
            out[11, i], out[12, i] = subgroup.bitonic_sort_kv(a, i)
            out[13, i] = subgroup.elect() * 100 + subgroup.invocation_id()
            out[14, i] = block.reduce_all(a, 64, further, qd.i32)
            out[15, i] = block.exclusive_scan(a, 64, qd.max, -7, qd.i32)
            out[16, i] = block.sync_count_nonzero(a % 2)
            out[17, i] = block.sync_any_nonzero(a == 40) + block.sync_all_nonzero(a < 40) * 2
            out[18, i] = qd.bit_cast(warp.match_any(everyone, a % 4), qd.i32)
            out[19, i] = warp.all_nonzero(qd.u32(1), a == x[i - i % 32])
            out[20, i] = qd.bit_cast(subgroup.lanemask_le(i % 32), qd.i32)
            bins, prefix = block.SharedArray(64, qd.i32), block.SharedArray(64, qd.i32)
            out[21, i] = block.radix_rank_match_atomic_or(qd.u32(a), 64, 6, 1, 3, bins, prefix)

    k()
    found, t = out.to_numpy(), v.reshape(4, 32)
    lanes = np.arange(128) % 32

    def bits(test, first=0, n=32):
        ones = (test.reshape(4, 32)[:, first : first + n].astype(np.int64) << np.arange(n)).sum(1)
        return np.repeat(ones, 32).astype(np.uint32).view(np.int32)

    def further_of(p):
        total = p[0]
        for a in p[1:]:
            total = max(total, a) + 1
        return np.full(len(p), total)

    segments = np.zeros(128, int)
    for i in range(128):
        segments[i] = v[i] + (0 if lanes[i] == 0 or v[i] % 5 == 0 else segments[i - 1])
    ahead = np.concatenate([t[:, 2:], t[:, -2:]], 1).reshape(-1)
    behind = np.concatenate([t[:, :2], t[:, :-2]], 1).reshape(-1)
    digit = (v >> 1) & 7
    want = [
        np.repeat(t[:, 5], 32), behind, ahead, t[:, np.arange(32) ^ 3].reshape(-1), np.repeat(t[:, 0], 32),
        np.repeat(t.all(1), 32), np.repeat((v.reshape(-1, 2) > 30).any(1), 2), np.ones(128), bits(v > 20, 0, 8),
        np.repeat([sum(1 << k for k in range(24) if row[k + 8] > 20) for row in t], 32), segments,
        np.sort(t, 1).reshape(-1), (np.argsort(t, 1, kind="stable") + np.arange(0, 128, 32)[:, None]).reshape(-1),
        (lanes == 0) * 100 + lanes, groups(v, 64, further_of), before(np.maximum, -7)(64)(v),
        groups(v, 64, lambda p: np.full(64, (p % 2).sum())), np.full(128, 2),
        [sum(1 << k for k in range(32) if t[i // 32, k] % 4 == v[i] % 4) for i in range(128)], np.ones(128),
        [(2 << k) - 1 for k in lanes],
        groups(digit, 64, lambda p: np.argsort(np.argsort(p, kind="stable"), kind="stable")),
    ]  # fmt: skip
    for n, w in enumerate(want):
        np.testing.assert_array_equal(found[n], wrapped(w), str(n))


@CPU_ALONE
@pytest.mark.parametrize("size", [40, 20000])
def test_each_worker_has_memory_of_its_own(session, size):
    """The memory may be larger than a worker's stack."""
    out = qd.field(qd.i32, 64 * 40)
    @qd.kernel
    def k():
        qd.loop_config(block_dim=40)
        for i in out:
            held, t = block.SharedArray(size, qd.i32), block.thread_idx()
            held[t] += i
            block.sync()
            for _ in range(9):
                held[t] += 1
                block.sync()
            out[i] = held[39 - t] - 9
    k()
    np.testing.assert_array_equal(out.to_numpy(), np.arange(64 * 40).reshape(64, 40)[:, ::-1].reshape(-1))


LANES = {  # the weight of the thread j, in kernels and in numpy; the lanes that are asked for
    "an elementary function": (lambda j: qd.cos(0.1 * j), lambda j: np.cos(0.1 * j), None),
    "lanes that are asked for": (lambda j: 0.5 * j, lambda j: 0.5 * j, 8),
    "lanes that the last group does not fill": (lambda j: qd.exp(-0.2 * j), lambda j: np.exp(-0.2 * j), 16),
}


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("how", LANES)
def test_each_lane_has_memory_of_its_own(session, how, size):
    """If blocks run in the lanes of a vector, several blocks of a worker run at a time."""
    weight, right, lanes = LANES[how]
    n, weight = 20 * size, qd.func(weight)
    x, y = qd.field(qd.f32, n), qd.field(qd.f32, n)

    @qd.func
    def summed(i):
        held = block.SharedArray((size,), qd.f32)
        held[i % size] = x[i] * x[i]
        block.sync()
        total = 0.0
        for j in range(size):
            total += held[j] * weight(j)
        y[i] = total

    @qd.kernel
    def k():
        if qd.static(lanes is None):
            qd.loop_config(block_dim=size)
            for i in range(n):
                summed(i)
        else:
            qd.loop_config(block_dim=size, lanes=lanes)
            for i in range(n):
                summed(i)

    given = np.random.default_rng(3).uniform(-1, 1, n).astype(np.float32)
    x.from_numpy(given)
    k()
    want = given.reshape(20, size) ** 2 @ right(np.arange(size))
    np.testing.assert_allclose(y.to_numpy(), want.repeat(size), rtol=1e-4, atol=1e-4)



# --- errors, and what every name takes ------------------------------------------------------------------------------

@CPU_ALONE
def test_a_barrier_that_not_all_threads_reach_is_an_error(session):
    x = qd.field(qd.i32, 64)

    @qd.kernel
    def some():
        for i in x:
            if x[i] > 3:
                block.sync()

    @qd.kernel
    def different_trips(n: qd.i32):
        for i in x:
            for _ in range(n + i):
                block.sync()

    @qd.kernel
    def left_early():
        for i in x:
            if i < 60:
                continue
            block.sync()

    @qd.kernel
    def parts_of_blocks():
        qd.loop_config(block_dim=64)
        for i in range(64):
            for _ in range(i // 32):
                block.sync()

    @qd.kernel
    def between_blocks():
        qd.loop_config(block_dim=64)
        for i in range(5, 200):
            for _ in range(i // 64):
                block.sync()

    test = "the condition"
    for k, args, what in ((some, (), test), (different_trips, (3,), "the range"), (left_early, (), test),
                          (parts_of_blocks, (), "the range"), (between_blocks, (), "the range")):  # fmt: skip
        with pytest.raises(qd.QuadrantsSyntaxError, match=f"QL1715.*not all threads(?s:.*)waits for all(?s:.*){what}"):
            k(*args)


@CPU_ALONE
def test_blocks_need_a_size_that_the_host_knows(session):
    x, n = qd.field(qd.i32, 64), qd.field(qd.i32, ())
    @qd.kernel
    def k():
        n[None] += 3
        for i in range(n[None]):
            held = block.SharedArray(128, qd.i32)
            held[block.thread_idx()] = i
            block.sync()
            x[i] = held[0]
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL1716"):
        k()


ARGUMENTS = {
    "value": "i", "predicate": "i", "val": "i", "key": "i", "head_flag": "i", "log2_size": "3", "block_dim": "32",
    "dtype": "qd.i32", "op": "qd.max", "identity": "0", "index": "1", "offset": "1", "mask": "qd.u32(1)", "n": "8",
    "lane_id": "2", "shape": "4", "arch": "qd.cpu", "radix_bits": "5", "bit_start": "0", "num_bits": "2", "bins": "a",
    "excl_prefix": "b",
}  # fmt: skip
NAMES = [row for row in OPS.values() if row.home.startswith("simt.")]


@CPU_ALONE
def test_every_name_can_be_called(session):
    """One kernel calls each name with its arguments; their results are tested above."""
    assert len(NAMES) == 125
    lines = [f"        qd.simt.{row.name}({', '.join(ARGUMENTS[p.rstrip('=')] for p in row.params)})" for row in NAMES]
    head = ["def k():", "    qd.loop_config(block_dim=32)", "    for i in range(32):"]
    arrays = [f"        {name} = qd.simt.block.SharedArray(32, qd.i32)" for name in "ab"]
    lower(function_source(define("\n".join([*head, *arrays, *lines]))["k"]), [], CompileOptions())
    assert subgroup.group_size() == 32
    with pytest.raises(qd.QuadrantsRuntimeError, match="inside a kernel"):
        block.thread_idx()
