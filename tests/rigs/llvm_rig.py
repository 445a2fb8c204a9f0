"""Runs functions of f32 that are written as LLVM's text on this machine's processor."""

import ctypes

import numpy as np

from quadrants_lab.backends.cpu import jit

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


def over(function: str, name: str, x: np.ndarray) -> np.ndarray:
    """``@qd.NAME.f32`` of every element; ``function``: its definition, LLVM's text."""
    triple, layout = jit.triple_and_layout()
    head = f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n'
    code = jit.link(jit.object_code(jit.parse(head + function + _CALLS.format(name=name))), ("all",), {})
    y = np.empty_like(x)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.address["all"])
    run(x.ctypes.data, y.ctypes.data, x.size)
    return y
