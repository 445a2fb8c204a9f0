"""Scalar primitives: from the spelling in `prims.PRIMS` to instructions.

A spelling is an LLVM instruction, a comparison, an ``llvm.*`` intrinsic, or ``@name``, a row of `SEQUENCES` below.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants_lab.backends._llvm import ranges
from quadrants_lab.backends._llvm.ranges import Range
from quadrants_lab.backends._llvm.text import Function, Ty, constant, ty
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f16, f32, f64, i32, i64, u1, u8, u16, u32, u64

FAST = "reassoc contract arcp afn "
_COLUMN = {"f": 0, "i": 1, "b": 2, "u": 2}
_PREDICATES = {
    "fcmp": {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"},
    "icmp_signed": {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"},
    "icmp_unsigned": {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"},
}
_NO_WRAP = ("add", "sub", "mul")


class Ctx:
    """What a sequence sees: the function, operands with their types and ranges, and the result's type."""

    __slots__ = ("args", "fast", "fn", "out", "prim", "ranges", "types")

    def __init__(
        self,
        fn: Function,
        prim: str,
        out: Ty,
        types: tuple[Ty, ...],
        args: tuple[str, ...],
        ranges: tuple[Range | None, ...],
        fast: str,
    ) -> None:
        self.fn, self.prim, self.out, self.types, self.args, self.ranges, self.fast = (
            fn, prim, out, types, args, ranges, fast,
        )  # fmt: skip

    @property
    def t(self) -> Ty:
        """The type of the first operand."""
        return self.types[0]

    def two(self, op: str, a: str, b: str, t: Ty | None = None) -> str:
        return self.fn.let(f"{op} {(t or self.t).text} {a}, {b}")

    def const(self, value: int | float, t: Ty | None = None) -> str:
        return constant(t or self.t, value)

    def select(self, cond: str, a: str, b: str, t: Ty | None = None) -> str:
        t = t or self.t
        return self.fn.let(f"select {ty(u1, t.lanes).text} {cond}, {t.text} {a}, {t.text} {b}")

    def intrinsic(self, name: str, t: Ty, *args: tuple[str, str], fast: bool = True) -> str:
        flags = self.fast if fast and t.dtype.is_float else ""
        return self.fn.call(t.text, name, *args, flags=flags)

    def convert(self, op: str, value: str, source: Ty, target: Ty) -> str:
        return self.fn.let(f"{op} {source.text} {value} to {target.text}")


def emit(fn: Function, prim: str, out: Ty, types: tuple[Ty, ...], args: tuple[str, ...],
         known: tuple[Range | None, ...], flags: str) -> str:  # fmt: skip
    """Emits ``prim`` and returns the result's name.

    ``known`` are the ranges of the operands that are integers; ``flags`` the fast-math flags, each with its blank.
    """
    row = PRIMS[prim]
    t = types[1] if row.rule == "select" else types[0]
    if t.dtype is f16:
        flags = ""  # f32 computes it, rounded after each operation: a fused one would take f64
    if fn.module.own and t.dtype.is_float and prim in fn.module.own:
        return fn.module.own[prim](Ctx(fn, prim, out, types, args, known, flags))
    spelling = row.llvm[_COLUMN[t.dtype.kind]]
    if spelling[0] == "@":
        return SEQUENCES[spelling](Ctx(fn, prim, out, types, args, known, flags))
    if spelling.startswith("llvm."):
        flags = flags if t.dtype.is_float else ""
        return fn.call(t.text, f"{spelling}.{t.suffix}", *((t.text, a) for a in args), flags=flags)
    head, _, sign = spelling.partition(" ")
    if sign:
        return fn.let(f"{head[:4]} {_PREDICATES[head][sign]} {t.text} {args[0]}, {args[1]}")
    if spelling[0] == "f":
        return fn.let(f"{spelling} {flags}{t.text} {', '.join(args)}")
    if spelling in _NO_WRAP and ranges.exact(prim, known, t.dtype):
        spelling += " nsw" if t.dtype.kind == "i" else " nuw"
    return fn.let(f"{spelling} {t.text} {args[0]}, {args[1]}")


# --- integers ---------------------------------------------------------------------------------------------------


def _divide(c: Ctx, op: str) -> str:
    """Quotient or remainder toward zero; 0 for a zero divisor, and the wrapped result for INT_MIN by -1."""
    a, b = c.args
    low, high = c.ranges[1] or ranges.full(c.t.dtype)
    by_zero = c.two("icmp eq", b, c.const(0)) if low <= 0 <= high else ""
    by_minus = c.two("icmp eq", b, c.const(-1)) if op[0] == "s" and low <= -1 <= high else ""
    bad = c.two("or", by_zero, by_minus, ty(u1, c.t.lanes)) if by_zero and by_minus else by_zero or by_minus
    safe = c.select(bad, c.const(1), b) if bad else b
    q = c.two(op, a, safe)
    if by_minus:
        q = c.select(by_minus, c.two("sub", c.const(0), a) if op == "sdiv" else c.const(0), q)
    if by_zero:
        q = c.select(by_zero, c.const(0), q)
    return q


def _plain(c: Ctx) -> bool:
    """Both operands known not to be negative, and the divisor not zero: unsigned division is floor division."""
    a, b = c.ranges
    return a is not None and b is not None and a[0] >= 0 and b[0] > 0


def _off_floor(c: Ctx, remainder: str) -> str:
    """Where the remainder toward zero is not that of floor division: it is not 0 and its sign is not the divisor's."""
    signs = c.two("icmp slt", c.two("xor", remainder, c.args[1]), c.const(0))
    return c.two("and", c.two("icmp ne", remainder, c.const(0)), signs, ty(u1, c.t.lanes))


def _floordiv_i(c: Ctx) -> str:
    if _plain(c):
        return c.two("udiv", c.args[0], c.args[1])
    q = _divide(c, "sdiv")
    off = _off_floor(c, c.two("sub", c.args[0], c.two("mul", q, c.args[1])))
    if not ranges.excludes_zero(c.ranges[1]):  # the "remainder" of a division by zero is a itself
        off = c.two("and", off, c.two("icmp ne", c.args[1], c.const(0)), ty(u1, c.t.lanes))
    return c.select(off, c.two("sub", q, c.const(1)), q)


def _mod_i(c: Ctx) -> str:
    if _plain(c):
        return c.two("urem", c.args[0], c.args[1])
    r = _divide(c, "srem")
    return c.select(_off_floor(c, r), c.two("add", r, c.args[1]), r)


def _shift(op: str) -> Callable[[Ctx], str]:
    def sequence(c: Ctx) -> str:
        known, count = c.ranges[1], c.args[1]
        if known is None or not 0 <= known[0] <= known[1] < c.t.dtype.bits:
            count = c.two("and", count, c.const(c.t.dtype.bits - 1))
        return c.two(op, c.args[0], count)

    return sequence


def _count(intrinsic: str, extra: tuple[tuple[str, str], ...] = ()) -> Callable[[Ctx], str]:
    def sequence(c: Ctx) -> str:
        n = c.intrinsic(f"{intrinsic}.{c.t.suffix}", c.t, (c.t.text, c.args[0]), *extra)
        return _int_to_int(c, n, ty(_UNSIGNED[c.t.dtype.bits], c.t.lanes), c.out)

    return sequence


_POW = """\
define internal i64 @qd.pow(i64 %a, i64 %b) {
entry:
  br label %loop
loop:
  %r = phi i64 [1, %entry], [%r2, %loop]
  %x = phi i64 [%a, %entry], [%x2, %loop]
  %e = phi i64 [%b, %entry], [%e2, %loop]
  %odd = trunc i64 %e to i1
  %rx = mul i64 %r, %x
  %r2 = select i1 %odd, i64 %rx, i64 %r
  %x2 = mul i64 %x, %x
  %e2 = lshr i64 %e, 1
  %more = icmp ne i64 %e2, 0
  br i1 %more, label %loop, label %done
done:
  ret i64 %r2
}"""


def _pow_i(c: Ctx) -> str:
    """By squaring, modulo 2**64; a negative exponent gives 0 unless the base is 1 or -1."""
    assert c.t.lanes == 1
    c.fn.module.helper("qd.pow", _POW)
    wide = ty(i64)
    a, b = (_int_to_int(c, x, c.t, wide) for x in c.args)
    power = c.fn.call("i64", "qd.pow", ("i64", a), ("i64", b))
    if c.t.dtype.kind == "i":
        is_one = c.two("icmp eq", c.two("mul", a, a, wide), "1", wide)
        of_unit = c.two("and", is_one, c.two("icmp ult", c.two("add", a, "1", wide), "3", wide), ty(u1))
        odd = c.fn.let(f"trunc i64 {b} to i1")
        unit = c.select(odd, a, "1", wide)
        power = c.select(c.two("icmp slt", b, "0", wide), c.select(of_unit, unit, "0", wide), power, wide)
    return _int_to_int(c, power, wide, c.t)


# --- floats -----------------------------------------------------------------------------------------------------


def _floor_quotient(c: Ctx) -> str:
    q = c.two(f"fdiv {c.fast}".rstrip(), c.args[0], c.args[1])
    return c.intrinsic(f"llvm.floor.{c.t.suffix}", c.t, (c.t.text, q))


def _mod_f(c: Ctx) -> str:
    a, b = c.args
    return c.two(f"fsub {c.fast}".rstrip(), a, c.two(f"fmul {c.fast}".rstrip(), b, _floor_quotient(c)))


def _rsqrt(c: Ctx) -> str:
    root = c.intrinsic(f"llvm.sqrt.{c.t.suffix}", c.t, (c.t.text, c.args[0]))
    return c.two(f"fdiv {c.fast}".rstrip(), c.const(1.0), root)


def _isinf(c: Ctx) -> str:
    size = c.intrinsic(f"llvm.fabs.{c.t.suffix}", c.t, (c.t.text, c.args[0]), fast=False)
    return c.two("fcmp oeq", size, c.const(float("inf")))


def _math(c: Ctx) -> str:
    """A call of the C library's function, in f32 where the dtype is f16."""
    t = c.t if c.t.dtype is f64 else ty(f32, c.t.lanes)
    args = [_float_to_float(c, a, c.t, t) for a in c.args]
    name = c.prim if t.dtype is f64 else c.prim + "f"
    # with afn, LLVM makes powi of a pow with an integer exponent, and no C library has its __powisf2
    flags = "" if c.prim == "pow" else c.fast
    r = c.fn.call(t.text, name, *((t.text, a) for a in args), flags=flags, attrs="#0")
    return _float_to_float(c, r, t, c.t)


# --- conversions ------------------------------------------------------------------------------------------------

_UNSIGNED: dict[int, DType] = {t.bits: t for t in (u8, u16, u32, u64)}


def _int_to_int(c: Ctx, value: str, source: Ty, target: Ty) -> str:
    if source.dtype.bits == target.dtype.bits:
        return value
    if source.dtype.bits > target.dtype.bits:
        return c.convert("trunc", value, source, target)
    return c.convert("sext" if source.dtype.kind == "i" else "zext", value, source, target)


def _float_to_float(c: Ctx, value: str, source: Ty, target: Ty) -> str:
    if source.dtype is target.dtype:
        return value
    if source.dtype.bits < target.dtype.bits:
        return c.convert("fpext", value, source, target)
    if source.dtype.bits == 64 and target.dtype.bits == 16:
        value, source = _round_to_odd(c, value, source)
    return c.convert("fptrunc", value, source, target)


def _round_to_odd(c: Ctx, value: str, source: Ty) -> tuple[str, Ty]:
    """f64 to f32, rounded so that rounding once more to f16 is right (Boldo and Melquiond, 2008).

    x86 converts f64 to f16 in hardware only with AVX512-FP16; the library call that LLVM falls back on is not in
    every process.
    """
    t, bits = ty(f32, source.lanes), ty(i32, source.lanes)
    near = c.convert("fptrunc", value, source, t)
    back = c.convert("fpext", near, t, source)
    size = c.intrinsic(f"llvm.fabs.{source.suffix}", source, (source.text, value), fast=False)
    size_back = c.intrinsic(f"llvm.fabs.{source.suffix}", source, (source.text, back), fast=False)
    b = c.fn.let(f"bitcast {t.text} {near} to {bits.text}")
    up = c.fn.let(f"fcmp ogt {source.text} {size_back}, {size}")
    toward_zero = c.select(up, c.two("sub", b, constant(bits, 1), bits), b, bits)
    inexact = c.fn.let(f"fcmp one {source.text} {size_back}, {size}")
    odd = c.two("or", toward_zero, constant(bits, 1), bits)
    b = c.select(inexact, odd, b, bits)
    return c.fn.let(f"bitcast {bits.text} {b} to {t.text}"), t


def _cast(c: Ctx) -> str:
    a, source, target = c.args[0], c.t, c.out
    s, d = source.dtype, target.dtype
    if s is d:
        return a
    if d.kind == "b":
        return c.two("fcmp une" if s.is_float else "icmp ne", a, c.const(0))
    if s.is_float and d.is_float:
        return _float_to_float(c, a, source, target)
    if s.is_float:
        if s.bits == 16:
            a, source = c.convert("fpext", a, source, ty(f32, source.lanes)), ty(f32, source.lanes)
        name = "llvm.fptosi.sat" if d.kind == "i" else "llvm.fptoui.sat"
        return c.fn.call(target.text, f"{name}.{target.suffix}.{source.suffix}", (source.text, a))
    if d.is_float:
        op = "sitofp" if s.kind == "i" else "uitofp"
        if d.bits > 16:
            return c.convert(op, a, source, target)
        wide = ty(f64, source.lanes)
        return _float_to_float(c, c.convert(op, a, source, wide), wide, target)
    return _int_to_int(c, a, source, target)


SEQUENCES: dict[str, Callable[[Ctx], str]] = {
    "@floordiv_f": _floor_quotient,
    "@floordiv_i": _floordiv_i,
    "@mod_f": _mod_f,
    "@mod_i": _mod_i,
    "@div_i": lambda c: _divide(c, "sdiv"),
    "@rem_i": lambda c: _divide(c, "srem"),
    "@div_u": lambda c: _divide(c, "udiv"),
    "@rem_u": lambda c: _divide(c, "urem"),
    "@neg_i": lambda c: c.two("sub", c.const(0), c.args[0]),
    "@abs_i": lambda c: c.intrinsic(f"llvm.abs.{c.t.suffix}", c.t, (c.t.text, c.args[0]), ("i1", "false")),
    "@same": lambda c: c.args[0],
    "@rsqrt": _rsqrt,
    "@math": _math,
    "@pow_i": _pow_i,
    "@not": lambda c: c.two("xor", c.args[0], c.const(True) if c.t.dtype is u1 else c.const(-1)),
    "@shl": _shift("shl"),
    "@ashr": _shift("ashr"),
    "@lshr": _shift("lshr"),
    "@popcnt": _count("llvm.ctpop"),
    "@clz": _count("llvm.ctlz", (("i1", "false"),)),
    "@isnan": lambda c: c.two("fcmp uno", c.args[0], c.args[0]),
    "@isinf": _isinf,
    "@select": lambda c: c.select(c.args[0], c.args[1], c.args[2], c.types[1]),
    "@cast": _cast,
    "@bitcast": lambda c: c.convert("bitcast", c.args[0], c.t, c.out),
}
