"""The algebra of `fold`: rewrites of one primitive applied to values of which something is known.

A rule takes the facts at hand and an Op and gives the id of a value that equals it, a statement of the same id to
stand in its place, or None. All hold for every value of the dtype, NaN, infinities, signed zeros and wrapping
integers included; sums and products of floats are never reassociated. ``x``, ``y`` are values, ``c`` is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from quadrants_lab.ir.nodes import Const, Op, Value
from quadrants_lab.ir.types import DType, u1


class Facts(Protocol):
    """What is known of values at the place of the Op, and how to put a statement in front of it."""

    types: dict[int, DType]

    def const(self, ident: int) -> Any: ...  # the constant's value, None where it is no constant

    def op(self, ident: int, *prims: str) -> Op | None: ...  # the Op that defines it, if of one of these primitives

    def emit(self, at: Op, prim: str, args: tuple[int, ...], type: DType) -> int: ...

    def emit_const(self, at: Op, value: Any, type: DType) -> int: ...


Rewritten = int | Value | None
Rule = Callable[[Facts, Op], Rewritten]

# operands of these may be swapped, derivative included; min and max are not among them: ties go to the first
COMMUTATIVE = frozenset(("add", "mul", "and", "or", "xor", "eq", "ne"))


def wrapped(value: int, t: DType) -> int:
    """The integer of the dtype that is congruent to ``value``."""
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.kind == "i" and value >> (t.bits - 1) else value


def const(s: Op, value: Any) -> Const:
    return Const(s.id, s.type, value, name=s.name, span=s.span, adjoint_of=s.adjoint_of)


def op(s: Op, prim: str, *args: int) -> Op:
    return Op(s.id, s.type, prim, args, name=s.name, span=s.span, adjoint_of=s.adjoint_of)


# --- makers of rules ----------------------------------------------------------------------------------------


def right_unit(on_float: float | None, on_int: int | None) -> Rule:
    """x . c = x for this c (None: there is none of that kind). Signed zeros are told apart."""

    def rule(f: Facts, s: Op) -> Rewritten:
        c = f.const(s.args[1])
        if c is None:
            return None
        if s.type.is_float:
            same = c == on_float and on_float is not None and math.copysign(1.0, c) == math.copysign(1.0, on_float)
            return s.args[0] if same else None
        if s.type is u1:
            return s.args[0] if on_int is not None and c == bool(on_int) else None
        return s.args[0] if on_int is not None and c == wrapped(on_int, s.type) else None

    return rule


def right_zero(at: int, gives: int) -> Rule:
    """x . c = a constant for this c, integers and truth values only."""

    def rule(f: Facts, s: Op) -> Rewritten:
        c = f.const(s.args[1])
        if c is None or s.type.is_float:
            return None
        if s.type is u1:
            return const(s, bool(gives)) if c == bool(at) else None
        return const(s, wrapped(gives, s.type)) if c == wrapped(at, s.type) else None

    return rule


def left_zero(f: Facts, s: Op) -> Rewritten:
    """0 . y = 0, integers only (division by zero yields 0 too)."""
    return const(s, 0) if s.type.is_int and f.const(s.args[0]) == 0 else None


def same(gives: int | bool | None, floats: bool = False) -> Rule:
    """x . x = a constant; None: x . x = x. ``floats``: NaN makes no difference either."""

    def rule(f: Facts, s: Op) -> Rewritten:
        if s.args[0] != s.args[1] or (f.types[s.args[0]].is_float and not floats):
            return None
        if gives is None:
            return s.args[0]
        return const(s, bool(gives) if s.type is u1 else gives)

    return rule


def inverse(*prims: str) -> Rule:
    """p(q(x)) = x for these q."""

    def rule(f: Facts, s: Op) -> Rewritten:
        inner = f.op(s.args[0], *prims)
        return inner.args[0] if inner is not None and f.types[inner.args[0]] is s.type else None

    return rule


def idempotent(*prims: str) -> Rule:
    """p(q(x)) = q(x) for these q."""

    def rule(f: Facts, s: Op) -> Rewritten:
        return s.args[0] if f.op(s.args[0], *prims) is not None else None

    return rule


# --- single rules -------------------------------------------------------------------------------------------


def add_neg(f: Facts, s: Op) -> Rewritten:
    """x + -y = x - y;  -x + y = y - x."""
    x, y = s.args
    if (n := f.op(y, "neg")) is not None:
        return op(s, "sub", x, n.args[0])
    if (n := f.op(x, "neg")) is not None:
        return op(s, "sub", y, n.args[0])
    return None


def sub_neg(f: Facts, s: Op) -> Rewritten:
    """x - -y = x + y."""
    n = f.op(s.args[1], "neg")
    return op(s, "add", s.args[0], n.args[0]) if n is not None else None


def integer_sum(f: Facts, s: Op) -> Rewritten:
    """(x +- c1) +- c2 = x + (+-c1 +- c2), integers only."""
    c2, inner = f.const(s.args[1]), f.op(s.args[0], "add", "sub")
    if c2 is None or inner is None or not s.type.is_int:
        return None
    c1 = f.const(inner.args[1])
    if c1 is None:
        return None
    total = (c1 if inner.prim == "add" else -c1) + (c2 if s.prim == "add" else -c2)
    total = wrapped(total, s.type)
    return inner.args[0] if total == 0 else op(s, "add", inner.args[0], f.emit_const(s, total, s.type))


def integer_product(f: Facts, s: Op) -> Rewritten:
    """(x * c1) * c2 = x * (c1 * c2), integers only."""
    c2, inner = f.const(s.args[1]), f.op(s.args[0], "mul")
    if c2 is None or inner is None or not s.type.is_int:
        return None
    c1 = f.const(inner.args[1])
    return op(s, "mul", inner.args[0], f.emit_const(s, wrapped(c1 * c2, s.type), s.type)) if c1 is not None else None


def minus_one(f: Facts, s: Op) -> Rewritten:
    """x * -1 = -x."""
    return op(s, "neg", s.args[0]) if f.const(s.args[1]) == -1 else None


def div_minus_one(f: Facts, s: Op) -> Rewritten:
    """x // -1 = -x for integers: the smallest wraps both ways."""
    return op(s, "neg", s.args[0]) if s.type.is_int and f.const(s.args[1]) == -1 else None


def mul_negs(f: Facts, s: Op) -> Rewritten:
    """-x * -y = x * y;  -x / -y = x / y."""
    x, y = f.op(s.args[0], "neg"), f.op(s.args[1], "neg")
    return op(s, s.prim, x.args[0], y.args[0]) if x is not None and y is not None else None


def div_power_of_two(f: Facts, s: Op) -> Rewritten:
    """x / c = x * (1/c) where c and 1/c are powers of two and normal: both sides round the same number."""
    c = f.const(s.args[1])
    if c is None or not s.type.is_float or c == 0 or not math.isfinite(c):
        return None
    mantissa, exponent = math.frexp(c)
    top = {16: 14, 32: 126, 64: 1022}[s.type.bits]
    if abs(mantissa) != 0.5 or abs(exponent - 1) > top:
        return None
    return op(s, "mul", s.args[0], f.emit_const(s, 1.0 / c, s.type))


def floordiv_one(f: Facts, s: Op) -> Rewritten:
    """floor(x / 1) = floor(x), floats."""
    return op(s, "floor", s.args[0]) if s.type.is_float and f.const(s.args[1]) == 1 else None


_LARGEST_POWER = {16: 2, 32: 8, 64: 8}  # no more than three products deep


def pow_small(f: Facts, s: Op) -> Rewritten:
    """x ** 0 = 1, x ** 1 = x, x ** -1 = 1 / x for floats, x ** n = x * x * ... for small n, by squaring."""
    x, n = s.args[0], f.const(s.args[1])
    t = s.type
    if n is None or n != n or n in (math.inf, -math.inf) or n != int(n):
        return None
    n = int(n)
    if n == 0:
        return const(s, 1.0 if t.is_float else 1)
    if n == 1:
        return x
    if n == -1 and t.is_float:
        return op(s, "div", f.emit_const(s, 1.0, t), x)
    if not 2 <= n <= (_LARGEST_POWER[t.bits] if t.is_float else 8):
        return None
    power, square = -1, x
    while n > 1:
        if n & 1:
            power = square if power < 0 else f.emit(s, "mul", (power, square), t)
        n >>= 1
        if n > 1 or power >= 0:
            square = f.emit(s, "mul", (square, square), t)
    return op(s, "mul", square, square) if power < 0 else op(s, "mul", power, square)


def holds(outer: DType, inner: DType) -> bool:
    """Every value of ``inner`` is one of ``outer``."""
    if outer is inner or inner is u1:
        return True
    if outer is u1:
        return False
    if outer.is_float:
        digits = {16: 11, 32: 24, 64: 53}
        if inner.is_float:
            return outer.bits >= inner.bits
        return digits[outer.bits] >= inner.bits - (inner.kind == "i")
    if inner.is_float:
        return False
    if outer.kind == inner.kind:
        return outer.bits >= inner.bits
    return inner.kind == "u" and outer.bits > inner.bits


def cast_same(f: Facts, s: Op) -> Rewritten:
    """A cast to the operand's own dtype is the operand."""
    return s.args[0] if f.types[s.args[0]] is s.type else None


def cast_cast(f: Facts, s: Op) -> Rewritten:
    """C(B(x)) = C(x) where B holds every value of x's dtype, except from integer through float to a narrower integer
    (floats saturate, integers wrap); for integers also where C is no wider than B (both wrap)."""
    inner = f.op(s.args[0], "cast")
    if inner is None:
        return None
    a, b, c = f.types[inner.args[0]], inner.type, s.type
    if holds(b, a):
        through_float = b.is_float and not a.is_float and not c.is_float and c is not u1
        if not through_float or holds(c, a):
            return inner.args[0] if a is c else op(s, "cast", inner.args[0])
    elif a.is_int and b.is_int and c.is_int and c.bits <= b.bits:
        return inner.args[0] if a is c else op(s, "cast", inner.args[0])
    return None


def round_integer(f: Facts, s: Op) -> Rewritten:
    """floor(x) = x (and ceil, trunc, round) for x cast from an integer."""
    inner = f.op(s.args[0], "cast")
    return s.args[0] if inner is not None and not f.types[inner.args[0]].is_float else None


def compare_truth(f: Facts, s: Op) -> Rewritten:
    """For truth values b: (b == True) = b, (b == False) = not b;  with T a number's dtype: (T(b) == 0) = not b,
    (T(b) != 0) = b."""
    x, c = s.args[0], f.const(s.args[1])
    if c is None:
        return None
    if f.types[x] is u1:
        keep = c is (s.prim == "eq")
    else:
        inner = f.op(x, "cast")
        if c != 0 or inner is None or f.types[inner.args[0]] is not u1:
            return None
        x, keep = inner.args[0], s.prim == "ne"
    return x if keep else op(s, "not", x)


def unsigned_zero(f: Facts, s: Op) -> Rewritten:
    """Unsigned x >= 0 is true, x < 0 is false."""
    known = f.types[s.args[0]].kind == "u" and f.const(s.args[1]) == 0
    return const(s, s.prim == "ge") if known else None


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def not_compare(f: Facts, s: Op) -> Rewritten:
    """not (x < y) = (x >= y) and so on; for floats only == and !=, as NaN is neither less nor not less."""
    inner = f.op(s.args[0], *_OPPOSITE)
    if inner is None or (f.types[inner.args[0]].is_float and inner.prim not in ("eq", "ne")):
        return None
    return op(s, _OPPOSITE[inner.prim], *inner.args)


def xor_true(f: Facts, s: Op) -> Rewritten:
    """b xor True = not b; x xor -1 = not x."""
    c = f.const(s.args[1])
    all_ones = c is True if s.type is u1 else c == wrapped(-1, s.type)
    return op(s, "not", s.args[0]) if all_ones else None


def select_known(f: Facts, s: Op) -> Rewritten:
    """select(True, x, y) = x;  select(False, x, y) = y;  select(b, x, x) = x."""
    b, x, y = s.args
    known = f.const(b)
    if known is not None:
        return x if known else y
    return x if x == y else None


def select_not(f: Facts, s: Op) -> Rewritten:
    """select(not b, x, y) = select(b, y, x)."""
    b, x, y = s.args
    inner = f.op(b, "not")
    return op(s, "select", inner.args[0], y, x) if inner is not None else None


def select_truth(f: Facts, s: Op) -> Rewritten:
    """For truth values: select(b, False, True) = not b; select(b, x, False) = b and x; select(b, True, y) = b or y."""
    if s.type is not u1:
        return None
    b, x, y = s.args
    if f.const(x) is False and f.const(y) is True:
        return op(s, "not", b)
    if f.const(y) is False:
        return op(s, "and", b, x)
    return op(s, "or", b, y) if f.const(x) is True else None


def select_select(f: Facts, s: Op) -> Rewritten:
    """select(b, select(b, x, _), y) = select(b, x, y) and the same for the other arm."""
    b, x, y = s.args
    if (inner := f.op(x, "select")) is not None and inner.args[0] == b:
        return op(s, "select", b, inner.args[1], y)
    if (inner := f.op(y, "select")) is not None and inner.args[0] == b:
        return op(s, "select", b, x, inner.args[2])
    return None


def unsigned_same(f: Facts, s: Op) -> Rewritten:
    """abs(x) = x for unsigned x."""
    return s.args[0] if s.type.kind == "u" else None


def abs_neg(f: Facts, s: Op) -> Rewritten:
    """abs(-x) = abs(x)."""
    inner = f.op(s.args[0], "neg")
    return op(s, "abs", inner.args[0]) if inner is not None else None


_ROUNDING = ("floor", "ceil", "trunc", "round")
_round: tuple[Rule, ...] = (idempotent(*_ROUNDING), round_integer)
_shift: tuple[Rule, ...] = (right_unit(None, 0), left_zero)
_truth: tuple[Rule, ...] = (compare_truth,)

RULES: dict[str, tuple[Rule, ...]] = {
    "add": (right_unit(-0.0, 0), add_neg, integer_sum),
    "sub": (right_unit(0.0, 0), same(0), sub_neg, integer_sum),
    "mul": (right_unit(1.0, 1), right_zero(0, 0), minus_one, mul_negs, integer_product),
    "div": (right_unit(1.0, None), mul_negs, div_power_of_two),
    "floordiv": (right_unit(None, 1), left_zero, floordiv_one, div_minus_one),
    "mod": (right_zero(1, 0), left_zero, same(0)),
    "raw_div": (right_unit(1.0, 1), left_zero, div_power_of_two, div_minus_one),
    "raw_mod": (right_zero(1, 0), left_zero, same(0)),
    "neg": (inverse("neg"),),
    "abs": (unsigned_same, idempotent("abs"), abs_neg),
    "min": (same(None, floats=True),),
    "max": (same(None, floats=True),),
    "pow": (pow_small,),
    "floor": _round,
    "ceil": _round,
    "trunc": _round,
    "round": _round,
    "and": (right_unit(None, -1), right_zero(0, 0), same(None)),
    "or": (right_unit(None, 0), right_zero(-1, -1), same(None)),
    "xor": (right_unit(None, 0), same(0), xor_true),
    "not": (inverse("not"), not_compare),
    "shl": _shift,
    "shr": _shift,
    "lshr": _shift,
    "lt": (same(False, floats=True), unsigned_zero),
    "gt": (same(False, floats=True),),
    "le": (same(True),),
    "ge": (same(True), unsigned_zero),
    "eq": (same(True), *_truth),
    "ne": (same(False), *_truth),
    "select": (select_known, select_not, select_truth, select_select),
    "cast": (cast_same, cast_cast),
    "bitcast": (cast_same, inverse("bitcast")),
}
