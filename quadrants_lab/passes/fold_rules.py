"""Lists the rewrite rules of `fold`, which simplify an operation by what is known about its operands.

A rule takes facts and an Op. It returns the id of a value that equals the Op, or a statement with the same id to
replace the Op, or None if it does not apply. Most rules are written as texts (`pattern`). Every rule holds for all
values of the dtype, including NaN, infinities, signed zeros and wrapping integers. Sums and products of floats are
never reassociated. ``x`` and ``y`` stand for values, ``c`` for a constant.
"""

import ast
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np

from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.ir.nodes import Const, Op, Value
from quadrants_lab.ir.types import DType, u1, wrapped


class Facts(Protocol):
    """What is known about values where the Op stands. ``emit`` and ``emit_const`` insert a statement before the Op.
    """

    types: dict[int, DType]

    def const(self, ident: int) -> Any: ...  # the value of a constant, None for other values

    def op(self, ident: int, *prims: str) -> Op | None: ...  # the value's Op, if it is one of these primitives

    def emit(self, at: Op, prim: str, args: tuple[int, ...], type: DType) -> int: ...

    def emit_const(self, at: Op, value: Any, type: DType) -> int: ...


Rewritten = int | Value | None
Rule = Callable[[Facts, Op], Rewritten]

# Primitives whose operands may be swapped. Those of min and max may not: if they are equal, the derivative goes to the
# first.
COMMUTATIVE = frozenset(("add", "mul", "and", "or", "xor", "eq", "ne"))


def const(s: Op, value: Any) -> Const:
    return Const(s.id, s.type, value, name=s.name, span=s.span, adjoint_of=s.adjoint_of)


def op(s: Op, prim: str, *args: int) -> Op:
    return Op(s.id, s.type, prim, args, name=s.name, span=s.span, adjoint_of=s.adjoint_of)


# --- rules that are written as texts --------------------------------------------------------------------------------

# whether a value matches a part of a pattern; if so, it binds the part's names
Match = Callable[[Facts, int, dict[str, int]], bool]
KNOWN = "!"
_KINDS = {"integer": "iu", "signed": "i", "unsigned": "u", "float": "f", "truth": "b", "exact": "iub"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def pattern(text: str) -> Rule:
    """The rule that a text ``p(...) = ...`` states. ``if`` and a word of `_KINDS` may follow: then the rule holds only
    for results (of comparisons: operands) of that kind. A name stands for the same value wherever it occurs, ``_`` for
    any value. The name of a primitive that Python reserves ends in ``_``. Numbers are numbers of the dtype: -1 has all
    bits set, and -0.0 is not 0."""
    sides, _, kind = text.partition(" if ")
    kinds = _KINDS[kind] if kind else ""
    left, right = (syntax_tree(side, "eval").body for side in sides.split(" = "))
    assert isinstance(left, ast.Call)
    # names are matched last, because they match anything
    is_name = [isinstance(a, ast.Name) for a in left.args]
    operands = sorted(((n, _match(a)) for n, a in enumerate(left.args)), key=lambda o: is_name[o[0]])
    prim, names = _prim(right), [a.id for a in getattr(right, "args", (right,)) if isinstance(a, ast.Name)]
    compares, value = _prim(left) in _OPPOSITE, None if names else ast.literal_eval(right)

    def rule(f: Facts, s: Op) -> Rewritten:
        if kinds and (f.types[s.args[0]] if compares else s.type).kind not in kinds:
            return None
        found: dict[str, int] = {}
        for n, match in operands:
            if not match(f, s.args[n], found):
                return None
        if prim:
            return op(s, prim, *(found[n] for n in names))
        if value is not None:
            return const(s, _number(value, s.type))
        x = found[names[0]]
        return x if f.types[x] is s.type else None

    return rule


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
    number = cache(lambda t: _number(value, t))

    def constant(f: Facts, v: int, found: dict[str, int]) -> bool:
        c = f.const(v)
        # compared as text too, because zeros have a sign
        return c is not None and c == number(f.types[v]) and repr(c) == repr(number(f.types[v]))

    return constant


def _number(value: Any, t: DType) -> Any:
    """A number in a pattern as a constant of the dtype."""
    return float(value) if t.is_float else bool(value) if t is u1 else wrapped(int(value), t)


# --- rules that are functions -------------------------------------------------------------------------------------


def idempotent(*prims: str) -> Rule:
    """p(q(x)) = q(x), where q is one of ``prims``."""

    def rule(f: Facts, s: Op) -> Rewritten:
        return s.args[0] if f.op(s.args[0], *prims) is not None else None

    return rule


def integer_sum(f: Facts, s: Op) -> Rewritten:
    """(x +- c1) +- c2 = x + (+-c1 +- c2), for integers only."""
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
    """(x * c1) * c2 = x * (c1 * c2), for integers only."""
    c2, inner = f.const(s.args[1]), f.op(s.args[0], "mul")
    if c2 is None or inner is None or not s.type.is_int:
        return None
    c1 = f.const(inner.args[1])
    return op(s, "mul", inner.args[0], f.emit_const(s, wrapped(c1 * c2, s.type), s.type)) if c1 is not None else None


def div_power_of_two(f: Facts, s: Op) -> Rewritten:
    """x / c = x * (1/c) if c and 1/c are powers of two and normal numbers; then both sides round the same exact number.
    """
    c = f.const(s.args[1])
    if c is None or not s.type.is_float or c == 0 or not math.isfinite(c):
        return None
    mantissa, exponent = math.frexp(c)
    top = {16: 14, 32: 126, 64: 1022}[s.type.bits]
    if abs(mantissa) != 0.5 or abs(exponent - 1) > top:
        return None
    return op(s, "mul", s.args[0], f.emit_const(s, 1.0 / c, s.type))


# bits of the dtype -> the greatest exponent; at most three products depend on each other
_LARGEST_POWER = {16: 2, 32: 8, 64: 8}


def pow_small(f: Facts, s: Op) -> Rewritten:
    """x ** 0 = 1, x ** 1 = x, x ** -1 = 1 / x for floats, and x ** n = x * x * ... for small n, by squaring."""
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
    """Whether the dtype ``outer`` can represent every value of ``inner``. (numpy claims that f64 represents all 64-bit
    integers.)"""
    return np.can_cast(inner.numpy, outer.numpy) and not (outer.is_float and inner.is_int and inner.bits == 64)


def cast_cast(f: Facts, s: Op) -> Rewritten:
    """C(B(x)) = C(x) for casts to the dtypes B and C, if B can represent every value of x's dtype. The exception is a
    cast of an integer through a float to a narrower integer, since floats saturate and integers wrap. Between integers
    the rule also holds if C is no wider than B, because both casts wrap."""
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
    """floor(x) = x (and ceil, trunc, round) if x was cast from an integer."""
    inner = f.op(s.args[0], "cast")
    return s.args[0] if inner is not None and not f.types[inner.args[0]].is_float else None


def truth_as_number(f: Facts, s: Op) -> Rewritten:
    """(T(b) == 0) = not b and (T(b) != 0) = b for truth values b, where T is a cast to a dtype of numbers."""
    inner = f.op(s.args[0], "cast")
    if f.const(s.args[1]) != 0 or inner is None or f.types[inner.args[0]] is not u1:
        return None
    return inner.args[0] if s.prim == "ne" else op(s, "not", *inner.args)


def not_compare(f: Facts, s: Op) -> Rewritten:
    """not (x < y) = (x >= y) and so on; for floats only with == and !=, because of NaN."""
    inner = f.op(s.args[0], *_OPPOSITE)
    if inner is None or (f.types[inner.args[0]].is_float and inner.prim not in ("eq", "ne")):
        return None
    return op(s, _OPPOSITE[inner.prim], *inner.args)


def two_values(f: Facts, s: Op) -> Rewritten:
    """x == c and x == d = False, where the constants differ."""
    known = [(i.args[0], f.const(i.args[1])) for a in s.args if (i := f.op(a, "eq")) is not None]
    if len(known) < 2 or known[0][0] != known[1][0] or None in (known[0][1], known[1][1]):
        return None
    return const(s, False) if known[0][1] != known[1][1] else None


_ROUNDING = ("floor", "ceil", "trunc", "round")
_round: tuple[Rule, ...] = (idempotent(*_ROUNDING), round_integer)

RULES: dict[str, tuple[Rule | str, ...]] = {
    "add": ("add(x, 0) = x if integer", "add(x, -0.0) = x if float", "add(x, neg(y)) = sub(x, y)",
            "add(neg(x), y) = sub(y, x)", integer_sum),
    "sub": ("sub(x, 0) = x", "sub(x, x) = 0 if exact", "sub(x, neg(y)) = add(x, y)", integer_sum),
    "mul": ("mul(x, 1) = x", "mul(_, 0) = 0 if integer", "mul(x, -1) = neg(x)", "mul(neg(x), neg(y)) = mul(x, y)",
            integer_product),
    "div": ("div(x, 1) = x", "div(neg(x), neg(y)) = div(x, y)", div_power_of_two),
    # as `ir.prims` defines, the quotient of an integer by 0 is 0, and the smallest integer divided by -1 wraps to
    # itself, as neg does
    "floordiv": ("floordiv(x, 1) = x if integer", "floordiv(0, _) = 0 if integer", "floordiv(x, 1) = floor(x) if float",
                 "floordiv(x, -1) = neg(x) if signed"),
    "mod": ("mod(_, 1) = 0 if integer", "mod(0, _) = 0 if integer", "mod(x, x) = 0 if integer"),
    "raw_div": ("raw_div(x, 1) = x", "raw_div(0, _) = 0 if integer", div_power_of_two,
                "raw_div(x, -1) = neg(x) if signed"),
    "raw_mod": ("raw_mod(_, 1) = 0 if integer", "raw_mod(0, _) = 0 if integer", "raw_mod(x, x) = 0 if integer"),
    "neg": ("neg(neg(x)) = x",),
    "abs": ("abs(x) = x if unsigned", idempotent("abs"), "abs(neg(x)) = abs(x)"),
    "min": ("min(x, x) = x",),
    "max": ("max(x, x) = x",),
    "pow": (pow_small,),
    "floor": _round,
    "ceil": _round,
    "trunc": _round,
    "round": _round,
    "and": ("and_(x, -1) = x", "and_(_, 0) = 0", "and_(x, x) = x", two_values),
    "or": ("or_(x, 0) = x", "or_(_, -1) = -1", "or_(x, x) = x"),
    "xor": ("xor(x, 0) = x", "xor(x, x) = 0", "xor(x, -1) = not_(x)"),
    "not": ("not_(not_(x)) = x", not_compare),
    "shl": ("shl(x, 0) = x", "shl(0, _) = 0"),
    "shr": ("shr(x, 0) = x", "shr(0, _) = 0"),
    "lshr": ("lshr(x, 0) = x", "lshr(0, _) = 0"),
    "lt": ("lt(x, x) = False", "lt(_, 0) = False if unsigned"),
    "gt": ("gt(x, x) = False",),
    "le": ("le(x, x) = True if exact",),
    "ge": ("ge(x, x) = True if exact", "ge(_, 0) = True if unsigned"),
    "eq": ("eq(x, x) = True if exact", "eq(b, True) = b if truth", "eq(b, False) = not_(b) if truth", truth_as_number),
    "ne": ("ne(x, x) = False if exact", "ne(b, False) = b if truth", "ne(b, True) = not_(b) if truth", truth_as_number),
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


@cache
def rules_of(prim: str, kinds: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rules that may apply to a primitive whose operands have these ``kinds``, in the order in which they are
    tried. A kind is the primitive that makes the operand, or "" for other values, followed by `KNOWN` if the value is
    known."""
    return tuple(
        pattern(r) if isinstance(r, str) else r
        for r in RULES.get(prim, ())
        if not isinstance(r, str) or all(map(_fits, _operands(r), kinds))
    )


def _fits(node: ast.expr, kind: str) -> bool:
    """Whether a part of a pattern may match an operand of this kind."""
    if isinstance(node, ast.Name):
        return True
    return kind.rstrip(KNOWN) == _prim(node) if isinstance(node, ast.Call) else kind.endswith(KNOWN)


def _operands(text: str) -> list[ast.expr]:
    """The operands of a pattern's left side."""
    left = syntax_tree(text.partition(" = ")[0], "eval").body
    assert isinstance(left, ast.Call)
    return left.args
