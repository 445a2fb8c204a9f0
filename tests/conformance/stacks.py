"""Adstacks, also in lockstep, on every backend; part of `tasks`."""

from typing import Any

import numpy as np
import pytest
from rigs import judged, parallel

from quadrants_lab.backends.launch import Overflow, Status
from quadrants_lab.ir.types import DTYPES

# --- adstacks ---------------------------------------------------------------------------------------------------

def stacked(t: str, n: int) -> str:
    """Pushes x[i] * k for k below count[i], and pops them into y[i], the last one first, as digits."""
    return parallel(
        f"const {n}",
        f"""adstack_alloca $4: {t} 'v' primal %9 reason "test"
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
        }}""",
        f"""buffer @x: field {t}[{n}]
        buffer @count: field i32[{n}]
        buffer @y: field {t}[{n}x8]
        buffer @deep: ret i64[]""",
        head="stacked() reverse",
    )


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i8", "u64", "u1"])
def test_stacks(rig: Any, t: str) -> None:
    n, op = 500, "xor %9, %9" if t == "u1" else "add %9, %9"
    dtype, rng = DTYPES[t].numpy, np.random.default_rng(3)
    x = rng.integers(0, 2, n) if t == "u1" else rng.integers(1, 3, n)
    count = rng.integers(0, 9, n).astype(np.int32)
    arrays = {"x": x.astype(dtype), "count": count, "y": np.zeros((n, 8), dtype)}
    judged(rig, stacked(t, n).replace("{OP}", op), arrays, stacks=[[8]])
    assert np.count_nonzero(arrays["y"]) > (0 if t == "u1" else 2 * n)


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


IN_STEP = parallel(
    "const 500",
    """adstack_alloca $4: f32 'a' primal %20 reason "test"
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
    }""",
    "buffer @x: field f32[500]\nbuffer @count: field i32[500]\nbuffer @y: field f32[500]",
    head="in_step() reverse",
)


def test_stacks_in_step(rig: Any) -> None:
    """Stacks of several dtypes that are pushed at the same places, and others; some are read before or in a loop and
    popped behind it."""
    count, y = np.arange(500, dtype=np.int32) % 7, np.zeros(500, np.float32)
    caps = [6, 6, 6, 6, 6, 6, 21, 6, 6]
    arrays = {"x": np.linspace(-1, 1, 500, dtype=np.float32), "count": count, "y": y}
    judged(rig, IN_STEP, arrays, stacks=[[5 if n == 6 else n for n in caps], caps], rtol=1e-5)
    assert len(np.unique(y)) > 400
