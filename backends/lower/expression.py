"""Defines Python objects that build IR: an operator on them appends a statement to a block under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import UNSIGNED, DType, f64, i32, i64


def _method(prim: str) -> Callable[..., X]:
    return lambda self, *others: X(self.b, self.b.op(prim, self.id, *(self._of(o) for o in others)))


class X:
    """A value of the IR. In an expression, a Python number becomes a constant of this value's dtype; comparisons give
    u1s."""

    __slots__ = ("b", "id")
    __hash__ = None  # type: ignore[assignment]  # == makes a value

    def __init__(self, b: Builder, id: int) -> None:
        self.b = b
        self.id = id

    @property
    def type(self) -> DType:
        return self.b.types[self.id]

    def _of(self, other: Any) -> int:
        return other.id if isinstance(other, X) else self.b.const(other, self.type)

    def like(self, value: Any) -> X:
        """A constant of this value's dtype."""
        return X(self.b, self._of(value))

    def __rsub__(self, other: Any) -> X:
        return self.like(other) - self

    __add__, __sub__, __mul__, __truediv__ = _method("add"), _method("sub"), _method("mul"), _method("div")
    __and__, __or__, __xor__, __invert__ = _method("and"), _method("or"), _method("xor"), _method("not")
    __lt__, __le__, __gt__, __ge__ = _method("lt"), _method("le"), _method("gt"), _method("ge")
    __eq__, __ne__, __neg__ = _method("eq"), _method("ne"), _method("neg")  # type: ignore[assignment]  # values
    abs, floor, sqrt, is_nan = _method("abs"), _method("floor"), _method("sqrt"), _method("isnan")
    min, max, quot, rem = _method("min"), _method("max"), _method("quot"), _method("rem")
    shl, shr, lshr, popcnt, clz = _method("shl"), _method("shr"), _method("lshr"), _method("popcnt"), _method("clz")

    def clamp(self, low: int, high: int) -> X:
        return self.max(low).min(high)

    def fptoint(self, t: DType) -> X:
        return X(self.b, self.b.op("fptoint", self.id, type=t))

    def cast(self, t: DType) -> X:
        return X(self.b, self.b.cast(self.id, t))

    def bitcast(self, t: DType) -> X:
        return self if self.type is t else X(self.b, self.b.op("bitcast", self.id, type=t))

    def select(self, a: X, b: X) -> X:
        return X(self.b, self.b.op("select", self.id, a.id, b.id))

    def copysign(self, sign: X) -> X:
        """This value with the sign bit of ``sign``."""
        whole = UNSIGNED[self.type.bits]
        top = 1 << (self.type.bits - 1)
        return ((self.bitcast(whole) & (top - 1)) | (sign.bitcast(whole) & top)).bitcast(self.type)


class Scope:
    """Builds a computation on values of dtype ``t``, a float or an integer.

    For floats, ``int``: the signed integer dtype of the same width; ``digits``: bits of the significand; ``tiny``,
    ``most``: least and greatest positive normal number; ``split_limit``: the greatest operand for which `product` is
    exact; ``horner``: how many terms `balanced` leaves to Horner's rule. More than 2 pay if a processor can compute
    other values while one operation waits for another.
    """

    def __init__(self, t: DType, wide: bool, horner: int = 2) -> None:
        self.t = t
        self.horner = horner
        self.wide = wide
        self.b = Builder(0)
        self.int = i64 if t.bits == 64 else i32
        self.digits, self.emax = (53, 1024) if t.bits == 64 else (24, 128)
        if t.is_float:
            self.tiny, self.most = float(np.finfo(t.numpy).tiny), float(np.finfo(t.numpy).max)
            self.split_limit = 2.0 ** (self.emax - self.digits)

    def lit(self, value: float) -> X:
        return X(self.b, self.b.const(value, self.t))

    def int_lit(self, value: int, t: DType) -> X:
        return X(self.b, self.b.const(value, t))

    def bits_of(self, value: float) -> int:
        return int(np.asarray(value, self.t.numpy).view(self.int.numpy))

    def power_of_two(self, k: X) -> X:
        """2**k for an integer k, if the result is a normal number."""
        return (k + (self.emax - 1)).shl(self.digits - 1).bitcast(self.t)

    def polynomial(self, x: X, coefficients: Sequence[float]) -> X:
        """The polynomial in ``x`` by Horner's rule; ``coefficients`` begin with the constant term."""
        y = self.lit(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            y = y * x + c
        return y

    def balanced(self, x: X, terms: Sequence[X]) -> X:
        """The polynomial in ``x`` by Estrin's scheme, in which fewer operations wait for each other than in Horner's
        rule. The last ``horner`` terms use Horner's rule, which needs fewer operations. ``terms``: the coefficients,
        the constant first."""
        while len(terms) > self.horner:
            pairs = [b * x + a for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = [*pairs, *terms[len(terms) & ~1 :]]
            x = x * x
        return reduce(lambda y, c: y * x + c, reversed(terms))

    def sum(self, a: X, b: X) -> tuple[X, X]:
        """The rounded sum, and its rounding error (Knuth)."""
        s = a + b
        v = s - a
        return s, (a - (s - v)) + (b - v)

    def product(self, a: X, b: X) -> tuple[X, X]:
        """The rounded product, and its rounding error (Dekker). The factors are split by clearing low bits."""
        p = a * b
        (ah, al), (bh, bl) = self._split(a), self._split(b)
        return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl

    def _split(self, a: X) -> tuple[X, X]:
        mask = -1 << ((self.digits + 1) // 2)
        high = (a.bitcast(self.int) & mask).bitcast(self.t)
        return high, a - high

    def wide_product(self, a: X, b: X) -> tuple[X, X]:
        """Low and high word of the product of two u32 or of two u64."""
        half = 32 if self.t is f64 else 16
        low = (1 << half) - 1
        al, ah, bl, bh = a & low, a.lshr(half), b & low, b.lshr(half)
        first = al * bl
        mid = ah * bl + first.lshr(half)
        other = al * bh + (mid & low)
        return other.shl(half) | (first & low), ah * bh + mid.lshr(half) + other.lshr(half)

    # --- control flow ------------------------------------------------------------------------------------------

    def choose(
        self, cond: X, types: Sequence[DType], then: Callable[[], list[X]], orelse: Callable[[], list[X]]
    ) -> list[X]:
        """Builds an if: the results of ``then`` where ``cond`` holds, else of ``orelse``; ``types`` are the results'
        dtypes."""
        arms: list[N.Block] = []
        for make in (then, orelse):
            with self.b.block() as block:
                self.b.yield_(*(x.id for x in make()))
            arms.append(tuple(block))
        results = tuple(self.b.param(t) for t in types)
        self.b.add(N.If(self.b.fresh(), cond.id, arms[0], arms[1], results))
        return [X(self.b, r.id) for r in results]

    def repeat_all(self, first: list[X], again: Callable[..., X], step: Callable[..., list[X]]) -> list[X]:
        """Builds a while loop that carries the values ``first``: while ``again(*values)`` is true, ``step(*values)``
        gives the next values. Returns the last ones."""
        b = self.b
        carried = tuple(b.param(x.type) for x in first)
        values = [X(b, p.id) for p in carried]
        with b.block() as cond:
            b.yield_(again(*values).id)
        with b.block() as body:
            b.yield_(*(x.id for x in step(*values)))
        results = tuple(b.param(p.type) for p in carried)
        b.add(N.While(b.fresh(), carried, tuple(x.id for x in first), tuple(cond), tuple(body), results))
        return [X(b, r.id) for r in results]

    def repeat(self, first: X, again: Callable[[X], X], step: Callable[[X], X]) -> X:
        return self.repeat_all([first], again, lambda x: [step(x)])[0]
