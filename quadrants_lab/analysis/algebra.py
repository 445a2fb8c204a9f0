"""Makes expressions of sizes (SizeExpr): folds constants and drops neutral elements."""

from collections.abc import Callable

from quadrants_lab.ir import sizeexpr as S
from quadrants_lab.ir.prims import ceil_sqrt

INT64_MAX = (1 << 63) - 1
ZERO, ONE, TWO = S.SizeConst(0), S.SizeConst(1), S.SizeConst(2)


def saturate(x: int) -> int:
    """The integer nearest to ``x`` in the signed 64-bit range."""
    return max(-INT64_MAX - 1, min(INT64_MAX, x))


_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: saturate(a + b),
    "sub": lambda a, b: saturate(a - b),
    "mul": lambda a, b: saturate(a * b),
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "isqrt": lambda a, b: ceil_sqrt(a),
}


def fold(op: str, a: int, b: int) -> int:
    """The value of ``a op b``; division by zero is 0, as in kernels."""
    return _FOLD[op](a, b)


def binary(op: str, a: S.SizeExpr, b: S.SizeExpr) -> S.SizeExpr:
    """``a op b``, simplified."""
    if a.constant is not None and b.constant is not None:
        return S.SizeConst(fold(op, a.constant, b.constant))
    if op in ("add", "mul", "min", "max") and a.constant is not None:
        a, b = b, a  # constants go to the right
    if (op in ("add", "sub") and b == ZERO) or (op in ("mul", "floordiv") and b == ONE):
        return a
    if op == "mul" and b == ZERO:
        return ZERO
    if op == "sub" and a == b:
        return ZERO
    if op in ("min", "max") and a == b:
        return a
    if op == "max" and b == ZERO and never_negative(a):
        return a
    if op == "min" and a == S.SizeOp("isqrt", b, TWO) and never_negative(b):
        return a
    match op, a, b:
        case "add", S.SizeOp("add", x, S.SizeConst(m)), S.SizeConst(n):
            return binary("add", x, S.SizeConst(saturate(m + n)))
    return S.SizeOp(op, a, b)


def never_negative(e: S.SizeExpr) -> bool:
    """Whether the value is certainly at least 0."""
    match e:
        case S.SizeConst(value):
            return value >= 0
        case S.SizeShape() | S.SizeCounted() | S.SizeOp("isqrt"):
            return True
        case S.SizeOp("max", a, b):
            return never_negative(a) or never_negative(b)
        case S.SizeOp("add", S.SizeOp("floordiv", S.SizeOp("sub", a, S.SizeConst(1)), S.SizeConst(k)), S.SizeConst(1)):
            return k > 0 and never_negative(a)  # the quotient of a by k, rounded up
        case S.SizeOp("sub", S.SizeOp("max", a, b), c) if c in (a, b):
            return True
        case S.SizeOp("add" | "mul" | "min" | "floordiv", a, b):
            return never_negative(a) and never_negative(b)
        case S.SizeRange(body=body):
            return never_negative(body)
    return False


def trips(begin: S.SizeExpr, end: S.SizeExpr) -> S.SizeExpr:
    """How many trips a loop from begin to end makes."""
    return binary("max", binary("sub", end, begin), ZERO)


def over_range(op: str, var: S.SizeVar, begin: S.SizeExpr, end: S.SizeExpr, body: S.SizeExpr) -> S.SizeExpr:
    """The sum or maximum (``op``) of ``body`` over the range of ``var``. If the body does not read ``var``, no
    SizeRange is needed.

    (The maximum over an empty range is 0 by definition. If ``body`` does not read ``var``, this function returns
    ``body`` as the maximum, even if the range is empty: an adstack then has capacity that no iteration uses.)
    """
    if body == ZERO:
        return ZERO
    if not reads_variable(body, var):
        return body if op == "max" else binary("mul", trips(begin, end), body)
    return S.SizeRange(op, var, begin, end, body)


def greatest_over(
    var: S.SizeVar, begin: S.SizeExpr | None, end: S.SizeExpr | None, body: S.SizeExpr
) -> S.SizeExpr | None:
    """The maximum of ``body`` over the range, 0 if the range is empty. If ``begin`` or ``end`` is None (not known), an
    upper bound; None if that would depend on the unknown end."""
    if begin is None or end is None:
        return None if reads_variable(body, var) else body
    if not falls(body, var):
        return over_range("max", var, begin, end, body)
    first = substituted(body, var, begin) if reads_variable(body, var) else body
    match end:
        case S.SizeOp("floordiv", _, S.SizeOp("isqrt") as size) if size in subexpressions(first):
            return first  # a loop over segments is empty only if all segments are, and then nothing is pushed in it
    return binary("mul", first, binary("min", trips(begin, end), ONE))


def falls(e: S.SizeExpr, var: S.SizeVar, sign: int = 1) -> bool:
    """Whether the value never grows (with ``sign`` -1: never falls) when the variable grows."""
    if not reads_variable(e, var):
        return True
    match e:
        case S.SizeVar():
            return sign < 0
        case S.SizeOp("add" | "min" | "max", a, b):
            return falls(a, var, sign) and falls(b, var, sign)
        case S.SizeOp("sub", a, b):
            return falls(a, var, sign) and falls(b, var, -sign)
        case S.SizeOp("isqrt", a, _):
            return falls(a, var, sign)
        case S.SizeOp("mul", a, b):
            if reads_variable(b, var):
                a, b = b, a
            return falls(a, var, sign) and not reads_variable(b, var) and never_negative(b)
    return False


def substituted(e: S.SizeExpr, var: S.SizeVar, value: S.SizeExpr) -> S.SizeExpr:
    """``e`` with ``value`` in place of the variable. No range in ``e`` binds the variable."""
    if e == var:
        return value
    match e:
        case S.SizeOp(op, a, b):
            return binary(op, substituted(a, var, value), substituted(b, var, value))
        case S.SizeLoad(buffer, index):
            return S.SizeLoad(buffer, tuple(substituted(i, var, value) for i in index))
    return e


def reads_variable(e: S.SizeExpr, var: S.SizeVar) -> bool:
    return e == var or any(reads_variable(c, var) for c in e.children())


def is_open(e: S.SizeExpr, bound: frozenset[int] = frozenset()) -> bool:
    """Whether the expression has free variables."""
    if isinstance(e, S.SizeVar):
        return e.id not in bound
    if isinstance(e, S.SizeRange):
        return is_open(e.begin, bound) or is_open(e.end, bound) or is_open(e.body, bound | {e.var.id})
    return any(is_open(c, bound) for c in e.children())


def subexpressions(e: S.SizeExpr) -> list[S.SizeExpr]:
    """The expression and all its parts, outermost first."""
    out = [e]
    for c in e.children():
        out += subexpressions(c)
    return out


def larger(e: S.SizeExpr, most: int) -> bool:
    """Whether the expression has more than ``most`` parts."""
    todo = [e]
    while todo and most >= 0:
        todo += todo.pop().children()
        most -= 1
    return most < 0
