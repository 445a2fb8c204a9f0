"""`qd.algorithms` against numpy, over fields and ndarrays, on every backend."""

import numpy as np
import pytest
from lang.user_rows import defined
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.lang import block_algorithms as blocks

session = session_of(EVERYWHERE)
A = qd.algorithms
SIZES = (1, 300)
REDUCED = {"add": np.sum, "min": np.min, "max": np.max}
SCANNED = {"add": np.add, "min": np.minimum, "max": np.maximum}
T, ARRAY = qd.template(), qd.types.ndarray()
DTYPES = {"i32": np.int32, "f32": np.float32, "u32": np.uint32}


def drawn(dtype, n):
    values = np.random.default_rng(n).integers(-50, 50, n)
    return (values % 100 if dtype == "u32" else values).astype(DTYPES[dtype])


@qd.kernel
def reduced(f: T, g: T, arr: ARRAY, out: ARRAY, scratch: ARRAY, scanned: ARRAY, n: qd.i32, dtype: T):
    f(arr, out, scratch, n, dtype, 1)
    g(arr, scanned, scratch, n, dtype, 1)


@pytest.mark.parametrize(("op", "dtype"), list(zip(REDUCED, DTYPES, strict=True)))
def test_reduce_and_scan(op, dtype):
    for n in SIZES:
        x = drawn(dtype, n)
        out, scratch, scanned = np.zeros_like(x[:1]), np.zeros(A.reduce_scratch_slots(n), np.uint32), np.zeros_like(x)
        f, g = getattr(A, f"reduce_{op}"), getattr(A, f"exclusive_scan_{op}")
        reduced(f, g, x, out, scratch, scanned, n, getattr(qd, dtype))
        assert out[0] == REDUCED[op](x)
        assert scanned[1:].tolist() == SCANNED[op].accumulate(x)[:-1].tolist()


@CPU_ALONE
def test_rows_of_tiles(session):
    sizes = (0, A.TILE * A.ROW, A.TILE * A.ROW + 1, 3 * A.TILE * A.ROW - 5)
    field = qd.field(qd.f32, max(sizes))
    for n in sizes:
        check_rows_of_tiles(n, field)


def check_rows_of_tiles(n, field):
    """``field``: of n elements or more; what it selects from it is compiled once."""
    x = drawn("i32", n)
    out, scanned, total = (np.zeros(max(k, 1), np.int32) for k in (n, n, 1))
    scratch, count = np.zeros(A.reduce_scratch_slots(n), np.uint32), np.zeros(1, np.int32)
    reduced(A.reduce_add, A.exclusive_scan_add, x if n else out, total, scratch, scanned, n, qd.i32)
    assert total[0] == x.sum()
    assert scanned[1:n].tolist() == np.cumsum(x)[:-1].tolist()
    flags, sums, keys = (x > 3).astype(np.int32), np.zeros(max(n, 1), np.float32), np.zeros(max(n, 1), np.int32)
    found = np.zeros(max(n, 1), np.float32)
    field.from_numpy(np.pad(x, (0, field.shape[0] - n)).astype(np.float32))
    selected(field, flags if n else keys, found, keys, sums, count, scratch, n)
    assert count[0] == np.count_nonzero(np.diff(flags, prepend=-1))
    assert found[: (x > 3).sum()].tolist() == x[x > 3].tolist()


@qd.kernel
def extremes(x: ARRAY, found: ARRAY, scratch: ARRAY, n: qd.i32):
    greatest, least = x[0], x[0]
    for i in x:
        greatest = max(greatest, x[i])
        least = min(least, x[i])
    found[0], found[1] = greatest, least
    A.reduce_max(x, found, scratch, n, qd.f32, 1)
    A.reduce_min(x, scratch, scratch, n, qd.f32, 1)
    found[2], found[3] = greatest, scratch[0]


def test_the_extremes_of_nan_are_nan():
    x = np.full(1000, np.nan, np.float32)
    for some in ([], [3.0, -2.0]):
        x[500 : 500 + len(some)] = some
        found = np.zeros(4, np.float32)
        extremes(x, found, np.zeros(A.reduce_scratch_slots(1000), np.float32), 1000)
        want = [np.fmax.reduce(x), np.fmin.reduce(x)]
        np.testing.assert_array_equal(found, [*want, *want])
    extremes(x, found, np.zeros(1, np.float32), 0)
    assert found[[0, 3]].tolist() == [-np.inf, np.inf]


@qd.kernel
def selected(arr: T, flags: ARRAY, out: ARRAY, keys: ARRAY, sums: ARRAY, count: ARRAY, scratch: ARRAY, n: qd.i32):
    A.select(arr, flags, out, count, scratch, n, 1)
    A.reduce_by_key_add(flags, arr, keys, sums, count, scratch, n, qd.f32, 1)


def test_select_and_reduce_by_key():
    for n in SIZES:
        field, values = qd.field(qd.f32, n), drawn("f32", n)
        field.from_numpy(values)
        flags = (np.arange(n) // 3 % 2).astype(np.int32)
        out, sums, keys, count = 0 * values, 0 * values, 0 * flags, np.zeros(1, np.int32)
        selected(field, flags, out, keys, sums, count, np.zeros(A.select_scratch_slots(n), np.uint32), n)
        chosen = values[flags != 0]
        assert out[: len(chosen)].tolist() == chosen.tolist()
        heads = np.flatnonzero(np.diff(flags, prepend=-1))
        assert count[0] == len(heads)
        assert keys[: len(heads)].tolist() == flags[heads].tolist()
        assert sums[: len(heads)].tolist() == np.add.reduceat(values, heads).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_is_stable(dtype):
    for n in SIZES:
        x = drawn(dtype, n)
        keys, values = qd.field(getattr(qd, dtype), n), qd.ndarray(qd.i32, n)
        keys.from_numpy(x)
        values.from_numpy(np.arange(n, dtype=np.int32))
        A.parallel_sort(keys, values)
        order = np.argsort(x, kind="stable")
        assert keys.to_numpy().tolist() == x[order].tolist()
        assert values.to_numpy().tolist() == order.tolist()
    A.parallel_sort(keys)


@CPU_ALONE
@pytest.mark.parametrize("dtype", ["f64", "i64", "u64"])
def test_wide_keys(dtype):
    x = np.array([3, -1, 2**40, 0, -(2**40)]).astype(getattr(qd, dtype).numpy)
    keys = qd.ndarray(getattr(qd, dtype), len(x))
    keys.from_numpy(x)
    A.parallel_sort(keys)
    assert keys.to_numpy().tolist() == np.sort(x).tolist()


@CPU_ALONE
def test_wide_elements_are_selected_with_wide_scratch():
    n = 300
    x = np.arange(n, dtype=np.float64)
    flags, scratch = (np.arange(n) // 3 % 2).astype(np.int32), np.zeros(A.select_scratch_slots(n), np.uint64)
    field, out, sums = qd.field(qd.f64, n), np.zeros(n), np.zeros(n)
    field.from_numpy(x)
    selected(field, flags, out, 0 * flags, sums, np.zeros(1, np.int32), scratch, n)
    assert out[: flags.sum()].tolist() == x[flags != 0].tolist()
    assert sums[:100].tolist() == np.add.reduceat(x, np.arange(0, n, 3)).tolist()


@qd.kernel
def totals(scratch: ARRAY, at: qd.i32, n: qd.i32, dtype: T):
    blocks._scan_totals(max, -100, scratch, at, n, dtype)


@CPU_ALONE
def test_by_blocks_of_threads(session, monkeypatch):
    """The CPU imitates the blocks of threads in which GPUs run the algorithms."""
    def by_blocks():
        return True
    by_blocks.__qd_compile_time__ = True
    monkeypatch.setattr(A, "by_blocks", by_blocks)
    sizes = (0, 1, blocks.SPAN, blocks.SPAN + 1, 3 * blocks.SPAN + 77)
    field = qd.field(qd.f32, max(sizes))
    for n in sizes:
        check_blocks(n, field)


def check_blocks(n, field):
    check_rows_of_tiles(n, field)
    x = np.random.default_rng(n).integers(-(2**31), 2**31, max(n, 1)).astype(np.float32)
    keys, values = qd.ndarray(qd.f32, x.shape), qd.ndarray(qd.i32, x.shape)
    keys.from_numpy(x)
    values.from_numpy(np.arange(len(x), dtype=np.int32))
    A.parallel_sort(keys, values)
    order = np.argsort(x, kind="stable")
    assert keys.to_numpy().tolist() == x[order].tolist()
    assert values.to_numpy().tolist() == order.tolist()
    scratch = drawn("i32", n + 5)
    want = np.concatenate([scratch[:3], np.maximum.accumulate(scratch[3 : n + 3]), scratch[n + 3 :]])
    totals(scratch, 3, n, qd.i32)
    assert scratch.tolist() == want.tolist()


def test_prefix_sums_in_place():
    for n in SIZES:
        x = qd.field(qd.i32, n)
        x.from_numpy(drawn("i32", n))
        A.PrefixSumExecutor(n).run(x)
        assert x.to_numpy().tolist() == np.cumsum(drawn("i32", n)).tolist()


def test_what_cannot_be_sorted_or_summed():
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="QL2055"):
        A.parallel_sort(qd.field(qd.f32, (2, 2)))
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="3 i32"):
        A.PrefixSumExecutor(3).run(qd.field(qd.f32, 3))
    for other in (qd.field(qd.i32, 3), qd.Vector.field(2, qd.i32, 4), qd.field(qd.i32, 4, offset=3)):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"its shape and no offset, not <qd\.field"):
            A.parallel_sort(qd.field(qd.i32, 4), other)
    shifted = qd.field(qd.i32, 4, offset=3)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"from index 0 on.*offset \(3,\)"):
        A.parallel_sort(shifted)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"from index 0 on.*offset \(3,\)"):
        A.PrefixSumExecutor(4).run(shifted)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="along one axis"):
        A.parallel_sort(qd.Vector.field(2, qd.i32, 4))


@qd.kernel
def ordered(x: ARRAY, scratch: ARRAY, n: qd.i32, dtype: T, bits: T):
    A.sort(x, x, x, x, scratch, n, dtype, False, bits, 1)


@CPU_ALONE
def test_funcs_refuse_narrow_dtypes_and_odd_bits():
    scratch = np.zeros(A.sort_scratch_slots(2), np.uint32)
    for dtype in ("u16", "f16"):
        x = np.zeros(2, getattr(qd, dtype).numpy)
        for name in ("reduce_min", "exclusive_scan_add", "exclusive_scan_max"):
            f = getattr(A, name)
            with pytest.raises(qd.QuadrantsTypeError, match=f"{name} takes numbers of 32 or 64 bits, not {dtype}"):
                reduced(f, f, x, x, scratch, x, 2, getattr(qd, dtype))
        with pytest.raises(qd.QuadrantsTypeError, match=f"sort takes numbers of 32 or 64 bits, not {dtype}"):
            ordered(x, scratch, 2, getattr(qd, dtype), 16)
    for bits in (24, 48):
        with pytest.raises(qd.QuadrantsTypeError, match="a multiple of 16 within the key"):
            ordered(np.zeros(2, np.int32), scratch, 2, qd.i32, bits)


def test_reals_are_sorted_by_the_total_order():
    x = np.array([np.nan, 1, 0.0, -np.inf, -0.0, -np.nan, np.inf, -1], np.float32)
    keys = qd.ndarray(qd.f32, len(x))
    keys.from_numpy(x)
    A.parallel_sort(keys)
    assert keys.to_numpy().view(np.uint32).tolist() == x[[5, 3, 7, 4, 2, 1, 6, 0]].view(np.uint32).tolist()


# what Quadrants' guide says of the slots: tiles of 256 elements, tiles of these tiles, and so on
def staircase(n):
    return 0 if n <= 256 else -(-n // 256) + staircase(-(-n // 256))


GUIDE = {
    "reduce_add": lambda n: max(1, staircase(n)),
    "exclusive_scan_add": lambda n: max(1, staircase(n)),
    "select": lambda n: max(1, n + staircase(n)),
    "reduce_by_key_add": lambda n: max(1, n + staircase(n)),
    "sort": lambda n: -(-n // 256) * 256 + staircase(-(-n // 256) * 256),
}


@qd.kernel
def run(op: T, x: ARRAY, y: ARRAY, z: ARRAY, count: ARRAY, scratch: ARRAY, n: qd.i32):
    if qd.static(op == "reduce_add"):
        A.reduce_add(x, count, scratch, n, qd.i32, 1)
    elif qd.static(op == "exclusive_scan_add"):
        A.exclusive_scan_add(x, y, scratch, n, qd.i32, 1)
    elif qd.static(op == "select"):
        A.select(x, x, y, count, scratch, n, 1)
    elif qd.static(op == "reduce_by_key_add"):
        A.reduce_by_key_add(x, x, y, z, count, scratch, n, qd.i32, 1)
    else:
        A.sort(x, y, x, y, scratch, n, qd.i32, False, 32, 1)


@pytest.mark.parametrize("op", GUIDE)
def test_the_slots_of_the_guide_are_enough_and_fewer_than_needed_are_an_error(op):
    for n in (1, 256, 257, 1000):
        check_slots(op, n)


def check_slots(op, n):
    needed = getattr(A, f"{op.removesuffix('_add')}_scratch_slots")(n)
    assert needed <= GUIDE[op](n)
    x = np.sort(drawn("i32", n))[::-1].copy()
    for slots in {GUIDE[op](n), needed}:
        arrays = [x.copy(), *(np.zeros(n, np.int32) for _ in range(2)), np.zeros(1, np.int32)]
        around = np.full(slots + 512, 77, np.uint32)
        run(op, *arrays, around[:slots], n)
        qd.sync()
        assert (around[slots:] == 77).all()
        if op == "sort":
            assert arrays[0].tolist() == sorted(x)
    if op == "reduce_add":  # it needs none here
        return
    before = x.copy()
    around[:] = 77
    def launch():
        run(op, x, *arrays[1:], around[: needed - 1], n)
        qd.sync()
    with pytest.raises(qd.QuadrantsAssertionError, match=rf"scratch has {needed - 1} slots, {needed} are needed"):
        launch()
    assert (x == before).all()
    assert (around == 77).all()


CALLS = {  # without log256_max_n -> what the first element of the result is, of the numbers 1, 2, ..., 9
    "reduce_add(x, out, scratch, 9, qd.f32)": 45,
    "reduce_min(x, out, scratch, 9, qd.f32)": 1,
    "reduce_max(x, out, scratch, 9, qd.f32)": 9,
    "exclusive_scan_add(x, out, scratch, 9, qd.f32)": 0,
    "select(x, flags, out, count, scratch, 9)": 2,
    "reduce_by_key_add(flags, x, keys, out, count, scratch, 9, qd.f32)": 1,
    "sort(keys, flags, x, out, scratch, 9, qd.i32, True, 32)": None,
}


@CPU_ALONE
@pytest.mark.parametrize("call", CALLS)
def test_the_last_parameter_may_be_left_out(session, call):
    x, out, scratch = qd.field(qd.f32, 9), qd.field(qd.f32, 9), qd.field(qd.u32, 2048)
    flags, keys, count = (qd.field(qd.i32, n) for n in (9, 9, 1))
    x.from_numpy(np.arange(1, 10, dtype=np.float32))
    flags.from_numpy(np.array([0, 1, 0, 0, 1, 1, 0, 0, 0], np.int32))
    keys.from_numpy(np.arange(9, 0, -1, dtype=np.int32))
    names = {"x": x, "out": out, "scratch": scratch, "flags": flags, "keys": keys, "count": count}
    defined(qd, "@qd.kernel\ndef k():\n    qd.algorithms." + call, **names)()
    assert (keys[0], x[0]) == (1, 9) if CALLS[call] is None else out[0] == CALLS[call]
