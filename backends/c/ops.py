"""Scalar primitives: from the table's meaning (`ir.prims`) to expressions of C.

Signed integers wrap (-fwrapv). C computes what is shorter than an int as int, and f16 as float: such results are
converted back, each by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends._clike import expr as X
from quadrants_lab.backends._clike.expr import Expr
from quadrants_lab.backends.lower.casts import lower_casts, lower_formulas
from quadrants_lab.backends.lower.functions import lower_math
from quadrants_lab.backends.lower.integers import lower_counts, lower_division, lower_integers
from quadrants_lab.backends.lower.random import lower_random
from quadrants_lab.ir.nodes import Pass
from quadrants_lab.ir.types import UNSIGNED, DType, f16, f32, f64, u1

if TYPE_CHECKING:
    from quadrants_lab.backends.c.body import Body

TYPES = {
    "u1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f16": "_Float16", "f32": "float", "f64": "double",
}  # fmt: skip
_SUFFIXES = {"i64": "LL", "u32": "U", "u64": "ULL", "f32": "f"}

OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "raw_div": "/", "quot": "/", "rem": "%", "and": "&", "or": "|",
    "xor": "^", "shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_ON_TRUTH = {"and": "&&", "or": "||", "xor": "!="}
_PREFIXES = {"neg": "-", "not": "~"}
# the C library's, whose names end in f where they take a float
_SAME = "sqrt sin cos tan asin acos atan2 tanh exp log log1p pow floor ceil trunc round"
FUNCTIONS = {"abs": "fabs", "min": "fmin", "max": "fmax", "raw_mod": "fmod", **{name: name for name in _SAME.split()}}
# of integers: bodies of functions of our own
_HELPERS = {"min": "a < b ? a : b", "max": "a > b ? a : b", "abs": "a < 0 ? -a : a"}

LOWERING: tuple[Pass, ...] = (
    lower_random,
    lower_math(),
    lower_formulas("rsqrt", "custom_jvp"),
    lower_division(calls=True),
    lower_integers,
    lower_counts,
    lower_casts(calls=True),
)  # what has no spelling here


def literal(t: DType, value: Any) -> Expr:
    """A constant of the dtype."""
    if t is u1:
        return Expr("true" if value else "false", X.PRIMARY, "bool", bool(value))
    if t.is_float:
        x = float(t.numpy(value))
        text = str(t.numpy(value) if t is f64 else np.float32(x)) + _SUFFIXES["f32"] * (t is not f64)
        if not np.isfinite(x):
            text = "NAN" if np.isnan(x) else "INFINITY" if x > 0 else "-INFINITY"
        e = Expr(text, X.UNARY if text[0] == "-" else X.PRIMARY, TYPES[t.name], value)
        return convert(f16, e) if t is f16 else e
    least = t.kind == "i" and t.bits >= 32 and int(value) == -(1 << (t.bits - 1))  # its digits alone are no literal
    text = f"INT{t.bits}_MIN" if least else f"{int(value)}{_SUFFIXES.get(t.name, '')}"
    return Expr(text, X.UNARY if text[0] == "-" else X.PRIMARY, TYPES[t.name], int(value))


def convert(t: DType, e: Expr) -> Expr:
    return X.prefix(f"({TYPES[t.name]})", TYPES[t.name], e)


def emit(b: Body, prim: str, out: DType, t: DType, args: tuple[Expr, ...]) -> Expr:
    """The primitive's result; ``t``: the dtype of its operands, of select that of the last one."""
    e = _emit(b, prim, out, t, args)
    rounded = prim not in _EXACT if out is f16 else prim in _WRAP and out.is_int and out.bits < 32
    return convert(out, e) if rounded else e


_WRAP = ("add", "sub", "mul", "neg", "not", "shl")  # of short integers they may leave their dtype
_EXACT = ("cast", "bitcast", "select")


def _emit(b: Body, prim: str, out: DType, t: DType, args: tuple[Expr, ...]) -> Expr:
    a, own = args[0], TYPES[out.name]
    if prim in OPERATORS:
        return X.binary(_ON_TRUTH.get(prim, OPERATORS[prim]) if t is u1 else OPERATORS[prim], own, a, args[1])
    if prim in _PREFIXES:
        return X.prefix("!" if t is u1 else _PREFIXES[prim], own, a)
    if t.is_float and prim in FUNCTIONS:
        return X.call(FUNCTIONS[prim] + "f" * (t is not f64), own, *args)
    if prim in _HELPERS:
        return a if prim == "abs" and t.kind == "u" else _own(b, f"qd_{prim}_{t}", t, t, _HELPERS[prim], *args)
    other: Expr = _OTHERS[prim](b, out, t, args)
    return other


def _own(b: Body, name: str, out: DType, t: DType, result: str, *args: Expr) -> Expr:
    """A call of a function that the source gets."""
    params = ", ".join(f"{TYPES[t.name]} {p}" for p in "ab"[: len(args)])
    text = f"static inline {TYPES[out.name]} {name}({params}) {{ {result if ';' in result else f'return {result};'} }}"
    return X.call(b.unit.helper(name, text), TYPES[out.name], *args)


def _cast(b: Body, out: DType, t: DType, args: tuple[Expr, ...]) -> Expr:
    return convert(out, convert(f32, args[0]) if t is f16 and out is f64 else args[0])


def bitcast(b: Body, out: DType, t: DType, args: tuple[Expr, ...]) -> Expr:
    if t.is_float == out.is_float:
        return convert(out, args[0])
    copy = f"{TYPES[out.name]} r; __builtin_memcpy(&r, &a, sizeof r); return r;"
    return _own(b, f"qd_{out}_of_{t}", out, t, copy, *args)


def _test(name: str) -> Any:
    return lambda b, out, t, args: X.call(name, "bool", convert(f32, args[0]) if t is f16 else args[0])


def _lshr(b: Body, out: DType, t: DType, args: tuple[Expr, ...]) -> Expr:
    if t.kind == "u":
        return X.binary(">>", TYPES[t.name], *args)
    return convert(out, X.binary(">>", "", convert(UNSIGNED[t.bits], args[0]), args[1]))


_OTHERS: dict[str, Any] = {
    "select": lambda b, out, t, args: X.choose(args[0], TYPES[out.name], args[1], args[2]),
    "cast": _cast,
    "fptoint": _cast,
    "bitcast": bitcast,
    "lshr": _lshr,
    "isnan": _test("isnan"),
    "isinf": _test("isinf"),
    "popcnt": lambda b, out, t, args: X.call("__builtin_popcount", "int", *args),
    "clz": lambda b, out, t, args: _own(b, "qd_clz", out, t, "a == 0 ? 32 : __builtin_clz(a)", *args),
}
