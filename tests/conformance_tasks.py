"""Tasks, control flow, memory, reductions, adstacks and failures, from IR text: what holds on every backend.

A backend's test file imports these tests and gives them its ``rig`` (`cpu_rig`, `vulkan_rig`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants_lab.backends.launch import AssertFailed, Overflow, Status
from quadrants_lab.ir import draws
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import f32, f64, i16
from quadrants_lab.runtime.interpreter import interpret

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
    rng = np.random.default_rng(1)
    for n in (0, 1, 15, 1000, 100_000):
        x, y = rng.random(n, np.float32), rng.random(n, np.float32)
        want = np.float32(2.5) * x + y
        rig.run(AXPY, {"x": x, "y": y}, {"a": 2.5})
        assert np.array_equal(y, want)


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
    """Two ndarrays may be one."""
    x = np.arange(1000, dtype=np.float32)
    rig.run(AXPY, {"x": x, "y": x}, {"a": 2.0}, options=rig.FAST)
    assert np.array_equal(x, 3 * np.arange(1000, dtype=np.float32))


@pytest.mark.parametrize(
    "shape", [(7,), (3, 5), (1, 1), (64, 3), (4, 3, 5), (2, 3, 4, 5), (300, 400), (5, 0, 3)]
)
def test_boxes(rig: Any, shape: tuple[int, ...]) -> None:
    """Every index of a box once, whatever the chunks; boxes that do not begin at 0."""
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
        for a, b in (
            (0, 0),
            (5, 2),
            (0, 1),
            (1, 9),
            (2, 7),
            (-3, -3),
            (2**31 - 4, 2**31 - 1),
            (-(2**31), -(2**31) + 3),
        ):
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
    exe = rig.load(source)
    for n in (1, 2, 7, 27, 97):
        frame = rig.bind(exe, {}, {"n": n})
        frame.launch()
        steps, top, m = 0, n, n
        while m > 1:
            m = m // 2 if m % 2 == 0 else 3 * m + 1
            steps, top = steps + 1, max(top, m)
        assert (frame.ret("steps"), frame.ret("top")) == (steps, top)


def reduction(op: str, t: str, n: int) -> str:
    return f"""kernel reduce() forward {{
      buffer @x: field {t}[{n}]
      buffer @y: field {t}[]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const {n}
        yield %1, %2
      }} do (%3: i32) {{
        %4: {t} = load @x[%3]
        %5: {t} = atomic {op} @y[], %4
        yield
      }}
    }}"""


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i32", "u8", "i64", "u1"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "and", "or", "xor"])
def test_reductions(rig: Any, op: str, t: str) -> None:
    if (t[0] == "f" and op in ("and", "or", "xor")) or (t == "u1" and op in ("add", "sub")):
        return
    rng = np.random.default_rng(3)
    n = 30_001
    dtype = {"f": f"float{t[1:]}", "i": f"int{t[1:]}", "u": f"uint{t[1:]}"}[t[0]] if t != "u1" else "bool"
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
    """Iterations meet on seven elements; old values are used, so nothing is reduced apart."""
    n = 5000
    source = f"""kernel scatter() forward {{
      buffer @x: field {t}[{n}]
      buffer @y: field {t}[7]
      buffer @old: field {t}[{n}]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const {n}
        yield %1, %2
      }} do (%3: i32) {{
        %4: {t} = load @x[%3]
        %5: i32 = const 7
        %6: i32 = mod %3, %5
        %7: {t} = atomic {op} @y[%6], %4
        store @old[%3], %7
        yield
      }}
    }}"""
    dtype = {"f": f"float{t[1:]}", "i": f"int{t[1:]}", "u": f"uint{t[1:]}"}[t[0]]
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
    source = """kernel flags() forward {
      buffer @x: field f32[100]
      buffer @y: field u1[100]
      buffer @any: field u1[]
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = const 100
        yield %1, %2
      } do (%3: i32) {
        %4: f32 = load @x[%3]
        %5: f32 = const 0.5
        %6: u1 = gt %4, %5
        %7: u1 = load @y[%3]
        %8: u1 = xor %6, %7
        store @y[%3], %8
        %9: u1 = atomic or @any[], %6
        yield
      }
    }"""
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


# --- adstacks ---------------------------------------------------------------------------------------------------


def stacked(t: str, n: int) -> str:
    """Pushes x[i] * k for k below count[i], and pops them into y[i], the last one first, as digits."""
    return f"""kernel stacked() reverse {{
      buffer @x: field {t}[{n}]
      buffer @count: field i32[{n}]
      buffer @y: field {t}[{n}x8]
      buffer @deep: ret i64[]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const {n}
        yield %1, %2
      }} do (%3: i32) {{
        adstack_alloca $4: {t} 'v' primal %9 reason "test"
        %5: i32 = const 0
        %6: i32 = load @count[%3]
        %7: {t} = load @x[%3]
        for %8: i32 in %5..%6 carry (%9: {t} = %7) {{
          adstack_push $4, %9
          %10: {t} = {{OP}}
          yield %10
        }} -> (%11: {t})
        %12: i64 = adstack_depth $4
        %13: i64 = atomic max @deep[], %12
        adstack_guard {{
          for reversed %14: i32 in %5..%6 {{
            %15: {t} = adstack_load_top $4
            adstack_pop $4
            store @y[%3, %14], %15
            yield
          }}
          yield
        }}
        yield
      }}
    }}"""


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i8", "u64", "u1"])
def test_stacks(rig: Any, t: str) -> None:
    n = 500
    op = "xor %9, %9" if t == "u1" else "add %9, %9"
    exe = rig.load(stacked(t, n).replace("{OP}", op))
    dtype = {"f": f"float{t[1:]}", "i": f"int{t[1:]}", "u": f"uint{t[1:]}"}[t[0]] if t != "u1" else "bool"
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, n).astype(dtype) if t == "u1" else rng.integers(1, 3, n).astype(dtype)
    count = rng.integers(0, 9, n).astype(np.int32)
    y = np.zeros((n, 8), dtype)
    frame = rig.bind(exe, {"x": x, "count": count, "y": y}, stacks=[8])
    assert frame.launch() == 0
    want = np.zeros_like(y)
    for i in range(n):
        v: Any = x[i]
        for k in range(count[i]):
            want[i, k] = v
            v = (v ^ v) if t == "u1" else np.array(v + v, dtype)
    assert np.array_equal(y, want)
    assert frame.ret("deep") == count.max()


def test_overflow_names_the_stack_and_touches_nothing_else(rig: Any) -> None:
    n = 2000
    exe = rig.load(stacked("f32", n).replace("{OP}", "add %9, %9"))
    x, count = np.ones(n, np.float32), np.full(n, 3, np.int32)
    count[1234] = 8
    y = np.zeros((n, 8), np.float32)
    frame = rig.bind(exe, {"x": x, "count": count, "y": y}, stacks=[3])
    assert frame.launch() == Status.OVERFLOW
    failed = frame.failure()
    assert isinstance(failed, Overflow)
    assert (failed.stack.name, failed.capacity, failed.depth) == ("v", 3, 8)
    assert not y[1234].any()
    assert (np.delete(y, 1234, 0)[:, :3] == [1, 2, 4]).all()
    frame.set_stacks([8])
    assert frame.launch() == 0
    assert frame.failure() is None
    assert (y[1234] == 2.0 ** np.arange(8)).all()


IN_STEP = """kernel in_step() reverse {
  buffer @x: field f32[500]
  buffer @count: field i32[500]
  buffer @y: field f32[500]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = const 500
    yield %1, %2
  } do (%3: i32) {
    adstack_alloca $4: f32 'a' primal %20 reason "test"
    adstack_alloca $5: i32 'i' primal %21 reason "test"
    adstack_alloca $6: f32 'b' primal %22 reason "test"
    adstack_alloca $7: f64 'd' primal %24 reason "test"
    adstack_alloca $8: f32 'c' primal %25 reason "test"
    adstack_alloca $9: u1 'f' primal %26 reason "test"
    adstack_alloca $10: f32 'inner' primal %31 reason "test"
    adstack_alloca $11: i16 's' primal %28 reason "test"
    adstack_alloca $12: i32 'j' primal %29 reason "test"
    %13: f32 = const 0.5
    %14: i32 = const 0
    %15: i32 = load @count[%3]
    %16: f32 = load @x[%3]
    for %21: i32 in %14..%15 carry (%20: f32 = %16) {
      adstack_push $4, %20
      adstack_push $5, %21
      %22: f32 = mul %20, %13
      adstack_push $6, %22
      for %30: i32 in %14..%21 carry (%31: f32 = %22) {
        adstack_push $10, %31
        %32: f32 = add %31, %13
        yield %32
      } -> (%33: f32)
      %24: f64 = cast %33
      adstack_push $7, %24
      %25: f32 = add %33, %20
      adstack_push $8, %25
      %26: u1 = lt %20, %33
      if %26 {
        adstack_push $10, %25
        yield
      } else {
        yield
      }
      adstack_push $9, %26
      %28: i16 = cast %21
      adstack_push $11, %28
      %29: i32 = sub %15, %21
      adstack_push $12, %29
      yield %22
    } -> (%34: f32)
    adstack_guard {
      %40: f32 = const 0.0
      for reversed %41: i32 in %14..%15 carry (%42: f32 = %40) {
        %43: i32 = adstack_load_top $12
        adstack_pop $12
        %44: i16 = adstack_load_top $11
        adstack_pop $11
        %45: u1 = adstack_load_top $9
        adstack_pop $9
        if %45 {
          %46: f32 = adstack_load_top $10
          adstack_pop $10
          yield %46
        } else {
          yield %42
        } -> (%47: f32)
        %48: f32 = adstack_load_top $8
        for %49: i32 in %14..%41 carry (%50: f32 = %47) {
          %51: f32 = adstack_load_top $10
          adstack_pop $10
          %52: f64 = adstack_load_top $7
          %53: f32 = cast %52
          %54: f32 = mul %51, %53
          %55: f32 = add %50, %54
          yield %55
        } -> (%56: f32)
        adstack_pop $8
        adstack_pop $7
        %57: f32 = adstack_load_top $6
        adstack_pop $6
        %58: i32 = adstack_load_top $5
        adstack_pop $5
        %59: f32 = adstack_load_top $4
        adstack_pop $4
        %60: i32 = cast %44
        %61: i32 = add %60, %58
        %62: i32 = add %61, %43
        %63: f32 = cast %62
        %64: f32 = mul %63, %57
        %65: f32 = add %64, %56
        %66: f32 = mul %48, %59
        %67: f32 = add %65, %66
        yield %67
      } -> (%68: f32)
      store @y[%3], %68
      yield
    }
    yield
  }
}"""


def test_stacks_in_step(rig: Any) -> None:
    """Stacks that are pushed in the same places, of several dtypes, beside others; some are read before a loop or in
    it and popped behind it."""
    count = np.arange(500, dtype=np.int32) % 7
    x, y, want = np.linspace(-1, 1, 500, dtype=np.float32), np.zeros(500, np.float32), np.zeros(500, np.float32)
    interpret(parse_kernel(IN_STEP), arrays={"x": x, "count": count, "y": want})
    caps = [6, 6, 6, 6, 6, 6, 21, 6, 6]
    frame = rig.bind(rig.load(IN_STEP), {"x": x, "count": count, "y": y}, stacks=caps)
    assert frame.launch() == 0
    np.testing.assert_allclose(y, want, rtol=1e-5)
    assert len(np.unique(want)) > 400
    frame.set_stacks([5 if n == 6 else n for n in caps])
    assert frame.launch() == Status.OVERFLOW
    failed = frame.failure()
    assert isinstance(failed, Overflow)
    assert (failed.capacity, failed.depth) == (5, 6)


def by_trips(t: str, n: int) -> str:
    """Pushes x[i] * 2**k, where count[i] is above 2, for every k from 2 to there, and in a while for every k below it,
    and pops them into y[i] and z[i], the last one first. The way back reads its range again."""
    return f"""kernel by_trips() reverse {{
      buffer @x: field {t}[{n}]
      buffer @count: field i32[{n}]
      buffer @y: field {t}[{n}x8]
      buffer @z: field {t}[{n}x8]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const {n}
        yield %1, %2
      }} do (%3: i32) {{
        adstack_alloca $4: {t} 'v' primal %9 reason "test"
        adstack_alloca $20: {t} 'w' primal %21 reason "test"
        %5: i32 = const 0
        %15: i32 = const 1
        %16: i32 = const 2
        %6: i32 = load @count[%3]
        %7: {t} = load @x[%3]
        %17: u1 = gt %6, %16
        if %17 {{
          for %8: i32 in %16..%6 carry (%9: {t} = %7) {{
            adstack_push $4, %9
            %10: {t} = {{OP}}
            yield %10
          }} -> (%11: {t})
          yield
        }} else {{
          yield
        }}
        while carry (%21: {t} = %7, %22: i32 = %5) {{
          %23: u1 = lt %22, %6
          yield %23
        }} do {{
          %24: i32 = add %22, %15
          %25: {t} = {{OP2}}
          adstack_push $20, %21
          yield %25, %24
        }} -> (%26: {t}, %27: i32)
        adstack_guard {{
          if %17 {{
            %30: i32 = load @count[%3]
            for reversed %31: i32 in %16..%30 {{
              %32: {t} = adstack_load_top $4
              store @y[%3, %31], %32
              adstack_pop $4
              yield
            }}
            yield
          }} else {{
            yield
          }}
          for reversed %33: i32 in %5..%27 {{
            %34: u1 = eq %33, %15
            if %34 {{
              %35: {t} = adstack_load_top $20
              store @z[%3, %33], %35
              yield
            }} else {{
              yield
            }}
            %36: {t} = adstack_load_top $20
            adstack_pop $20
            store @z[%3, %33], %36
            yield
          }}
          yield
        }}
        yield
      }}
    }}"""


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i8", "u64", "u1"])
def test_slots_by_trips(rig: Any, t: str) -> None:
    """Of a range that does not begin at 0, under a condition, and of a loop that counts its trips; and over capacity,
    with everything else untouched."""
    n = 500
    op = "xor" if t == "u1" else "add"
    exe = rig.load(by_trips(t, n).replace("{OP}", f"{op} %9, %9").replace("{OP2}", f"{op} %21, %21"))
    dtype = {"f": f"float{t[1:]}", "i": f"int{t[1:]}", "u": f"uint{t[1:]}"}[t[0]] if t != "u1" else "bool"
    rng = np.random.default_rng(3)
    x = np.array(rng.integers(0 if t == "u1" else 1, 2 if t == "u1" else 3, n)).astype(dtype)
    count = rng.integers(-1, 7, n).astype(np.int32)
    arrays = {"x": x, "count": count, "y": np.zeros((n, 8), dtype), "z": np.zeros((n, 8), dtype)}
    frame = rig.bind(exe, arrays, stacks=[4, 6])
    assert frame.launch() == 0
    y, z = np.zeros((n, 8), dtype), np.zeros((n, 8), dtype)
    for i in range(n):
        v: Any = x[i]
        for k in range(count[i]):
            z[i, k] = v
            if k + 2 < count[i]:
                y[i, k + 2] = v
            v = (v ^ v) if t == "u1" else np.array(v + v, dtype)
    assert np.array_equal(arrays["y"], y)
    assert np.array_equal(arrays["z"], z)
    for stacks, want in (([3, 6], ("v", 3, 4)), ([4, 5], ("w", 5, 6))):
        arrays["y"][:] = arrays["z"][:] = 0
        frame.set_stacks(stacks)
        assert frame.launch() == Status.OVERFLOW
        failed = frame.failure()
        assert isinstance(failed, Overflow)
        assert (failed.stack.name, failed.capacity, failed.depth) == want
        deepest = count == 6
        assert not arrays["z"][deepest].any()
        assert np.array_equal(arrays["z"][~deepest], z[~deepest])


def test_stacks_in_step_of_which_one_is_read_behind_its_pop(rig: Any) -> None:
    source = serial(
        """adstack_alloca $1: f32 'a' primal %11 reason "test"
        adstack_alloca $2: f32 'b' primal %11 reason "test"
        %3: i32 = const 0
        %4: i32 = const 5
        %5: f32 = const 2.0
        %6: f32 = const 1.0
        %7: f32 = const 0.0
        for %10: i32 in %3..%4 carry (%11: f32 = %6) {
          adstack_push $1, %11
          %12: f32 = mul %11, %5
          adstack_push $2, %12
          yield %12
        } -> (%13: f32)
        adstack_guard {
          for reversed %20: i32 in %3..%4 carry (%21: f32 = %7) {
            %22: f32 = adstack_load_top $1
            adstack_pop $1
            %23: f32 = adstack_load_top $2
            adstack_pop $2
            %24: u1 = gt %20, %3
            if %24 {
              %25: f32 = adstack_load_top $2
              yield %25
            } else {
              yield %7
            } -> (%26: f32)
            %27: f32 = add %22, %26
            %28: f32 = add %27, %23
            %29: f32 = mul %21, %5
            %30: f32 = add %29, %28
            yield %30
          } -> (%31: f32)
          store @r[], %31
          yield
        }""",
        "buffer @r: ret f32[]",
    )
    want = 0.0
    for k in reversed(range(5)):
        want = 2 * want + 2**k + (2**k if k else 0) + 2 ** (k + 1)
    assert rig.run(source, {}, stacks=[5, 5]).ret("r") == want


def nested(n: int) -> str:
    """Pushes x[i] + k for every k below count[i], and in each of these trips that + j for every j below 3, and pops
    them into y[i, k] and z[i, k, j], the last one first."""
    return f"""kernel nested() reverse {{
      buffer @x: field f32[{n}]
      buffer @count: field i32[{n}]
      buffer @y: field f32[{n}x6]
      buffer @z: field f32[{n}x6x3]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const {n}
        yield %1, %2
      }} do (%3: i32) {{
        adstack_alloca $4: f32 'v' primal %9 reason "test"
        adstack_alloca $5: f32 'w' primal %13 reason "test"
        %6: i32 = const 0
        %7: i32 = const 3
        %10: f32 = const 1.0
        %11: i32 = load @count[%3]
        %12: f32 = load @x[%3]
        for %8: i32 in %6..%11 carry (%9: f32 = %12) {{
          for %14: i32 in %6..%7 carry (%13: f32 = %9) {{
            adstack_push $5, %13
            %15: f32 = add %13, %10
            yield %15
          }} -> (%16: f32)
          adstack_push $4, %9
          %17: f32 = add %9, %10
          yield %17
        }} -> (%18: f32)
        adstack_guard {{
          for reversed %20: i32 in %6..%11 {{
            %21: f32 = adstack_load_top $4
            adstack_pop $4
            store @y[%3, %20], %21
            for reversed %22: i32 in %6..%7 {{
              %23: f32 = adstack_load_top $5
              adstack_pop $5
              store @z[%3, %20, %22], %23
              yield
            }}
            yield
          }}
          yield
        }}
        yield
      }}
    }}"""


def test_slots_by_trips_of_nested_loops(rig: Any) -> None:
    n = 500
    x, count = np.linspace(0, 1, n, dtype=np.float32), np.arange(n, dtype=np.int32) % 8 - 1
    y, z = np.zeros((n, 6), np.float32), np.zeros((n, 6, 3), np.float32)
    frame = rig.bind(rig.load(nested(n)), {"x": x, "count": count, "y": y, "z": z}, stacks=[6, 18])
    assert frame.launch() == 0
    there = np.arange(6) < count[:, None]
    want = np.where(there, x[:, None] + np.arange(6), 0)
    inner = np.where(there[:, :, None], want[:, :, None] + np.arange(3), 0)
    np.testing.assert_allclose(y, want, rtol=1e-6)
    np.testing.assert_allclose(z, inner, rtol=1e-6)
    for stacks, failed in (([5, 18], ("v", 5, 6)), ([6, 17], ("w", 17, 18))):
        y[:] = z[:] = 0
        frame.set_stacks(stacks)
        assert frame.launch() == Status.OVERFLOW
        over = frame.failure()
        assert isinstance(over, Overflow)
        assert (over.stack.name, over.capacity, over.depth) == failed
        fits = count < 6
        np.testing.assert_allclose(y, np.where(fits[:, None], want, 0), rtol=1e-6)
        np.testing.assert_allclose(z, np.where(fits[:, None, None], inner, 0), rtol=1e-6)


def seven(t: str, n: int) -> str:
    """Pushes x[i] + k on stack k, and twice that in every trip, and pops them into y[i], the last trip first."""
    stacks = range(7)
    allocas = "\n".join(f"adstack_alloca ${40 + k}: {t} 's{k}' primal %{20 + k} reason \"test\"" for k in stacks)
    consts = "\n".join(f"%{50 + k}: {t} = const {k}{'.0' if t[0] == 'f' else ''}" for k in stacks)
    inits = "\n".join(f"%{10 + k}: {t} = add %9, %{50 + k}" for k in stacks)
    carried = ", ".join(f"%{20 + k}: {t} = %{10 + k}" for k in stacks)
    pushes = "\n".join(f"adstack_push ${40 + k}, %{20 + k}" for k in stacks)
    doubled = "\n".join(f"%{30 + k}: {t} = add %{20 + k}, %{20 + k}" for k in stacks)
    last = ", ".join(f"%{30 + k}" for k in stacks)
    results = ", ".join(f"%{60 + k}: {t}" for k in stacks)
    pops = "\n".join(
        f"%{70 + k}: {t} = adstack_load_top ${40 + k}\nadstack_pop ${40 + k}\n%{80 + k}: i32 = const {k}\n"
        f"store @y[%3, %8, %{80 + k}], %{70 + k}"
        for k in stacks
    )
    return f"""kernel seven() reverse {{
      buffer @x: field {t}[{n}]
      buffer @y: field {t}[{n}x4x7]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const {n}
        yield %1, %2
      }} do (%3: i32) {{
        {allocas}
        %4: i32 = const 0
        %5: i32 = const 4
        {consts}
        %9: {t} = load @x[%3]
        {inits}
        for %7: i32 in %4..%5 carry ({carried}) {{
          {pushes}
          {doubled}
          yield {last}
        }} -> ({results})
        adstack_guard {{
          for reversed %8: i32 in %4..%5 {{
            {pops}
            yield
          }}
          yield
        }}
        yield
      }}
    }}"""


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i8", "u16", "i32", "i64"])
def test_seven_stacks_of_a_dtype_in_step(rig: Any, t: str) -> None:
    n = 300
    dtype = {"f": f"float{t[1:]}", "i": f"int{t[1:]}", "u": f"uint{t[1:]}"}[t[0]]
    x = (np.arange(n) % 3).astype(dtype)
    y = np.zeros((n, 4, 7), dtype)
    assert rig.bind(rig.load(seven(t, n)), {"x": x, "y": y}, stacks=[4] * 7).launch() == 0
    want = (x[:, None, None] + np.arange(7)) * 2 ** np.arange(4)[None, :, None]
    assert np.array_equal(y, want.astype(dtype))


def test_capacity_zero(rig: Any) -> None:
    exe = rig.load(stacked("f32", 10).replace("{OP}", "add %9, %9"))
    y = np.zeros((10, 8), np.float32)
    frame = rig.bind(exe, {"x": np.ones(10, np.float32), "count": np.zeros(10, np.int32), "y": y}, stacks=[0])
    assert frame.launch() == 0


def test_adjoint_slots(rig: Any) -> None:
    source = serial(
        """adstack_alloca $1: f32 primal %2 reason "test"
        %2: f32 = const 3.0
        %3: f32 = const 0.5
        adstack_push $1, %2
        adstack_acc_adjoint $1, %3
        adstack_acc_adjoint $1, %2
        adstack_push $1, %3
        adstack_acc_adjoint $1, %2
        adstack_pop $1
        %4: f32 = adstack_load_top_adj $1
        %5: f32 = adstack_load_top $1
        %6: f32 = mul %4, %5
        store @r[], %6""",
        "buffer @r: ret f32[]",
    )
    assert rig.run(source, {}, stacks=[4]).ret("r") == 10.5


def test_count_only(rig: Any) -> None:
    source = """kernel count() count {
      buffer @n: field i32[100]
      buffer @depth3: ret i64[]
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = const 100
        yield %1, %2
      } do (%4: i32) {
        adstack_alloca $3: f32 primal %4 count_only reason "test"
        %5: i32 = load @n[%4]
        %6: f32 = const 1.0
        for %7: i32 in %1..%5 {
          adstack_push $3, %6
          yield
        }
        %8: i64 = adstack_depth $3
        %9: i64 = atomic max @depth3[], %8
        yield
      }
    }""".replace("for %7: i32 in %1", "%10: i32 = const 0\nfor %7: i32 in %10")
    n = np.random.default_rng(1).integers(0, 50, 100).astype(np.int32)
    assert rig.run(source, {"n": n}, stacks=[0]).ret("depth3") == n.max()


# --- random draws -----------------------------------------------------------------------------------------------


def test_draws(rig: Any) -> None:
    """Each is what its counters say; a launch of another number draws anew, a replay the same."""
    source = """kernel draws() forward {
      buffer @x: field f32[6x7x2]
      buffer @n: field i16[6x7]
      buffer @d: ret f64[]
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = const 6
        %3: i32 = const 7
        yield %1, %1, %2, %3
      } do (%4: i32, %5: i32) {
        %6: i32 = const 0
        %7: i32 = const 2
        for %8: i32 in %6..%7 {
          %9: f32 = random 3
          store @x[%4, %5, %8], %9
          yield
        }
        %10: i16 = random 4
        store @n[%4, %5], %10
        yield
      }
      offload serial bounds {
        yield
      } do () {
        %11: f64 = random 5
        store @d[], %11
        yield
      }
    }"""
    own = rig.fresh()
    own.set_seed(77)
    x, n = np.zeros((6, 7, 2), np.float32), np.zeros((6, 7), np.int16)
    frame = rig.bind(rig.load(source), {"x": x, "n": n}, on=own)
    for number in (1, 2, 2, 4):
        frame.replay(2 if number == 2 else 0)
        assert frame.launch() == 0
        assert frame.launch_number == number
        for i in range(42):
            for k in range(2):
                assert x[i // 7, i % 7, k] == draws.value(f32, draws.draw(77, number, i, 3, k))
            assert n[i // 7, i % 7] == draws.value(i16, draws.draw(77, number, i, 4, 0))
        assert frame.ret("d") == draws.value(f64, draws.draw(77, number, 0, 5, 0))


# --- failures and prints ----------------------------------------------------------------------------------------

CHECKED = """kernel checked() forward {
  buffer @x: field i32[1000]
  buffer @y: field i32[1000]
  buffer @after: field i32[]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = const 1000
    yield %1, %2
  } do (%3: i32) {
    %4: i32 = load @x[%3]
    %5: i32 = const 0
    %6: u1 = ge %4, %5
    %7: f32 = const 0.25
    assert assert %6, "negative {} at {}, {}" (%4, %3, %7)
    store @y[%3], %4
    yield
  }
  offload serial bounds {
    yield
  } do () {
    %8: i32 = const 1
    store @after[], %8
    yield
  }
}"""


def test_assert(rig: Any) -> None:
    exe = rig.load(CHECKED, debug=True)
    x, y, after = np.ones(1000, np.int32), np.zeros(1000, np.int32), np.zeros((), np.int32)
    frame = rig.bind(exe, {"x": x, "y": y, "after": after})
    assert frame.launch() == 0
    assert after == 1
    after[...] = 0
    x[321] = -5
    assert frame.launch() == Status.ASSERT
    failed = frame.failure()
    assert isinstance(failed, AssertFailed)
    assert failed.stmt.message == "negative {} at {}, {}"
    assert failed.values == (-5, 321, 0.25)
    assert after == 0
    assert (
        rig.bind(rig.load(CHECKED), {"x": x, "y": y, "after": after}).launch() == 0
    )  # not evaluated without debug
    bounds = rig.load(CHECKED.replace("assert assert", "assert bounds"))
    assert rig.bind(bounds, {"x": x, "y": y, "after": after}).launch() == Status.ASSERT
    x[321] = 1
    assert frame.launch() == 0


def test_print(rig: Any) -> None:
    source = """kernel talk() forward {
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = const 50
        yield %1, %2
      } do (%3: i32) {
        %4: f32 = cast %3
        %5: f32 = const 0.1
        %6: f32 = mul %4, %5
        %7: u1 = gt %4, %5
        print "i=", %3, " x=", %6, " ", %7, "\\n"
        yield
      }
    }"""
    frame = rig.bind(rig.load(source), {})
    for _ in range(2):
        assert frame.launch() == Status.PRINTED
        lines = frame.take_prints()
        want = {f"i={i} x={np.float32(i) * np.float32(0.1)!s} {i > 0}\n" for i in range(50)}
        assert set(lines) == want
        assert len(lines) == 50
    assert frame.take_prints() == []


@pytest.mark.parametrize("t", ["i32", "u8", "i8", "u32", "i64", "u16"])
def test_compare_and_swap(rig: Any, t: str) -> None:
    """Whoever comes first finds 0, all others what that one left."""
    source = f"""kernel swap() forward {{
      buffer @y: field {t}[3]
      buffer @old: field {t}[90]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const 90
        yield %1, %2
      }} do (%3: i32) {{
        %4: i32 = const 3
        %5: i32 = mod %3, %4
        %6: {t} = cast %3
        %7: {t} = const 0
        %8: {t} = atomic cas @y[%5], %6 expected %7
        store @old[%3], %8
        yield
      }}
    }}"""
    dtype = {"i": f"int{t[1:]}", "u": f"uint{t[1:]}"}[t[0]]
    y, old = np.zeros(3, dtype), np.zeros(90, dtype)
    rig.run(source, {"y": y, "old": old})
    for k in (1, 2):
        assert y[k] % 3 == k
        assert sorted(old[k::3]) == [0, *[y[k]] * 29]
