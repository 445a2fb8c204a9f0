"""Lowers primitives of integers: division and remainder, rounded toward zero or down, shifts, powers, counts of bits.

A device divides toward zero (``quot``, ``rem``). A division by zero, INT_MIN / -1, and a shift by the width or more are
undefined on the device. The lowered code gives the results that `ir.prims` defines.
"""

from collections.abc import Callable
from typing import Any

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.backends.lower.math import function
from quadrants_lab.backends.lower.rewrite import Site, rewrite
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i64, u1, u32, u64, unsigned

# --- division -------------------------------------------------------------------------------------------------------


def _unsafe(s: Site, b: X) -> X | None:
    """A flag that is true if the device must not divide by ``b``, which is 0 or, if signed, -1; None if ``b`` is
    never such a number."""
    zero, minus = s.may_be(b, 0), s.t.kind == "i" and s.may_be(b, -1)
    if zero and minus:
        return (b + 1).bitcast(unsigned(s.t)) < 2
    return b == 0 if zero else b == -1 if minus else None


def _safe(s: Site, b: X) -> X:
    """The divisor, or 1 if the device must not divide by it."""
    unsafe = _unsafe(s, b)
    return b if unsafe is None else unsafe.select(b.like(1), b)


def _quotient(s: Site, a: X, b: X) -> tuple[X, X]:
    """Quotient and remainder of a division toward zero by the `_safe` divisor."""
    d = _safe(s, b)
    q = a.quot(d)
    return q, a - q * d


def _patched(s: Site, a: X, b: X, q: X) -> X:
    """The quotient ``q`` of a by the `_safe` divisor; where the divisor ``b`` is 0 or -1, the result that `ir.prims`
    defines, which is a * b and wraps."""
    unsafe = _unsafe(s, b)
    return q if unsafe is None else unsafe.select(a * b, q)


def _off_floor(s: Site, r: X, b: X) -> X:
    """A flag that is true if the remainder ``r`` of a division toward zero differs from that of floor division:
    ``r`` is not 0 and has another sign than the divisor."""
    low, high = s.range(b)
    if low > 0:
        return r < 0
    return r > 0 if high < 0 else (r != 0) & ((r ^ b) < 0)


def _is_power(n: Any) -> bool:
    return n is not None and n > 0 and n & (n - 1) == 0


def _natural(s: Site, a: X, b: X) -> bool:
    """Whether neither operand can be negative and the divisor cannot be 0, so that division toward zero and floor
    division agree."""
    return s.range(a)[0] >= 0 and s.range(b)[0] > 0


@dataclass(frozen=True, slots=True)
class LowerDivision(Parametrised):
    """Guarantees that there is no floordiv or mod, and no raw_div or raw_mod of integers. Only quot and rem remain, and
    their divisors are never 0 nor, if signed, -1. If ranges show that no operand is negative, floor division is plain
    division. ``remainder``: the device has a remainder of negative operands. ``calls``: code longer than an expression
    becomes a function."""

    remainder: bool = True
    calls: bool = False

    def __call__(self, kernel: Kernel) -> Kernel:
        return rewrite(kernel, {n: getattr(self, n) for n in ("floordiv", "mod", "raw_div", "raw_mod")})

    def maybe_call(self, s: Site, make: Callable[[Site, X, X], X], a: X, b: X) -> X:
        return s.shared(s.prim, make, a, b) if self.calls else make(s, a, b)

    def raw_div(self, s: Site, a: X, b: X) -> X | None:
        if s.t.is_float:
            return None
        if _unsafe_free(s, b):
            return a.quot(b)
        return self.maybe_call(s, lambda s, a, b: _patched(s, a, b, _quotient(s, a, b)[0]), a, b)

    def raw_mod(self, s: Site, a: X, b: X) -> X | None:
        if s.t.is_float:
            return None
        if _unsafe_free(s, b) and (self.remainder or s.t.kind == "u" or _natural(s, a, b)):
            return a.rem(b)
        return self.maybe_call(s, self._remainder, a, b)

    def _remainder(self, s: Site, a: X, b: X) -> X:
        if self.remainder or s.t.kind == "u":
            return a.rem(_safe(s, b))
        return _quotient(s, a, b)[1]

    def floordiv(self, s: Site, a: X, b: X) -> X | None:
        if s.t.is_float:
            return (a / b).floor()
        n = s.constant(b)
        if _is_power(n):
            return a.shr(n.bit_length() - 1)
        if s.t.kind == "u" or _natural(s, a, b):
            return self.raw_div(s, a, b)

        def general(s: Site, a: X, b: X) -> X:
            q, r = _quotient(s, a, b)
            return _patched(s, a, b, _off_floor(s, r, b).select(q - 1, q))

        return self.maybe_call(s, general, a, b)

    def mod(self, s: Site, a: X, b: X) -> X | None:
        if s.t.is_float:
            return self.maybe_call(s, lambda s, a, b: a - b * (a / b).floor(), a, b)
        n = s.constant(b)
        if _is_power(n):
            return a & int(n - 1)
        if s.t.kind == "u" or _natural(s, a, b):
            return self.raw_mod(s, a, b)

        def general(s: Site, a: X, b: X) -> X:
            r = self._remainder(s, a, b)
            return _off_floor(s, r, b).select(r + b, r)

        return self.maybe_call(s, general, a, b)


def _unsafe_free(s: Site, b: X) -> bool:
    return not s.may_be(b, 0) and not (s.t.kind == "i" and s.may_be(b, -1))


# --- shifts, powers, bits -------------------------------------------------------------------------------------------


def _shift(s: Site, a: X, count: X) -> X | None:
    low, high = s.range(count)
    if low >= 0 and high < s.t.bits:
        return None
    n = s.constant(count)
    return X(s.b, s.b.op(s.prim, a.id, (count & (s.t.bits - 1) if n is None else count.like(n & (s.t.bits - 1))).id))


def _power(s: Site, a: X, b: X) -> X | None:
    """An integer power, computed in 64 bits; for a negative exponent it is 0 unless the base is 1 or -1."""
    if s.t.is_float:
        return None
    wide = i64 if s.t.kind == "i" else u64
    x, e = a.cast(wide), b.cast(wide)
    r = s.call(function("pow", u64), x.bitcast(u64), e.bitcast(u64)).bitcast(wide)
    if s.range(b)[0] < 0:
        of_unit = (x + 1).bitcast(u64) < 3
        unit = ((e & 1) != 0).select(x, x * x)
        r = (e < 0).select((of_unit & (x != 0)).select(unit, x.like(0)), r)
    return r.cast(s.t)


def lower_integers(kernel: Kernel) -> Kernel:
    """Guarantees that every shift count is less than the width of the shifted value, and that integer powers are calls
    of a function that multiplies."""
    return rewrite(kernel, {"shl": _shift, "shr": _shift, "lshr": _shift, "pow": _power})


def _widened(a: X) -> tuple[X, ...]:
    """The bits of an integer as one or two u32s, the low one first."""
    bits = a.bitcast(unsigned(a.type))
    return (bits.cast(u32), bits.lshr(32).cast(u32)) if a.type.bits == 64 else (bits.cast(u32),)


def _popcnt(s: Site, a: X) -> X | None:
    if s.t is u32:
        return None
    low, *high = (x.popcnt() for x in _widened(a))
    return low + high[0] if high else low


def _clz(s: Site, a: X) -> X | None:
    if s.t is u32:
        return None
    low, *high = _widened(a)
    if not high:
        return low.clz() - (32 - s.t.bits) if s.t.bits < 32 else low.clz()
    return (high[0] == 0).select(low.clz() + 32, high[0].clz())


def lower_counts(kernel: Kernel) -> Kernel:
    """Guarantees that popcnt and clz have operands of dtype u32 only."""
    return rewrite(kernel, {"popcnt": _popcnt, "clz": _clz})


def _abs(s: Site, a: X) -> X | None:
    if s.t.is_float:
        return None
    return (a < 0).select(-a, a) if s.t.kind == "i" else a


_FALSE_IS_LESS: dict[str, Callable[[X, X], X]] = {
    "lt": lambda a, b: ~a & b, "le": lambda a, b: ~a | b, "gt": lambda a, b: a & ~b, "ge": lambda a, b: a | ~b,
}  # fmt: skip


def _order(s: Site, a: X, b: X) -> X | None:
    return _FALSE_IS_LESS[s.prim](a, b) if s.t is u1 else None


def lower_orders(kernel: Kernel) -> Kernel:
    """Guarantees that no abs of integers is left, and that u1s are compared for equality only."""
    return rewrite(kernel, {"abs": _abs, **dict.fromkeys(_FALSE_IS_LESS, _order)})
