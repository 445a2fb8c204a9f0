"""Emits sine and cosine of f32, in shorter code than the math library's.

A multiple k of pi (for the cosine an odd multiple of pi/2) is subtracted from x in three fused operations, of which the
first is exact; the result r is in -pi/2 .. pi/2. Then sin r is an odd polynomial, with the sign of (-1)**k. Large
arguments call a function, the same for both, after Payne and Hanek (1983): x / pi is a product of integers, of which
only the bits that matter are computed. The error is within 2 units in the last place; 2.5 for large arguments.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from quadrants_lab.backends._llvm.ops import Ctx
from quadrants_lab.backends._llvm.text import constant, ty
from quadrants_lab.ir.types import f32

LARGE = 65536.0  # larger arguments call the function
GLOBAL = 1  # the address space of device memory
PI = Fraction(  # rounded to 300 bits
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679"
)
ROUND = 12582912.0  # 1.5 * 2**23: added to a number, it leaves the nearest integer in the low bits
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
{sine}
  ret float %y
long:
  %far = call float @qd.sine.far(float %size, i64 {shift})
{far}
}}"""
# LLVM IR of sin r
_ODD = """\
  %z = fmul float %r, %r
  %p1 = call float @llvm.fma.f32(float %z, float {c3}, float {c2})
  %p2 = call float @llvm.fma.f32(float %z, float %p1, float {c1})
  %p3 = call float @llvm.fma.f32(float %z, float %p2, float {c0})
  %cube = fmul float %z, %r
  %y = call float @llvm.fma.f32(float %cube, float %p3, float %r)"""
# The LLVM IR that computes sin(size + shift pi / 2**63). It multiplies the significand by 96 bits of 1 / pi,
# beginning at the bit whose weight is one half turn.
_FAR = """\
@qd.inverse.pi = internal unnamed_addr addrspace({space}) constant [7 x i32] [{words}], align 4
define internal float @qd.sine.far(float %size, i64 %shift) noinline nounwind willreturn memory(read) {denormals} {{
  %bits = bitcast float %size to i32
  %exponent = lshr i32 %bits, 23
  %fraction = and i32 %bits, 8388607
  %m32 = or i32 %fraction, 8388608
  %m = zext i32 %m32 to i64
  %at = sub i32 %exponent, {first}
  %word = lshr i32 %at, 5
  %left = and i32 %at, 31
  %word64 = zext i32 %word to i64
  %a0 = getelementptr i32, ptr addrspace({space}) @qd.inverse.pi, i64 %word64
  %a1 = getelementptr i32, ptr addrspace({space}) %a0, i64 1
  %a2 = getelementptr i32, ptr addrspace({space}) %a0, i64 2
  %a3 = getelementptr i32, ptr addrspace({space}) %a0, i64 3
  %t0 = load i32, ptr addrspace({space}) %a0
  %t1 = load i32, ptr addrspace({space}) %a1
  %t2 = load i32, ptr addrspace({space}) %a2
  %t3 = load i32, ptr addrspace({space}) %a3
  %w0 = call i32 @llvm.fshl.i32(i32 %t0, i32 %t1, i32 %left)
  %w1 = call i32 @llvm.fshl.i32(i32 %t1, i32 %t2, i32 %left)
  %w2 = call i32 @llvm.fshl.i32(i32 %t2, i32 %t3, i32 %left)
  %x0 = zext i32 %w0 to i64
  %x1 = zext i32 %w1 to i64
  %x2 = zext i32 %w2 to i64
  %low = mul i64 %m, %x2
  %carry = lshr i64 %low, 32
  %middle1 = mul i64 %m, %x1
  %middle = add i64 %middle1, %carry
  %high1 = mul i64 %m, %x0
  %high2 = shl i64 %high1, 32
  %sum = add i64 %high2, %middle
  %turns = add i64 %sum, %shift
  %rest = shl i64 %turns, 1
  %half_turns = sitofp i64 %rest to float
  %r0 = fmul float %half_turns, {unit1}
  %r1 = call float @llvm.fma.f32(float %half_turns, float {unit0}, float %r0)
  %parity = xor i64 %turns, %rest
  %odd64 = lshr i64 %parity, 32
  %odd32 = trunc i64 %odd64 to i32
  %odd = and i32 %odd32, -2147483648
  %r_bits = bitcast float %r1 to i32
  %flipped = xor i32 %r_bits, %odd
  %r = bitcast i32 %flipped to float
{sine}
  %finite = fcmp olt float %size, 0x7FF0000000000000
  %result = select i1 %finite, float %y, float 0x7FF8000000000000
  ret float %result
}}"""
# LLVM IR of the nearest integer to x / pi; for the cosine, of that plus or minus one half
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
# LLVM IR from the sine of |x| to the result
_SIGNED = """\
  %negative = call float @llvm.copysign.f32(float 1.0, float %x)
  %signed = fmul float %far, %negative
  ret float %signed"""
_EVEN = "  ret float %far"
DENORMALS = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
_FIRST = 143  # the biased exponent of `LARGE`: with this exponent, the bits of 1 / pi begin after 8 zeros
_INTRINSICS = {"fma": 3, "fabs": 1, "copysign": 2}


def parts(x: Fraction, count: int) -> list[float]:
    """Floats of 24 bits whose sum is ``x``, the largest first."""
    out = []
    for _ in range(count):
        part = float(np.float32(float(x)))
        out.append(part)
        x -= Fraction(part)
    return out


def _spelled() -> dict[str, str]:
    t = ty(f32)
    numbers = {"large": LARGE, "round": ROUND, "inverse": float(1 / PI), "minus_half": -0.5, "half": 0.5}
    numbers |= {f"pi{n}": -p for n, p in enumerate(parts(PI, 3))} | {f"c{n}": c for n, c in enumerate(_SINE)}
    numbers |= {f"unit{n}": p for n, p in enumerate(parts(PI / 2**64, 2))}
    return {key: constant(t, value) for key, value in numbers.items()}


def text(name: str) -> str:
    """The text of LLVM's function ``qd.sin.f32`` or ``qd.cos.f32``."""
    spelled = _spelled()
    turns, odd = _TURNS[name].format(**spelled), _ODD.format(**spelled)
    # cos(r + (k + 1/2) pi) = -(-1)**k sin r, and cos(x) = sin(|x| + pi / 2)
    sign, shift, far = ("0", 0, _SIGNED) if name == "sin" else ("-2147483648", 1 << 62, _EVEN)
    return _TEXT.format(name=name, turns=turns, sine=odd, sign=sign, shift=shift, far=far, **spelled)


def far_text(space: int) -> str:
    """The text of LLVM's function for large arguments; ``space``: the address space of constants."""
    spelled = _spelled()
    bits = int(2 ** (7 * 32 - 8) / PI)
    words = ", ".join(f"i32 {bits >> (32 * n) & 0xFFFFFFFF}" for n in reversed(range(7)))
    return _FAR.format(
        space=space, words=words, first=_FIRST, denormals=DENORMALS, sine=_ODD.format(**spelled), **spelled
    )


def short(name: str, otherwise: Callable[[Ctx], str]) -> Callable[[Ctx], str]:
    """Emits a sine or cosine of f32; for f64, ``otherwise`` emits it."""

    def sequence(c: Ctx) -> str:
        if c.t.dtype is not f32:
            return otherwise(c)
        module = c.fn.module
        for intrinsic, args in _INTRINSICS.items():
            module.declare(f"llvm.{intrinsic}.f32", "float", ("float",) * args)
        module.declare("llvm.fshl.i32", "i32", ("i32",) * 3)
        module.helper("qd.sine.far", far_text(GLOBAL))
        module.helper(f"qd.{name}.f32", text(name))
        return c.fn.call("float", f"qd.{name}.f32", ("float", c.args[0]))

    return sequence
