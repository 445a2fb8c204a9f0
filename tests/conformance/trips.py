"""Adstacks whose slots are indexed by the trips of loops, on every backend; part of `tasks`."""

from typing import Any

import numpy as np
import pytest
from conformance.tasks import serial, stacked
from rigs import judged, parallel

from quadrants_lab.ir.types import DTYPES


def by_trips(t: str, n: int) -> str:
    """Pushes x[i] * 2**k, where count[i] is above 2, for every k from 2 to there, and in a while for every k below it,
    and pops them into y[i] and z[i], the last one first. The way back reads its range again."""
    return parallel(
        f"const {n}",
        f"""adstack_alloca $4: {t} 'v' primal %9 reason "test"
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
        }}""",
        f"""buffer @x: field {t}[{n}]
        buffer @count: field i32[{n}]
        buffer @y: field {t}[{n}x8]
        buffer @z: field {t}[{n}x8]""",
        head="by_trips() reverse",
    )


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i8", "u64", "u1"])
def test_slots_by_trips(rig: Any, t: str) -> None:
    """The range does not begin at 0, or has a condition, or is a while loop; an overflow leaves other iterations
    untouched."""
    n, op = 500, "xor" if t == "u1" else "add"
    source = by_trips(t, n).replace("{OP}", f"{op} %9, %9").replace("{OP2}", f"{op} %21, %21")
    dtype, rng = DTYPES[t].numpy, np.random.default_rng(3)
    x = rng.integers(0 if t == "u1" else 1, 2 if t == "u1" else 3, n)
    arrays = {"x": x.astype(dtype), "count": rng.integers(-1, 7, n).astype(np.int32)}
    arrays |= {name: np.zeros((n, 8), dtype) for name in "yz"}
    judged(rig, source, arrays, stacks=[[3, 6], [4, 5], [4, 6]])
    assert all(np.count_nonzero(arrays[name]) > (0 if t == "u1" else n) for name in "yz")


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
    judged(rig, source, {}, stacks=[[5, 5]])


def nested(n: int) -> str:
    """Pushes x[i] + k for every k below count[i], and in each of these trips that + j for every j below 3, and pops
    them into y[i, k] and z[i, k, j], the last one first."""
    return parallel(
        f"const {n}",
        """adstack_alloca $4: f32 'v' primal %9 reason "test"
        adstack_alloca $5: f32 'w' primal %13 reason "test"
        %6: i32 = const 0
        %7: i32 = const 3
        %10: f32 = const 1.0
        %11: i32 = load @count[%3]
        %12: f32 = load @x[%3]
        for %8: i32 in %6..%11 carry (%9: f32 = %12) {
          for %14: i32 in %6..%7 carry (%13: f32 = %9) {
            adstack_push $5, %13
            %15: f32 = add %13, %10
            yield %15
          } -> (%16: f32)
          adstack_push $4, %9
          %17: f32 = add %9, %10
          yield %17
        } -> (%18: f32)
        adstack_guard {
          for reversed %20: i32 in %6..%11 {
            %21: f32 = adstack_load_top $4
            adstack_pop $4
            store @y[%3, %20], %21
            for reversed %22: i32 in %6..%7 {
              %23: f32 = adstack_load_top $5
              adstack_pop $5
              store @z[%3, %20, %22], %23
              yield
            }
            yield
          }
          yield
        }""",
        f"""buffer @x: field f32[{n}]
        buffer @count: field i32[{n}]
        buffer @y: field f32[{n}x6]
        buffer @z: field f32[{n}x6x3]""",
        head="nested() reverse",
    )


def test_slots_by_trips_of_nested_loops(rig: Any) -> None:
    n = 500
    arrays = {"x": np.linspace(0, 1, n, dtype=np.float32), "count": np.arange(n, dtype=np.int32) % 8 - 1}
    arrays |= {"y": np.zeros((n, 6), np.float32), "z": np.zeros((n, 6, 3), np.float32)}
    judged(rig, nested(n), arrays, stacks=[[5, 18], [6, 17], [6, 18]], rtol=1e-6)
    assert np.count_nonzero(arrays["z"]) > 3 * n


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
    return parallel(
        f"const {n}",
        f"""{allocas}
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
        }}""",
        f"buffer @x: field {t}[{n}]\nbuffer @y: field {t}[{n}x4x7]",
        head="seven() reverse",
    )


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i8", "u16", "i32", "i64"])
def test_seven_stacks_of_a_dtype_in_step(rig: Any, t: str) -> None:
    n, dtype = 300, DTYPES[t].numpy
    arrays = {"x": (np.arange(n) % 3).astype(dtype), "y": np.zeros((n, 4, 7), dtype)}
    judged(rig, seven(t, n), arrays, stacks=[[4] * 7])
    assert np.count_nonzero(arrays["y"]) > 20 * n


def test_capacity_zero(rig: Any) -> None:
    arrays = {"x": np.ones(10, np.float32), "count": np.zeros(10, np.int32), "y": np.zeros((10, 8), np.float32)}
    judged(rig, stacked("f32", 10).replace("{OP}", "add %9, %9"), arrays, stacks=[[0]])


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
    judged(rig, source, {"n": n}, stacks=[[0]])
