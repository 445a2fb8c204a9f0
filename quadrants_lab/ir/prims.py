"""The table of scalar primitives, such as add and sin. A row has everything that any stage needs to know about a
primitive.

A new primitive is a new row. ``evaluate`` is its meaning (numpy scalars in, numpy scalar out), ``adjoint`` its
derivative, ``llvm`` its spelling for the LLVM emitters.

A derivative has one expression for each operand: the operand's share of the adjoint ``g`` of the result, in terms of
the operands ``a``, ``b``, ``c`` and the result ``r``. Every expression is linear in ``g``, so forward mode reads the
same column: the tangent of the result is the sum of the expressions, each with ``g`` replaced by the operand's tangent.
None means that no derivative reaches the operand. The names in an expression are the primal values that it needs, from
which reverse mode finds the values to record. Comments state the convention at kinks.
"""

import warnings
from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, convert, i32, u1, wrapped

Evaluate = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Prim:
    """One row.

    ``rule`` is the typing rule: "num" (all one numeric dtype), "float" (all one float dtype), "int" (all one
    integer dtype; u1 too for and/or/xor/not), "cmp" (one dtype in, u1 out), "select" (u1, T, T -> T), "cast"
    (anything to the result's dtype), "bitcast" (same width), "test" (float in, u1 out), "count" (integer in, i32
    out), "isqrt" (i32 or i64), "machine" (two of one integer dtype, in lowered kernels only), "unit" (f32,
    likewise), "fptoint" (float in, integer out). ``llvm`` has spellings for (float, signed, unsigned): an
    instruction, ``llvm.*`` for an intrinsic, ``@name`` for a short sequence that the emitter knows by that name, or
    "" where the rule excludes the kind or `backends.lower` replaces the primitive. ``cost`` is a rough number of
    cycles.
    """

    name: str
    arity: int
    rule: str
    evaluate: Evaluate
    adjoint: tuple[str | None, ...]
    llvm: tuple[str, str, str]
    cost: int = 1


def _wrap(t: DType, x: int) -> Any:
    """The integer in two's complement of the dtype."""
    return t.numpy(wrapped(x, t))


def _num(on_float: Callable[..., Any], on_int: Callable[..., int]) -> Evaluate:
    def evaluate(t: DType, *args: Any) -> Any:
        if t.is_float:
            with np.errstate(all="ignore"):
                return t.numpy(on_float(*args))
        return _wrap(t, on_int(*(int(x) for x in args)))

    return evaluate


def _rsqrt(a: Any) -> Any:
    """1 / sqrt(a). An f16 is computed in f32, so that it is rounded once."""
    wide = np.float32(a) if a.dtype == np.float16 else a
    return a.dtype.type(wide.dtype.type(1) / np.sqrt(wide))


def _flt(fn: Callable[..., Any]) -> Evaluate:
    def evaluate(t: DType, *args: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return t.numpy(fn(*args))

    return evaluate


def _int(fn: Callable[..., int]) -> Evaluate:
    def evaluate(t: DType, *args: Any) -> Any:
        if t.kind == "b":
            return t.numpy(fn(*(int(x) for x in args)) & 1)
        return _wrap(t, fn(*(int(x) for x in args)))

    return evaluate


def _cmp(fn: Callable[[Any, Any], Any]) -> Evaluate:
    return lambda t, a, b: np.bool_(fn(a, b))


def _trunc_div(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _trunc_rem(a: int, b: int) -> int:
    return 0 if b == 0 else a - b * _trunc_div(a, b)


def _machine(fn: Callable[[int, int], int]) -> Evaluate:
    def evaluate(t: DType, a: Any, b: Any) -> Any:
        if b == 0 or (t.kind == "i" and b == -1 and a == np.iinfo(t.numpy).min):
            raise ArithmeticError(f"devices leave open what {a} divided by {b} is")
        return t.numpy(fn(int(a), int(b)))

    return evaluate


def _fptoint(t: DType, a: Any) -> Any:
    info = np.iinfo(t.numpy)
    if not float(info.min) - 1 < a < float(info.max) + 1:
        raise ArithmeticError(f"devices leave open what {a} is as {t}")
    return t.numpy(int(a))


def _round(a: Any) -> Any:
    whole = np.trunc(a)
    return whole + np.copysign(a.dtype.type(abs(a - whole) >= 0.5), a)


def _pow(a: Any, b: Any) -> Any:
    """``a`` to the power ``b``, computed by numpy as arrays. For scalars and b = 0.5, numpy 2.4 computes a square root
    instead, and that is NaN for minus infinity, where the power is infinity."""
    return np.power(np.array([a]), np.array([b]))[0]


def _int_pow(a: int, b: int) -> int:
    if b < 0:
        return 0 if a not in (1, -1) else a ** (-b)
    return pow(a, b, 1 << 64) if a >= 0 else (-1) ** (b & 1) * pow(-a, b, 1 << 64)


def _cast(t: DType, a: Any) -> Any:
    if t.is_float:  # numpy rounds once, also from i64
        with np.errstate(all="ignore"):
            return t.numpy(a)
    return t.numpy(convert(a if isinstance(a, int) else a.item(), t))


def _bitcast(t: DType, a: Any) -> Any:
    return np.asarray(a).view(t.numpy)[()]


def _shift(fn: Callable[[int, int, int], int]) -> Evaluate:
    return lambda t, a, b: _wrap(t, fn(int(a), int(b) & (t.bits - 1), t.bits))


def ceil_sqrt(a: int) -> int:
    """The least r with r * r >= a; 0 where a < 1."""
    return isqrt(a - 1) + 1 if a > 0 else 0


def _clz(t: DType, a: Any) -> Any:
    bits = np.asarray(a).dtype.itemsize * 8
    return t.numpy(bits - (int(a) & ((1 << bits) - 1)).bit_length())


def _popcnt(t: DType, a: Any) -> Any:
    bits = np.asarray(a).dtype.itemsize * 8
    return t.numpy(bin(int(a) & ((1 << bits) - 1)).count("1"))


def _select(t: DType, c: Any, a: Any, b: Any) -> Any:
    return a if c else b


def _floor_mod(a: Any, b: Any) -> Any:
    return a - b * np.floor(a / b)


_ROWS: tuple[Prim, ...] = (
    # arithmetic
    Prim("add", 2, "num", _num(lambda a, b: a + b, lambda a, b: a + b), ("g", "g"), ("fadd", "add", "add")),
    Prim("sub", 2, "num", _num(lambda a, b: a - b, lambda a, b: a - b), ("g", "-g"), ("fsub", "sub", "sub")),
    Prim("mul", 2, "num", _num(lambda a, b: a * b, lambda a, b: a * b), ("g*b", "g*a"), ("fmul", "mul", "mul")),
    Prim("div", 2, "float", _flt(lambda a, b: a / b), ("g/b", "-(g*r)/b"), ("fdiv", "", ""), 4),
    # floor division: integers by zero give 0; piecewise constant, so no derivative
    Prim("floordiv", 2, "num", _num(lambda a, b: np.floor(a / b), lambda a, b: a // b if b else 0),
         (None, None), ("", "", ""), 8),
    Prim("mod", 2, "num", _num(_floor_mod, lambda a, b: a % b if b else 0),
         ("g", "-g*floor(a/b)"), ("", "", ""), 8),
    Prim("raw_div", 2, "num", _num(lambda a, b: a / b, _trunc_div),
         ("g/b", "-(g*r)/b"), ("fdiv", "", ""), 8),
    Prim("raw_mod", 2, "num", _num(np.fmod, _trunc_rem), ("g", "-g*trunc(a/b)"), ("frem", "", ""), 8),
    Prim("neg", 1, "num", _num(lambda a: -a, lambda a: -a), ("-g",), ("fneg", "@neg_i", "@neg_i")),
    # the derivative of |a| is 0 at a = 0
    Prim("abs", 1, "num", _num(np.abs, abs), ("select(a > 0, g, select(a < 0, -g, zero))",),
         ("llvm.fabs", "@abs_i", "@same")),
    # if one operand is NaN, the result is the other one, as in LLVM's minnum and maxnum; at a tie the first operand has
    # the whole derivative
    Prim("min", 2, "num", _num(np.fmin, min), ("select(a <= b, g, zero)", "select(a <= b, zero, g)"),
         ("llvm.minnum", "llvm.smin", "llvm.umin")),
    Prim("max", 2, "num", _num(np.fmax, max), ("select(a >= b, g, zero)", "select(a >= b, zero, g)"),
         ("llvm.maxnum", "llvm.smax", "llvm.umax")),
    # elementary functions
    Prim("sqrt", 1, "float", _flt(np.sqrt), ("0.5*g/r",), ("llvm.sqrt", "", ""), 6),
    Prim("rsqrt", 1, "float", _flt(_rsqrt), ("-0.5*g*r*r*r",), ("", "", ""), 8),
    Prim("sin", 1, "float", _flt(np.sin), ("g*cos(a)",), ("@math", "", ""), 20),
    Prim("cos", 1, "float", _flt(np.cos), ("-(g*sin(a))",), ("@math", "", ""), 20),
    Prim("tan", 1, "float", _flt(np.tan), ("g*(1 + r*r)",), ("@math", "", ""), 20),
    Prim("asin", 1, "float", _flt(np.arcsin), ("g/sqrt(1 - a*a)",), ("@math", "", ""), 20),
    Prim("acos", 1, "float", _flt(np.arccos), ("-(g/sqrt(1 - a*a))",), ("@math", "", ""), 20),
    Prim("atan2", 2, "float", _flt(np.arctan2), ("g*b/(a*a + b*b)", "-(g*a)/(a*a + b*b)"), ("@math", "", ""), 30),
    Prim("tanh", 1, "float", _flt(np.tanh), ("g*(1 - r*r)",), ("@math", "", ""), 20),
    Prim("exp", 1, "float", _flt(np.exp), ("g*r",), ("@math", "", ""), 15),
    Prim("log", 1, "float", _flt(np.log), ("g/a",), ("@math", "", ""), 15),
    Prim("log1p", 1, "float", _flt(np.log1p), ("g/(1 + a)",), ("@math", "", ""), 20),
    # a**b: the share of the exponent is 0 where log(a) does not exist, and the share of the base is 0 where b = 0. The
    # inner selects change neither share, but make second derivatives right where b = 0, and finite at a = 0
    Prim("pow", 2, "num", _num(_pow, _int_pow),
         ("g*b*pow(select(b == 0, select(a == 0, 1, a), a), b - 1)",
          "select(a > 0, g*r*log(select(a > 0, a, 1)), zero)"), ("@math", "", ""), 40),
    Prim("floor", 1, "float", _flt(np.floor), (None,), ("llvm.floor", "", "")),
    Prim("ceil", 1, "float", _flt(np.ceil), (None,), ("llvm.ceil", "", "")),
    Prim("trunc", 1, "float", _flt(np.trunc), (None,), ("llvm.trunc", "", "")),
    # to the nearest integer, ties away from zero
    Prim("round", 1, "float", _flt(_round), (None,), ("llvm.round", "", "")),
    # instructions of devices; used only for operands for which the device defines the result
    Prim("quot", 2, "machine", _machine(_trunc_div), (None, None), ("", "@quot", "udiv"), 8),
    Prim("rem", 2, "machine", _machine(_trunc_rem), (None, None), ("", "@rem", "urem"), 8),
    Prim("fptoint", 1, "fptoint", _fptoint, (None,), ("", "", "")),
    # the sine and cosine of a GPU's own unit, of arguments in -pi .. pi
    Prim("unit_sin", 1, "unit", _flt(np.sin), (None,), ("", "", ""), 8),
    Prim("unit_cos", 1, "unit", _flt(np.cos), (None,), ("", "", ""), 8),
    # bits
    Prim("and", 2, "int", _int(lambda a, b: a & b), (None, None), ("", "and", "and")),
    Prim("or", 2, "int", _int(lambda a, b: a | b), (None, None), ("", "or", "or")),
    Prim("xor", 2, "int", _int(lambda a, b: a ^ b), (None, None), ("", "xor", "xor")),
    Prim("not", 1, "int", _int(lambda a: ~a), (None,), ("", "@not", "@not")),
    # shift counts are taken modulo the width; shr keeps the sign of a signed operand, lshr never does
    Prim("shl", 2, "int", _shift(lambda a, s, w: a << s), (None, None), ("", "shl", "shl")),
    Prim("shr", 2, "int", _shift(lambda a, s, w: a >> s), (None, None), ("", "ashr", "lshr")),
    Prim("lshr", 2, "int", _shift(lambda a, s, w: (a & ((1 << w) - 1)) >> s), (None, None), ("", "lshr", "lshr")),
    Prim("popcnt", 1, "count", _popcnt, (None,), ("", "@popcnt", "@popcnt")),
    Prim("clz", 1, "count", _clz, (None,), ("", "@clz", "@clz")),
    # comparisons
    Prim("lt", 2, "cmp", _cmp(lambda a, b: a < b), (None, None), ("fcmp <", "icmp_signed <", "icmp_unsigned <")),
    Prim("le", 2, "cmp", _cmp(lambda a, b: a <= b), (None, None), ("fcmp <=", "icmp_signed <=", "icmp_unsigned <=")),
    Prim("gt", 2, "cmp", _cmp(lambda a, b: a > b), (None, None), ("fcmp >", "icmp_signed >", "icmp_unsigned >")),
    Prim("ge", 2, "cmp", _cmp(lambda a, b: a >= b), (None, None), ("fcmp >=", "icmp_signed >=", "icmp_unsigned >=")),
    Prim("eq", 2, "cmp", _cmp(lambda a, b: a == b), (None, None), ("fcmp ==", "icmp_signed ==", "icmp_unsigned ==")),
    Prim("ne", 2, "cmp", _cmp(lambda a, b: a != b), (None, None), ("fcmp !=", "icmp_signed !=", "icmp_unsigned !=")),
    Prim("isnan", 1, "test", lambda t, a: np.bool_(np.isnan(a)), (None,), ("", "", "")),
    Prim("isinf", 1, "test", lambda t, a: np.bool_(np.isinf(a)), (None,), ("", "", "")),
    # choice and conversion; a cast has a derivative only between floats
    Prim("select", 3, "select", _select, (None, "select(a, g, zero)", "select(a, zero, g)"),
         ("@select", "@select", "@select")),
    Prim("cast", 1, "cast", _cast, ("cast(g)",), ("@cast", "@cast", "@cast")),
    Prim("bitcast", 1, "bitcast", _bitcast, (None,), ("@bitcast", "@bitcast", "@bitcast")),
    # the least r with r * r >= a, 0 where a < 1; the pass `lower_isqrt` replaces it by a loop
    Prim("isqrt", 1, "isqrt", lambda t, a: t.numpy(ceil_sqrt(int(a))), (None,), ("", "", ""), 64),
    # the value of a with the derivative of b: an algorithm finds the value, and a formula gives the derivative
    Prim("custom_jvp", 2, "float", lambda t, a, b: a, (None, "g"), ("", "", ""), 0),
    # the same, for a formula that gives derivatives of every order: a is b, rounded
    Prim("carried", 2, "float", lambda t, a, b: a, (None, "g"), ("", "", ""), 0),
)
# primitives whose value is their first operand; they have no code, and end where the last derivative is taken
RENAMED = ("custom_jvp", "carried")

PRIMS: dict[str, Prim] = {p.name: p for p in _ROWS}


def result_type(prim: str, operand: DType, second: DType | None, asked: DType | None) -> DType:
    """The dtype of the result of ``prim``, from the dtypes of its first two operands. ``asked`` is the target dtype
    of a cast or bitcast."""
    rule = PRIMS[prim].rule
    if rule in _FIXED:
        return _FIXED[rule]
    if rule in ("cast", "bitcast", "fptoint"):
        assert asked is not None
        return asked
    if rule == "select":
        assert second is not None
        return second
    return operand


_FIXED: dict[str, DType] = {"cmp": u1, "test": u1, "count": i32}
