"""Scalar primitives: from the table's meaning (`ir.prims`) to expressions.

`SPELLINGS` has a row a primitive: for (float, integer, u1) an operator, ``f name`` for a function of Metal,
``p name`` for one of its precise functions, ``h name`` for a row of `helpers.HELPERS`, or ``@name``, a row of
`SEQUENCES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.helpers import Library
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f16, f32, u1

SPELLINGS: dict[str, tuple[str, str, str]] = {
    "add": ("+", "@modular +", ""),
    "sub": ("-", "@modular -", ""),
    "mul": ("*", "@modular *", ""),
    "div": ("/", "", ""),
    "floordiv": ("@floor_quotient", "@floordiv", ""),
    "mod": ("h qd_fmod", "@mod", ""),
    "raw_div": ("/", "@divide", ""),
    "raw_mod": ("p fmod", "@remainder", ""),
    "neg": ("@negate", "@negate", ""),
    "abs": ("f fabs", "@abs", ""),
    "min": ("f fmin", "h qd_min", ""),
    "max": ("f fmax", "h qd_max", ""),
    "sqrt": ("p sqrt", "", ""),
    "rsqrt": ("@rsqrt", "", ""),
    "sin": ("p sin", "", ""),
    "cos": ("p cos", "", ""),
    "tan": ("p tan", "", ""),
    "asin": ("p asin", "", ""),
    "acos": ("p acos", "", ""),
    "atan2": ("p atan2", "", ""),
    "tanh": ("p tanh", "", ""),
    "exp": ("p exp", "", ""),
    "log": ("p log", "", ""),
    "pow": ("p pow", "@power", ""),
    "floor": ("f floor", "", ""),
    "ceil": ("f ceil", "", ""),
    "trunc": ("f trunc", "", ""),
    "round": ("f round", "", ""),
    "and": ("", "@bits &", "&&"),
    "or": ("", "@bits |", "||"),
    "xor": ("", "@bits ^", "!="),
    "not": ("", "@not", "@not_truth"),
    "shl": ("", "@shl", ""),
    "shr": ("", "@shr", ""),
    "lshr": ("", "@lshr", ""),
    "popcnt": ("", "@popcnt", ""),
    "clz": ("", "@clz", ""),
    "lt": ("<", "<", "<"),
    "le": ("<=", "<=", "<="),
    "gt": (">", ">", ">"),
    "ge": (">=", ">=", ">="),
    "eq": ("==", "==", "=="),
    "ne": ("!=", "!=", "!="),
    "isnan": ("f isnan", "", ""),
    "isinf": ("f isinf", "", ""),
    "select": ("@select", "@select", "@select"),
    "cast": ("@cast", "@cast", "@cast"),
    "bitcast": ("@bitcast", "@bitcast", "@same"),
    "custom_jvp": ("@same", "", ""),
}


@dataclass(slots=True)
class Ctx:
    """What a sequence sees: operands, which have the MSL types of their dtypes ``types`` but for integers computed
    unsigned, and the result's dtype."""

    library: Library
    out: DType
    types: tuple[DType, ...]
    args: tuple[Expr, ...]

    @property
    def t(self) -> DType:
        """The dtype of the first operand."""
        return self.types[0]

    def typed(self, n: int) -> Expr:
        """An operand with exactly its dtype's type."""
        return X.as_type(self.args[n], X.name(self.types[n]))

    def all_typed(self) -> tuple[Expr, ...]:
        return tuple(self.typed(n) for n in range(len(self.args)))

    def help(self, helper: str, *args: Expr, t: str = "") -> Expr:
        return X.call(self.library.need(helper), t or X.name(self.out), *args)


def emit(library: Library, prim: str, out: DType, types: tuple[DType, ...], args: tuple[Expr, ...]) -> Expr:
    """The primitive's result; where its type is not the dtype's own, it is the unsigned one of its width."""
    t = types[1] if PRIMS[prim].rule == "select" else types[0]
    spelling = SPELLINGS[prim][0 if t.is_float else 2 if t is u1 else 1]
    c = Ctx(library, out, types, args)
    head, _, rest = spelling.partition(" ")
    if head == "f":
        return X.call(rest, X.name(out), *c.all_typed())
    if head == "p":
        return _precise(c, rest)
    if head == "h":
        return c.help(rest, *c.all_typed())
    if head[0] == "@":
        return SEQUENCES[head](c, *([rest] if rest else []))
    return X.binary(head, X.name(out), *c.all_typed())


# --- integers ---------------------------------------------------------------------------------------------------------


def _narrow(c: Ctx, e: Expr) -> Expr:
    """Back from int, which MSL computes short integers in."""
    return X.call(X.name(c.out), X.name(c.out), e) if c.out.bits < 32 else e


def _modular(c: Ctx, op: str) -> Expr:
    """Modulo a power of two: unsigned, at least one side of it."""
    a, b = c.args
    t = X.name(c.t)
    if c.t.bits < 32:
        first = X.as_type(a, "uint") if op == "*" else a  # a product of two ushort may overflow int
        return _narrow(c, X.binary(op, "uint" if op == "*" else "int", first, b))
    whole = X.UNSIGNED[t]
    if b.known is not None and b.known < 0 and op != "*":
        op, b = "-" if op == "+" else "+", Expr(f"{-b.known}", X.PRIMARY, t, -b.known)
    if whole not in (a.type, b.type):
        if b.known is not None:
            b = X.unsigned(b)
        else:
            a = X.unsigned(a)
    return X.binary(op, whole, a, b)


def _negate(c: Ctx) -> Expr:
    if c.t.is_float:
        return X.prefix("-", X.name(c.t), c.args[0])
    if c.t.bits < 32:
        return _narrow(c, X.prefix("-", "int", c.args[0]))
    whole = X.UNSIGNED[X.name(c.t)]
    zero = Expr("0u" if c.t.bits == 32 else "0ul", X.PRIMARY, whole)
    return X.binary("-", whole, zero, c.args[0])


def _abs(c: Ctx) -> Expr:
    return c.help("qd_abs", c.typed(0)) if c.t.kind == "i" else c.args[0]


def _safe(divisor: Expr) -> bool:
    """A divisor that needs no care."""
    return divisor.known not in (None, 0, -1)


def _floordiv(c: Ctx) -> Expr:
    a, b = c.all_typed()
    if c.t.kind == "u":
        return _divide(c)
    divisor = b.known
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        shift = Expr(str(divisor.bit_length() - 1), X.PRIMARY, "int")
        return _narrow(c, X.binary(">>", X.name(c.t), a, shift)) if divisor > 1 else a
    return c.help("qd_floordiv", a, b)


def _mod(c: Ctx) -> Expr:
    a, b = c.all_typed()
    if c.t.kind == "u":
        return _remainder(c)
    divisor = b.known
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        mask = X.literal(c.t, divisor - 1)
        return _narrow(c, X.binary("&", X.name(c.t), a, mask))
    return c.help("qd_mod", a, b)


def _divide(c: Ctx) -> Expr:
    a, b = c.all_typed()
    if _safe(b):
        return _narrow(c, X.binary("/", X.name(c.t), a, b))
    return c.help("qd_div" if c.t.kind == "i" else "qd_udiv", a, b)


def _remainder(c: Ctx) -> Expr:
    a, b = c.all_typed()
    if _safe(b):
        return _narrow(c, X.binary("%", X.name(c.t), a, b))
    return c.help("qd_rem" if c.t.kind == "i" else "qd_urem", a, b)


def _power(c: Ctx) -> Expr:
    if c.t.kind == "i":
        return c.help("qd_pow", *c.all_typed())
    wide = (X.as_type(a, "ulong") for a in c.all_typed())
    return X.as_type(c.help("qd_power", *wide, t="ulong"), X.name(c.out))


def _bits(c: Ctx, op: str) -> Expr:
    a, b = c.all_typed()
    return _narrow(c, X.binary(op, X.name(c.t), a, b))


def _count(c: Ctx) -> Expr:
    """A shift count within the width."""
    b = c.typed(1)
    if b.known is not None:
        return Expr(str(b.known & (c.t.bits - 1)), X.PRIMARY, "int", 0)
    mask = Expr(str(c.t.bits - 1), X.PRIMARY, "int")
    return X.binary("&", b.type, b, mask)


def _shl(c: Ctx) -> Expr:
    whole = "ulong" if c.t.bits == 64 else "uint"
    a = c.typed(0)
    return _narrow(c, X.binary("<<", whole, X.as_type(a, whole), _count(c)))


def _shr(c: Ctx) -> Expr:
    return _narrow(c, X.binary(">>", X.name(c.t), c.typed(0), _count(c)))


def _lshr(c: Ctx) -> Expr:
    t = X.UNSIGNED[X.name(c.t)]
    return _narrow(c, X.binary(">>", t, X.as_type(c.typed(0), t), _count(c)))


def _not(c: Ctx) -> Expr:
    return _narrow(c, X.prefix("~", X.name(c.t), c.typed(0)))


def _zero_extended(c: Ctx) -> Expr:
    t = X.UNSIGNED[X.name(c.t)]
    a = X.as_type(c.typed(0), t)
    return X.as_type(a, "ulong" if c.t.bits == 64 else "uint")


def _popcnt(c: Ctx) -> Expr:
    if c.t.bits == 64:
        return c.help("qd_popcount", _zero_extended(c), t="uint")
    return X.call("popcount", "uint", _zero_extended(c))


def _clz(c: Ctx) -> Expr:
    if c.t.bits == 64:
        return c.help("qd_clz", _zero_extended(c), t="uint")
    zeros = X.call("clz", "uint", _zero_extended(c))
    return X.binary("-", "uint", zeros, Expr(f"{32 - c.t.bits}u", X.PRIMARY, "uint")) if c.t.bits < 32 else zeros


# --- floats -----------------------------------------------------------------------------------------------------------


def _precise(c: Ctx, name: str) -> Expr:
    """One of Metal's precise functions, which are of f32; f16 is computed in f32."""
    args = tuple(X.as_type(a, "float") for a in c.all_typed())
    return X.as_type(X.call(f"precise::{name}", "float", *args), X.name(c.out))


def _floor_quotient(c: Ctx) -> Expr:
    return X.call("floor", X.name(c.out), X.binary("/", X.name(c.t), *c.all_typed()))


def _rsqrt(c: Ctx) -> Expr:
    return X.binary("/", X.name(c.t), X.literal(c.t, 1.0), _precise(c, "sqrt"))


# --- conversions ------------------------------------------------------------------------------------------------------


def _cast(c: Ctx) -> Expr:
    a, s, d = c.typed(0), c.t, c.out
    to = X.name(d)
    if s is d:
        return a
    if d is u1:
        return X.binary("!=", to, a, X.literal(s, 0))
    if s.is_float and not d.is_float:
        return c.help(f"qd_to_{to}", X.as_type(a, "float"))
    if d is f16 and s is not f32:
        return X.as_type(X.as_type(a, "float"), to)  # what f32 rounds is infinite in f16
    if s.is_int and d.is_int and s.bits == d.bits and X.UNSIGNED[to] == c.args[0].type:
        return X.as_type(c.args[0], to)
    return X.as_type(a, to)


def _bitcast(c: Ctx) -> Expr:
    to = X.name(c.out)
    if c.t.is_float == c.out.is_float:
        return X.as_type(c.typed(0), to)
    return X.call(f"as_type<{to}>", to, c.typed(0))


SEQUENCES: dict[str, Callable[..., Expr]] = {
    "@modular": _modular,
    "@floor_quotient": _floor_quotient,
    "@floordiv": _floordiv,
    "@mod": _mod,
    "@divide": _divide,
    "@remainder": _remainder,
    "@negate": _negate,
    "@abs": _abs,
    "@rsqrt": _rsqrt,
    "@power": _power,
    "@bits": _bits,
    "@not": _not,
    "@not_truth": lambda c: X.prefix("!", "bool", c.args[0]),
    "@shl": _shl,
    "@shr": _shr,
    "@lshr": _lshr,
    "@popcnt": _popcnt,
    "@clz": _clz,
    "@same": lambda c: c.typed(0),
    "@select": lambda c: X.choose(c.typed(0), X.name(c.out), c.typed(1), c.typed(2)),
    "@cast": _cast,
    "@bitcast": _bitcast,
}
