"""The MSL of three kernels, as it should read; sizes, statements behind lines, caching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from metal_rig import EXACT, FAST, load, run

from quadrants_lab.backends import metal
from quadrants_lab.backends._msl.kernel import module
from quadrants_lab.backends.disk_cache import Kept
from quadrants_lab.backends.lower import lower
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk

HERE = Path(__file__).resolve().parent

# a gradient: v = sin(v) * x n times, and its reverse
LOOP = """
kernel loop(scale: f32) reverse {
  buffer @x: field f32[64]
  buffer @x.grad: field f32[64]
  buffer @n: field i32[64]
  buffer @y.grad: field f32[64]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = const 64
    yield %1, %2
  } do (%3: i32 'i') {
    adstack_alloca $4: f32 'v' primal %9 reason "operand of sin"
    %5: i32 = const 0
    %6: i32 = load @n[%3]
    %7: f32 'a' = load @x[%3]
    for %8: i32 'j' in %5..%6 carry (%9: f32 'v' = %7) {
      adstack_push $4, %9
      %10: f32 = sin %9
      %11: f32 = mul %10, %7
      yield %11
    } -> (%12: f32)
    adstack_guard {
      %13: f32 = load @y.grad[%3]
      %14: f32 = arg scale
      %15: f32 = mul %13, %14
      %16: f32 = const 0.0
      for reversed %17: i32 'j' in %5..%6 carry (%18: f32 'dv' = %15, %19: f32 'da' = %16) {
        %20: f32 'v' = adstack_load_top $4
        adstack_pop $4
        %21: f32 = sin %20
        %22: f32 = mul %18, %21
        %23: f32 = add %19, %22
        %24: f32 = mul %18, %7
        %25: f32 = cos %20
        %26: f32 = mul %24, %25
        yield %26, %23
      } -> (%27: f32, %28: f32)
      %29: f32 = add %27, %28
      %30: f32 = atomic add @x.grad[%3], %29 private
      yield
    }
    yield
  }
}
"""

# control flow, integers, two axes, a flag on a stack
BRANCHES = """
kernel branches() reverse {
  buffer @image: ndarray i32[?x?]
  buffer @total: field i64[]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = shape @image 0
    %3: i32 = shape @image 1
    yield %1, %1, %2, %3
  } do (%4: i32 'i', %5: i32 'j') {
    adstack_alloca $6: u1 'odd' primal %10 reason "condition"
    %7: i32 'p' = load @image[%4, %5]
    %8: i32 = const 2
    %9: i32 = const 0
    %30: i32 = const 1
    while carry (%20: i32 'm' = %7, %21: i32 'steps' = %9) {
      %22: u1 = gt %20, %30
      yield %22
    } do {
      %23: i32 = mod %20, %8
      %10: u1 'odd' = eq %23, %30
      adstack_push $6, %10
      if %10 {
        %24: i32 = const 3
        %25: i32 = mul %20, %24
        %26: i32 = add %25, %30
        yield %26
      } else {
        %27: i32 = floordiv %20, %8
        yield %27
      } -> (%28: i32 'm')
      %29: i32 = add %21, %30
      yield %28, %29
    } -> (%31: i32, %32: i32 'steps')
    adstack_guard {
      for %33: i32 'k' in %9..%32 carry (%34: i32 'odds' = %9) {
        %35: u1 = adstack_load_top $6
        adstack_pop $6
        %36: i32 = cast %35
        %37: i32 = add %34, %36
        yield %37
      } -> (%38: i32 'odds')
      store @image[%4, %5], %38
      %39: i64 = cast %38
      %40: i64 = atomic max @total[], %39
      yield
    }
    yield
  }
}
"""

# asserts, prints, draws, a task whose bounds an earlier one leaves
FAILURES = """
kernel failures() forward {
  buffer @x: field f32[100]
  buffer @n: temp i32[]
  buffer @any: field u1[]
  offload serial bounds {
    yield
  } do () {
    %1: f32 = random 7
    %2: f32 = const 10.0
    %3: f32 = mul %1, %2
    %4: i32 'count' = cast %3
    store @n[], %4
    print "count ", %4, "\\n"
    yield
  }
  offload range_for bounds {
    %5: i32 = const 0
    %6: i32 = load @n[]
    yield %5, %6
  } do (%7: i32 'i') {
    %8: f32 = load @x[%7]
    %9: f32 = const 0.0
    %10: u1 = ge %8, %9
    assert assert %10, "x is {} at {}" (%8, %7)
    %11: u1 = gt %8, %9
    %12: u1 = atomic or @any[], %11
    %13: f32 = sqrt %8
    store @x[%7], %13
    yield
  }
}
"""
KERNELS = {"loop": LOOP, "branches": BRANCHES, "failures": FAILURES}


@pytest.mark.parametrize("name", KERNELS)
def test_golden(name: str, golden: Callable[[Path, str], None]) -> None:
    exe = load(KERNELS[name], FAST, asserts=True)
    golden(HERE / f"{name}.msl", exe.source + "\n")


@pytest.mark.parametrize("name", KERNELS)
def test_stage(name: str) -> None:
    kernel = parse_kernel(KERNELS[name])
    stages = metal.stages(kernel, EXACT)
    assert list(stages) == ["msl"]
    stage = stages["msl"]()
    lines = stage.text.split("\n")
    assert stage.name == "msl"
    assert len(lines) == len(stage.ids) == stage.lines
    assert stage.bytes == len(stage.text)
    assert 10 < stage.instructions < stage.lines
    assert {i for i in stage.ids if i >= 0} <= {s.id for s in walk(lower(kernel, metal.lowering(EXACT), EXACT).body)}
    assert stage.text == metal.load(kernel, EXACT).source
    for s in walk(kernel.body):
        if isinstance(s, N.Op) and s.prim in ("sin", "cos", "sqrt"):
            here = [line for line, i in zip(lines, stage.ids, strict=True) if f"precise::{s.prim}" in line]
            assert here


def test_the_object_is_the_source() -> None:
    kernel = parse_kernel(LOOP)
    first = metal.load(kernel, EXACT)
    assert metal.load(kernel, EXACT, Kept(first.object, sealed=False)).source == first.source
    assert first.object == metal.load(kernel, EXACT).object
    assert metal.target_key() == metal.target_key()


def test_debug_names_source_lines() -> None:
    kernel = parse_kernel(AXPY_1D)
    (task,) = kernel.body
    assert isinstance(task, N.Offload)
    body = tuple(replace(s, span=Span("user.py", 40 + n, 0, 40 + n, 9)) for n, s in enumerate(task.body))
    kernel = replace(kernel, body=(replace(task, body=body),))
    text = load(kernel, EXACT, debug=True).source
    store = text.split("\n").index("    x[i_3] = x[i_3] + x[i_3];")
    assert text.split("\n")[store - 1] == '#line 43 "user.py"'
    assert "#line" not in load(kernel).source


AXPY_1D = """
kernel twice() forward {
  buffer @x: field f32[10]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = const 10
    yield %1, %2
  } do (%3: i32 'i') {
    %4: f32 = load @x[%3]
    %5: f32 = load @x[%3]
    %6: f32 = add %4, %5
    store @x[%3], %6
    yield
  }
}
"""


def pushes(count: int) -> str:
    """``count`` stacks, each pushed and popped in a loop."""
    ids = range(100, 100 + count)
    allocas = "\n".join(f'adstack_alloca ${i}: f32 primal %7 reason "size"' for i in ids)
    forward = "\n".join(f"adstack_push ${i}, %7" for i in ids)
    backward = ""
    last = 10
    for i in ids:
        backward += f"%{i + 1000}: f32 = adstack_load_top ${i}\nadstack_pop ${i}\n"
        backward += f"%{i + 2000}: f32 = add %{last}, %{i + 1000}\n"
        last = i + 2000
    return f"""kernel pushes() reverse {{
      buffer @x: field f32[64]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const 64
        yield %1, %2
      }} do (%3: i32 'i') {{
        {allocas}
        %4: i32 = const 0
        %5: i32 = const 8
        %6: f32 = load @x[%3]
        for %8: i32 'j' in %4..%5 carry (%7: f32 'v' = %6) {{
          {forward}
          %9: f32 = sin %7
          yield %9
        }} -> (%40: f32)
        adstack_guard {{
          for reversed %41: i32 'j' in %4..%5 carry (%10: f32 'g' = %40) {{
            {backward}
            yield %{last}
          }} -> (%42: f32)
          store @x[%3], %42
          yield
        }}
        yield
      }}
    }}"""


def test_a_hundred_pushes_are_short() -> None:
    """With a branch a push, a counter a stack and a line a load the same kernel takes 27,677 bytes in 962 lines."""
    kernel = parse_kernel(pushes(100))
    made = module(kernel, FAST)
    assert len(made.text) <= 5100
    assert len(made.lines) <= 120
    x = np.linspace(0, 1, 64, dtype=np.float32)
    values = [x.astype(np.float64)]
    for _ in range(8):
        values.append(np.sin(values[-1]))
    run(kernel, {"x": x}, stacks=[8] * 100, options=FAST)
    np.testing.assert_allclose(x, values[-1] + 100 * sum(values[:-1]), rtol=1e-4)
