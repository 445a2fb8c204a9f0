"""Lowers conversions between dtypes, and primitives that a single formula computes."""

import math
import operator
from collections.abc import Mapping
from functools import reduce

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.backends.lower.rewrite import Rule, Site, rewrite
from quadrants_lab.ir.nodes import Const, Kernel, Op
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.prims import RENAMED
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import f16, f32, f64, i32, u1, u32, unsigned


def _round_to_odd(a: X) -> X:
    """An f64 as an f32, rounded to odd, so that rounding it once more to f16 is correct (Boldo and Melquiond, 2008)."""
    # larger numbers are infinite as f16; a driver (Mesa 26.2) need not convert an f64 to infinity correctly
    most = 2.0**17
    a = (a > most).select(a.like(most), (a < -most).select(a.like(-most), a))
    near = a.cast(f32)
    back, size = near.cast(f64).abs(), a.abs()
    bits, up = near.bitcast(u32), back > size
    odd = up.select(bits - 1, bits) | 1
    return (up | (back < size)).select(odd, bits).bitcast(f32)


def _saturated(s: Site, a: X) -> X:
    """A float as an integer, rounded toward zero and saturating; 0 for NaN."""
    t, at = s.out, a.type
    low, high = (-(1 << (t.bits - 1)), 1 << (t.bits - 1)) if t.kind == "i" else (0, 1 << t.bits)
    first, past = s.lit(float(low), at), s.lit(float(high), at)
    safe = ((a < past) & (a > first)).select(a, s.lit(0.0, at))
    whole = safe.fptoint(t if t.bits >= 32 else i32).cast(t)
    return (a >= past).select(s.lit(high - 1, t), (a <= first).select(s.lit(low, t), whole))


@dataclass(frozen=True, slots=True)
class LowerCasts(Parametrised):
    """Guarantees that casts convert between different numeric dtypes, and to f16 only from f32. ``saturates``: the
    device's conversions of floats to integers saturate. If they do not, they become fptoint of a value in range; with
    ``calls``, this is done in a function. ``short``: the device converts integers of 8 and 16 bits to floats."""

    saturates: bool = False
    calls: bool = False
    short: bool = True

    def __call__(self, kernel: Kernel) -> Kernel:
        return rewrite(kernel, {"cast": self._cast})

    def _cast(self, s: Site, a: X) -> X | None:
        if s.t is s.out:
            return a
        if s.out is u1:
            return a != 0
        if s.t is u1:
            return a.select(s.lit(1, s.out), s.lit(0, s.out))
        if s.out.is_float and s.t.is_int and s.t.bits < 32 and not self.short:
            a = a.cast(i32 if s.t.kind == "i" else u32)
            return a.cast(f32).cast(f16) if s.out is f16 else a.cast(s.out)
        if s.out is f16:
            return None if s.t is f32 else (_round_to_odd(a) if s.t is f64 else a.cast(f32)).cast(f16)
        if not s.t.is_float or s.out.is_float:
            return None
        wide = a.cast(f32) if s.t is f16 else a
        if self.saturates:
            return None if wide is a else wide.cast(s.out)
        return s.shared(f"to_{s.out}", _saturated, wide) if self.calls else _saturated(s, wide)


def _near_root(s: Site, a: X) -> X:
    """The correctly rounded square root of an f32 on a device whose sqrt may be off by one unit in the last place. The
    result is the device's root y or one of its neighbours, whichever is nearest; x - y*y is exact by Dekker's product
    (1971)."""
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
    """Emits 1 / sqrt(x). For an f16 it is computed in f32, so that it is rounded once."""
    wide = a.cast(f32) if s.t is f16 else a
    root = wide.like(1.0) / wide.sqrt()
    return root.cast(f16) if s.t is f16 else root


def _round(s: Site, a: X) -> X:
    """Rounds to an integer, ties away from zero, and keeps the sign of zeros."""
    size = a.abs()
    whole = size.floor()
    return (size - whole >= 0.5).select(whole + 1.0, whole).copysign(a)


def _chosen(s: Site, a: X, b: X, first: X) -> X:
    """The larger or smaller of two floats: ``a`` if ``first`` holds or ``b`` is NaN, else ``b``."""
    return (first | (b != b) if s.t.is_float else first).select(a, b)


def _to_short(s: Site, a: X) -> X | None:
    """A float as an integer of 8 or 16 bits, for a device whose conversions to an i32 saturate; None for other dtypes.
    """
    short = s.t.is_float and s.out.is_int and s.out.bits < 32
    return a.cast(i32).clamp(*s.out.limits).cast(s.out) if short else None


def _lshr(s: Site, a: X, b: X) -> X:
    bits = unsigned(s.t)
    return a.bitcast(bits).shr(b.bitcast(bits)).bitcast(s.t)


FORMULAS: dict[str, Rule] = {
    "rsqrt": _rsqrt,
    "sqrt": _sqrt,  # for devices whose sqrt is not correctly rounded
    "round": _round,
    "isnan": lambda s, a: a != a,
    "isinf": lambda s, a: a.abs() == float("inf"),
    **dict.fromkeys(RENAMED, lambda s, a, b: a),
    "cast": _to_short,
    "min": lambda s, a, b: _chosen(s, a, b, a < b),
    "max": lambda s, a, b: _chosen(s, a, b, a > b),
    "neg": lambda s, a: None if s.t.is_float else a.like(0) - a,
    "not": lambda s, a: a != a.like(True) if s.t is u1 else a ^ a.like(-1 if s.t.kind == "i" else s.t.limits[1]),
    "lshr": _lshr,
}


def _near_rsqrt(s: Site, a: X) -> X | None:
    return None if s.t is f32 else _rsqrt(s, a)


def _near_div(s: Site, a: X, b: X) -> X | None:
    root = s.ranges.defs.get(b.id)
    if s.t is not f32 or s.constant(a) != 1.0 or not isinstance(root, Op) or root.prim != "sqrt":
        return None
    return X(s.b, s.b.op("rsqrt", *root.args))


_TINY = 2.0**-126  # the least normal f32


def _least(s: Site, id: int, depth: int = 8) -> float:
    """A lower bound of the f32 value ``id``: 0 for a square or an absolute value; for a sum with a constant, the
    constant; else -inf."""
    d = s.ranges.defs.get(id)
    if isinstance(d, Const):
        return float(d.value)
    if not isinstance(d, Op) or not depth:
        return -math.inf
    if d.prim == "abs" or (d.prim == "mul" and d.args[0] == d.args[1]):
        return 0.0
    return sum(_least(s, a, depth - 1) for a in d.args) if d.prim == "add" else -math.inf


def _one_over_root(s: Site, a: X) -> X:
    """1 / sqrt with the right results at 0 and infinity. With approximate functions on x86, LLVM computes 1 / sqrt by a
    step of Newton's method from an estimate, which gives NaN for 0 and infinity."""
    value = a.like(1.0) / a.sqrt()
    infinite = a == float("inf")
    if _least(s, a.id) >= _TINY:
        return infinite.select(a.like(0.0), value)
    signed = a.bitcast(u32) & 0xFF800000  # for a denormal only the sign is left: it counts as 0
    return ((a.abs() < _TINY) | infinite).select((signed ^ 0x7F800000).bitcast(f32), value)


def _estimated_div(s: Site, a: X, b: X) -> X | None:
    """Division, replaced where the divisor is a square root, or a product with one as a factor, as LLVM does."""
    if s.t is not f32:
        return None
    roots, others = [], []
    open_ = [(b.id, 3)]
    while open_:
        id, depth = open_.pop()
        d = s.ranges.defs.get(id)
        if isinstance(d, Op) and d.prim == "mul" and depth:
            open_ += [(factor, depth - 1) for factor in d.args]
        elif isinstance(d, Op) and d.prim == "sqrt":
            roots.append(d.args[0])
        else:
            others.append(X(s.b, id))
    if not roots:
        return None
    over = {id: _one_over_root(s, X(s.b, id)) for id in dict.fromkeys(roots)}
    if others:
        a = a / reduce(operator.mul, others)
    product = reduce(operator.mul, (over[id] for id in roots))
    return product if s.constant(a) == 1.0 else a * product


# name that `LowerFormulas.own` takes -> a device's own rules
OWN: dict[str, Mapping[str, Rule]] = {
    "": {},
    # for x86, where LLVM uses the processor's estimate of 1 / sqrt
    "estimated": {"rsqrt": _rsqrt, "div": _estimated_div},
    "near": {"rsqrt": _near_rsqrt, "div": _near_div},  # for devices that have their own rsqrt of f32
}


@dataclass(frozen=True, slots=True)
class LowerFormulas(Parametrised):
    """Guarantees that formulas have replaced the primitives ``prims``, keys of `FORMULAS`. ``own``: a key of `OWN`,
    whose rules take precedence."""

    prims: tuple[str, ...] = ()
    own: str = ""

    def __call__(self, kernel: Kernel) -> Kernel:
        return rewrite(kernel, {p: FORMULAS[p] for p in self.prims} | {**OWN[self.own]})
