"""Emits primitives as LLVM instructions. The column ``llvm`` of `prims.PRIMS` names for each primitive an
instruction, a comparison, an ``llvm.*`` intrinsic, or ``@name``, which is a row of `SEQUENCES`."""

from collections.abc import Callable

import numpy as np

from quadrants_lab.analysis.ranges import Range, result
from quadrants_lab.backends._llvm.text import Function, Ty, constant, ty
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import UNSIGNED, DType, f16, f32, f64, u1

FAST = "reassoc contract arcp afn "
COLUMN = {"f": 0, "i": 1, "b": 2, "u": 2}
_PREDICATES = {
    "fcmp": {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"},
    "icmp_signed": {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"},
    "icmp_unsigned": {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"},
}
_NO_WRAP = ("add", "sub", "mul")


@dataclass(slots=True)
class Ctx:
    """The arguments of a function in `SEQUENCES`: the LLVM function under construction, the operands with their types
    and ranges, and the type of the result."""

    fn: Function
    prim: str
    out: Ty
    types: tuple[Ty, ...]
    args: tuple[str, ...]
    ranges: tuple[Range | None, ...]
    fast: str

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
        return self.fn.call(t.text, name, *args, flags=self.fast if fast and t.dtype.is_float else "")

    def convert(self, op: str, value: str, source: Ty, target: Ty) -> str:
        return self.fn.let(f"{op} {source.text} {value} to {target.text}")


def emit(fn: Function, prim: str, out: Ty, types: tuple[Ty, ...], args: tuple[str, ...],
         known: tuple[Range | None, ...], flags: str) -> str:  # fmt: skip
    """Emits the primitive ``prim`` and returns the name of its result. ``known``: for each operand its range if it is
    an integer whose range is known; ``flags``: fast-math flags, each followed by a blank."""
    row = PRIMS[prim]
    t = types[1] if row.rule == "select" else types[0]
    if t.dtype is f16:
        # LLVM computes f16 in f32 and rounds after each operation; fused operations would not round the same way
        flags = ""
    if fn.module.own and t.dtype.is_float and prim in fn.module.own:
        return fn.module.own[prim](Ctx(fn, prim, out, types, args, known, flags))
    spelling = row.llvm[COLUMN[t.dtype.kind]]
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
    if spelling in _NO_WRAP and result(prim, known, t.dtype):
        spelling += " nsw" if t.dtype.kind == "i" else " nuw"
    return fn.let(f"{spelling} {t.text} {args[0]}, {args[1]}")


# --- integers ---------------------------------------------------------------------------------------------------


def _divide(op: str) -> Callable[[Ctx], str]:
    """Emits a division of signed integers. Operands that are known to be never negative are divided as unsigned
    integers, which is cheaper."""

    def sequence(c: Ctx) -> str:
        natural = all(r is not None and r[0] >= 0 for r in c.ranges)
        return c.two(f"{'u' if natural else 's'}{op}", c.args[0], c.args[1])

    return sequence


def _count(intrinsic: str, extra: tuple[tuple[str, str], ...] = ()) -> Callable[[Ctx], str]:
    def sequence(c: Ctx) -> str:
        n = c.intrinsic(f"{intrinsic}.{c.t.suffix}", c.t, (c.t.text, c.args[0]), *extra)
        return _int_to_int(c, n, ty(UNSIGNED[c.t.dtype.bits], c.t.lanes), c.out)

    return sequence


# --- floats -----------------------------------------------------------------------------------------------------


_LIBRARY = {f32: "f", f64: ""}  # dtype -> the suffix of C's and NVIDIA's function names


def library(name: str, t: DType) -> str:
    """The name of the C library's function for ``name`` on ``t``. Raises TypeError for f16, for which C has no
    functions."""
    if t not in _LIBRARY:
        raise TypeError(f"no library has {name} of {t}: `LowerMath` must run first, which computes f16 in f32")
    return name + _LIBRARY[t]


def is_library(prim: str, t: DType) -> bool:
    """Whether the primitive is a function of the C library on operands of dtype ``t``."""
    return t.is_float and PRIMS[prim].llvm[0] in ("@math", "frem")


def _math(c: Ctx) -> str:
    """Emits a call of the C library's function."""
    t = c.t
    # with the flag afn, LLVM turns a pow with an integer exponent into powi; no C library has the function __powisf2
    flags = "" if c.prim == "pow" else c.fast
    return c.fn.call(t.text, library(c.prim, t.dtype), *((t.text, a) for a in c.args), flags=flags, attrs="#0")


# --- conversions ------------------------------------------------------------------------------------------------


def _int_to_int(c: Ctx, value: str, source: Ty, target: Ty) -> str:
    if source.dtype.bits == target.dtype.bits:
        return value
    if source.dtype.bits > target.dtype.bits:
        return c.convert("trunc", value, source, target)
    return c.convert("sext" if source.dtype.kind == "i" else "zext", value, source, target)


def _saturated(c: Ctx, a: str, source: Ty, target: Ty) -> str:
    """Emits a saturating conversion of vectors from float to integer: numbers out of range become the least or greatest
    integer, and NaN becomes 0. LLVM's own intrinsic for this would take the vectors apart."""
    low, high = target.dtype.limits
    as_float = source.dtype.numpy
    most = as_float(high)
    if int(most) > high:
        most = np.nextafter(most, as_float(0))

    def compared(relation: str, x: str, y: str) -> str:
        return c.fn.let(f"fcmp {relation} {source.text} {x}, {y}")

    least, greatest = c.const(low, source), c.const(float(most), source)
    # the comparison is false for NaN, which becomes ``least``
    inside = c.select(compared("ogt", a, least), a, least, source)
    inside = c.select(compared("olt", inside, greatest), inside, greatest, source)
    value = c.convert("fptosi" if target.dtype.kind == "i" else "fptoui", inside, source, target)
    if int(most) < high:
        value = c.select(compared("ogt", a, greatest), c.const(high, target), value, target)
    return c.select(compared("uno", a, a), c.const(0, target), value, target) if low else value


def _cast(c: Ctx) -> str:
    a, source, target = c.args[0], c.t, c.out
    s, d = source.dtype, target.dtype
    if s.is_float and d.is_float:
        return c.convert("fpext" if s.bits < d.bits else "fptrunc", a, source, target)
    if s.is_float and target.lanes > 1:
        return _saturated(c, a, source, target)
    if s.is_float:
        name = "llvm.fptosi.sat" if d.kind == "i" else "llvm.fptoui.sat"
        return c.fn.call(target.text, f"{name}.{target.suffix}.{source.suffix}", (source.text, a))
    if d.is_float:
        return c.convert("sitofp" if s.kind == "i" else "uitofp", a, source, target)
    return _int_to_int(c, a, source, target)


SEQUENCES: dict[str, Callable[[Ctx], str]] = {
    "@quot": _divide("div"),
    "@rem": _divide("rem"),
    "@neg_i": lambda c: c.two("sub", c.const(0), c.args[0]),
    "@abs_i": lambda c: c.intrinsic(f"llvm.abs.{c.t.suffix}", c.t, (c.t.text, c.args[0]), ("i1", "false")),
    "@same": lambda c: c.args[0],
    "@math": _math,
    "@not": lambda c: c.two("xor", c.args[0], c.const(True) if c.t.dtype is u1 else c.const(-1)),
    "@popcnt": _count("llvm.ctpop"),
    "@clz": _count("llvm.ctlz", (("i1", "false"),)),
    "@select": lambda c: c.select(c.args[0], c.args[1], c.args[2], c.types[1]),
    "@cast": _cast,
    "@bitcast": lambda c: c.convert("bitcast", c.args[0], c.t, c.out),
}
