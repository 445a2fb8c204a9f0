"""Vector instructions of AMD's GPUs: what each lane of a wave computes."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from rigs.gcn_text import VCC, Instruction, Operand
from rigs.gcn_wave import F16, F32, F64, I32, I64, U32, U64, Array, Wave


def _u(x: Any) -> Array:
    return np.asarray(x).astype(U32)


def _fma32(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(F64) * b.astype(F64) + c.astype(F64)).astype(F32)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """The product's error by Veltkamp's splitting, the sum's by Knuth's; near the ends of the range by fractions."""
    p = a * b
    scale = F64(134217729.0)
    ah, bh = a * scale - (a * scale - a), b * scale - (b * scale - b)
    al, bl = a - ah, b - bh
    low = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    s = p + c
    t = s - p
    lost = (p - (s - t)) + (c - t)
    out = np.where(np.isfinite(s + (lost + low)), s + (lost + low), s)
    size = np.maximum(np.abs(a), np.maximum(np.abs(b), np.abs(p)))
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for n in np.flatnonzero(finite & ((size > 1e290) | (np.abs(p) < 1e-250) & (a != 0) & (b != 0))):
        try:
            exact = Fraction(float(a[n])) * Fraction(float(b[n])) + Fraction(float(c[n]))
            out[n] = float(exact) if exact else s[n]
        except OverflowError:
            out[n] = np.inf if exact > 0 else -np.inf
    return out


def _signed(bits: int) -> Callable[[Array, Array, Array], Array]:
    form = I32 if bits == 32 else I64

    def extract(x: Array, at: Array, n: Array) -> Array:
        at, n = at.astype(form) & (bits - 1), n.astype(form) & (bits - 1)
        return np.where(n == 0, 0, (x << (bits - at - n)) >> (bits - n)).astype(form)

    return extract


def _bfe(x: Array, at: Array, n: Array) -> Array:
    return (x >> (at & U32(31))) & ((U32(1) << (n & U32(31))) - U32(1))


def _saturate(form: type) -> Callable[[Array], Array]:
    info = np.iinfo(form)

    def convert(x: Array) -> Array:
        y = np.trunc(np.nan_to_num(x.astype(F64), nan=0.0, posinf=1e300, neginf=-1e300))
        return np.where(y >= info.max, info.max, np.where(y <= info.min, info.min, y)).astype(form)

    return convert


def _high(form: type) -> Callable[[Array, Array], Array]:
    return lambda a, b: ((a.astype(form) * b.astype(form)) >> form(32)).astype(form).view(U64).astype(U32)


def _leading(signed: bool) -> Callable[[Array], Array]:
    """How many bits in front are alike (those that are 0, if not signed); all ones where all are."""

    def count(x: Array) -> Array:
        values = [int(v) ^ 0xFFFFFFFF if signed and int(v) >> 31 else int(v) for v in x.view(U32)]
        return _u([32 - v.bit_length() if v else 0xFFFFFFFF for v in values])

    return count


def _trailing(x: Array) -> Array:
    return _u([(int(v) & -int(v)).bit_length() - 1 if v else 0xFFFFFFFF for v in x])


def _median(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


_SHIFT32, _SHIFT64 = U32(31), U64(63)
VALU: dict[str, tuple[tuple[type, ...], Callable[..., Array]]] = {
    "v_mov_b32": ((U32,), lambda a: a), "v_mov_b64": ((U64,), lambda a: a), "v_not_b32": ((U32,), np.invert),
    "v_bfrev_b32": ((U32,), lambda a: _u([int(f"{int(x):032b}"[::-1], 2) for x in a])),
    "v_bcnt_u32_b32": ((U32, U32), lambda a, b: _u([bin(int(x)).count("1") for x in a]) + b),
    "v_ffbh_u32": ((U32,), _leading(False)), "v_clz_i32_u32": ((U32,), _leading(False)),
    "v_ffbh_i32": ((I32,), _leading(True)), "v_cls_i32": ((I32,), _leading(True)),
    "v_ffbl_b32": ((U32,), _trailing), "v_ctz_i32_b32": ((U32,), _trailing),
    "v_and_b32": ((U32, U32), np.bitwise_and), "v_or_b32": ((U32, U32), np.bitwise_or),
    "v_xor_b32": ((U32, U32), np.bitwise_xor), "v_and_or_b32": ((U32,) * 3, lambda a, b, c: a & b | c),
    "v_or3_b32": ((U32,) * 3, lambda a, b, c: a | b | c), "v_xad_u32": ((U32,) * 3, lambda a, b, c: (a ^ b) + c),
    "v_bfi_b32": ((U32,) * 3, lambda m, a, b: m & a | ~m & b), "v_bfe_u32": ((U32,) * 3, _bfe),
    "v_bfe_i32": ((I32,) * 3, _signed(32)),
    "v_alignbit_b32": ((U32,) * 3, lambda a, b, s: _u((a.astype(U64) << U64(32) | b) >> (s & _SHIFT32).astype(U64))),
    "v_bfm_b32": ((U32, U32), lambda n, at: ((U32(1) << (n & _SHIFT32)) - U32(1)) << (at & _SHIFT32)),
    "v_lshlrev_b32": ((U32, U32), lambda s, a: a << (s & _SHIFT32)),
    "v_lshrrev_b32": ((U32, U32), lambda s, a: a >> (s & _SHIFT32)),
    "v_ashrrev_i32": ((U32, I32), lambda s, a: a >> (s & _SHIFT32).astype(I32)),
    "v_lshlrev_b64": ((U32, U64), lambda s, a: a << (s.astype(U64) & _SHIFT64)),
    "v_lshrrev_b64": ((U32, U64), lambda s, a: a >> (s.astype(U64) & _SHIFT64)),
    "v_ashrrev_i64": ((U32, I64), lambda s, a: a >> (s & U32(63)).astype(I64)),
    "v_lshl_add_u32": ((U32,) * 3, lambda a, s, b: (a << (s & _SHIFT32)) + b),
    "v_lshl_or_b32": ((U32,) * 3, lambda a, s, b: a << (s & _SHIFT32) | b),
    "v_add_lshl_u32": ((U32,) * 3, lambda a, b, s: (a + b) << (s & _SHIFT32)),
    "v_lshl_add_u64": ((U64, U32, U64), lambda a, s, b: (a << s.astype(U64)) + b),
    "v_add_u32": ((U32, U32), np.add), "v_add_nc_u32": ((U32, U32), np.add),
    "v_add3_u32": ((U32,) * 3, lambda a, b, c: a + b + c),
    "v_sub_u32": ((U32, U32), np.subtract), "v_sub_nc_u32": ((U32, U32), np.subtract),
    "v_subrev_u32": ((U32, U32), lambda a, b: b - a), "v_subrev_nc_u32": ((U32, U32), lambda a, b: b - a),
    "v_mul_lo_u32": ((U32, U32), np.multiply), "v_mul_hi_u32": ((U32, U32), _high(U64)),
    "v_mul_hi_i32": ((I32, I32), _high(I64)),
    "v_mul_u32_u24": ((U32, U32), lambda a, b: (a & U32(0xFFFFFF)) * (b & U32(0xFFFFFF))),
    "v_mul_i32_i24": ((I32, I32), lambda a, b: (a << 8 >> 8) * (b << 8 >> 8)),
    "v_mul_hi_u32_u24": ((U32, U32), lambda a, b: _high(U64)(a & U32(0xFFFFFF), b & U32(0xFFFFFF))),
    "v_mad_u32_u24": ((U32,) * 3, lambda a, b, c: (a & U32(0xFFFFFF)) * (b & U32(0xFFFFFF)) + c),
    "v_min_u32": ((U32, U32), np.minimum), "v_max_u32": ((U32, U32), np.maximum),
    "v_min_i32": ((I32, I32), np.minimum), "v_max_i32": ((I32, I32), np.maximum), "v_med3_i32": ((I32,) * 3, _median),
    "v_med3_u32": ((U32,) * 3, _median),
    "v_min3_u32": ((U32,) * 3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_max3_u32": ((U32,) * 3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_min3_i32": ((I32,) * 3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_max3_i32": ((I32,) * 3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_cvt_f32_i32": ((I32,), lambda a: a.astype(F32)), "v_cvt_f32_u32": ((U32,), lambda a: a.astype(F32)),
    "v_cvt_f64_i32": ((I32,), lambda a: a.astype(F64)), "v_cvt_f64_u32": ((U32,), lambda a: a.astype(F64)),
    "v_cvt_f32_f64": ((F64,), lambda a: a.astype(F32)), "v_cvt_f64_f32": ((F32,), lambda a: a.astype(F64)),
    "v_cvt_i32_f32": ((F32,), _saturate(I32)), "v_cvt_u32_f32": ((F32,), _saturate(U32)),
    "v_cvt_i32_f64": ((F64,), _saturate(I32)), "v_cvt_u32_f64": ((F64,), _saturate(U32)),
    "v_cvt_f32_ubyte0": ((U32,), lambda a: (a & U32(255)).astype(F32)),
    "v_fmaak_f32": ((F32,) * 3, _fma32), "v_fmamk_f32": ((F32,) * 3, lambda a, k, b: _fma32(a, k, b)),
    "v_madak_f32": ((F32,) * 3, lambda a, b, k: a * b + k), "v_madmk_f32": ((F32,) * 3, lambda a, k, b: a * k + b),
    "v_mad_f32": ((F32,) * 3, lambda a, b, c: a * b + c), "v_fma_f32": ((F32,) * 3, _fma32),
    "v_fma_f64": ((F64,) * 3, _fma64),
    "v_med3_f32": ((F32,) * 3, _median), "v_ldexp_f64": ((F64, I32), np.ldexp), "v_ldexp_f32": ((F32, I32), np.ldexp),
}  # fmt: skip
VALU |= {
    "v_add_f16": ((F16, F16), np.add), "v_sub_f16": ((F16, F16), np.subtract), "v_mul_f16": ((F16, F16), np.multiply),
    "v_cvt_f32_f16": ((F16,), lambda a: a.astype(F32)), "v_cvt_f16_f32": ((F32,), lambda a: a.astype(F16)),
}  # fmt: skip
_LOW = U32(0xFFFF)
_ON_HALVES: dict[str, Callable[..., Array]] = {
    "mul_lo_u16": lambda a, b: a * b, "add_u16": lambda a, b: a + b, "add_nc_u16": lambda a, b: a + b,
    "sub_u16": lambda a, b: a - b, "sub_nc_u16": lambda a, b: a - b, "and_b16": lambda a, b: a & b,
    "or_b16": lambda a, b: a | b, "xor_b16": lambda a, b: a ^ b, "lshlrev_b16": lambda s, a: a << (s & U32(15)),
    "ashrrev_i16": lambda s, a: _u(a.astype(np.uint16).view(np.int16) >> (s & U32(15)).astype(np.int16)),
    "lshrrev_b16": lambda s, a: a >> (s & U32(15)), "max_u16": np.maximum, "min_u16": np.minimum,
}  # fmt: skip
VALU |= {
    f"v_{name}": ((U32, U32), lambda a, b, fn=fn: fn(a & _LOW, b & _LOW) & _LOW) for name, fn in _ON_HALVES.items()
}
VALU |= {f"v_{name}": ((U32,) * 3, lambda a, b, c: (a * b + c) & _LOW) for name in ("mad_u16", "mad_legacy_u16")}
VALU["v_mov_b16"] = ((U32,), lambda a: a & _LOW)
for bits, form in ((32, F32), (64, F64)):
    two: dict[str, Callable[..., Array]] = {
        "add": np.add, "sub": np.subtract, "subrev": lambda a, b: b - a, "mul": np.multiply, "min": np.fmin,
        "max": np.fmax,
    }  # fmt: skip
    one: dict[str, Callable[..., Array]] = {
        "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rndne": np.rint,
        "rcp_iflag": lambda a: a.dtype.type(1) / a, "rcp": lambda a: a.dtype.type(1) / a,
        "rsq": lambda a: a.dtype.type(1) / np.sqrt(a), "sqrt": np.sqrt, "fract": lambda a: a - np.floor(a),
    }  # fmt: skip
    VALU |= {f"v_{name}_f{bits}": ((form, form), fn) for name, fn in two.items()}
    VALU[f"v_minmax_f{bits}"] = ((form,) * 3, lambda a, b, c: np.fmax(np.fmin(a, b), c))
    VALU[f"v_maxmin_f{bits}"] = ((form,) * 3, lambda a, b, c: np.fmin(np.fmax(a, b), c))
    VALU[f"v_max3_f{bits}"] = ((form,) * 3, lambda a, b, c: np.fmax(np.fmax(a, b), c))
    VALU[f"v_min3_f{bits}"] = ((form,) * 3, lambda a, b, c: np.fmin(np.fmin(a, b), c))
    VALU |= {f"v_{name}_f{bits}": ((form,), fn) for name, fn in one.items()}
    # of a quotient in steps only the last one counts
    VALU[f"v_div_fmas_f{bits}"] = ((form,) * 3, _fma32 if bits == 32 else _fma64)
    VALU[f"v_div_fixup_f{bits}"] = ((form,) * 3, lambda q, b, a: a / b)
_COMPARE: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lg": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "neq": np.not_equal, "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b), "ngt": lambda a, b: ~(a > b), "nge": lambda a, b: ~(a >= b),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "u": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip
FORMS = {"u32": U32, "i32": I32, "f32": F32, "u64": U64, "i64": I64, "f64": F64}
_HALVES = {"u16": np.uint16, "i16": np.int16}
_CHOICES = ("v_cndmask_b32", "v_cndmask_b16")
_ACCUMULATE = {"v_fmac_f32": _fma32, "v_mac_f32": lambda a, b, c: a * b + c, "v_fmac_f64": _fma64}


def _of_class(x: Array, mask: Array) -> Array:
    """Whether a number is of one of the kinds that a mask names, a bit each."""
    least = np.finfo(x.dtype).tiny
    minus = np.signbit(x)
    tiny = (x != 0) & (np.abs(x) < least)
    plain = np.isfinite(x) & (np.abs(x) >= least)
    kinds = (
        np.zeros(x.shape, bool), np.isnan(x), np.isinf(x) & minus, plain & minus, tiny & minus, (x == 0) & minus,
        (x == 0) & ~minus, tiny & ~minus, plain & ~minus, np.isinf(x) & ~minus,
    )  # fmt: skip
    out = np.zeros(x.shape, bool)
    for n, kind in enumerate(kinds):
        out |= kind & (mask >> U32(n) & U32(1)).astype(bool)
    return out


def _part(x: Array, i: Instruction, n: int, first: int = 1) -> Array:
    """What an instruction takes of its n-th source: a byte or half of each word where it says so. The first source is
    the ``first``-th operand."""
    chosen, o = i.notes.get(f"src{n}_sel", "DWORD"), i.args[first + n]
    if chosen == "DWORD":
        return x
    part, _, which = chosen.partition("_")
    bits = {"BYTE": 8, "WORD": 16}[part]
    x = x >> U32(bits * int(which)) & U32((1 << bits) - 1)
    return (x ^ U32(1 << bits - 1)) - U32(1 << bits - 1) if o.extended else x


def _shifted(w: Wave, i: Instruction, x: Array) -> Array:
    """The first source, of the lane so many further in its row of 16 where the instruction says so."""
    shift = i.notes.get("row_shl")
    if shift is None:
        return x
    assert i.notes.get("bound_ctrl") == 1
    lane = np.arange(w.lanes)
    there = np.minimum(lane + shift, w.lanes - 1)
    good = ((lane + shift) // 16 == lane // 16) & w.mask[there]
    return np.where(good, x[there], x.dtype.type(0))


def _value(w: Wave, i: Instruction) -> Array:
    """The result of an instruction of `VALU`, or of one that accumulates."""
    if i.name in _ACCUMULATE:
        form = F64 if i.name.endswith("64") else F32
        return _ACCUMULATE[i.name](w.take(i.args[1], form), w.take(i.args[2], form), w.take(i.args[0], form))
    if i.name in _CHOICES:
        chosen = w.bools(w.scalar(i.args[3] if len(i.args) > 3 else Operand("s", VCC), w.lanes))
        return np.where(chosen, w.take(i.args[2], U32), w.take(i.args[1], U32))
    forms, fn = VALU[i.name]
    args = [w.take(o, f) for o, f in zip(i.args[1:], forms, strict=True)]
    args = [_part(x, i, n) for n, x in enumerate(args)]
    assert i.notes.get("dst_sel", "DWORD") == "DWORD"
    args[0] = _shifted(w, i, args[0])
    if "clamp" not in i.notes:
        return fn(*args)
    if i.name in ("v_add_u32", "v_add_nc_u32"):
        return np.minimum(args[0].astype(U64) + args[1], U64(0xFFFFFFFF)).astype(U32)
    if i.name in ("v_sub_u32", "v_sub_nc_u32"):
        return np.maximum(args[0].astype(I64) - args[1].astype(I64), I64(0)).astype(U32)
    if not i.name.endswith(("f32", "f64")):
        raise NotImplementedError(i.text)
    return np.clip(np.nan_to_num(fn(*args), nan=0.0), 0, 1).astype(forms[0])


def vector(w: Wave, i: Instruction) -> bool:
    """Runs an instruction on registers of lanes; False where there is no such instruction."""
    name, args = i.name, i.args
    if name in VALU or name in _ACCUMULATE or name in _CHOICES:
        halves = [(h, _value(w, h)) for h in (i, i.pair) if h is not None]  # both read before one writes
        for half, value in halves:
            w.put(half.args[0], value)
        return True
    if name == "v_swap_b32":
        first, second = (w.take(o, U32).copy() for o in args)
        w.put(args[0], second)
        w.put(args[1], first)
        return True
    if name in ("v_cmp_class_f32", "v_cmp_class_f64"):
        x = w.take(args[1], F64 if name.endswith("64") else F32)
        w.set_lanes(args[0], _of_class(x, w.take(args[2], U32)))
        return True
    compare = re.fullmatch(r"v_cmp(x?)_(\w+)_([uif]\d+)", name)
    if compare:
        a, b = (_part(w.take(o, FORMS.get(compare[3], U32)), i, n, len(args) - 2) for n, o in enumerate(args[-2:]))
        if compare[3] in _HALVES:
            a, b = (x.astype(np.uint16).view(_HALVES[compare[3]]) for x in (a, b))
        found = _COMPARE[compare[2]](a, b)
        if compare[1]:
            w.set_exec(w.bits(found & w.mask))
        else:
            w.set_lanes(args[0], found)
        return True
    carry = re.fullmatch(r"v_(add|sub|subrev)(c|b|brev)?_co(_ci)?_u32", name)
    if carry:
        a, b = _shifted(w, i, w.take(args[2], U32)).astype(I64), w.take(args[3], U32).astype(I64)
        if "rev" in name:
            a, b = b, a
        given = w.bools(w.scalar(args[4], w.lanes)).astype(I64) if len(args) > 4 else np.zeros(w.lanes, I64)
        total = a + b + given if carry[1] == "add" else a - b - given
        w.put(args[0], _u(total & 0xFFFFFFFF))
        w.set_lanes(args[1], (total < 0) | (total > 0xFFFFFFFF))
        return True
    if re.fullmatch(r"v_div_scale_f(32|64)", name):
        w.put(args[0], w.take(args[2], F64 if name.endswith("64") else F32))
        w.set_lanes(args[1], np.zeros(w.lanes, bool))
        return True
    if name in ("v_mad_u64_u32", "v_mad_i64_i32"):
        form, wide = (U32, U64) if name[6] == "u" else (I32, I64)
        w.put(args[0], w.take(args[2], form).astype(wide) * w.take(args[3], form).astype(wide) + w.take(args[4], wide))
        return True
    if name in ("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"):
        low = name[8] == "l"
        lane = np.arange(w.lanes)
        counted = np.minimum(lane, 32) if low else np.maximum(lane - 32, 0)
        masks = w.take(args[1], U32)
        bits = [bin(int(m) & ((1 << int(n)) - 1)).count("1") for m, n in zip(masks, counted, strict=True)]
        w.put(args[0], _u(bits) + w.take(args[2], U32))
        return True
    if name == "v_readfirstlane_b32":
        first = int(np.argmax(w.mask)) if w.mask.any() else 0
        w.set_scalar(args[0], int(w.take(args[1], U32)[first]))
        return True
    if name == "v_readlane_b32":
        w.set_scalar(args[0], int(w.take(args[1], U32)[w.scalar(args[2]) % w.lanes]))
        return True
    if name == "v_writelane_b32":
        w.v[args[0].at][w.scalar(args[2]) % w.lanes] = w.scalar(args[1])
        return True
    if name.startswith("v_pk_"):
        _packed(w, i)
        return True
    return False


def _packed(w: Wave, i: Instruction) -> None:
    """Two words side by side: the first comes of the operands' words that op_sel names, the second of op_sel_hi's."""
    chosen = (i.lists.get("op_sel", (0, 0, 0)), i.lists.get("op_sel_hi", (1, 1, 1)))
    if i.name == "v_pk_mov_b32":  # of which each word has one source
        chosen = ((chosen[0][0],), (0, i.lists.get("op_sel", (0, 1, 0))[1]))
    signs = (i.lists.get("neg_lo", (0, 0, 0)), i.lists.get("neg_hi", (0, 0, 0)))
    out = []
    for half in (0, 1):
        args = []
        for n, o in enumerate(i.args[1:]):
            if n >= len(chosen[half]):
                continue
            word = o._replace(at=o.at + chosen[half][n]) if o.kind != "i" else o
            x = w.take(word, F32)
            args.append(-x if signs[half][n] else x)
        out.append(args[half] if i.name == "v_pk_mov_b32" and half else args[0] if i.name == "v_pk_mov_b32" else
                   VALU[i.name.replace("_pk", "")][1](*args))  # fmt: skip
    for half, value in enumerate(out):
        w.put(i.args[0]._replace(at=i.args[0].at + half), value)
