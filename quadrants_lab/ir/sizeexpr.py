"""SizeExpr: the symbolic depth of an adstack, evaluated before each launch against live data.

These are plain data; `quadrants_lab.adstack` builds, simplifies and evaluates them. A variable (`SizeVar`) is the id of
a loop or task index, which an enclosing `SizeRange` binds.
"""

from __future__ import annotations

from quadrants_lab.ir.record import dataclass


@dataclass(frozen=True, slots=True)
class SizeExpr:
    def children(self) -> tuple[SizeExpr, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class SizeConst(SizeExpr):
    value: int


@dataclass(frozen=True, slots=True)
class SizeArg(SizeExpr):
    """A scalar kernel argument."""

    arg: str


@dataclass(frozen=True, slots=True)
class SizeShape(SizeExpr):
    """The extent of an ndarray along an axis."""

    buffer: str
    axis: int


@dataclass(frozen=True, slots=True)
class SizeLoad(SizeExpr):
    """An element of an integer field or ndarray that the kernel does not write."""

    buffer: str
    index: tuple[SizeExpr, ...]

    def children(self) -> tuple[SizeExpr, ...]:
        return self.index


@dataclass(frozen=True, slots=True)
class SizeVar(SizeExpr):
    """A loop index bound by an enclosing SizeRange; ``name`` is for people."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class SizeOp(SizeExpr):
    """``op``: add, sub, mul, floordiv, mod, min, max; two operands, saturating 64-bit. isqrt(a, 2): the square root of
    ``a``, rounded up, 0 where ``a`` is negative."""

    op: str
    a: SizeExpr
    b: SizeExpr

    def children(self) -> tuple[SizeExpr, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, slots=True)
class SizeRange(SizeExpr):
    """The "sum" of ``body`` over var = begin .. end-1, or the "max" of its values and 0. Either is 0 for an empty
    range."""

    op: str
    var: SizeVar
    begin: SizeExpr
    end: SizeExpr
    body: SizeExpr

    def children(self) -> tuple[SizeExpr, ...]:
        return (self.begin, self.end, self.body)


@dataclass(frozen=True, slots=True)
class SizeCounted(SizeExpr):
    """A depth that only running the counting slice finds. ``stack`` is the id of the AdStackAlloca."""

    stack: int
