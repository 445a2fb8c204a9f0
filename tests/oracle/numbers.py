"""The oracle's numbers: a tape of float64 operations, each with its slopes."""

import math
from collections.abc import Callable

import numpy as np

from oracle.vectors import Vec


class Budget(Exception):
    """Raised if the program takes too many operations."""


class Tape:
    """``nodes[k]`` lists the operands of the k-th scalar with the partial derivatives: (k1, d1, k2, d2, ...).

    ``margin``: the least relative distance of a decision (comparison, min, max, rounding) from its boundary: below
    some 1e-6, another order of rounding may decide otherwise. ``largest``: the greatest magnitude met; the sine of
    1e9 has lost what nine digits of its operand had.
    """

    def __init__(self, limit: int) -> None:
        self.nodes: list[tuple] = []
        self.limit = limit
        self.margin = math.inf
        self.largest = 0.0
        self.finite = True

    def near(self, a: float, b: float) -> None:
        self.margin = min(self.margin, abs(a - b) / max(1.0, abs(a), abs(b)))


_tape = Tape(0)  # of the run in progress


def begin(limit: int) -> Tape:
    """A new tape, onto which everything goes from now on."""
    global _tape
    _tape = Tape(limit)
    return _tape


class Var:
    """A taped scalar."""

    __slots__ = ("k", "v")

    def __init__(self, v: float, operands: tuple = ()) -> None:
        self.v = v
        self.k = len(_tape.nodes)
        if self.k >= _tape.limit:
            raise Budget
        if not math.isfinite(v):
            _tape.finite = False
        elif abs(v) > _tape.largest:
            _tape.largest = float(abs(v))
        _tape.nodes.append(operands)

    def __add__(self, o):
        if type(o) is Var:
            return Var(self.v + o.v, (self.k, 1.0, o.k, 1.0))
        return Var(self.v + o, (self.k, 1.0))

    __radd__ = __add__

    def __sub__(self, o):
        if type(o) is Var:
            return Var(self.v - o.v, (self.k, 1.0, o.k, -1.0))
        return Var(self.v - o, (self.k, 1.0))

    def __rsub__(self, o):
        return Var(o - self.v, (self.k, -1.0))

    def __mul__(self, o):
        if type(o) is Var:
            return Var(self.v * o.v, (self.k, o.v, o.k, self.v))
        return Var(self.v * o, (self.k, float(o)))

    __rmul__ = __mul__

    def __truediv__(self, o):
        return divide(self, o)

    def __rtruediv__(self, o):
        return divide(o, self)

    def __floordiv__(self, o):
        return floor(divide(self, o))

    def __rfloordiv__(self, o):
        return floor(divide(o, self))

    def __mod__(self, o):
        return self - o * (self // o)

    def __rmod__(self, o):
        return o - self * (o // self)

    def __pow__(self, o):
        return power(self, o)

    def __rpow__(self, o):
        return power(o, self)

    def __neg__(self):
        return Var(-self.v, (self.k, -1.0))

    def __pos__(self):
        return self

    def __abs__(self):
        return absolute(self)

    def __lt__(self, o):
        return _decide(self, o, lambda a, b: a < b)

    def __le__(self, o):
        return _decide(self, o, lambda a, b: a <= b)

    def __gt__(self, o):
        return _decide(self, o, lambda a, b: a > b)

    def __ge__(self, o):
        return _decide(self, o, lambda a, b: a >= b)

    def __eq__(self, o):
        return _decide(self, o, lambda a, b: a == b)

    def __ne__(self, o):
        return _decide(self, o, lambda a, b: a != b)

    __hash__ = None

    def __bool__(self):
        return _decide(self, 0.0, lambda a, b: a != b)


def _but_not_of_vectors(method: Callable) -> Callable:
    """Makes an operation of a scalar with a vector leave the work to the vector, which applies it to each element."""
    return lambda self, o: NotImplemented if type(o) is Vec else method(self, o)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(Var, _method, _but_not_of_vectors(getattr(Var, _method)))
for _method in ("__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Var, _method, _but_not_of_vectors(getattr(Var, _method)))


def primal(x):
    return x.v if type(x) is Var else x


def _decide(a, b, compare: Callable):
    a, b = primal(a), primal(b)
    _tape.near(a, b)
    return compare(a, b)


def _taped(v, *pairs):
    """The result ``v`` with (operand, partial) pairs; a plain float where no operand is taped."""
    for o, _ in pairs:
        if type(o) is float:  # a Var has been seen
            _tape.largest = max(_tape.largest, abs(o))
    operands = tuple(x for o, d in pairs if type(o) is Var for x in (o.k, float(d)))
    return Var(float(v), operands) if any(type(o) is Var for o, _ in pairs) else float(v)


def unary(fn: Callable, slope: Callable):
    """``slope(a, r)`` is the derivative at ``a``, where the function is ``r``."""

    def apply(x):
        a = np.float64(primal(x))
        r = fn(a)
        return _taped(r, (x, slope(a, r)))

    return apply


def _step(fn: Callable, offset: float = 0.0):
    """A piecewise constant function that jumps at the integers plus ``offset``."""

    def apply(x):
        a = primal(x)
        if math.isfinite(a):
            _tape.near(a, round(a - offset) + offset)
        return Var(float(fn(a))) if type(x) is Var else float(fn(a))

    return apply


floor, ceil, rounded, trunc = _step(np.floor), _step(np.ceil), _step(np.rint, 0.5), _step(np.trunc)


def divide(x, y):
    a, b = np.float64(primal(x)), np.float64(primal(y))
    return _taped(a / b, (x, 1 / b), (y, -a / (b * b)))


def power(x, y):
    """Base's share 0 where the exponent is 0, exponent's share 0 where the base has no logarithm."""
    if isinstance(x, int) and isinstance(y, int):
        return x**y if y >= 0 else int(float(x) ** y)
    a, b = np.float64(primal(x)), np.float64(primal(y))
    r = np.power(a, b)
    return _taped(r, (x, b * np.power(a, b - 1) if b != 0 else 0.0), (y, r * np.log(a) if a > 0 else 0.0))


def atan2(y, x):
    a, b = np.float64(primal(y)), np.float64(primal(x))
    return _taped(np.arctan2(a, b), (y, b / (a * a + b * b)), (x, -a / (a * a + b * b)))


def absolute(x):
    """The absolute value; its slope at 0 is 0."""
    if type(x) is not Var:
        return abs(x)
    _tape.near(x.v, 0.0)
    return _taped(abs(x.v), (x, np.sign(x.v)))


def _extreme(first_wins: Callable):
    """The minimum or maximum; at a tie the first operand has the whole slope."""

    def apply(*xs):
        best = xs[0]
        for x in xs[1:]:
            a, b = primal(best), primal(x)
            if type(best) is Var or type(x) is Var:
                _tape.near(a, b)
            taped = any(type(o) is Var for o in (best, x))
            best = best if first_wins(a, b) else x
            if taped and type(best) is not Var:
                best = Var(float(best))
        return best

    return apply


minimum, maximum = _extreme(lambda a, b: a <= b), _extreme(lambda a, b: a >= b)


def to_float(x):
    return x if type(x) is Var else float(x)


def to_int(bits: int, signed: bool = True):
    """Truncates floats (saturating, NaN to 0), wraps integers."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

    def cast(x):
        a = primal(x)
        if isinstance(a, float):
            if math.isnan(a):
                return 0
            if math.isfinite(a) and a != round(a):  # what is an integer already mostly got there by exact operations
                _tape.near(a, round(a))
            return int(min(max(a, low), high))
        return (int(a) - low) % (1 << bits) + low

    return cast
