"""Ranges of integer values, from constants and loop bounds; and indices that are surely inside their buffer."""

from __future__ import annotations

from collections.abc import Callable

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import walk

Range = tuple[int, int]  # both ends included


class Ranges:
    """What is known of the integer values of a kernel."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.buffers = kernel.buffers
        self.defs: dict[int, N.Stmt] = {}
        self.indices: dict[int, tuple[int, int, DType]] = {}  # loop or task index -> begin, end, dtype
        self.merged: dict[int, tuple[int, ...]] = {}  # carried value or result -> the values that it may be
        self.known: dict[int, Range | None] = {}
        exits = any(isinstance(s, N.Exit) for s in walk(kernel.body))  # then values merge in more ways
        for s in walk(kernel.body):
            if not exits:
                self._merge(s)
            if isinstance(s, N.Value):
                self.defs[s.id] = s
            elif isinstance(s, N.For):
                begin = s.begin if s.step == N.NO_ID else N.NO_ID  # at 0 or above
                self.indices[s.index.id] = (begin, s.end, s.index.type)
            elif isinstance(s, N.Offload):
                bounds = s.bounds[-1].operands()
                half = len(s.indices)
                for n, p in enumerate(s.indices):
                    if s.kind == "threads":
                        self.merged[p.id] = (bounds[n],)
                    else:
                        self.indices[p.id] = (bounds[n], bounds[half + n], p.type)

    def _merge(self, s: N.Stmt) -> None:
        if isinstance(s, N.Loop):
            for p, r, init, last in zip(s.carried, s.results, s.inits, s.body[-1].operands(), strict=True):
                self.merged[p.id] = self.merged[r.id] = (init, last)
        elif isinstance(s, N.If):
            arms = [arm[-1].operands() for arm in s.blocks()]
            for k, r in enumerate(s.results):
                self.merged[r.id] = tuple(values[k] for values in arms)

    def range(self, v: int) -> Range | None:
        """Least and greatest value that ``v`` may have, or None where nothing is known."""
        if v not in self.known:
            self.known[v] = None  # while it is being found out
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
            known = [r for r in found if r is not None]
            return (min(r[0] for r in known), max(r[1] for r in known)) if len(known) == len(found) > 0 else None
        match self.defs.get(v):
            case N.Op(range=(low, high)):
                return low, high
            case N.Const(value=value, type=t) if t.is_int:
                return value, value
            case N.ShapeOf(buffer=buffer, axis=axis, type=t):
                shape = self.buffers[buffer].shape
                return (0, t.limits[1]) if shape is None else (shape[axis], shape[axis])
            case N.Op(prim="cast", args=(inner,), type=t) if t.is_int:
                r = self.range(inner)
                return r if r is not None and t.holds(r[0]) and t.holds(r[1]) else None
            case N.Op(prim="mod", args=(_, m), type=t) if t.is_int:
                r = self.range(m)  # with the sign of the divisor; 0 where that is 0
                return (0, r[1] - 1) if r is not None and r[0] > 0 else None
            case N.Op(prim="and", args=(a, b), type=t) if t.is_int:
                tops = [r[1] for r in (self.range(a), self.range(b)) if r is not None and r[0] >= 0]
                return (0, min(tops)) if tops else None
            case N.Op(prim=prim, args=(a, b), type=t) if prim in _BINARY and t.is_int:
                x, y = self.range(a), self.range(b)
                if x is None or y is None:
                    return None
                low, high = _BINARY[prim](x, y)
                return (low, high) if t.holds(low) and t.holds(high) else None
            case N.Op(prim="select", args=(_, a, b), type=t) if t.is_int:
                x, y = self.range(a), self.range(b)
                return None if x is None or y is None else (min(x[0], y[0]), max(x[1], y[1]))
        return None

    def inside(self, v: int, buffer: str, axis: int) -> bool:
        """Whether the index surely lies within the buffer's extent along the axis."""
        b = self.buffers[buffer]
        r = self.range(v)
        if b.shape is not None:
            return r is not None and r[0] >= 0 and r[1] < b.shape[axis]
        if v not in self.indices or r is None or r[0] < 0:
            return False
        end = self.defs.get(self.indices[v][1])
        return isinstance(end, N.ShapeOf) and (end.buffer, end.axis) == (buffer, axis)


def _products(x: Range, y: Range) -> Range:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


_BINARY: dict[str, Callable[[Range, Range], Range]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": _products,
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
}
