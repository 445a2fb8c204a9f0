"""Scalar primitives: from the table's meaning (`ir.prims`) to expressions.

`SPELLINGS` has a row a primitive: for (float, integer, u1) an operator, ``f name`` for a function of Metal,
``p name`` for one of its precise functions, or ``@name``, a row of `SEQUENCES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quadrants_lab.backends._clike.ops import lowering
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends.lower.functions import MATH
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, u1

_PRECISE = ["sqrt", "sin", "cos", "tan", "asin", "acos", "atan2", "tanh", "exp", "log", "pow"]
_PLAIN = ["floor", "ceil", "trunc", "round", "isnan", "isinf"]
SPELLINGS: dict[str, tuple[str, str, str]] = {
    **{name: (f"p {name}", "", "") for name in _PRECISE},
    **{name: (f"f {name}", "", "") for name in _PLAIN},
    "add": ("+", "@modular +", ""),
    "sub": ("-", "@modular -", ""),
    "mul": ("*", "@modular *", ""),
    "div": ("/", "", ""),
    "raw_div": ("/", "", ""),
    "raw_mod": ("p fmod", "", ""),
    "quot": ("", "@bits /", ""),
    "rem": ("", "@bits %", ""),
    "neg": ("@negate", "@negate", ""),
    "abs": ("f fabs", "", ""),
    "min": ("f fmin", "@extreme <", ""),
    "max": ("f fmax", "@extreme >", ""),
    "and": ("", "@bits &", "&&"),
    "or": ("", "@bits |", "||"),
    "xor": ("", "@bits ^", "!="),
    "not": ("", "@not", "@not_truth"),
    "shl": ("", "@shl", ""),
    "shr": ("", "@shr", ""),
    "lshr": ("", "@lshr", ""),
    "popcnt": ("", "f popcount", ""),
    "clz": ("", "f clz", ""),
    "lt": ("<", "<", ""),
    "le": ("<=", "<=", ""),
    "gt": (">", ">", ""),
    "ge": (">=", ">=", ""),
    "eq": ("==", "==", "=="),
    "ne": ("!=", "!=", "!="),
    "select": ("@select", "@select", "@select"),
    "cast": ("@cast", "@cast", ""),
    "fptoint": ("@cast", "", ""),
    "bitcast": ("@bitcast", "@bitcast", "@bitcast"),
}

LOWERING = lowering(functions=tuple(name for name in MATH if name not in SPELLINGS))  # what has no spelling here


@dataclass(slots=True)
class Ctx:
    """What a sequence sees: operands, which have the MSL types of their dtypes ``types`` but for integers computed
    unsigned, and the result's dtype."""

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


def emit(prim: str, out: DType, types: tuple[DType, ...], args: tuple[Expr, ...]) -> Expr:
    """The primitive's result; where its type is not the dtype's own, it is the unsigned one of its width."""
    t = types[1] if PRIMS[prim].rule == "select" else types[0]
    spelling = SPELLINGS[prim][0 if t.is_float else 2 if t is u1 else 1]
    c = Ctx(out, types, args)
    head, _, rest = spelling.partition(" ")
    if head == "f":
        return X.call(rest, "uint" if PRIMS[prim].rule == "count" else X.name(out), *c.all_typed())
    if head == "p":
        floats = (X.as_type(a, "float") for a in c.all_typed())
        return X.as_type(X.call(f"precise::{rest}", "float", *floats), X.name(out))
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


def _bits(c: Ctx, op: str) -> Expr:
    a, b = c.all_typed()
    return _narrow(c, X.binary(op, X.name(c.t), a, b))


def _count(c: Ctx) -> Expr:
    """The count of a shift."""
    b = c.typed(1)
    return b if b.known is None else Expr(str(b.known), X.PRIMARY, "int", 0)


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


# --- conversions ------------------------------------------------------------------------------------------------------


def _cast(c: Ctx) -> Expr:
    a, s, d = c.typed(0), c.t, c.out
    to = X.name(d)
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
    "@negate": _negate,
    "@extreme": lambda c, sign: X.extreme(sign, X.name(c.out), *c.all_typed()),
    "@bits": _bits,
    "@not": _not,
    "@not_truth": lambda c: X.prefix("!", "bool", c.args[0]),
    "@shl": _shl,
    "@shr": _shr,
    "@lshr": _lshr,
    "@select": lambda c: X.choose(c.typed(0), X.name(c.out), c.typed(1), c.typed(2)),
    "@cast": _cast,
    "@bitcast": _bitcast,
}
