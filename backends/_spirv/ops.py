"""Scalar primitives: from the table's meaning (`ir.prims`) to instructions.

`SPELLINGS` has a row a primitive: for (float, signed, unsigned and u1) an instruction, ``glsl Name`` for one of
GLSL.std.450, or ``@name``, a row of `SEQUENCES`. What GLSL.std.450 leaves to the device or has no f64 for is a
function of our own (`functions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends._spirv.assembler import UNSIGNED
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f16, f32, i32, i64, u1, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Function

SPELLINGS: dict[str, tuple[str, str, str]] = {
    "add": ("FAdd", "IAdd", "IAdd"),
    "sub": ("FSub", "ISub", "ISub"),
    "mul": ("FMul", "IMul", "IMul"),
    "div": ("FDiv", "", ""),
    "floordiv": ("@floordiv_f", "@floordiv_i", "@div_u"),
    "mod": ("@mod_f", "@mod_i", "@rem_u"),
    "raw_div": ("FDiv", "@div_i", "@div_u"),
    "raw_mod": ("@function", "@rem_i", "@rem_u"),
    "neg": ("FNegate", "SNegate", "SNegate"),
    "abs": ("glsl FAbs", "@abs_i", "@same"),
    "min": ("glsl NMin", "@least", "@least"),
    "max": ("glsl NMax", "@greatest", "@greatest"),
    "sqrt": ("glsl Sqrt", "", ""),
    "rsqrt": ("@rsqrt", "", ""),
    "sin": ("@function", "", ""),
    "cos": ("@function", "", ""),
    "tan": ("@function", "", ""),
    "asin": ("@function", "", ""),
    "acos": ("@function", "", ""),
    "atan2": ("@function", "", ""),
    "tanh": ("@function", "", ""),
    "exp": ("@function", "", ""),
    "log": ("@function", "", ""),
    "pow": ("@function", "@pow_i", "@pow_i"),
    "floor": ("glsl Floor", "", ""),
    "ceil": ("glsl Ceil", "", ""),
    "trunc": ("glsl Trunc", "", ""),
    "round": ("@round", "", ""),
    "and": ("", "BitwiseAnd", "BitwiseAnd"),
    "or": ("", "BitwiseOr", "BitwiseOr"),
    "xor": ("", "BitwiseXor", "BitwiseXor"),
    "not": ("", "Not", "Not"),
    "shl": ("", "@shift ShiftLeftLogical", "@shift ShiftLeftLogical"),
    "shr": ("", "@shift ShiftRightArithmetic", "@shift ShiftRightLogical"),
    "lshr": ("", "@shift ShiftRightLogical", "@shift ShiftRightLogical"),
    "popcnt": ("", "@popcnt", "@popcnt"),
    "clz": ("", "@clz", "@clz"),
    "lt": ("FOrdLessThan", "SLessThan", "ULessThan"),
    "le": ("FOrdLessThanEqual", "SLessThanEqual", "ULessThanEqual"),
    "gt": ("FOrdGreaterThan", "SGreaterThan", "UGreaterThan"),
    "ge": ("FOrdGreaterThanEqual", "SGreaterThanEqual", "UGreaterThanEqual"),
    "eq": ("FOrdEqual", "IEqual", "IEqual"),
    "ne": ("FUnordNotEqual", "INotEqual", "INotEqual"),
    "isnan": ("IsNan", "", ""),
    "isinf": ("IsInf", "", ""),
    "custom_jvp": ("@same", "", ""),
    "select": ("@select", "@select", "@select"),
    "cast": ("@cast", "@cast", "@cast"),
    "bitcast": ("@bitcast", "@bitcast", "@bitcast"),
}
# on truth values: an instruction, or a comparison of them as numbers
TRUTH = {
    "and": "LogicalAnd", "or": "LogicalOr", "xor": "LogicalNotEqual", "not": "LogicalNot", "eq": "LogicalEqual",
    "ne": "LogicalNotEqual", "lt": "@lt_b", "le": "@le_b", "gt": "@gt_b", "ge": "@ge_b", "select": "@select",
    "cast": "@cast", "bitcast": "@same",
}  # fmt: skip
_COLUMN = {"f": 0, "i": 1, "u": 2}
_EXACT = ("FAdd", "FSub", "FMul", "FDiv", "FNegate")


class Ctx:
    """What a sequence sees: the function, operands with their dtypes, known constants, and the result's dtype."""

    __slots__ = ("args", "exact", "fn", "known", "out", "prim", "types")

    def __init__(
        self, fn: Function, prim: str, out: DType, types: tuple[DType, ...], args: tuple[int, ...],
        known: tuple[Any, ...], exact: bool,
    ) -> None:  # fmt: skip
        self.fn, self.prim, self.out, self.types, self.args, self.known, self.exact = (
            fn, prim, out, types, args, known, exact,
        )  # fmt: skip

    @property
    def t(self) -> DType:
        """The dtype of the first operand."""
        return self.types[0]

    def let(self, op: str, *args: int, t: DType | None = None) -> int:
        id = self.fn.let(op, self.fn.module.type(t or self.t), *args)
        if self.exact and op in _EXACT:
            self.fn.module.decorate(id, "NoContraction")
        return id

    def test(self, op: str, *args: int) -> int:
        return self.fn.let(op, self.fn.module.bool, *args)

    def const(self, value: int | float, t: DType | None = None) -> int:
        return self.fn.module.const(t or self.t, value)

    def select(self, cond: int, a: int, b: int, t: DType | None = None) -> int:
        return self.let("Select", cond, a, b, t=t)

    def call(self, name: str, t: DType, *args: int) -> int:
        """A function of the module's library, on operands of dtype ``t``."""
        return self.fn.module.library(self.fn, name, t, args, self.exact)

    def glsl(self, name: str, *args: int) -> int:
        return self.fn.glsl(name, self.fn.module.type(self.t), *args)


def emit(fn: Function, prim: str, out: DType, types: tuple[DType, ...], args: tuple[int, ...],
         known: tuple[Any, ...], exact: bool) -> int:  # fmt: skip
    """Emits ``prim`` and returns the result's id. ``known``: values of operands that are constants, else None.

    ``exact``: no contraction.
    """
    t = types[1] if PRIMS[prim].rule == "select" else types[0]
    spelling = TRUTH[prim] if t is u1 else SPELLINGS[prim][_COLUMN[t.kind]]
    c = Ctx(fn, prim, out, types, args, known, exact)
    head, _, rest = spelling.partition(" ")
    if head[0] == "@":
        return SEQUENCES[head](c, *([rest] if rest else []))
    if head == "glsl":
        return c.glsl(rest, *args)
    if spelling in _ORDER:
        return _order(c, spelling, args, known)
    return c.let(spelling, *args, t=out)


_ORDER = ("SLessThan", "SLessThanEqual", "SGreaterThan", "SGreaterThanEqual")


def _order(c: Ctx, op: str, args: Iterable[int], known: tuple[Any, ...]) -> int:
    """A signed comparison. That of 64 bits with a constant becomes the unsigned one of both with their sign bits
    flipped: Mesa 22.3 takes the comparison of an extended i32 with a small constant to be always true or always
    false."""
    if c.t is not i64 or all(k is None for k in known):
        return c.test(op, *args)
    flipped = [
        c.const(k ^ (1 << 63)) if k is not None else c.let("BitwiseXor", a, c.const(1 << 63))
        for a, k in zip(args, known, strict=True)
    ]
    return c.test("U" + op[1:], *flipped)


def _is_negative(c: Ctx, a: int) -> int:
    return _order(c, "SLessThan", (a, c.const(0)), (None, 0))


# --- integers -------------------------------------------------------------------------------------------------


def _divide(c: Ctx, op: str) -> int:
    """Quotient toward zero; 0 for a zero divisor, and the wrapped result for INT_MIN by -1."""
    a, b = c.args
    divisor = c.known[1]
    if divisor not in (None, 0, -1):
        return c.let(op, a, b)
    by_zero = c.test("IEqual", b, c.const(0))
    if op == "UDiv":
        return c.select(by_zero, c.const(0), c.let(op, a, c.select(by_zero, c.const(1), b)))
    by_minus = c.test("IEqual", b, c.const(-1))
    q = c.let(op, a, c.select(c.test("LogicalOr", by_zero, by_minus), c.const(1), b))
    q = c.select(by_minus, c.let("SNegate", a), q)
    return c.select(by_zero, c.const(0), q)


def _remainder(c: Ctx, op: str) -> int:
    """By multiplying back: SRem and SMod have no defined result for negative operands in Vulkan."""
    a, b = c.args
    r = c.let("ISub", a, c.let("IMul", _divide(c, op), b))
    if c.known[1] not in (None, 0):
        return r
    return c.select(c.test("IEqual", b, c.const(0)), c.const(0), r)


def _floordiv_i(c: Ctx) -> int:
    a, b = c.args
    q = _divide(c, "SDiv")
    r = c.let("ISub", a, c.let("IMul", q, b))
    off = _off_floor(c, r)
    if c.known[1] in (None, 0):  # the "remainder" of a division by zero is a itself
        off = c.test("LogicalAnd", off, c.test("INotEqual", b, c.const(0)))
    return c.select(off, c.let("ISub", q, c.const(1)), q)


def _off_floor(c: Ctx, r: int) -> int:
    """Where the remainder toward zero is not that of floor division: it is not 0 and its sign is not the divisor's."""
    divisor = c.known[1]
    if divisor is not None and divisor > 0:
        return _is_negative(c, r)
    signs = _is_negative(c, c.let("BitwiseXor", r, c.args[1]))
    return c.test("LogicalAnd", c.test("INotEqual", r, c.const(0)), signs)


def _mod_i(c: Ctx) -> int:
    divisor = c.known[1]
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        return c.let("BitwiseAnd", c.args[0], c.const(divisor - 1))
    r = _remainder(c, "SDiv")
    return c.select(_off_floor(c, r), c.let("IAdd", r, c.args[1]), r)


def _rem_u(c: Ctx) -> int:
    a, b = c.args
    if c.known[1] not in (None, 0):
        return c.let("UMod", a, b)
    by_zero = c.test("IEqual", b, c.const(0))
    return c.select(by_zero, c.const(0), c.let("UMod", a, c.select(by_zero, c.const(1), b)))


def _abs_i(c: Ctx) -> int:
    (a,) = c.args
    return c.select(_is_negative(c, a), c.let("SNegate", a), a)


def _extreme(name: str) -> Callable[[Ctx], int]:
    def sequence(c: Ctx) -> int:
        a, b = c.args
        less = _order(c, f"S{name}", c.args, c.known) if c.t.kind == "i" else c.test(f"U{name}", a, b)
        return c.select(less, a, b)

    return sequence


def _shift(c: Ctx, op: str) -> int:
    if c.known[1] is not None:
        return c.let(op, c.args[0], c.const(c.known[1] & (c.t.bits - 1)))
    return c.let(op, c.args[0], c.let("BitwiseAnd", c.args[1], c.const(c.t.bits - 1)))


def _halves(c: Ctx) -> tuple[int, int]:
    """Low and high 32 bits of a 64-bit operand."""
    (a,) = c.args
    return c.let("UConvert", a, t=u32), c.let("UConvert", c.let("ShiftRightLogical", a, c.const(32)), t=u32)


def _zero_extend(c: Ctx) -> int:
    """An operand of at most 32 bits, as 32 bits."""
    return c.args[0] if c.t.bits == 32 else c.let("UConvert", c.args[0], t=u32)


def _popcnt(c: Ctx) -> int:
    if c.t.bits < 64:
        return c.let("BitCount", _zero_extend(c), t=u32)
    low, high = (c.let("BitCount", x, t=u32) for x in _halves(c))
    return c.let("IAdd", low, high, t=u32)


def _clz(c: Ctx) -> int:
    def top(x: int) -> int:
        """Place of the highest one; -1 where there is none."""
        return c.fn.glsl("FindUMsb", c.fn.module.type(u32), x)

    if c.t.bits < 64:
        return c.let("ISub", c.const(c.t.bits - 1, u32), top(_zero_extend(c)), t=u32)
    low, high = _halves(c)
    of_low = c.let("ISub", c.const(63, u32), top(low), t=u32)
    of_high = c.let("ISub", c.const(31, u32), top(high), t=u32)
    return c.select(c.test("IEqual", high, c.const(0, u32)), of_low, of_high, u32)


def _pow_i(c: Ctx) -> int:
    """In 64 bits; a negative exponent gives 0 unless the base is 1 or -1."""
    a, b = (_int_to_int(c, x, c.t, i64) for x in c.args)
    signed = c.t.kind == "i"
    return _int_to_int(c, c.call("pow", i64 if signed else u64, a, b), i64, c.t)


def _compare_truth(op: str) -> Callable[[Ctx], int]:
    """False is less than true: a < b is (not a) and b, and so on. ``op``: what joins, and which operand is negated."""

    def sequence(c: Ctx) -> int:
        a, b = c.args
        join, negated = op.split()
        if negated == "x":
            a = c.test("LogicalNot", a)
        else:
            b = c.test("LogicalNot", b)
        return c.test(join, a, b)

    return sequence


# --- floats ---------------------------------------------------------------------------------------------------


def _floor_quotient(c: Ctx) -> int:
    return c.glsl("Floor", c.let("FDiv", *c.args))


def _mod_f(c: Ctx) -> int:
    a, b = c.args
    return c.let("FSub", a, c.let("FMul", b, _floor_quotient(c)))


def _rsqrt(c: Ctx) -> int:
    return c.let("FDiv", c.const(1.0), c.glsl("Sqrt", *c.args))


def _round(c: Ctx) -> int:
    """To the nearest integer, ties away from zero; the sign survives in zeros."""
    (a,) = c.args
    size = c.glsl("FAbs", a)
    whole = c.glsl("Floor", size)
    up = c.test("FOrdGreaterThanEqual", c.let("FSub", size, whole), c.const(0.5))
    size = c.select(up, c.let("FAdd", whole, c.const(1.0)), whole)
    bits = UNSIGNED[c.t.bits]
    sign = c.let("BitwiseAnd", c.let("Bitcast", a, t=bits), c.const(1 << (c.t.bits - 1), bits), t=bits)
    return c.let("Bitcast", c.let("BitwiseOr", c.let("Bitcast", size, t=bits), sign, t=bits))


def _function(c: Ctx) -> int:
    """A function of one or two floats; f16 is computed in f32."""
    if c.t is not f16:
        return c.call(c.prim, c.t, *c.args)
    args = tuple(c.let("FConvert", a, t=f32) for a in c.args)
    return c.let("FConvert", c.call(c.prim, f32, *args))


# --- conversions ----------------------------------------------------------------------------------------------


def _int_to_int(c: Ctx, value: int, source: DType, target: DType) -> int:
    if source.bits == target.bits:
        return value
    widens = "SConvert" if source.kind == "i" else "UConvert"
    return c.let(widens if source.bits < target.bits else "UConvert", value, t=target)


def _float_to_float(c: Ctx, value: int, source: DType, target: DType) -> int:
    if source.bits == 64 and target.bits == 16:
        value = _round_to_odd(c, value)
    return c.let("FConvert", value, t=target)


def _round_to_odd(c: Ctx, value: int) -> int:
    """f64 to f32, rounded so that rounding once more to f16 is right (Boldo and Melquiond, 2008)."""
    near = c.let("FConvert", value, t=f32)
    back = c.let("FConvert", near)
    bits = c.let("Bitcast", near, t=u32)
    up = c.test("FOrdGreaterThan", c.glsl("FAbs", back), c.glsl("FAbs", value))
    toward_zero = c.select(up, c.let("ISub", bits, c.const(1, u32), t=u32), bits, u32)
    inexact = c.test("LogicalNot", c.test("FOrdEqual", back, value))
    inexact = c.test("LogicalAnd", inexact, c.test("FOrdEqual", value, value))
    odd = c.let("BitwiseOr", toward_zero, c.const(1, u32), t=u32)
    return c.let("Bitcast", c.select(inexact, odd, bits, u32), t=f32)


def _float_to_int(c: Ctx, value: int, source: DType, target: DType) -> int:
    """Toward zero, saturating; 0 for NaN. The instruction itself has no defined result out of range."""
    if source is f16:
        value, source = c.let("FConvert", value, t=f32), f32
    low, high = (
        (-(1 << (target.bits - 1)), 1 << (target.bits - 1)) if target.kind == "i" else (0, 1 << target.bits)
    )
    over = c.test("FOrdGreaterThanEqual", value, c.const(float(high), source))
    under = c.test("FOrdLessThanEqual", value, c.const(float(low), source))
    inside = c.test("FOrdLessThan", value, c.const(float(high), source))
    inside = c.test("LogicalAnd", inside, c.test("FOrdGreaterThan", value, c.const(float(low), source)))
    safe = c.select(inside, value, c.const(0.0, source), source)
    wide = target if target.bits >= 32 else i32
    whole = _int_to_int(
        c, c.let("ConvertFToS" if wide.kind == "i" else "ConvertFToU", safe, t=wide), wide, target
    )
    whole = c.select(under, c.const(low, target), whole, target)
    return c.select(over, c.const(high - 1, target), whole, target)


def _int_to_float(c: Ctx, value: int, source: DType, target: DType) -> int:
    if source.bits < 32:
        value, source = _int_to_int(c, value, source, wide := i32 if source.kind == "i" else u32), wide
    op = "ConvertSToF" if source.kind == "i" else "ConvertUToF"
    if target is not f16:
        return c.let(op, value, t=target)
    return c.let("FConvert", c.let(op, value, t=f32), t=f16)  # what f32 rounds is infinite in f16


def _cast(c: Ctx) -> int:
    a, s, d = c.args[0], c.t, c.out
    if s is d:
        return a
    if s is u1:
        return c.select(a, c.const(1, d), c.const(0, d), d)
    if d is u1:
        return c.test("FUnordNotEqual" if s.is_float else "INotEqual", a, c.const(0))
    if s.is_float and d.is_float:
        return _float_to_float(c, a, s, d)
    if s.is_float:
        return _float_to_int(c, a, s, d)
    if d.is_float:
        return _int_to_float(c, a, s, d)
    return _int_to_int(c, a, s, d)


def _bitcast(c: Ctx) -> int:
    a, s, d = c.args[0], c.t, c.out
    return a if s.is_float == d.is_float else c.let("Bitcast", a, t=d)


SEQUENCES: dict[str, Callable[..., int]] = {
    "@floordiv_f": _floor_quotient,
    "@floordiv_i": _floordiv_i,
    "@mod_f": _mod_f,
    "@mod_i": _mod_i,
    "@div_i": lambda c: _divide(c, "SDiv"),
    "@rem_i": lambda c: _remainder(c, "SDiv"),
    "@div_u": lambda c: _divide(c, "UDiv"),
    "@rem_u": _rem_u,
    "@abs_i": _abs_i,
    "@least": _extreme("LessThan"),
    "@greatest": _extreme("GreaterThan"),
    "@same": lambda c: c.args[0],
    "@rsqrt": _rsqrt,
    "@round": _round,
    "@function": _function,
    "@pow_i": _pow_i,
    "@shift": _shift,
    "@popcnt": _popcnt,
    "@clz": _clz,
    "@lt_b": _compare_truth("LogicalAnd x"),
    "@le_b": _compare_truth("LogicalOr x"),
    "@gt_b": _compare_truth("LogicalAnd y"),
    "@ge_b": _compare_truth("LogicalOr y"),
    "@select": lambda c: c.let("Select", *c.args, t=c.out),
    "@cast": _cast,
    "@bitcast": _bitcast,
}
