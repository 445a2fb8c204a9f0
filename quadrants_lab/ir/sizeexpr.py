"""Defines SizeExpr, the formula of an adstack's depth, which is evaluated before each launch.

SizeExprs are plain data; `quadrants_lab.adstack` builds, simplifies and evaluates them. A variable (`SizeVar`) is
the id of a loop or task index, which an enclosing `SizeRange` binds.
"""

from __future__ import annotations

from quadrants_lab.ir.record import dataclass


@dataclass(frozen=True, slots=True)
class SizeExpr:
    @property
    def constant(self) -> int | None:
        """The value of a constant; None for all others."""
        return None

    def children(self) -> tuple[SizeExpr, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class SizeConst(SizeExpr):
    value: int
    constant = property(lambda self: self.value)


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
    """An operation on two operands, which saturates at 64 bits. ``op``: add, sub, mul, floordiv, mod, min or max;
    or isqrt(a, 2), the square root of ``a``, rounded up, 0 if ``a`` is negative."""

    op: str
    a: SizeExpr
    b: SizeExpr

    def children(self) -> tuple[SizeExpr, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, slots=True)
class SizeRange(SizeExpr):
    """The "sum" of ``body`` over var = begin .. end-1, or the "max" of 0 and the values of ``body`` there. Both are 0
    for an empty range."""

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


_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_TIGHT = {"add": 1, "sub": 1, "mul": 2, "floordiv": 2, "mod": 2}


def print_size(e: SizeExpr, outer: int = 0) -> str:
    """Prints a size expression on one line, e.g. ``sum(j%7 in 0..@n[]: 1 + j%7)``."""
    match e:
        case SizeConst(value):
            return str(value) if value >= 0 else f"({value})"
        case SizeArg(arg):
            return f"arg {arg}"
        case SizeShape(buffer, axis):
            return f"@{buffer}.shape[{axis}]"
        case SizeLoad(buffer, index):
            return f"@{buffer}[{', '.join(print_size(i) for i in index)}]"
        case SizeVar(id, name):
            return f"{name}%{id}"
        case SizeCounted(stack):
            return f"counted ${stack}"
        case SizeOp(op, a, b) if op in _INFIX:
            tight = _TIGHT[op]
            text = f"{print_size(a, tight)} {_INFIX[op]} {print_size(b, tight + 1)}"
            return f"({text})" if tight < outer else text
        case SizeOp(op, a, b):
            return f"{op}({print_size(a)}, {print_size(b)})"
        case SizeRange(op, var, begin, end, body):
            return f"{op}({print_size(var)} in {print_size(begin)}..{print_size(end)}: {print_size(body)})"
    raise TypeError(f"not a SizeExpr: {e!r}")
