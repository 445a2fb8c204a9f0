"""Derives ranges of integer values from constants and loop bounds, and tells which indices are surely in bounds."""

from collections.abc import Callable
from functools import reduce
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import merges
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import by_class, find, walk

Range = tuple[int, int]  # both ends included
Interval = tuple[float, float]  # a range of floats


class Ranges:
    """The ranges of the integer values of a kernel."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.buffers = kernel.buffers
        self.defs: dict[int, N.Value] = {}
        self.indices: dict[int, tuple[int, int, DType]] = {}  # loop or task index -> begin, end, dtype
        self.merged: dict[int, list[int]] = {}  # carried value or result -> the values that it may be equal to
        self.known: dict[int, Range | None] = {}
        exits = any(find(kernel.body, N.Exit))  # with exits, values are not merged at yields only
        for s in walk(kernel.body):
            for source, target in merges(s) if not exits else ():
                self.merged.setdefault(target, []).append(source)
            if note := _NOTES.get(type(s)):
                note(self, s)

    def _value(self, s: N.Value) -> None:
        self.defs[s.id] = s

    def _for(self, s: N.For) -> None:
        begin = s.begin if s.step == N.NO_ID else N.NO_ID  # a loop with a step begins at an index that is not negative
        self.indices[s.index.id] = (begin, s.end, s.index.type)

    def _task(self, s: N.Offload) -> None:
        if s.kind == "threads":
            self.merged |= {p.id: [i] for p, i in zip(s.indices, s.bounds[-1].operands(), strict=True)}
        else:
            self.indices |= {p.id: (begin, end, p.type) for p, begin, end in s.box()}

    def range(self, v: int) -> Range | None:
        """The least and the greatest value that ``v`` may have, or None if nothing is known."""
        if v not in self.known:
            self.known[v] = None  # the answer while it is computed, for values that depend on themselves through a loop
            self.known[v] = self._range(v)
        return self.known[v]

    def _range(self, v: int) -> Range | None:
        if v in self.indices:
            begin, end, t = self.indices[v]
            first, last = (0, 0) if begin == N.NO_ID else self.range(begin), self.range(end)
            low = first[0] if first is not None else t.limits[0]
            high = last[1] - 1 if last is not None else t.limits[1] - 1
            return (low, high) if low <= high else None
        if v in self.merged:
            found = [self.range(m) for m in self.merged[v] if m != v]
            return reduce(union, found) if found else None
        match self.defs.get(v):
            case N.Op(range=(low, high)):
                return low, high
            case N.Const(value=value, type=t) if t.is_int:
                return value, value
            case N.ShapeOf(type=t):
                return 0, t.limits[1]
            case N.Load(buffer=name, type=t) if (b := self.buffers[name]).kind == "local" and not b.role:
                return 0, (1 << (t.bits - 1)) - 1
            case N.Op(prim="cast" | "bitcast", args=(inner,), type=t) if t.is_int:
                r = self.range(inner)
                return r if r is not None and t.holds(r[0]) and t.holds(r[1]) else None
            case N.Op(prim="shr", args=(a, n), type=t):
                r, count = self.range(a), self.range(n)
                if r is not None and count is not None and count[0] == count[1] in range(t.bits):
                    return r[0] >> count[0], r[1] >> count[0]
            case N.Op(prim=prim, args=(x, y), type=t) if t.is_int:
                return result(prim, (self.range(x), self.range(y)), t)
            case N.Op(prim="select", args=(_, a, b), type=t) if t.is_int:
                return union(self.range(a), self.range(b))
        return None

    def inside(self, v: int, buffer: str, axis: int) -> bool:
        """Whether the index surely lies within the buffer's extent along the axis."""
        b = self.buffers[buffer]
        r = self.range(v)
        if b.shape is not None:
            return r is not None and r[0] >= 0 and r[1] < b.shape[axis]
        if v not in self.indices or r is None or r[0] < 0:
            return False
        match self.defs.get(self.indices[v][1]):
            case N.ShapeOf(buffer=of, axis=along):
                return (of, along) == (buffer, axis)
        return False


_NOTES: dict[type[N.Stmt], Callable[[Ranges, Any], None]] = by_class({
    N.Value: Ranges._value, N.For: Ranges._for, N.Offload: Ranges._task,
})  # fmt: skip


def union(a: Range | None, b: Range | None) -> Range | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def result(prim: str, args: tuple[Range | None, ...], t: DType) -> Range | None:
    """The range of a binary operation on integers of a dtype; None if nothing is known or the result may wrap."""
    if prim not in _BINARY or args == (None, None):
        return None
    x, y = (t.limits if r is None else r for r in args)
    found = _BINARY[prim](x, y)
    return found if found is not None and t.holds(found[0]) and t.holds(found[1]) else None


def _products(x: Range, y: Range) -> Range:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def _both(x: Range, y: Range) -> Range | None:
    tops = [r[1] for r in (x, y) if r[0] >= 0]
    return (0, min(tops)) if tops else None


_BINARY: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": _products,
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "and": _both,
    "mod": lambda x, y: (0, y[1] - 1) if y[0] > 0 else None,  # the result has the sign of the divisor
    "quot": lambda x, y: (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else None,
    "rem": lambda x, y: (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else None,
}

# operation on floats -> function of ranges; the operands are not NaN, and the ends are not rounded outwards
FLOATS: dict[str, Callable[..., Any]] = {prim: _BINARY[prim] for prim in ("add", "sub", "mul", "min", "max")} | {
    "neg": lambda x: (-x[1], -x[0]),
    "abs": lambda x: (max(x[0], -x[1], 0.0), max(-x[0], x[1])),
    "select": lambda x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "sin": lambda x: (-1.0, 1.0),
    "cos": lambda x: (-1.0, 1.0),
    "tanh": lambda x: (-1.0, 1.0),
}
