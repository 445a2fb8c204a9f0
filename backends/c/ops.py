"""Emits primitives (`ir.prims`) as expressions of C.

Signed integers wrap (-fwrapv). C computes integers that are shorter than an int as int, and f16 as float; each such
result is converted back.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants_lab.backends._clike import expr as X
from quadrants_lab.backends._clike.expr import Expr
from quadrants_lab.ir.types import UNSIGNED, DType, f16, f32, f64, u1

TYPES = {
    "u1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f16": "_Float16", "f32": "float", "f64": "double",
}  # fmt: skip
_SUFFIXES = {"i64": "LL", "u32": "U", "u64": "ULL"}
OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "raw_div": "/", "quot": "/", "rem": "%", "and": "&", "or": "|",
    "xor": "^", "shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_ON_TRUTH = {**OPERATORS, "and": "&&", "or": "||", "xor": "!="}
_SAME = "sqrt sin cos tan asin acos atan2 tanh exp log log1p pow floor ceil trunc round"
# primitive -> function of the C library; for f32 its name ends in f
FUNCTIONS = {"abs": "fabs", "min": "fmin", "max": "fmax", "raw_mod": "fmod", **{name: name for name in _SAME.split()}}
# operations whose results may not fit in a dtype shorter than an int
_WRAP = ("add", "sub", "mul", "neg", "not", "shl")
_EXACT = ("cast", "bitcast", "select")



def literal(t: DType, value: Any) -> Expr:
    """A constant of the dtype."""
    if t.is_float:
        x = t.numpy(value) if t is f64 else np.float32(t.numpy(value))
        text = X.digits(x, "f" * (t is not f64))
    elif t.kind == "i" and t.bits >= 32 and value == -(1 << (t.bits - 1)):
        # C has no negative literals, and without its sign this number is too large for the type
        text = f"INT{t.bits}_MIN"
    else:
        text = f"{int(value)}{_SUFFIXES.get(t.name, '')}" if t is not u1 else "true" if value else "false"
    e = Expr(text, X.UNARY if text[0] == "-" else X.PRIMARY, TYPES[t.name], value)
    return convert(f16, e) if t is f16 else e


def convert(t: DType, e: Expr) -> Expr:
    return X.prefix(f"({TYPES[t.name]})", TYPES[t.name], e)


def emit(prim: str, out: DType, t: DType, *args: Expr) -> Expr:
    """Makes the expression of a primitive's result; ``t``: the dtype of the last operand."""
    own = TYPES[out.name]
    if prim in OPERATORS:
        e = X.binary((_ON_TRUTH if t is u1 else OPERATORS)[prim], own, *args)
    elif t.is_float and prim in FUNCTIONS:
        e = X.call(FUNCTIONS[prim] + "f" * (t is not f64), own, *args)
    else:
        e = _OTHERS[prim](out, t, *args)
    rounded = prim not in _EXACT if out is f16 else prim in _WRAP and out.is_int and out.bits < 32
    return convert(out, e) if rounded else e


def _cast(out: DType, t: DType, a: Expr) -> Expr:
    return convert(out, convert(f32, a) if t is f16 and out is f64 else a)


def _bitcast(out: DType, t: DType, a: Expr) -> Expr:
    if t.is_float == out.is_float:
        return convert(out, a)
    return X.made(f"((Word){{.{t} = {a.text}}}).{out}", X.PRIMARY, TYPES[out.name], a)


def _lshr(out: DType, t: DType, a: Expr, n: Expr) -> Expr:
    e = X.binary(">>", TYPES[out.name], a if t.kind == "u" else convert(UNSIGNED[t.bits], a), n)
    return e if t.kind == "u" else convert(out, e)


def _call(name: str) -> Callable[..., Expr]:
    return lambda out, t, a: X.call(name, TYPES[out.name], convert(f32, a) if t is f16 else a)


_OTHERS: dict[str, Callable[..., Expr]] = {
    "neg": lambda out, t, a: X.prefix("-", TYPES[out.name], a),
    "not": lambda out, t, a: X.prefix("!" if t is u1 else "~", TYPES[out.name], a),
    "min": lambda out, t, a, b: X.extreme("<", TYPES[out.name], a, b),
    "max": lambda out, t, a, b: X.extreme(">", TYPES[out.name], a, b),
    "select": lambda out, t, c, a, b: X.choose(c, TYPES[out.name], a, b),
    "cast": _cast,
    "fptoint": _cast,
    "bitcast": _bitcast,
    "lshr": _lshr,
    "popcnt": _call("__builtin_popcount"),
    "clz": lambda out, t, a: X.choose(a, TYPES[out.name], _call("__builtin_clz")(out, t, a), literal(out, 32)),
}
