"""Tasks, control flow, memory, reductions, adstacks and failures, from IR text: what holds on every backend.

A backend's test file imports these tests and gives them its ``rig`` (`cpu_rig`, `vulkan_rig`).
"""

from typing import Any

import numpy as np
import pytest
from rigs import judged, parallel

from quadrants_lab.ir.types import DTYPES

AXPY = """
kernel axpy(a: f32) forward {
  buffer @x: ndarray f32[?]
  buffer @y: ndarray f32[?]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = shape @x 0
    yield %1, %2
  } do (%3: i32 'i') {
    %4: f32 = arg a
    %5: f32 = load @x[%3]
    %6: f32 = load @y[%3]
    %7: f32 = mul %4, %5
    %8: f32 = add %7, %6
    store @y[%3], %8
    yield
  }
}
"""


def test_saxpy(rig: Any) -> None:
    """Memory around the array is not changed."""
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 15, 16, 17, 33, 1000, 100_000):
        x, whole = rng.random(n, np.float32), np.full(n + 2, -1, np.float32)
        y = whole[1:-1]
        y[:] = rng.random(n, np.float32)
        want = [-1, *(np.float32(2.5) * x + y), -1]
        rig.run(AXPY, {"x": x, "y": y}, {"a": 2.5})
        assert np.array_equal(whole, want)


def test_wide_arrays(rig: Any) -> None:
    """Code for arrays of 2**31 elements and more is right for shorter ones, too."""
    source = AXPY.replace("f32[?]", "f32[?] wide").replace("i32", "i64")
    rng = np.random.default_rng(2)
    for n in (0, 1, 15, 100_000):
        x, y = rng.random(n, np.float32), rng.random(n, np.float32)
        want = np.float32(2.5) * x + y
        rig.run(source, {"x": x, "y": y}, {"a": 2.5})
        assert np.array_equal(y, want)


@pytest.mark.parametrize("first", [2**31 - 2, 2**32 - 1, 2**40, -(2**31) - 2, -(2**62)])
def test_boxes_beyond_32_bits(rig: Any, first: int) -> None:
    """A box whose indices need 64 bits, with bounds that are constants, arguments, and read from memory."""
    for how in ("const {}", "arg a", "load @at[]"):
        begin = how.format(first)
        source = f"""kernel boxes(a: i64) forward {{
          buffer @x: field i64[6x4]
          buffer @at: field i64[]
          offload range_for bounds {{
            %1: i64 = {begin}
            %2: i64 = const 6
            %3: i64 = add %1, %2
            %4: i64 = const 0
            %5: i64 = const 4
            yield %1, %4, %3, %5
          }} do (%10: i64, %11: i64) {{
            %12: i64 = {begin}
            %13: i64 = sub %10, %12
            %14: i64 = add %10, %11
            %15: i64 = atomic add @x[%13, %11], %14
            yield
          }}
        }}"""
        x = np.zeros((6, 4), np.int64)
        rig.run(source, {"x": x, "at": np.array(first)}, {"a": first})
        assert np.array_equal(x, first + np.add.outer(np.arange(6), np.arange(4))), how


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_indices_of_any_integer(rig: Any, dtype: str) -> None:
    source = serial(
        """%1: DTYPE = arg a
        %2: DTYPE = const 2
        %3: i64 = const 7
        %4: i64 = atomic add @x[%1], %3
        store @y[%2, %1], %3
        %5: i64 = load @y[%2, %1]
        store @x[%2], %5""".replace("DTYPE", dtype),
        "buffer @x: field i64[200]\nbuffer @y: ndarray i64[?x?]",
        f"a: {dtype}",
    )
    x, y = np.zeros(200, np.int64), np.zeros((3, 200), np.int64)
    at = 199 if dtype[0] == "u" else 101
    rig.run(source, {"x": x, "y": y}, {"a": at})
    assert np.flatnonzero(x).tolist() == [2, at]
    assert np.argwhere(y).tolist() == [[2, at]]


def test_offsets_beyond_32_bits(rig: Any) -> None:
    """Rows of 2**32 + 5 elements: what a long way back in the next row is near the beginning again."""
    long = 2**32 + 5
    for buffer, wide in ((f"field i64[3x{long}]", ""), ("ndarray i64[?x?]", " wide")):
        source = serial(
            f"""%1: i32 = const 2
            %2: i64 = const {3 - 2 * long}
            %3: i64 = const 11
            store @x[%1, %2], %3
            %4: i64 = atomic add @x[%1, %2], %3
            %5: i64 = load @x[%1, %2]
            %6: i32 = const 0
            store @x[%6, %6], %5""",
            f"buffer @x: {buffer}{wide}",
        )
        x = np.zeros(8, np.int64)
        bound = rig.bind(rig.load(source), {"x": x.reshape(1, 8)})
        if wide:
            bound.set_extents("x", (3, long))
        assert bound.launch() == 0
        assert x.tolist() == [22, 0, 0, 22, 0, 0, 0, 0]


def test_overlapping_ndarrays(rig: Any) -> None:
    """Two ndarray arguments may be the same array."""
    x = np.arange(1000, dtype=np.float32)
    rig.run(AXPY, {"x": x, "y": x}, {"a": 2.0}, options=rig.FAST)
    assert np.array_equal(x, 3 * np.arange(1000, dtype=np.float32))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (1, 1), (64, 3), (4, 3, 5), (2, 3, 4, 5), (300, 400), (5, 0, 3)])
def test_boxes(rig: Any, shape: tuple[int, ...]) -> None:
    """Every index of a box runs exactly once, however the iterations are divided; some boxes do not begin at 0."""
    k = len(shape)
    dims = "x".join(map(str, shape))
    begin = [3 * n - 4 for n in range(k)]
    consts = "\n".join(f"%{10 + n}: i32 = const {b}" for n, b in enumerate(begin))
    consts += "\n" + "\n".join(
        f"%{20 + n}: i32 = const {b + s}" for n, (b, s) in enumerate(zip(begin, shape, strict=True))
    )
    ids = ", ".join(f"%{n}" for n in [*range(10, 10 + k), *range(20, 20 + k)])
    index = "\n".join(
        f"%{40 + n}: i32 = const {b}\n%{50 + n}: i32 = sub %{30 + n}, %{40 + n}" for n, b in enumerate(begin)
    )
    value = "%60: i32 = const 0\n" + "\n".join(
        f"%{70 + n}: i32 = const {s}\n%{80 + n}: i32 = mul %{60 + n}, %{70 + n}\n"
        f"%{61 + n}: i32 = add %{80 + n}, %{50 + n}"
        for n, s in enumerate(shape)
    )
    params = ", ".join(f"%{30 + n}: i32" for n in range(k))
    at = ", ".join(f"%{50 + n}" for n in range(k))
    source = f"""kernel boxes() forward {{
      buffer @x: field i32[{dims}]
      offload range_for bounds {{
        {consts}
        yield {ids}
      }} do ({params}) {{
        {index}
        {value}
        %90: i32 = atomic add @x[{at}], %{60 + k}
        yield
      }}
    }}"""
    x = np.zeros(shape, np.int32)
    rig.run(source, {"x": x})
    assert np.array_equal(x, np.arange(x.size).reshape(shape))


def serial(body: str, buffers: str, args: str = "") -> str:
    task = f"offload serial bounds {{\nyield\n}} do () {{\n{body}\nyield\n}}"
    return f"kernel k({args}) forward {{\n{buffers}\n{task}\n}}"


def test_for_forwards_and_backwards(rig: Any) -> None:
    """Results are the last carried values; an empty range gives the initial ones; digits record the order."""
    for way in ("", "reversed "):
        source = serial(
            f"""%1: i64 = const 0
            %2: i32 = arg a
            %3: i32 = arg b
            %9: i64 = const 10
            for {way}%4: i32 in %2..%3 carry (%5: i64 = %1) {{
              %6: i64 = mul %5, %9
              %7: i64 = cast %4
              %8: i64 = add %6, %7
              yield %8
            }} -> (%10: i64)
            store @r[], %10""",
            "buffer @r: ret i64[]",
            "a: i32, b: i32",
        )
        exe = rig.load(source)
        ranges = [(0, 0), (5, 2), (0, 1), (1, 9), (2, 7), (-3, -3), (2**31 - 4, 2**31 - 1), (-(2**31), -(2**31) + 3)]
        for a, b in ranges:
            frame = rig.bind(exe, {}, {"a": a, "b": b})
            assert frame.launch() == 0
            want = 0
            for i in range(a, b) if not way else reversed(range(a, b)):
                want = want * 10 + i
            assert frame.ret("r") == want, (way, a, b)


def test_while_and_if(rig: Any) -> None:
    """Collatz: the length of the way from n to 1, and its highest point."""
    source = serial(
        """%1: i64 = arg n
        %2: i64 = const 0
        %3: i64 = const 1
        %4: i64 = const 2
        %5: i64 = const 3
        while carry (%6: i64 = %1, %7: i64 = %2, %8: i64 = %1) {
          %9: u1 = gt %6, %3
          yield %9
        } do {
          %10: i64 = mod %6, %4
          %11: u1 = eq %10, %2
          if %11 {
            %12: i64 = floordiv %6, %4
            yield %12
          } else {
            %13: i64 = mul %6, %5
            %14: i64 = add %13, %3
            yield %14
          } -> (%15: i64)
          %16: i64 = add %7, %3
          %17: i64 = max %8, %15
          yield %15, %16, %17
        } -> (%18: i64, %19: i64, %20: i64)
        store @steps[], %19
        store @top[], %20""",
        "buffer @steps: ret i64[]\nbuffer @top: ret i64[]",
        "n: i64",
    )
    for n in (1, 2, 7, 27, 97):
        judged(rig, source, {}, {"n": n})


def reduction(op: str, t: str, n: int) -> str:
    body = f"%4: {t} = load @x[%3]\n%5: {t} = atomic {op} @y[], %4"
    source = parallel(f"const {n}", body, f"buffer @x: field {t}[{n}]\nbuffer @y: field {t}[]")
    return source.replace("kernel k(", "kernel reduce(")


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i32", "u8", "i64", "u1"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "and", "or", "xor"])
def test_reductions(rig: Any, op: str, t: str) -> None:
    if (t[0] == "f" and op in ("and", "or", "xor")) or (t == "u1" and op in ("add", "sub", "mul", "min", "max")):
        return
    rng = np.random.default_rng(3)
    n = 30_001
    dtype = DTYPES[t].numpy
    whole = rng.integers(0, 2 if t == "u1" else 100, n).astype(dtype)
    x = (np.where(np.arange(n) % 5000, 1, 2) if op == "mul" and t[0] == "f" else whole).astype(dtype)
    if t == "f16" and op in ("add", "sub"):
        x[600:] = 0
        x %= 4
    for given in [x, np.ones_like(x)] if t == "u1" else [x]:
        _reduced(rig, op, t, given)


def _reduced(rig: Any, op: str, t: str, x: np.ndarray) -> None:
    dtype, y = x.dtype, np.array(3, x.dtype)
    start = y.copy()
    rig.run(reduction(op, t, len(x)), {"x": x, "y": y}, options=rig.FAST)
    with np.errstate(all="ignore"):
        match op:
            case "sub":
                want = start - x.astype(np.float64).sum() if t[0] == "f" else start - x.sum(dtype=dtype)
            case "add":
                want = start + (x.astype(np.float64).sum() if t[0] == "f" else x.sum(dtype=dtype))
            case "mul" if t[0] == "f":
                want = start * np.exp2(np.log2(x.astype(np.float64)).sum())
            case "mul":
                want = np.multiply.reduce(np.append(x, start).astype(dtype), dtype=dtype)
            case "min" | "max":
                want = getattr(np, op + "imum")(start, getattr(x, op)())
            case _:
                fn = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op]
                want = fn.reduce(np.append(x, start).astype(dtype))
    if t[0] == "f":
        assert y == pytest.approx(float(want), rel={"f16": 2e-2, "f32": 1e-5, "f64": 1e-12}[t])
    else:
        assert y == np.asarray(want).astype(dtype)


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i32", "i64", "u16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "exchange"])
def test_atomics_on_elements(rig: Any, op: str, t: str) -> None:
    """Many iterations change the same seven elements and use the old values, so sums cannot be reduced first."""
    n = 5000
    source = parallel(
        f"const {n}",
        f"""%4: {t} = load @x[%3]
        %5: i32 = const 7
        %6: i32 = mod %3, %5
        %7: {t} = atomic {op} @y[%6], %4
        store @old[%3], %7""",
        f"buffer @x: field {t}[{n}]\nbuffer @y: field {t}[7]\nbuffer @old: field {t}[{n}]",
    )
    dtype = DTYPES[t].numpy
    rng = np.random.default_rng(2)
    x = rng.integers(0, 3, n).astype(dtype)
    if op == "mul":
        x = np.where(np.arange(n) % 500 == 0, 2, 1).astype(dtype)
    y, old = np.full(7, 2, dtype), np.zeros(n, dtype)
    rig.run(source, {"x": x, "y": y, "old": old})
    for k in range(7):
        mine = x[k::7]
        match op:
            case "add":
                want = 2 + mine.sum(dtype=np.int64)
            case "sub":
                want = 2 - mine.sum(dtype=np.int64)
            case "mul":
                want = 2 * np.prod(mine.astype(np.int64))
            case "min" | "max":
                want = {"min": min, "max": max}[op](2, getattr(mine, op)())
            case _:
                assert sorted([*old[k::7], y[k]]) == sorted([*mine, 2])
                continue
        assert y[k] == np.asarray(want).astype(dtype), (k, op)


def test_truth_values_take_a_byte(rig: Any) -> None:
    source = parallel(
        "const 100",
        """%4: f32 = load @x[%3]
        %5: f32 = const 0.5
        %6: u1 = gt %4, %5
        %7: u1 = load @y[%3]
        %8: u1 = xor %6, %7
        store @y[%3], %8
        %9: u1 = atomic or @any[], %6""",
        "buffer @x: field f32[100]\nbuffer @y: field u1[100]\nbuffer @any: field u1[]",
    )
    x = np.random.default_rng(1).random(100, np.float32)
    y = np.arange(100) % 3 == 0
    some = np.array(False)
    want = (x > 0.5) ^ y
    rig.run(source, {"x": x, "y": y, "any": some})
    assert np.array_equal(y, want)
    assert some


def test_tasks_hand_on_through_temporaries(rig: Any) -> None:
    """Temporaries are zero at each launch; a later task sees what an earlier one left."""
    source = """kernel mean() forward {
      buffer @x: ndarray f64[?]
      buffer @sum: temp f64[]
      buffer @r: ret f64[]
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = shape @x 0
        yield %1, %2
      } do (%3: i32) {
        %4: f64 = load @x[%3]
        %5: f64 = atomic add @sum[], %4
        yield
      }
      offload serial bounds {
        yield
      } do () {
        %6: f64 = load @sum[]
        %7: i32 = shape @x 0
        %8: f64 = cast %7
        %9: f64 = div %6, %8
        store @r[], %9
        yield
      }
      offload range_for bounds {
        %10: i32 = const 0
        %11: i32 = shape @x 0
        yield %10, %11
      } do (%12: i32) {
        %13: f64 = load @x[%12]
        %14: f64 = load @r[]
        %15: f64 = sub %13, %14
        store @x[%12], %15
        yield
      }
    }"""
    exe = rig.load(source)
    for n in (1, 10, 50_000):
        x = np.random.default_rng(n).random(n)
        mean = x.mean()
        want = x - mean
        frame = rig.bind(exe, {"x": x})
        assert frame.launch() == 0
        assert frame.ret("r") == pytest.approx(mean)
        assert x == pytest.approx(want)
        frame.launch()
        assert frame.ret("r") == pytest.approx(0, abs=1e-12)


def test_temporaries_and_bounds_that_a_task_leaves(rig: Any) -> None:
    """The second task runs as often as the first one counted; temporaries are zero at each launch."""
    source = """kernel select() forward {
      buffer @x: ndarray f32[?]
      buffer @count: temp i32[]
      buffer @sum: ret f32[]
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = shape @x 0
        yield %1, %2
      } do (%3: i32) {
        %4: f32 = load @x[%3]
        %5: f32 = const 0.5
        %6: u1 = gt %4, %5
        %7: i32 = cast %6
        %8: i32 = atomic add @count[], %7
        yield
      }
      offload range_for bounds {
        %9: i32 = const 0
        %10: i32 = const 3
        %11: i32 = load @count[]
        yield %9, %9, %11, %10
      } do (%12: i32, %13: i32) {
        %14: i32 = add %12, %13
        %15: f32 = cast %14
        %16: f32 = atomic add @sum[], %15
        yield
      }
    }"""
    exe = rig.load(source)
    for n in (1, 10, 3000):
        x = np.random.default_rng(n).random(n).astype(np.float32)
        count = int((x > 0.5).sum())
        bound = rig.bind(exe, {"x": x})
        for _ in range(2):
            assert bound.launch() == 0
            assert bound.ret("sum") == sum(i + j for i in range(count) for j in range(3))


from conformance.stacks import *  # noqa: E402, F403, I001  its parts
from conformance.trips import *  # noqa: E402, F403
from conformance.failures import *  # noqa: E402, F403
