"""Emits primitives (`ir.prims`), conversions, loads and stores as instructions of WebAssembly."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from quadrants_lab.backends.lower.expression import Scope, X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, f16, f32, u32

Body = Any  # stands for `emitter.Body`: the emitter imports this module
TYPES = {
    **dict.fromkeys(("u1", "i8", "u8", "i16", "u16", "i32", "u32"), "i32"), "i64": "i64", "u64": "i64",
    "f16": "f32", "f32": "f32", "f64": "f64",
}  # fmt: skip
LOADS = {
    "u1": "i32.load8_u", "i8": "i32.load8_s", "u8": "i32.load8_u", "i16": "i32.load16_s", "u16": "i32.load16_u",
    "f16": "i32.load16_u", **{name: f"{TYPES[name]}.load" for name in ("i32", "u32", "i64", "u64", "f32", "f64")},
}  # fmt: skip
STORES = {name: re.sub(r"load(\d*).*", r"store\1", load) for name, load in LOADS.items()}
_SAME = {"raw_div": "div", "quot": "div"}  # primitive -> name of its instruction, where they differ
_SIGNED = ("quot", "rem", "shr", "lt", "le", "gt", "ge")  # these instructions have a variant _s and a variant _u
_NORMAL = ("add", "sub", "mul", "shl")  # operations whose results may not fit in a short integer
_ROUNDED = ("add", "sub", "mul", "div", "raw_div", "sqrt")  # operations whose results f16 may not represent


def word(text: str) -> str:
    """A text with the characters that a name may have."""
    return re.sub(r"[^\w.]", "_", text)


def constant(t: DType, value: Any) -> Any:
    """The immediate of a constant; integers are signed."""
    if t.is_float:
        return float(np.float32(t.numpy(value))) if t.bits < 64 else float(value)
    bits = 64 if t.bits == 64 else 32
    n = int(value) & ((1 << bits) - 1)
    return n - (1 << bits) if n >> (bits - 1) else n


def emit(b: Body, prim: str, out: DType, t: DType, args: tuple[int, ...]) -> None:
    """Pushes the result of a primitive; ``t``: the dtype of the last operand."""
    if prim in _OTHERS:
        _OTHERS[prim](b, out, t, args)
        return
    b.get(*args)
    own, name = TYPES[t.name], _SAME.get(prim, prim)
    b.put(f"{own}.{name}" + ("_s" if t.kind == "i" else "_u") * (prim in _SIGNED and not t.is_float))
    if prim in _NORMAL:
        normal(b, out)
    if out is f16 and prim in _ROUNDED:
        rounded(b)


def normal(b: Body, t: DType) -> None:
    """Reduces the value on the stack to its low bits, as many as a short integer of dtype ``t`` has."""
    if t.kind == "i" and t.bits < 32:
        b.put(f"i32.extend{t.bits}_s")
    elif t.kind == "u" and t.bits < 32:
        b.put("i32.const", (1 << t.bits) - 1)
        b.put("i32.and")


def rounded(b: Body) -> None:
    """Rounds the value on the stack to the nearest f16."""
    b.helper("half_bits")
    b.helper("half_value")


# --- the others -----------------------------------------------------------------------------------------------------


def _select(b: Body, out: DType, t: DType, args: tuple[int, ...]) -> None:
    cond, a, c = args
    b.get(a, c, cond)
    b.put("select")


def _cast(b: Body, out: DType, t: DType, args: tuple[int, ...]) -> None:
    to, own, sign = TYPES[out.name], TYPES[t.name], "s" if t.kind == "i" else "u"
    b.get(*args)
    if t.is_float and out.is_float:
        if to != own:
            b.put(f"{to}.{'promote' if to == 'f64' else 'demote'}_{own}")
        if out is f16:
            rounded(b)
    elif out.is_float:
        b.put(f"{to}.convert_{own}_{sign}")
        if out is f16:
            rounded(b)
    elif t.is_float:
        b.put(f"{to}.trunc_sat_{own}_{'s' if out.kind == 'i' else 'u'}")
    else:
        if to != own:
            b.put("i32.wrap_i64" if to == "i32" else f"i64.extend_i32_{sign}")
        normal(b, out)


def _bitcast(b: Body, out: DType, t: DType, args: tuple[int, ...]) -> None:
    to, own = TYPES[out.name], TYPES[t.name]
    b.get(*args)
    if t is f16 and out is not f16:
        b.helper("half_bits")
    elif out is f16 and t is not f16:
        b.helper("half_value")
    elif to != own:
        b.put(f"{to}.reinterpret_{own}")
    normal(b, out)


_OTHERS: dict[str, Callable[..., None]] = {"select": _select, "cast": _cast, "fptoint": _cast, "bitcast": _bitcast}


# --- f16 ------------------------------------------------------------------------------------------------------------


@cache
def half(name: str) -> N.Function:
    """A function of the kernel that converts the bits of an f16 to an f32, or an f32 to the bits of the nearest f16."""
    s = Scope(u32, True)
    p = s.b.param(f32 if name == "half_bits" else u32, "x")
    with s.b.block() as block:
        s.b.yield_((made := _HALVES[name](X(s.b, p.id))).id)
    return N.Function(name, (p,), s.b.types[made.id], tuple(block))


def _bits(x: X) -> X:
    """The bits of the f16 nearest to an f32. Adding 0.5 rounds a number below 2**-14 to a multiple of 2**-24, because
    the last digit of 0.5 has the weight 2**-24."""
    bits = x.bitcast(u32)
    size = bits & 0x7FFFFFFF
    normal = (size + 0xFFF + (size.shr(13) & 1) - (112 << 23)).shr(13)
    tiny = (size.bitcast(f32) + 0.5).bitcast(u32) - 0x3F000000
    finite = (size < 0x38800000).select(tiny, (normal < 0x7C00).select(normal, normal.like(0x7C00)))
    return bits.shr(16) & 0x8000 | (size > 0x7F800000).select(size.like(0x7E00), finite)


def _value(h: X) -> X:
    """The f32 with the value of an f16 whose bits are given. Digits and exponent are shifted by 13 bits. The factor
    2**112 corrects the exponent's offset from 15 to 127, for denormals as well."""
    size = (h & 0x7FFF).shl(13)
    moved = ((h & 0x7C00) == 0x7C00).select(size | 0x7F800000, (size.bitcast(f32) * 2.0**112).bitcast(u32))
    return (moved | (h & 0x8000).shl(16)).bitcast(f32)


_HALVES = {"half_bits": _bits, "half_value": _value}
