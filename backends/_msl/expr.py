"""Builds expressions of MSL, with their types.

Signed integers wrap around, but overflow of a signed sum is undefined in MSL. So sums are computed unsigned (``uint(a)
+ b``, ``a + 1u``) and converted where they are assigned or where the sign matters.
"""

from dataclasses import replace
from typing import Any

from quadrants_lab.backends._clike.expr import *  # re-exported
from quadrants_lab.backends._clike.expr import PRIMARY, UNARY, Expr, call, digits
from quadrants_lab.ir.types import DType, f16, f32, u1

NAMES: dict[str, str] = {
    "u1": "bool", "i8": "char", "i16": "short", "i32": "int", "i64": "long", "u8": "uchar", "u16": "ushort",
    "u32": "uint", "u64": "ulong", "f16": "half", "f32": "float",
}  # fmt: skip
UNSIGNED: dict[str, str] = {
    "char": "uchar", "short": "ushort", "int": "uint", "long": "ulong", "uchar": "uchar", "ushort": "ushort",
    "uint": "uint", "ulong": "ulong", "half": "ushort", "float": "uint",
}  # fmt: skip


def name(t: DType) -> str:
    """The dtype's type in MSL."""
    return NAMES[t.name]


def as_type(e: Expr, t: str) -> Expr:
    """The expression converted to that type."""
    if e.type == t:
        return e
    same = UNSIGNED.get(e.type) == UNSIGNED.get(t)
    return replace(call(t, t, e), known=e.known if same else None, source=e)


def unsigned(e: Expr) -> Expr:
    """An integer converted to the unsigned type of its width."""
    t = UNSIGNED[e.type]
    if e.known is not None and t in ("uint", "ulong"):
        bits = 32 if t == "uint" else 64
        return replace(e, text=f"{e.known & ((1 << bits) - 1)}{'u' if t == 'uint' else 'ul'}", level=PRIMARY, type=t)
    return as_type(narrow(e), t)


def narrow(e: Expr) -> Expr:
    """If the expression extends a 32-bit integer to 64 bits, that integer, for a place that extends it again; else the
    expression."""
    wide = e.type in ("long", "ulong")
    return e.source if wide and e.source is not None and e.source.type in ("int", "uint") else e


def literal(t: DType, value: Any) -> Expr:
    """A constant of the dtype."""
    spelled = name(t)
    if t is u1:
        return Expr("true" if value else "false", PRIMARY, spelled, bool(value))
    if t.is_float:
        text = digits(f32.numpy(value), "f")
        if t is f16:
            return Expr(f"half({text})", PRIMARY, spelled, value)
        return Expr(text, PRIMARY if text[0] != "-" else UNARY, spelled, value)
    value = int(value)
    if t.bits < 32:
        return Expr(f"{spelled}({value})", PRIMARY, spelled, value)
    suffix = {"int": "", "uint": "u", "long": "l", "ulong": "ul"}[spelled]
    # a literal has no sign, and without it this number is too large for the type
    if t.kind == "i" and value == -(1 << (t.bits - 1)):
        return Expr(f"{spelled}(1{UNSIGNED[spelled][0]}{suffix} << {t.bits - 1})", PRIMARY, spelled, value)
    return Expr(f"{value}{suffix}", PRIMARY if value >= 0 else UNARY, spelled, value)
