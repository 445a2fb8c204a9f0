"""Emits scalar primitives (`ir.prims`) as SPIR-V instructions.

`SPELLINGS`: kind of dtype -> primitive -> an instruction, ``glsl Name`` for an instruction of GLSL.std.450, or
``@name`` for a row of `SEQUENCES`. The passes of `lowering` replace every other primitive.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from quadrants_lab.backends._spirv.assembler import UNSIGNED, Function
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, i64

_ANY = {name: f"@{name}" for name in ("cast", "select", "bitcast")}
_INTEGERS = _ANY | {
    "add": "IAdd", "sub": "ISub", "mul": "IMul", "neg": "SNegate", "and": "BitwiseAnd", "or": "BitwiseOr",
    "xor": "BitwiseXor", "not": "Not", "shl": "ShiftLeftLogical", "lshr": "ShiftRightLogical", "eq": "IEqual",
    # only for operands that are not negative: for others the results of SRem and SMod are undefined
    "ne": "INotEqual", "rem": "UMod",
}  # fmt: skip
SPELLINGS: dict[str, dict[str, str]] = {  # kind of dtype -> primitive -> spelling
    "f": _ANY | {
        "add": "FAdd", "sub": "FSub", "mul": "FMul", "div": "FDiv", "raw_div": "FDiv", "neg": "FNegate",
        "abs": "glsl FAbs", "min": "glsl NMin", "max": "glsl NMax", "sqrt": "glsl Sqrt", "rsqrt": "glsl InverseSqrt",
        # only emitted for devices whose own sine is accurate for these arguments
        "sin": "glsl Sin", "cos": "glsl Cos", "unit_sin": "glsl Sin", "unit_cos": "glsl Cos",
        "floor": "glsl Floor", "ceil": "glsl Ceil", "trunc": "glsl Trunc", "lt": "FOrdLessThan",
        "le": "FOrdLessThanEqual", "gt": "FOrdGreaterThan", "ge": "FOrdGreaterThanEqual", "eq": "FOrdEqual",
        "ne": "FUnordNotEqual", "isnan": "IsNan", "isinf": "IsInf", "fptoint": "@fptoint",
    },
    "i": _INTEGERS | {
        "quot": "SDiv", "min": "@least", "max": "@greatest", "shr": "ShiftRightArithmetic", "lt": "SLessThan",
        "le": "SLessThanEqual", "gt": "SGreaterThan", "ge": "SGreaterThanEqual",
    },
    "u": _INTEGERS | {
        "quot": "UDiv", "min": "glsl UMin", "max": "@greatest", "shr": "ShiftRightLogical", "popcnt": "BitCount",
        "clz": "@clz", "lt": "ULessThan", "le": "ULessThanEqual", "gt": "UGreaterThan", "ge": "UGreaterThanEqual",
    },
    "b": _ANY | {
        "and": "LogicalAnd", "or": "LogicalOr", "xor": "LogicalNotEqual", "not": "LogicalNot", "eq": "LogicalEqual",
        "ne": "LogicalNotEqual",
    },
}  # fmt: skip
_EXACT = ("FAdd", "FSub", "FMul", "FDiv", "FNegate")


@dataclass(slots=True)
class Ctx:
    """The arguments of a function in `SEQUENCES`: the function under construction; for each operand its dtype, id and
    constant value (None if it is not constant); and the result's dtype. ``exact``: products and sums are not
    contracted."""

    fn: Function
    out: DType
    types: tuple[DType, ...]
    args: tuple[int, ...]
    known: tuple[Any, ...]
    exact: bool

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

    def glsl(self, name: str, *args: int) -> int:
        return self.fn.glsl(name, self.fn.module.type(self.t), *args)


def emit(fn: Function, prim: str, out: DType, types: tuple[DType, ...], args: tuple[int, ...],
         known: tuple[Any, ...], exact: bool) -> int:  # fmt: skip
    """Emits the primitive ``prim`` and returns the id of its result; for the arguments see `Ctx`."""
    t = types[1] if PRIMS[prim].rule == "select" else types[0]
    spelling = SPELLINGS[t.kind][prim]
    c = Ctx(fn, out, types, args, known, exact)
    head, _, rest = spelling.partition(" ")
    if head[0] == "@":
        return SEQUENCES[head](c)
    if head == "glsl":
        return c.glsl(rest, *args)
    if spelling in _ORDER:
        return _order(c, spelling, args, known)
    if spelling in ("FMul", "FDiv") and 0 in known:
        return _of_zero(c, spelling, args, known)
    return c.let(spelling, *args, t=out)


def _of_zero(c: Ctx, op: str, args: tuple[int, ...], known: tuple[Any, ...]) -> int:
    """Emits a product with a constant zero, or a quotient with one.

    Mesa 22.3 folds both to zero even if the other operand is NaN or infinite, or is divided by the zero. To hide the
    constant from Mesa, the zero gets the other operand's sign, and the operation its absolute value: the result is the
    same.
    """
    at = next(n for n, k in enumerate(known) if k == 0)
    other, t = args[1 - at], c.t if c.t.bits > 16 else f32
    if t is not c.t:
        other = c.let("FConvert", other, t=t)
    bits = UNSIGNED[t.bits]
    zero = c.let("BitwiseAnd", c.let("Bitcast", other, t=bits), c.const(1 << (t.bits - 1), bits), t=bits)
    size = c.fn.glsl("FAbs", c.fn.module.type(t), other)
    pair = (size, c.let("Bitcast", zero, t=t))
    result = c.let(op, *(pair if at else pair[::-1]), t=t)
    if math.copysign(1.0, known[at]) < 0:
        result = c.let("FNegate", result, t=t)
    return result if t is c.t else c.let("FConvert", result, t=c.t)


_ORDER = ("SLessThan", "SLessThanEqual", "SGreaterThan", "SGreaterThanEqual")


def _order(c: Ctx, op: str, args: Iterable[int], known: tuple[Any, ...]) -> int:
    """Emits a signed comparison. A 64-bit comparison with a constant flips the sign bits and compares unsigned,
    because Mesa 22.3 folds the comparison of an extended i32 with a small constant to always true or always false."""
    if c.t is not i64 or all(k is None for k in known):
        return c.test(op, *args)
    flipped = [
        c.const(k ^ (1 << 63)) if k is not None else c.let("BitwiseXor", a, c.const(1 << 63))
        for a, k in zip(args, known, strict=True)
    ]
    return c.test("U" + op[1:], *flipped)


def _extreme(name: str) -> Callable[[Ctx], int]:
    def sequence(c: Ctx) -> int:
        a, b = c.args
        less = _order(c, f"S{name}", c.args, c.known) if c.t.kind == "i" else c.test(f"U{name}", a, b)
        return c.let("Select", less, a, b)

    return sequence


def _clz(c: Ctx) -> int:
    """31 minus the index of the highest set bit; the index is -1 if no bit is set."""
    return c.let("ISub", c.const(31), c.glsl("FindUMsb", *c.args))


def _cast(c: Ctx) -> int:
    (a,), s, d = c.args, c.t, c.out
    if s.is_float:
        return c.let("FConvert", a, t=d)
    if d.is_float:
        return c.let("ConvertSToF" if s.kind == "i" else "ConvertUToF", a, t=d)
    if s.bits == d.bits:
        return a
    return c.let("SConvert" if s.kind == "i" and s.bits < d.bits else "UConvert", a, t=d)


def _bitcast(c: Ctx) -> int:
    a, s, d = c.args[0], c.t, c.out
    return a if s.is_float == d.is_float else c.let("Bitcast", a, t=d)


SEQUENCES: dict[str, Callable[[Ctx], int]] = {
    "@least": _extreme("LessThan"),
    "@greatest": _extreme("GreaterThan"),
    "@clz": _clz,
    "@select": lambda c: c.let("Select", *c.args, t=c.out),
    "@cast": _cast,
    "@fptoint": lambda c: c.let("ConvertFToS" if c.out.kind == "i" else "ConvertFToU", *c.args, t=c.out),
    "@bitcast": _bitcast,
}
