"""Conversions, and functions of one formula."""

from __future__ import annotations

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.backends.lower.rewrite import Rule, Site, rewrite
from quadrants_lab.ir.nodes import Kernel, Op, Pass
from quadrants_lab.ir.types import f16, f32, f64, i32, u1, u32


def _round_to_odd(a: X) -> X:
    """An f64 as an f32, rounded so that rounding once more to f16 is right (Boldo and Melquiond, 2008)."""
    near = a.cast(f32)
    back, size = near.cast(f64).abs(), a.abs()
    bits, up = near.bitcast(u32), back > size
    odd = up.select(bits - 1, bits) | 1
    return (up | (back < size)).select(odd, bits).bitcast(f32)


def _saturated(s: Site, a: X) -> X:
    """Toward zero, saturating; 0 for NaN."""
    t, at = s.out, a.type
    low, high = (-(1 << (t.bits - 1)), 1 << (t.bits - 1)) if t.kind == "i" else (0, 1 << t.bits)
    first, past = s.lit(float(low), at), s.lit(float(high), at)
    safe = ((a < past) & (a > first)).select(a, s.lit(0.0, at))
    whole = safe.fptoint(t if t.bits >= 32 else i32).cast(t)
    return (a >= past).select(s.lit(high - 1, t), (a <= first).select(s.lit(low, t), whole))


def lower_casts(saturates: bool = False, calls: bool = False, short: bool = True) -> Pass:
    """``saturates``: the device's conversions of floats to integers do. ``calls``: where they do not, each is a
    function. ``short``: the device converts integers of 8 and 16 bits to floats."""

    def cast(s: Site, a: X) -> X | None:
        if s.t is s.out:
            return a
        if s.out is u1:
            return a != 0
        if s.t is u1:
            return a.select(s.lit(1, s.out), s.lit(0, s.out))
        if s.out.is_float and s.t.is_int and s.t.bits < 32 and not short:
            a = a.cast(i32 if s.t.kind == "i" else u32)
            return a.cast(f32).cast(f16) if s.out is f16 else a.cast(s.out)
        if s.out is f16:
            return None if s.t is f32 else (_round_to_odd(a) if s.t is f64 else a.cast(f32)).cast(f16)
        if not s.t.is_float or s.out.is_float:
            return None
        wide = a.cast(f32) if s.t is f16 else a
        if saturates:
            return None if wide is a else wide.cast(s.out)
        return s.shared(f"to_{s.out}", _saturated, wide) if calls else _saturated(s, wide)

    def lower_casts(kernel: Kernel) -> Kernel:
        """Guarantees that casts convert between different numeric dtypes, and to f16 from f32 alone; and, unless the
        device's conversions saturate, that those of floats to integers are fptoint, of what is in range."""
        return rewrite(kernel, {"cast": cast})

    return lower_casts


def _near_root(s: Site, a: X) -> X:
    """The root of an f32 rounded to the nearest, from one that is off by a unit in the last place: of y and its
    neighbours the one between whose midpoints the root lies. x - y*y is exact by Dekker's product (1971)."""
    small, large, one = a < 2.0**-90, a > 2.0**90, a.like(1.0)
    x = a * small.select(a.like(2.0**48), large.select(a.like(2.0**-48), one))
    y = x.sqrt()
    wide = y * 4097.0
    high = wide - (wide - y)
    low = y - high
    rest = x - high * high - high * low * 2.0 - low * low
    up, down = (y.bitcast(u32) + 1).bitcast(f32), (y.bitcast(u32) - 1).bitcast(f32)
    y = (rest > y * (up - y)).select(up, (rest <= y * (down - y)).select(down, y))
    y = y * small.select(a.like(2.0**-24), large.select(a.like(2.0**24), one))
    return ((a > 0.0) & (a < float("inf"))).select(y, a.sqrt())


def _sqrt(s: Site, a: X) -> X | None:
    if s.t is f64:
        return None
    root = s.shared("root", _near_root, a.cast(f32) if s.t is f16 else a)
    return root.cast(f16) if s.t is f16 else root


def _rsqrt(s: Site, a: X) -> X:
    """An f16 by way of f32, so it is rounded once."""
    wide = a.cast(f32) if s.t is f16 else a
    root = wide.like(1.0) / wide.sqrt()
    return root.cast(f16) if s.t is f16 else root


def _round(s: Site, a: X) -> X:
    """Ties away from zero; the sign survives in zeros."""
    size = a.abs()
    whole = size.floor()
    return (size - whole >= 0.5).select(whole + 1.0, whole).copysign(a)


FORMULAS: dict[str, Rule] = {
    "rsqrt": _rsqrt,
    "sqrt": _sqrt,  # where the device's is not rounded to the nearest
    "round": _round,
    "isnan": lambda s, a: a != a,
    "isinf": lambda s, a: a.abs() == float("inf"),
    "custom_jvp": lambda s, a, b: a,
}


def _near_rsqrt(s: Site, a: X) -> X | None:
    return None if s.t is f32 else _rsqrt(s, a)


def _near_div(s: Site, a: X, b: X) -> X | None:
    root = s.ranges.defs.get(b.id)
    if s.t is not f32 or s.constant(a) != 1.0 or not isinstance(root, Op) or root.prim != "sqrt":
        return None
    return X(s.b, s.b.op("rsqrt", *root.args))


NEAR: dict[str, Rule] = {"rsqrt": _near_rsqrt, "div": _near_div}  # for devices that have one over a root of f32


def lower_formulas(*prims: str, near: bool = False) -> Pass:
    """``prims``: keys of `FORMULAS`. ``near``: those of `NEAR` hold."""
    rules = {p: FORMULAS[p] for p in prims} | (NEAR if near else {})

    def lower_formulas(kernel: Kernel) -> Kernel:
        """Guarantees that there are none of the primitives named in the backend's tuple that a formula stands for."""
        return rewrite(kernel, rules)

    return lower_formulas
