"""Emits scalar primitives (`ir.prims`) as MSL expressions. The passes of `lower.devices.metal` replace the primitives
that have no spelling here.

MSL computes integers of less than 32 bits as int, so their results are converted back.
"""

from collections.abc import Callable

from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, u1

_PRECISE = ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan2", "tanh", "exp", "log", "pow")
# primitive on floats -> MSL's function, if it has another name
FUNCTIONS = {"abs": "fabs", "min": "fmin", "max": "fmax", "raw_mod": "precise::fmod"}
FUNCTIONS |= {name: name for name in ("floor", "ceil", "trunc", "round", "isnan", "isinf")}
FUNCTIONS |= {name: f"precise::{name}" for name in _PRECISE}
_MODULAR = {"add": "+", "sub": "-", "mul": "*"}  # primitive -> operator that wraps around for integers
_ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
OPERATORS = {
    "f": {**_MODULAR, "div": "/", "raw_div": "/", **_ORDER},
    "i": {"quot": "/", "rem": "%", "and": "&", "or": "|", "xor": "^", **_ORDER},
    "b": {"and": "&&", "or": "||", "xor": "!=", "eq": "==", "ne": "!="},
}


def emit(prim: str, out: DType, types: tuple[DType, ...], args: tuple[Expr, ...]) -> Expr:
    """The result of the primitive. Operands and the result have the MSL types of their dtypes, except that integers may
    have the unsigned type of the same width."""
    t = types[1] if PRIMS[prim].rule == "select" else types[0]
    own = X.name(out)
    typed = tuple(X.as_type(a, X.name(s)) for a, s in zip(args, types, strict=True))
    kind = "f" if t.is_float else "b" if t is u1 else "i"
    if prim in OPERATORS[kind]:
        e = X.binary(OPERATORS[kind][prim], own, *typed)
    elif kind == "f" and prim in FUNCTIONS:
        return _call(FUNCTIONS[prim], own, typed)
    elif prim in _MODULAR:
        e = _modular(_MODULAR[prim], t, *args)
    else:
        e = _OTHERS[prim](out, t, args, typed)
    short = out.is_int and out.bits < 32 and prim not in _CONVERSIONS
    return X.call(own, own, e) if short else e


def _call(function: str, own: str, args: tuple[Expr, ...]) -> Expr:
    """A call on floats; a precise function exists only for float."""
    if not function.startswith("precise"):
        return X.call(function, own, *args)
    return X.as_type(X.call(function, "float", *(X.as_type(a, "float") for a in args)), own)


def _modular(op: str, t: DType, a: Expr, b: Expr) -> Expr:
    """A sum, difference or product modulo a power of two. It is computed unsigned, because signed overflow is undefined
    in MSL; one unsigned operand is enough."""
    own = X.name(t)
    if t.bits < 32:  # computed in int, which only a product of two ushort overflows
        return X.binary(op, "uint", X.as_type(a, "uint"), b) if op == "*" else X.binary(op, "int", a, b)
    whole = X.UNSIGNED[own]
    if b.known is not None and b.known < 0 and op != "*":
        op, b = "-" if op == "+" else "+", Expr(f"{-b.known}", X.PRIMARY, own, -b.known)
    if whole not in (a.type, b.type):
        if b.known is not None:
            b = X.unsigned(b)
        else:
            a = X.unsigned(a)
    a, b = (a, X.narrow(b)) if a.type == whole else (X.narrow(a), b)
    return X.binary(op, whole, a, b)


def _negate(out: DType, t: DType, args: tuple[Expr, ...], typed: tuple[Expr, ...]) -> Expr:
    if t.is_float or t.bits < 32:
        return X.prefix("-", X.name(t) if t.is_float else "int", args[0])
    whole = X.UNSIGNED[X.name(t)]
    return X.binary("-", whole, Expr("0u" if t.bits == 32 else "0ul", X.PRIMARY, whole), args[0])


def _shift(op: str, unsigned: bool) -> Callable[..., Expr]:
    def shift(out: DType, t: DType, args: tuple[Expr, ...], typed: tuple[Expr, ...]) -> Expr:
        a, n = typed
        whole = X.name(t)
        if unsigned:
            whole = X.UNSIGNED[whole] if op == ">>" else "ulong" if t.bits == 64 else "uint"
        count = n if n.known is None else Expr(str(n.known), X.PRIMARY, "int", 0)
        return X.binary(op, whole, X.as_type(a, whole), count)

    return shift


def _cast(out: DType, t: DType, args: tuple[Expr, ...], typed: tuple[Expr, ...]) -> Expr:
    """Emits a conversion. An integer that was computed unsigned is converted only once."""
    to = X.name(out)
    direct = t.is_int and out.is_int and t.bits == out.bits and X.UNSIGNED[to] == args[0].type
    return X.as_type(args[0] if direct else typed[0], to)


def _bitcast(out: DType, t: DType, args: tuple[Expr, ...], typed: tuple[Expr, ...]) -> Expr:
    to = X.name(out)
    return X.as_type(typed[0], to) if t.is_float == out.is_float else X.call(f"as_type<{to}>", to, *typed)


# operations whose results already have the type of their dtype
_CONVERSIONS = ("cast", "bitcast", "fptoint", "select", "min", "max", "popcnt", "clz")
_OTHERS: dict[str, Callable[..., Expr]] = {
    "neg": _negate,
    "not": lambda out, t, args, typed: X.prefix("!" if t is u1 else "~", X.name(out), typed[0]),
    "min": lambda out, t, args, typed: X.extreme("<", X.name(out), *typed),
    "max": lambda out, t, args, typed: X.extreme(">", X.name(out), *typed),
    "shl": _shift("<<", True),
    "shr": _shift(">>", False),
    "lshr": _shift(">>", True),
    "popcnt": lambda out, t, args, typed: X.call("popcount", "uint", *typed),
    "clz": lambda out, t, args, typed: X.call("clz", "uint", *typed),
    "select": lambda out, t, args, typed: X.choose(typed[0], X.name(out), *typed[1:]),
    "cast": _cast,
    "fptoint": _cast,
    "bitcast": _bitcast,
}
