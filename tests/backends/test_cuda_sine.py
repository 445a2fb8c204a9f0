"""The short sine and cosine of f32, on this machine's processor: against f64."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends.cuda import sine

_CALLS = """
define void @all(ptr %from, ptr %to, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %a = getelementptr float, ptr %from, i64 %i
  %b = getelementptr float, ptr %to, i64 %i
  %x = load float, ptr %a
  %y = call float @qd.{name}.f32(float %x)
  store float %y, ptr %b
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)
declare i32 @llvm.fshl.i32(i32, i32, i32)
attributes #1 = {{ nounwind }}
"""


def compute(name: str, x: np.ndarray) -> np.ndarray:
    triple, layout = jit.triple_and_layout()
    head = f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n'
    functions = (sine.far_text(0) + "\n" + sine.text(name)).replace(sine.DENORMALS, "")
    module = jit.parse(head + functions + _CALLS.format(name=name))
    code = jit.link(jit.object_code(module), ("all",), {})
    y = np.empty_like(x)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.address["all"])
    run(x.ctypes.data, y.ctypes.data, x.size)
    return y


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_within_two_units_in_the_last_place(name: str) -> None:
    rng = np.random.default_rng(3)
    turns = np.arange(-41700, 41700) * (np.pi / 2)
    x = np.concatenate([
        rng.uniform(-2 * np.pi, 2 * np.pi, 400_000), rng.uniform(-sine.LARGE, sine.LARGE, 400_000), turns,
        np.nextafter(turns.astype(np.float32), np.float32(1e9)), 10.0 ** rng.uniform(-38, 0, 100_000),
    ]).astype(np.float32)  # fmt: skip
    x = x[np.abs(x) < sine.LARGE]
    want = getattr(np, name)(x.astype(np.float64))
    gap = np.abs(compute(name, x) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert gap.max() < 2, (x[gap.argmax()], gap.max())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_arguments(name: str) -> None:
    rng = np.random.default_rng(4)
    exponents = rng.uniform(np.log2(sine.LARGE), 128, 400_000)
    turns = rng.integers(1 << 16, 1 << 40, 400_000) * (np.pi / 2)
    x = np.concatenate([2.0**exponents, -(2.0**exponents), turns, 2.0 ** np.arange(16, 128)]).astype(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.float32([16367173 * 2.0**72, np.finfo(np.float32).max])])  # near k pi / 2
    want = getattr(np, name)(x.astype(np.float64))
    gap = np.abs(compute(name, x) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert gap.max() < 2.5, (x[gap.argmax()], gap.max())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_what_is_no_number(name: str) -> None:
    assert np.isnan(compute(name, np.float32([np.inf, -np.inf, np.nan]))).all()
    assert compute(name, np.float32([0])).tolist() == [0.0 if name == "sin" else 1.0]
