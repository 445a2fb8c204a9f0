"""The algebra of `fold`: rewrites of one primitive applied to values of which something is known.

A rule takes the facts at hand and an Op and gives the id of a value that equals it, a statement of the same id to
stand in its place, or None; many are stated as texts (`pattern`). All hold for every value of the dtype, NaN,
infinities, signed zeros and wrapping integers included; sums and products of floats are never reassociated. ``x``,
``y`` are values, ``c`` is a constant.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, Protocol

from quadrants_lab.ir.nodes import Const, Op, Value
from quadrants_lab.ir.types import DType, u1, wrapped


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


def const(s: Op, value: Any) -> Const:
    return Const(s.id, s.type, value, name=s.name, span=s.span, adjoint_of=s.adjoint_of)


def op(s: Op, prim: str, *args: int) -> Op:
    return Op(s.id, s.type, prim, args, name=s.name, span=s.span, adjoint_of=s.adjoint_of)


# --- rules that are texts -----------------------------------------------------------------------------------------

Match = Callable[[Facts, int, dict[str, int]], bool]  # whether a value looks so; it binds the names of its parts
_KINDS = {"integer": "iu", "unsigned": "u", "float": "f", "truth": "b"}


def pattern(text: str) -> Rule:
    """The rule that ``p(...) = ...`` states, for results of one kind where ``if`` and a word of `_KINDS` follow. Names
    stand for values, the same one wherever they are the same, ``_`` for any; what Python reserves has a ``_`` behind
    it."""
    sides, _, kind = text.partition(" if ")
    kinds = _KINDS[kind] if kind else ""
    left, right = (ast.parse(side, mode="eval").body for side in sides.split(" = "))
    assert isinstance(left, ast.Call)
    # what tells the most is looked at first: a name stands for anything
    operands = sorted(((n, _match(a)) for n, a in enumerate(left.args)), key=lambda o: _is_name(left.args[o[0]]))
    prim, names = _prim(right), [a.id for a in getattr(right, "args", (right,)) if isinstance(a, ast.Name)]

    def rule(f: Facts, s: Op) -> Rewritten:
        if kinds and s.type.kind not in kinds:
            return None
        found: dict[str, int] = {}
        for n, match in operands:
            if not match(f, s.args[n], found):
                return None
        if prim:
            return op(s, prim, *(found[n] for n in names))
        x = found[names[0]]
        return x if f.types[x] is s.type else None

    return rule


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _prim(node: ast.expr) -> str:
    return node.func.id.rstrip("_") if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _match(node: ast.expr) -> Match:
    if isinstance(node, ast.Name):
        name = node.id
        return (lambda f, v, found: True) if name == "_" else lambda f, v, found: found.setdefault(name, v) == v
    if isinstance(node, ast.Call):
        prim, operands = _prim(node), [_match(a) for a in node.args]

        def made_by(f: Facts, v: int, found: dict[str, int]) -> bool:
            inner = f.op(v, prim)
            return inner is not None and all(m(f, a, found) for m, a in zip(operands, inner.args, strict=True))

        return made_by
    value = ast.literal_eval(node)

    def constant(f: Facts, v: int, found: dict[str, int]) -> bool:
        c = f.const(v)
        return c is not None and c == value and (c is value or type(value) is not bool)

    return constant


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


def same(gives: int | bool, floats: bool = False) -> Rule:
    """x . x = a constant. ``floats``: NaN makes no difference either."""

    def rule(f: Facts, s: Op) -> Rewritten:
        if s.args[0] != s.args[1] or (f.types[s.args[0]].is_float and not floats):
            return None
        return const(s, bool(gives) if s.type is u1 else gives)

    return rule


def idempotent(*prims: str) -> Rule:
    """p(q(x)) = q(x) for these q."""

    def rule(f: Facts, s: Op) -> Rewritten:
        return s.args[0] if f.op(s.args[0], *prims) is not None else None

    return rule


# --- single rules -------------------------------------------------------------------------------------------


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


_ROUNDING = ("floor", "ceil", "trunc", "round")
_round: tuple[Rule, ...] = (idempotent(*_ROUNDING), round_integer)
_shift: tuple[Rule, ...] = (right_unit(None, 0), left_zero)

_RULES: dict[str, tuple[Rule | str, ...]] = {
    "add": (right_unit(-0.0, 0), "add(x, neg(y)) = sub(x, y)", "add(neg(x), y) = sub(y, x)", integer_sum),
    "sub": (right_unit(0.0, 0), same(0), "sub(x, neg(y)) = add(x, y)", integer_sum),
    "mul": (right_unit(1.0, 1), right_zero(0, 0), "mul(x, -1) = neg(x)", "mul(neg(x), neg(y)) = mul(x, y)",
            integer_product),
    "div": (right_unit(1.0, None), "div(neg(x), neg(y)) = div(x, y)", div_power_of_two),
    # of integers: the smallest wraps both ways
    "floordiv": (right_unit(None, 1), left_zero, "floordiv(x, 1) = floor(x) if float",
                 "floordiv(x, -1) = neg(x) if integer"),
    "mod": (right_zero(1, 0), left_zero, same(0)),
    "raw_div": (right_unit(1.0, 1), left_zero, div_power_of_two, "raw_div(x, -1) = neg(x) if integer"),
    "raw_mod": (right_zero(1, 0), left_zero, same(0)),
    "neg": ("neg(neg(x)) = x",),
    "abs": ("abs(x) = x if unsigned", idempotent("abs"), "abs(neg(x)) = abs(x)"),
    "min": ("min(x, x) = x",),
    "max": ("max(x, x) = x",),
    "pow": (pow_small,),
    "floor": _round,
    "ceil": _round,
    "trunc": _round,
    "round": _round,
    "and": (right_unit(None, -1), right_zero(0, 0), "and_(x, x) = x"),
    "or": (right_unit(None, 0), right_zero(-1, -1), "or_(x, x) = x"),
    "xor": (right_unit(None, 0), same(0), xor_true),
    "not": ("not_(not_(x)) = x", not_compare),
    "shl": _shift,
    "shr": _shift,
    "lshr": _shift,
    "lt": (same(False, floats=True), unsigned_zero),
    "gt": (same(False, floats=True),),
    "le": (same(True),),
    "ge": (same(True), unsigned_zero),
    "eq": (same(True), compare_truth),
    "ne": (same(False), compare_truth),
    "select": (
        "select(True, x, _) = x", "select(False, _, y) = y", "select(_, x, x) = x",
        "select(not_(b), x, y) = select(b, y, x)",
        "select(b, False, True) = not_(b) if truth", "select(b, x, False) = and_(b, x) if truth",
        "select(b, True, y) = or_(b, y) if truth",
        "select(b, select(b, x, _), y) = select(b, x, y)", "select(b, x, select(b, _, y)) = select(b, x, y)",
    ),
    "cast": ("cast(x) = x", cast_cast),
    "bitcast": ("bitcast(x) = x", "bitcast(bitcast(x)) = x"),
}  # fmt: skip

RULES: dict[str, tuple[Rule, ...]] = {
    prim: tuple(pattern(r) if isinstance(r, str) else r for r in rules) for prim, rules in _RULES.items()
}
