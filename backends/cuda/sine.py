"""Sine and cosine of f32: shorter code than the library's, which is called, out of line, where the argument is large.

x is brought to r in -pi/2 .. pi/2 by a multiple k of pi (of pi/2 for the cosine, k odd), in three steps by fused
operations, of which the first is exact; then sin r is an odd polynomial, whose sign is that of (-1)**k. Within 2 units
in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from quadrants_lab.backends._llvm.ops import Ctx
from quadrants_lab.backends._llvm.text import constant, ty
from quadrants_lab.ir.types import f16, f32

LARGE = 1e5  # arguments from here on go the long way
_PI = Fraction("3.14159265358979323846264338327950288419716939937510")
_ROUND = 12582912.0  # 1.5 * 2**23: added to a number, it leaves the nearest integer in the low bits
# (sin r - r) / r**3 as a polynomial in r**2, by Lawson's algorithm: relative error of sin r below 7e-9
_SINE = (-0.16666659712791443, 0.008333062753081322, -0.00019809346122201532, 2.6051820896100253e-06)

_TEXT = """\
define internal float @qd.{name}.f32(float %x) alwaysinline #1 {{
  %size = call float @llvm.fabs.f32(float %x)
  %near = fcmp olt float %size, {large}
  br i1 %near, label %short, label %long
short:
{turns}
  %r1 = call float @llvm.fma.f32(float %half_turns, float {pi0}, float %x)
  %r2 = call float @llvm.fma.f32(float %half_turns, float {pi1}, float %r1)
  %r3 = call float @llvm.fma.f32(float %half_turns, float {pi2}, float %r2)
  %bits = bitcast float %rounded to i32
  %odd = shl i32 %bits, 31
  %flip = xor i32 %odd, {sign}
  %r_bits = bitcast float %r3 to i32
  %flipped = xor i32 %r_bits, %flip
  %r = bitcast i32 %flipped to float
  %z = fmul float %r, %r
  %p1 = call float @llvm.fma.f32(float %z, float {c3}, float {c2})
  %p2 = call float @llvm.fma.f32(float %z, float %p1, float {c1})
  %p3 = call float @llvm.fma.f32(float %z, float %p2, float {c0})
  %cube = fmul float %z, %r
  %y = call float @llvm.fma.f32(float %cube, float %p3, float %r)
  ret float %y
long:
  %far = call float @qd.{name}.f32.far(float %x)
  ret float %far
}}
define internal float @qd.{name}.f32.far(float %x) noinline nounwind willreturn memory(none) {denormals} {{
  %y = call float @__nv_{name}f(float %x)
  ret float %y
}}"""
# the nearest integer to x / pi; or half a turn beside it
_TURNS = {
    "sin": """\
  %rounded = call float @llvm.fma.f32(float %x, float {inverse}, float {round})
  %half_turns = fsub float %rounded, {round}""",
    "cos": """\
  %turns = call float @llvm.fma.f32(float %x, float {inverse}, float {minus_half})
  %rounded = fadd float %turns, {round}
  %whole = fsub float %rounded, {round}
  %half_turns = fadd float %whole, {half}""",
}
DENORMALS = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'


def _parts(x: Fraction, count: int) -> list[float]:
    """Floats of 24 bits whose sum is ``x``, the largest first."""
    out = []
    for _ in range(count):
        part = float(np.float32(float(x)))
        out.append(part)
        x -= Fraction(part)
    return out


def text(name: str) -> str:
    """LLVM's text of ``qd.sin.f32`` or ``qd.cos.f32``, and of its long way."""
    t = ty(f32)
    numbers = {"large": LARGE, "round": _ROUND, "inverse": float(1 / _PI), "minus_half": -0.5, "half": 0.5}
    numbers |= {f"pi{n}": -p for n, p in enumerate(_parts(_PI, 3))} | {f"c{n}": c for n, c in enumerate(_SINE)}
    spelled = {key: constant(t, value) for key, value in numbers.items()}
    turns = _TURNS[name].format(**spelled)
    sign = "0" if name == "sin" else "-2147483648"  # cos(r + (k + 1/2) pi) = -(-1)**k sin r
    return _TEXT.format(name=name, turns=turns, sign=sign, denormals=DENORMALS, **spelled)


def short(name: str, otherwise: Callable[[Ctx], str]) -> Callable[[Ctx], str]:
    """The primitive on f32 and f16; ``otherwise`` on f64."""

    def sequence(c: Ctx) -> str:
        if c.t.dtype not in (f16, f32):
            return otherwise(c)
        t, module = ty(f32), c.fn.module
        for needed, args in ((f"__nv_{name}f", 1), ("llvm.fma.f32", 3), ("llvm.fabs.f32", 1)):
            module.declare(needed, "float", ("float",) * args)
        module.helper(f"qd.{name}.f32", text(name))
        x = c.convert("fpext", c.args[0], c.t, t) if c.t.dtype is f16 else c.args[0]
        y = c.fn.call("float", f"qd.{name}.f32", ("float", x))
        return c.convert("fptrunc", y, t, c.t) if c.t.dtype is f16 else y

    return sequence
